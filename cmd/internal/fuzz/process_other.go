//go:build !linux

package fuzz

import (
	"os"
	"syscall"
)

// dieWithParent has no such means here: a worker exits when its standard input ends.
func dieWithParent() *syscall.SysProcAttr { return nil }

// divertOutput returns a file for what this process was to write to standard output, and has what is printed from now on go to standard
// error. A logger that took hold of [os.Stdout] when the program began is not diverted here: its target fails, see [process.read].
func divertOutput() (*os.File, error) {
	own := os.Stdout
	os.Stdout = os.Stderr
	return own, nil
}

// residentMemory returns zero: it is not known here, and workers are not bounded in what they take.
func residentMemory(int) int64 { return 0 }
