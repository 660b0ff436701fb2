//go:build !linux

package fuzz

import "syscall"

// dieWithParent has no such means here: a worker exits when its standard input ends.
func dieWithParent() *syscall.SysProcAttr { return nil }

// residentMemory returns zero: it is not known here, and workers are not bounded in what they take.
func residentMemory(int) int64 { return 0 }
