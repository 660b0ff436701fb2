//go:build !unix

package controlplane

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
