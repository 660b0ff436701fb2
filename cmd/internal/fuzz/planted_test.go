package fuzz

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// TestPlanted explores operators that end their process, hang it or fill it. Each is named, with a schedule that a person can replay,
// and what else is wrong with it is found all the same.
func TestPlanted(t *testing.T) {
	tests := []struct {
		act   string
		kind  DeathKind
		where string // part of it
	}{
		{"exit", Exit, "exit code 3"},
		{"panic", Panic, "planted, in github.com/stalemate-dev/stalemate/cmd/internal/fuzz.init.func"},
		{"mutex", Hang, "[sync.Mutex.Lock] in github.com/stalemate-dev/stalemate/cmd/internal/fuzz.waitFor at"},
		{"spin", Hang, "github.com/stalemate-dev/stalemate/cmd/internal/fuzz.spin at"},
		{"leak", Leak, "github.com/stalemate-dev/stalemate/cmd/internal/fuzz.waitForEver at"},
		{"memory", Memory, "github.com/stalemate-dev/stalemate/cmd/internal/fuzz."},
		{"freeze", Hang, ""},
		{"kill", Killed, "signal killed"},
	}
	for _, test := range tests {
		t.Run(test.act, func(t *testing.T) {
			o := options(t, writeScenario(t, t.TempDir(), test.act))
			o.Runs, o.Hang, o.Memory = 0, 8*time.Second, 400<<20
			if test.kind == Memory {
				o.Stuck, o.Hang = time.Minute, 2*time.Minute // it would be a hang as well
			}
			night := explored(t, o)
			of := target(t, night, "planted/"+test.act)
			if of.Failed != nil || len(of.GivenUp) > 0 {
				t.Fatalf("it failed with %+v, given up are %v", of.Failed, of.GivenUp)
			}
			deaths := of.deaths()
			if len(deaths) != 1 {
				t.Fatalf("%d process findings, want one: %+v", len(deaths), of.Deaths)
			}
			d := deaths[0]
			if d.Kind != test.kind || !strings.Contains(d.Where, test.where) {
				t.Errorf("it is a %s: %q; want a %s with %q", d.Kind, d.Where, test.kind, test.where)
			}
			if test.kind != Leak && (!d.Repeated || of.Part.Tally.Skipped == 0) {
				t.Errorf("repeated: %v, skipped: %d", d.Repeated, of.Part.Tally.Skipped)
			}
			file := filepath.Join(of.Folder, d.fileName())
			if _, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry()}); err != nil {
				t.Errorf("its schedule cannot be replayed: %v", err)
			}
			checkLostUpdate(t, of)
			if j := night.Judge(); len(j.Untrusted) > 0 || len(j.Deaths) != 1 {
				t.Errorf("untrusted: %q; deaths: %d", j.Untrusted, len(j.Deaths))
			}
		})
	}
}

// TestPrinted explores an operator that writes to standard output, which is where workers reply: it is no concern of the night's.
func TestPrinted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("standard output is diverted on Linux only")
	}
	o := options(t, writeScenario(t, t.TempDir(), "print"))
	o.Runs = 0
	of := target(t, explored(t, o), "planted/print")
	if of.Failed != nil || len(of.Deaths) > 0 || !of.Swept {
		t.Errorf("it failed with %+v, deaths are %+v, swept: %v", of.Failed, of.Deaths, of.Swept)
	}
	checkLostUpdate(t, of)
}

// checkLostUpdate checks that the other bug of a planted operator was found.
func checkLostUpdate(t *testing.T, of *NightTarget) {
	t.Helper()
	for _, f := range of.Result().Findings {
		if slices.Contains(broken(f.Run), "no-lost-update") {
			return
		}
	}
	t.Error("the lost update was not found")
}
