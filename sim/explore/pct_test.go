package explore

import (
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// play lets actors take their steps, each so many of them in order, as a strategy chooses, and returns who took them.
func play(strategy sim.Strategy, steps map[string]int) string {
	var taken []byte
	left := map[string]int{}
	total := 0
	for actor, n := range steps {
		left[actor] = n
		total += n
	}
	running := ""
	for range total {
		var enabled []sim.Choice
		for _, actor := range []string{"a", "b", "c", "d"} {
			if left[actor] > 0 {
				event := schedule.Event{Actor: actor, Verb: schedule.Get, Kind: string(rune('0' + steps[actor] - left[actor]))}
				enabled = append(enabled, sim.Choice{Event: event, Continues: actor == running})
			}
		}
		// The default order goes on with whoever runs.
		slices.SortStableFunc(enabled, func(x, y sim.Choice) int {
			if x.Continues == y.Continues {
				return 0
			}
			if x.Continues {
				return -1
			}
			return 1
		})
		running = enabled[strategy.Choose(enabled)].Event.Actor
		left[running]--
		taken = append(taken, running[0])
	}
	return string(taken)
}

// TestPCTBound checks that a bug of depth two is found as often as the theorem has it: all of b between two certain steps of a.
func TestPCTBound(t *testing.T) {
	const seeds, choices, actors = 4000, 20, 2
	hits := 0
	for seed := range int64(seeds) {
		order := play(newPCT(seed, 2, &Survey{choices: tally{all: choices}}, false, false), map[string]int{"a": 10, "b": 10})
		if order == "aaaaabbbbbbbbbbaaaaa" {
			hits++
		}
	}
	if bound := seeds / (choices * actors); hits < bound {
		t.Errorf("%d hits in %d runs, want at least %d", hits, seeds, bound)
	}
	t.Logf("%d hits", hits)
}

// TestPCTSelective checks that a selective one, which knows the steps that matter, hits more often.
func TestPCTSelective(t *testing.T) {
	contested := map[schedule.Event]bool{{Actor: "a", Verb: schedule.Get, Kind: "5"}: true}
	survey := &Survey{choices: tally{20, 1}, contested: contested}
	hits := map[bool]int{}
	for seed := range int64(1000) {
		for _, selective := range []bool{false, true} {
			if play(newPCT(seed, 2, survey, selective, false), map[string]int{"a": 10, "b": 10}) == "aaaaabbbbbbbbbbaaaaa" {
				hits[selective]++
			}
		}
	}
	if hits[true] < 400 || hits[true] < 5*hits[false] {
		t.Errorf("%d hits of the selective one, %d of the other", hits[true], hits[false])
	}
}

// TestPCTPriorities checks that without a change point an actor is never preempted, that each seed gives one order, and that
// all orders come up.
func TestPCTPriorities(t *testing.T) {
	seen := map[string]bool{}
	for seed := range int64(200) {
		steps := map[string]int{"a": 3, "b": 2, "c": 4}
		order := play(newPCT(seed, 1, &Survey{choices: tally{all: 9}}, false, false), steps)
		if again := play(newPCT(seed, 1, &Survey{choices: tally{all: 9}}, false, false), steps); again != order {
			t.Fatalf("seed %d gives %s and %s", seed, order, again)
		}
		if runs := slices.Compact([]byte(order)); len(runs) != 3 {
			t.Errorf("seed %d preempts: %s", seed, order)
		}
		seen[order] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d orders of three actors, want 6", len(seen))
	}
}

// TestPCTFair checks that the default order takes over in the end.
func TestPCTFair(t *testing.T) {
	p := newPCT(1, 3, &Survey{choices: tally{all: 2}}, false, false)
	enabled := []sim.Choice{{Event: schedule.Event{Actor: "a"}}, {Event: schedule.Event{Actor: "b"}}}
	taken := map[int]int{}
	for range fairAfter * 2 {
		taken[p.Choose(enabled)]++
	}
	for range 20 {
		if got := p.Choose(enabled); got != 0 {
			t.Fatalf("takes %d after its choices, want the default order", got)
		}
	}
	if len(taken) == 0 {
		t.Error("chose nothing")
	}
}

// TestLanes checks what has a priority of its own.
func TestLanes(t *testing.T) {
	choice := func(infrastructure bool, e schedule.Event) lane {
		return laneOf(&sim.Choice{Event: e, Infrastructure: infrastructure})
	}
	get := schedule.Event{Actor: "op", Incarnation: 1, Key: "x", Verb: schedule.Get, Kind: "Pod", Name: "a"}
	other := get
	other.Verb, other.Kind, other.Name = schedule.Update, "Secret", "b"
	if choice(false, get) != choice(false, other) {
		t.Error("two steps of a reconcile have two lanes")
	}
	other.Key = "y"
	if choice(false, get) == choice(false, other) {
		t.Error("the reconciles of two keys have one lane")
	}
	deliver := schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Deliver, Kind: "Pod", Name: "a"}
	second, handle, secrets := deliver, deliver, deliver
	second.Name, handle.Verb, secrets.Kind = "b", schedule.Handle, "Secret"
	if choice(true, deliver) != choice(true, second) {
		t.Error("an informer has two lanes")
	}
	if choice(true, deliver) == choice(true, handle) || choice(true, deliver) == choice(true, secrets) {
		t.Error("an informer shares its lane")
	}
}

