//go:build unix

package scenarios_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// TestLoadPipe loads a pipe that nobody writes to: it must be refused, and not be waited for.
func TestLoadPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Skipf("this file system cannot hold a named pipe: %v", err)
	}
	_, err := scenarios.Load(file, scenarios.Options{})
	if err == nil || !strings.HasSuffix(err.Error(), ": not a regular file: name a YAML file") {
		t.Errorf("got %v", err)
	}
}
