package live_test

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/sim/live"
	"github.com/stalemate-dev/stalemate/sim/live/assets"
)

var (
	times = flag.Int("live.times", 1, "confirm every finding so often")
	whole = flag.Bool("live.all", false, "confirm the finding of every operator, not only one of them")
)

// needsControlPlane skips a test where there is none.
func needsControlPlane(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real control plane takes half a minute a run")
	}
	if _, err := assets.Dir(); errors.Is(err, assets.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, file string, overrides map[string]string) live.Finding {
	t.Helper()
	registry := &scenarios.Registry{}
	reference.Register(registry)
	loaded, err := scenarios.LoadSchedule(filepath.Join("../../scenarios", file), scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	config, err := loaded.Config(registry, overrides)
	if err != nil {
		t.Fatal(err)
	}
	return live.Finding{Name: loaded.Name, Config: config, Schedule: loaded.Spec}
}

// findings are one of each operator, with a variant of it that the same schedule does not break.
var findings = []struct {
	file, controller, correct string
	always                    bool // it is confirmed without -live.all, too
}{
	{"clickhouse/testdata/schedules/clickhouse-recreate-buggy-race-update-statefulset-kcm.yaml", "operator", "clickhouse/patch-a", true},
	{"leaderworkerset/testdata/schedules/lws-forced-buggy-race-get-statefulset-kcm.yaml", "lws", "leaderworkerset/fixed", false},
	{"seinode/testdata/schedules/seinode-restored-v345-default-order.yaml", "operator", "seinode/v348", false},
	{"ondelete/testdata/schedules/ondelete-rollback-sei-default-order.yaml", "operator", "ondelete/pods", false},
}

// TestConfirms checks that what the simulation finds is found on a real API server, and that it does not find it in operators that
// are right.
func TestConfirms(t *testing.T) {
	needsControlPlane(t)
	for _, f := range findings {
		if !f.always && !*whole {
			continue
		}
		for n := range *times {
			name, _, _ := strings.Cut(f.file, "/")
			t.Run(fmt.Sprintf("%s/broken/%d", name, n+1), func(t *testing.T) {
				t.Parallel()
				confirm(t, load(t, f.file, nil), live.Confirmed)
			})
			t.Run(fmt.Sprintf("%s/correct/%d", name, n+1), func(t *testing.T) {
				t.Parallel()
				confirm(t, load(t, f.file, map[string]string{f.controller: f.correct}), live.NotConfirmed)
			})
		}
	}
}

func confirm(t *testing.T, f live.Finding, want live.Outcome) {
	t.Helper()
	result, err := live.Confirm(t.Context(), f, live.Options{Timeout: 8 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != want || !result.Rested {
		t.Fatalf("it is %s, at rest: %v, want %s:\n%s", result.Outcome, result.Rested, want, result.Text(true))
	}
	t.Logf("%s", result)
}