// TestPCTLag checks that with lag some informers and handlers go on only when nobody else can, that no actor is among them, and that
// nothing else is another order than without.
func TestPCTLag(t *testing.T) {
	actor := sim.Choice{Event: schedule.Event{Actor: "op", Incarnation: 1, Key: "x", Verb: schedule.Get, Kind: "Pod"}}
	other := sim.Choice{Event: schedule.Event{Actor: "user", Verb: schedule.Patch, Kind: "Pod"}}
	deliver := sim.Choice{Event: schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Deliver, Kind: "Pod"}, Infrastructure: true}
	lags, behind := 0, map[bool]int{}
	const seeds = 600
	for seed := range int64(seeds) {
		for _, lag := range []bool{false, true} {
			p := newPCT(seed, 1, &Survey{choices: tally{all: 9}}, false, false)
			p.lag = lag
			if p.priority(&actor).behind != 0 || p.priority(&other).behind != 0 {
				t.Fatalf("seed %d: an actor lags", seed)
			}
			if p.Choose([]sim.Choice{deliver, actor, other}) != 0 && p.Choose([]sim.Choice{deliver, other}) != 0 {
				behind[lag]++
			}
			if lag && p.priority(&deliver).behind == lagging {
				lags++
				p.priorities[laneOf(&actor)] = priority{behind: firstBehind}
				if p.Choose([]sim.Choice{deliver, actor}) != 1 {
					t.Errorf("seed %d: a lagging informer comes before an actor that fell behind", seed)
				}
				if p.Choose([]sim.Choice{deliver}) != 0 {
					t.Errorf("seed %d: nobody goes on", seed)
				}
			}
		}
	}
	if lags < seeds/lagOdds*3/4 || lags > seeds/lagOdds*5/4 {
		t.Errorf("%d of %d informers lag, want one in %d", lags, seeds, lagOdds)
	}
	if behind[true] < behind[false]+lags/3 {
		t.Errorf("with lag the informer came last in %d runs, and without in %d", behind[true], behind[false])
	}
}

// TestLagIsAskedFor checks that a seed means the run that it always meant, unless lag is asked for by name.
func TestLagIsAskedFor(t *testing.T) {
	s := &Survey{choices: tally{all: 9}, faults: &sim.Faults{}}
	names := map[string]int{}
	for seed := range int64(300) {
		name, _ := s.Strategy(seed)
		if same, _ := s.Strategy(seed, SelectivePCT, PCT, RandomWalk); name == LagPCT || same != name {
			t.Errorf("seed %d means %s, and %s if that is what there is", seed, name, same)
		}
		named, _ := s.Strategy(seed, seeded...)
		names[named]++
		if only, strategy := s.Strategy(seed, LagPCT); only != LagPCT || !strategy.(*pct).lag {
			t.Errorf("seed %d means %s, where only %s was asked for", seed, only, LagPCT)
		}
	}
	if len(names) != len(seeded) {
		t.Errorf("strategies are %v", names)
	}
}
