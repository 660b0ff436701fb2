package fuzz

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel kill a process when the one that started it dies, however that happens.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// divertOutput returns a file for what this process was to write to standard output, and has all that goes there go to standard error:
// what operators print, too, that took hold of [os.Stdout] when the program began, or write to the descriptor.
func divertOutput() (*os.File, error) {
	own, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(own) // a program that an operator starts would hold it open
	if err := syscall.Dup3(syscall.Stderr, syscall.Stdout, 0); err != nil {
		return nil, os.NewSyscallError("dup3", err)
	}
	return os.NewFile(uintptr(own), "replies"), nil
}

// residentMemory returns how much memory a process has, in bytes; zero if that is not known. See proc_pid_statm(5).
func residentMemory(pid int) int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(content)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
