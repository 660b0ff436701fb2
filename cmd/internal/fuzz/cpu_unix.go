//go:build unix

package fuzz

import (
	"syscall"
	"time"
)

// cpuTime returns the time that all cores have spent on this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
