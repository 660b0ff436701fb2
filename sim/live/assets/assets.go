// Package assets finds the programs of a real control plane: etcd, kube-apiserver and kube-controller-manager.
//
// They are in the folder that KUBEBUILDER_ASSETS names, as envtest has it, or else in the cache, into which
// `make -C sim/conformance assets` builds them from Go modules.
package assets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Version is the version of Kubernetes that the cache holds.
const Version = "1.36.3"

// Variable is the environment variable that names a folder with other programs than those of the cache.
const Variable = "KUBEBUILDER_ASSETS"

// Stamp is the file of the cache that says what its programs were built from. It is written last.
const Stamp = "stamp"

// ErrMissing indicates that there is no control plane on this machine. What wants one says so and goes on without.
var ErrMissing = errors.New("there is no control plane here: run make -C sim/conformance assets, or set " + Variable)

// Programs are the names of what a control plane is made of.
func Programs() []string { return []string{"etcd", "kube-apiserver", "kube-controller-manager"} }

// Dir returns the folder with the programs. The error wraps [ErrMissing] where nothing was said of a folder and the cache is
// empty; a folder that KUBEBUILDER_ASSETS names and that lacks etcd or kube-apiserver is another error.
func Dir() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		for _, name := range Programs()[:2] { // what setup-envtest installs has no kube-controller-manager
			if err := executable(filepath.Join(dir, name)); err != nil {
				return "", fmt.Errorf("%s is %s: %w", Variable, dir, err)
			}
		}
		return dir, nil
	}
	dir, err := Cache()
	if err != nil {
		return "", err
	}
	for _, name := range append(Programs(), Stamp) {
		switch _, err := os.Stat(filepath.Join(dir, name)); {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("%w (%s has no %s)", ErrMissing, dir, name)
		case err != nil:
			return "", err
		}
	}
	return dir, nil
}

// Cache returns the folder into which the programs are built: $XDG_CACHE_HOME/stalemate/assets-VERSION, where
// XDG_CACHE_HOME is ~/.cache unless it is set.
func Cache() (string, error) {
	root := os.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(root) { // others are to be ignored, as its specification has it
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(home, ".cache")
	}
	return filepath.Join(root, "stalemate", "assets-"+Version), nil
}

// executable returns an error unless a file is there that can be run.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir(), info.Mode()&0o111 == 0 && !strings.HasSuffix(file, ".exe"):
		return fmt.Errorf("%s is no program", file)
	default:
		return nil
	}
}
