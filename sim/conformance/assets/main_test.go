package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeGo is a go command that builds nothing, but notes that it was called.
const fakeGo = `#!/bin/sh
case $1 in
version) echo "go version $(cat "$0.version") test/test" ;;
build)
	echo "$@" >>"$0.calls"
	while [ "$1" != -o ]; do shift; done
	for name in server kube-apiserver kube-controller-manager; do echo "$name" >"$2$name"; done
	;;
esac
`

// TestBuild checks what is built when, and that nothing is done a second time.
func TestBuild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the go command of this test is a shell script")
	}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module m\n\nrequire (\n\tk8s.io/kubernetes v1.2.3 // indirect\n)\n")
	put("go.sum", "a")
	put("go", fakeGo)
	put("go.version", "1")
	cache := filepath.Join(dir, "cache")
	var out bytes.Buffer
	b := builder{module: dir, cache: cache, command: filepath.Join(dir, "go"), out: &out}
	builds := func() int {
		calls, _ := os.ReadFile(filepath.Join(dir, "go.calls"))
		return bytes.Count(calls, []byte("\n"))
	}
	for _, step := range []struct {
		what   string
		change func()
		want   int
	}{
		{"at first", func() {}, 1},
		{"a second time", func() {}, 1},
		{"with another go.sum", func() { put("go.sum", "b") }, 2},
		{"with another Go", func() { put("go.version", "2") }, 3},
		{"with a program missing", func() { _ = os.Remove(filepath.Join(cache, "stalemate", "assets-1.2.3", "etcd")) }, 4},
		{"where others are given", func() { b.given = "/elsewhere"; put("go.sum", "c") }, 4},
	} {
		step.change()
		have, err := b.run(false)
		if err != nil {
			t.Fatalf("%s: %v: %s", step.what, err, out.String())
		}
		if builds() != step.want {
			t.Fatalf("%s: %d builds, want %d", step.what, builds(), step.want)
		}
		if b.given != "" {
			if have != b.given {
				t.Errorf("%s: %s, want %s", step.what, have, b.given)
			}
			continue
		}
		if want := filepath.Join(cache, "stalemate", "assets-1.2.3"); have != want || !complete(have) {
			t.Errorf("%s: %s, want %s, whole", step.what, have, want)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "go.calls"))
	if err != nil || !strings.Contains(string(calls), "version.gitVersion=v1.2.3") {
		t.Errorf("the version is not stamped in: %s %v", calls, err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "stalemate", "*.*-*"))
	if err != nil || len(left) > 1 {
		t.Errorf("left behind: %q %v", left, err)
	}
}
