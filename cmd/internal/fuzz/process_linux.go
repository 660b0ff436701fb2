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
