//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fuzz

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockFile takes a lock that ends with the process, however that happens, or with the file that is returned.
func lockFile(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return locked(file)
}

// lockFolder takes such a lock on a folder.
func lockFolder(name string) (*os.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return locked(file)
}

func locked(file *os.File) (_ *os.File, err error) {
	// A supervisor that has just been killed may have been starting a worker, which has the lock until it knows.
	for end := time.Now().Add(lockTime); ; time.Sleep(lockTime / 20) {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return file, nil
		}
		if time.Now().After(end) {
			_ = file.Close()
			return nil, errors.New("another exploration is at work there: let it end, or name another directory")
		}
	}
}

// lockTime is how long to wait for a lock.
const lockTime = 2 * time.Second
