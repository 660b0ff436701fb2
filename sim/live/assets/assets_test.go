package assets_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/live/assets"
)

func TestDir(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(assets.Variable, "")
	if _, err := assets.Dir(); !errors.Is(err, assets.ErrMissing) {
		t.Errorf("with an empty cache: %v, want %v", err, assets.ErrMissing)
	}
	dir := filepath.Join(cache, "stalemate", "assets-"+assets.Version)
	write(t, dir, assets.Programs()...)
	if _, err := assets.Dir(); !errors.Is(err, assets.ErrMissing) {
		t.Errorf("without a stamp: %v, want %v", err, assets.ErrMissing)
	}
	write(t, dir, assets.Stamp)
	if have, err := assets.Dir(); err != nil || have != dir {
		t.Errorf("%s, %v; want %s", have, err, dir)
	}
	given := t.TempDir()
	t.Setenv(assets.Variable, given)
	if _, err := assets.Dir(); err == nil || errors.Is(err, assets.ErrMissing) {
		t.Errorf("a folder that was named and is empty: %v, want an error of its own", err)
	}
	write(t, given, "etcd", "kube-apiserver")
	if have, err := assets.Dir(); err != nil || have != given {
		t.Errorf("%s, %v; want %s", have, err, given)
	}
}

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVersion checks that what is looked for is what the nested module builds.
func TestVersion(t *testing.T) {
	mod, err := os.ReadFile("../../conformance/assets/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\S+)`).FindSubmatch(mod)
	if found == nil || string(found[1]) != assets.Version {
		t.Errorf("sim/conformance/assets builds %s, and %s is looked for", found, assets.Version)
	}
}
