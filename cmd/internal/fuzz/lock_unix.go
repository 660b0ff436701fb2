//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fuzz

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, however that happens, or with the file that is returned.
func lockFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, errors.New("another exploration is at work there: let it end, or name another directory")
	}
	return file, nil
}
