package scenarios_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

var update = flag.Bool("update", os.Getenv("SIM_UPDATE") != "", "rewrite the golden files")

// program is a program that does nothing.
type program struct{ options scenarios.ProgramOptions }

func (program) Start(context.Context, *sim.Env) error { return nil }

// registry returns the reconcilers that the scenarios of the tests name.
func registry() *scenarios.Registry {
	var r scenarios.Registry
	for _, name := range []string{"example/buggy", "example/fixed", "other/one"} {
		r.Add(name, scenarios.Reconciler{
			Doc:     "does nothing",
			Program: func(o scenarios.ProgramOptions) sim.Program { return program{o} },
		})
	}
	return &r
}

// TestBroken loads every file of testdata/broken. Each must be refused with the text next to it, and each error must name its
// place.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d broken files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := scenarios.Load(file, scenarios.Options{Registry: registry()})
			var broken *scenarios.Error
			if !errors.As(err, &broken) {
				t.Fatalf("got %v, want a *scenarios.Error", err)
			}
			checkDiagnostics(t, broken)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// checkDiagnostics checks what holds for every diagnostic.
func checkDiagnostics(t *testing.T, broken *scenarios.Error) {
	t.Helper()
	if len(broken.Diagnostics) == 0 {
		t.Error("an error without a diagnostic")
	}
	for _, d := range broken.Diagnostics {
		if d.File == "" || d.Message == "" {
			t.Errorf("a diagnostic without a file or a message: %+v", d)
		}
		if (d.Line > 0) != (d.Snippet != "") || (d.Line > 0) != (d.Column > 0) {
			t.Errorf("a diagnostic with part of a place: %+v", d)
		}
	}
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run with -update to write it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got), run with -update to accept:\n%s", file, diff)
	}
}
