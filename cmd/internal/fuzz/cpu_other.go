//go:build !unix

package fuzz

import "time"

var begun = time.Now()

// cpuTime returns real time: a worker that works has a core of its own.
func cpuTime() time.Duration { return time.Since(begun) }
