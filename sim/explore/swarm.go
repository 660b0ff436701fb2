package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// shares are the strategies of runs by seed, each as often as its share of the runs, where none are named.
var shares = []string{SelectivePCT, SelectivePCT, SelectivePCT, SelectivePCT, PCT, PCT, PCT, RandomWalk, RandomWalk, RandomWalk}

// sharesWithLag are those from which named ones are taken if LagPCT is among them. They are apart, as a seed must go on to mean
// the run that it means where LagPCT is not named.
var sharesWithLag = []string{SelectivePCT, SelectivePCT, SelectivePCT, PCT, PCT, LagPCT, LagPCT, LagPCT, RandomWalk, RandomWalk}

// seeded are the strategies of runs by seed.
var seeded = []string{SelectivePCT, PCT, LagPCT, RandomWalk}

// bySeed reports whether a strategy has runs by seed.
func bySeed(strategy string) bool { return slices.Contains(seeded, strategy) }

// scopes say what the strategies do, for reports.
var scopes = map[string]string{
	SelectivePCT: "actors and caches have priorities; one to three times one of them falls behind, or has a call that is late, before " +
		"a step that conflicts in the default run",
	PCT:    "actors and caches have priorities; once or twice one of them falls behind, or has a call that is late",
	LagPCT: "as the two before, and some caches lag: an informer, or a handler, goes on only when nobody else can",
	RandomWalk: fmt.Sprintf("one in %d choices among enabled steps uniform, some calls late, lists without an order of their own in "+
		"random order", freeOdds),
}

// swarm executes runs by seed until the budget ends. The strategies take turns, and each fault rule is on in half of the runs.
func (x *explorer) swarm(ctx context.Context) error {
	runs := x.options.Runs
	switch {
	case x.options.For > 0:
		runs = math.MaxInt
	case runs == 0:
		runs = DefaultRuns
	}
	if runs < 0 {
		return nil
	}
	planned := runs
	if x.options.For > 0 {
		planned = 0
	}
	checked := map[string]bool{}
	for n := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.spent() {
			break
		}
		seed := x.options.Seed + int64(n)
		h, err := x.seeded(ctx, seed, planned)
		if name := x.strategy.Name; err == nil && !checked[name] {
			checked[name] = true
			err = x.recheck(seed, h)
		}
		if err != nil {
			return err
		}
	}
	x.completeSeeded()
	return nil
}

// seeded executes the run with a seed. The history is nil if the execution is to be skipped.
func (x *explorer) seeded(ctx context.Context, seed int64, planned int) (*history.History, error) {
	name, strategy := x.survey.Strategy(seed, x.options.Strategies...)
	x.accountOf(name)
	return x.execute(ctx, sim.Plan{Seed: seed, Strategy: strategy}, planned)
}

// accountOf gives a strategy of runs by seed its turn.
func (x *explorer) accountOf(name string) {
	x.account(name, fmt.Sprintf("runs by seed from %d on: %s", x.options.Seed, scopes[name]))
}

// completeSeeded says of the strategies of runs by seed that they ran to their end.
func (x *explorer) completeSeeded() {
	for _, account := range x.accounts {
		account.Complete = account.Complete || bySeed(account.Name)
	}
}

// recheck executes a run by seed again, and compares: what races only under preemption does not show in the default order.
// The execution is not counted, as it adds nothing else.
func (x *explorer) recheck(seed int64, first *history.History) error {
	if first == nil {
		return nil
	}
	again, err := x.again(Checking, seed)
	if errors.Is(err, errSkipped) {
		return nil
	}
	if err != nil {
		return err
	}
	return Compare(first, again)
}

// again executes a run by seed once more.
func (x *explorer) again(purpose Purpose, seed int64) (*history.History, error) {
	_, strategy := x.survey.Strategy(seed, x.options.Strategies...)
	return x.run(purpose, sim.Plan{Seed: seed, Strategy: strategy, Record: purpose == Recording})
}

// Strategy returns the strategy of the run with a seed, and its name: one of those named, or of all. It serves one run, and
// injects faults of the scenario's rules.
func (s *Survey) Strategy(seed int64, names ...string) (string, sim.Strategy) {
	candidates := shares
	if len(names) > 0 {
		if slices.Contains(names, LagPCT) {
			candidates = sharesWithLag
		}
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(name string) bool { return !slices.Contains(names, name) })
	}
	name := candidates[NewStream(seed, "swarm/strategy").Below(len(candidates))]
	stream := NewStream(seed, "swarm/"+name)
	var strategy sim.Strategy
	switch name {
	case SelectivePCT:
		strategy = newPCT(seed, 2+stream.Below(3), s, true, stream.Below(2) == 1)
	case PCT:
		strategy = newPCT(seed, 2+stream.Below(2), s, false, stream.Below(2) == 1)
	case LagPCT:
		p := newPCT(seed, 1+stream.Below(3), s, stream.Below(2) == 1, stream.Below(2) == 1)
		p.lag = true
		strategy = p
	default:
		strategy = NewWalk(seed)
	}
	if len(s.faults.Rules) == 0 {
		return name, strategy
	}
	return name, &injecting{Strategy: strategy, injector: s.injector(seed)}
}

// injecting is a strategy that injects faults, too.
type injecting struct {
	sim.Strategy
	*injector
}

var _ sim.Injector = (*injecting)(nil)

// injector strikes at random.
type injector struct {
	streams
	odds map[string]odds // by rule, of those that are on
}

// odds are hits in so many tries.
type odds struct{ hits, tries int }

// unknownTries is taken for the number of events that a rule matches, if it matches none in the default run.
const unknownTries = 4

// injector switches rules on and off, and gives those that are on such odds that a run like the default run has about as many
// faults as it may have.
func (s *Survey) injector(seed int64) *injector {
	i := &injector{streams: newStreams(seed, "swarm"), odds: map[string]odds{}}
	var on []*sim.FaultRule
	total := 0
	for n := range s.faults.Rules {
		rule := &s.faults.Rules[n]
		if i.named(rule.Name).Below(2) == 1 {
			on = append(on, rule)
			total += s.tries(rule)
		}
	}
	most := max(1, s.faults.Max)
	for _, rule := range on {
		chances := odds{most, total}
		if own := (odds{rule.Max, s.tries(rule)}); rule.Max > 0 && own.less(chances) {
			chances = own
		}
		i.odds[rule.Name] = chances
	}
	return i
}

func (s *Survey) tries(rule *sim.FaultRule) int {
	if n := s.eligible[rule.Name]; n > 0 {
		return n
	}
	return unknownTries
}

func (o odds) less(other odds) bool { return o.hits*other.tries < other.hits*o.tries }

// parts is in how many parts a span is drawn: a fault that may last a minute lasts one of so many parts of it, or several.
const parts = 8

// Inject implements sim.Injector.
func (i *injector) Inject(rule *sim.FaultRule, event schedule.Event, faults []schedule.Fault) (schedule.Fault, bool) {
	chances, on := i.odds[rule.Name]
	stream := i.of("fault/"+rule.Name, event)
	if !on || len(faults) == 0 || stream.Below(chances.tries) >= chances.hits {
		return schedule.Fault{}, false
	}
	fault := faults[stream.Below(len(faults))]
	if fault.For > 0 && fault.For != sim.Forever {
		fault.For = max(fault.For/parts*time.Duration(1+stream.Below(parts)), time.Nanosecond)
	}
	return fault, true
}
