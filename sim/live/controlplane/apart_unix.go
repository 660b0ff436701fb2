//go:build unix

package controlplane

import "syscall"

// apart puts a process into a group of its own, so that an interrupt from the keyboard does not reach it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
