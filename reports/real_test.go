package reports

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// maxFinding is how large the result of an exploration may be for each of its runs that it tells of, in bytes.
const maxFinding = 1 << 20

// TestExplorationsSayTheSame explores scenarios with bugs of several kinds, and checks that what is written of them and read again
// says the same in every report, to the byte.
func TestExplorationsSayTheSame(t *testing.T) {
	registry := &scenarios.Registry{}
	reference.Register(registry)
	for _, test := range []struct {
		file, controller, reconciler string
		want                         Verdict
	}{
		{"clickhouse/recreate.yaml", "operator", "clickhouse/buggy", Broken},
		{"clickhouse/recreate-errors.yaml", "operator", "clickhouse/buggy", Broken}, // faults
		{"clickhouse/recreate.yaml", "operator", "clickhouse/patch-a", Passed},
	} {
		t.Run(test.file+" with "+test.reconciler, func(t *testing.T) {
			s, err := scenarios.Load("../scenarios/"+test.file, scenarios.Options{Registry: registry})
			if err != nil {
				t.Fatal(err)
			}
			entry := s.Entries()[0]
			overrides := map[string]string{test.controller: test.reconciler}
			config, err := entry.Config(registry, overrides)
			if err != nil {
				t.Fatal(err)
			}
			live, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 20, ScriptSteps: entry.Steps()})
			if err != nil {
				t.Fatal(err)
			}
			live.Header, live.Seed = entry.Header(config, overrides), 1
			if got := Judge(live); got != test.want {
				t.Errorf("the verdict is %s, want %s", got, test.want)
			}
			sameReports(t, live)
		})
	}
}

func sameReports(t *testing.T, live *history.Result) {
	var text bytes.Buffer
	if err := EncodeResult(&text, live); err != nil {
		t.Fatal(err)
	}
	size := text.Len()
	t.Logf("%d bytes for %d findings", size, len(live.Findings))
	if size > maxFinding*(1+len(live.Findings)) {
		t.Errorf("the result has %d bytes, too many for %d findings", size, len(live.Findings))
	}
	read, err := DecodeResult(&text)
	if err != nil {
		t.Fatal(err)
	}
	render := func(r *history.Result) string {
		var b bytes.Buffer
		failed := Text(&b, r, Options{Findings: len(r.Findings) + 1, Names: true})
		for i := range r.Findings {
			failed = errors.Join(failed, Finding(&b, r, i, Options{}))
		}
		if failed != nil {
			t.Fatal(failed)
		}
		return b.String()
	}
	documents := []Document{{Result: read}}
	trace := traced(t, documents...)
	if err := checkTrace(trace); err != nil {
		t.Error(err)
	}
	if arrows := strings.Count(trace, `"ph":"f"`); arrows < 20 {
		t.Errorf("the trace has only %d arrows", arrows)
	}
	if err := checkJUnit(strings.NewReader(junit(t, documents...))); err != nil {
		t.Error(err)
	}
	placed := func(a annotation) bool { return a.level == "error" && a.at.Line > 0 }
	if live.Failed() && !slices.ContainsFunc(annotationsOf(documents[0]), placed) {
		t.Error("no annotation has the line of a property")
	}
	if diff := cmp.Diff(render(live), render(read)); diff != "" {
		t.Errorf("the reports differ (-live +read):\n%s", diff)
	}
}
