package explore

import (
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestInjector checks that a run has about as many faults as it may have, each rule is on in half of the runs, and all
// variants and spans come up.
func TestInjector(t *testing.T) {
	const seeds, events = 2000, 40
	lag := schedule.Fault{Type: schedule.CacheLag, Params: schedule.Params{For: 80 * time.Second}}
	crash := schedule.Fault{Type: schedule.Crash}
	faults := &sim.Faults{Max: 2, Rules: []sim.FaultRule{{Name: "one"}, {Name: "rare", Max: 1}, {Name: "never seen"}}}
	survey := &Survey{faults: faults, eligible: map[string]int{"one": events, "rare": events}}
	total, on := map[string]int{}, map[string]int{}
	spans, types := map[time.Duration]bool{}, map[schedule.FaultType]bool{}
	for seed := range int64(seeds) {
		injector := survey.injector(seed)
		for name := range injector.odds {
			on[name]++
		}
		for n := range events {
			event := schedule.Event{Actor: "op", Verb: schedule.Get, Occurrence: n}
			for i := range faults.Rules[:2] {
				f, strikes := injector.Inject(&faults.Rules[i], event, []schedule.Fault{lag, crash})
				again, same := survey.injector(seed).Inject(&faults.Rules[i], event, []schedule.Fault{lag, crash})
				if strikes != same || f != again {
					t.Fatalf("the same rule, event and seed give %v and %v", f, again)
				}
				if strikes {
					total[faults.Rules[i].Name]++
					spans[f.For], types[f.Type] = true, true
				}
			}
		}
	}
	for _, rule := range faults.Rules {
		if n := on[rule.Name]; n < seeds*2/5 || n > seeds*3/5 {
			t.Errorf("rule %q is on in %d of %d runs", rule.Name, n, seeds)
		}
	}
	// Alone the one rule has two in 40 events, next to the others less; the rare one has at most one.
	if n := total["one"]; n < seeds/2 || n > seeds {
		t.Errorf("%d faults of rule one in %d runs", n, seeds)
	}
	if n := total["rare"]; n < seeds/3 || n > seeds*2/3 {
		t.Errorf("%d faults of the rare rule in %d runs", n, seeds)
	}
	if len(types) != 2 || len(spans) != parts+1 || spans[lag.For+1] || !spans[lag.For] || !spans[10*time.Second] {
		t.Errorf("types are %v, spans %v", types, spans)
	}
}

// TestStrategies checks which strategies take turns.
func TestStrategies(t *testing.T) {
	survey := &Survey{choices: tally{10, 5}, faults: &sim.Faults{}}
	for _, test := range []struct {
		names []string
		want  int
	}{{nil, 3}, {[]string{PCT}, 1}, {[]string{RandomWalk, SelectivePCT}, 2}} {
		seen := map[string]int{}
		for seed := range int64(100) {
			name, strategy := survey.Strategy(seed, test.names...)
			if _, injects := strategy.(sim.Injector); injects {
				t.Error("a strategy injects faults where there are no rules")
			}
			seen[name]++
		}
		if len(seen) != test.want {
			t.Errorf("of %q: %v take turns, want %d", test.names, seen, test.want)
		}
		for name, n := range seen {
			if n < 20 {
				t.Errorf("of %q: %s has %d of 100 runs", test.names, name, n)
			}
		}
	}
	survey.faults.Rules = []sim.FaultRule{{Name: "r"}}
	if _, strategy := survey.Strategy(1); strategy.(sim.Injector) == nil {
		t.Error("a strategy does not inject faults")
	}
	options := Options{Strategies: []string{"sweep"}}
	if err := options.check(); err == nil {
		t.Error("the sweep is taken for a strategy of runs by seed")
	}
}
