//go:build !unix

package simtrack

import "time"

// cpuTime returns zero: it is not known here.
func cpuTime() time.Duration { return 0 }
