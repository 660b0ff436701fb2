package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// DefaultRuns is the number of random walks after the sweep, unless told otherwise.
const DefaultRuns = 100

// The names of the strategies.
const (
	DefaultOrder = "default order"
	Sweep        = "sweep"
	RandomWalk   = "random walk"
)

// Options say how far to explore.
type Options struct {
	// Seed of the first random walk; the n-th has Seed+n-1.
	Seed int64
	// Runs is the number of random walks; negative means none, zero means DefaultRuns.
	Runs int
	// For, if set, takes the place of Runs: random walks go on until so much real time has passed since the beginning. A
	// sweep that takes longer than that ends then, and is not complete. It needs a Clock.
	For time.Duration
	// Clock tells real time, for budgets and for what reports say of it; nil stops it. It has no influence on runs.
	Clock func() time.Time
	// Progress, if set, is called after every execution.
	Progress func(Progress)
	// Found, if set, is called with every new finding before the exploration goes on, and again when another run takes the
	// place of the one that represents it. Its error ends the exploration.
	Found func(*history.Finding) error
}

// Progress is how far an exploration is.
type Progress struct {
	Strategy   string
	Executions int
	// Planned is the number of executions the strategy will take, zero if it goes by time.
	Planned, Done int
	Findings      int
}

// NondeterminismError says that two executions of the same schedule went apart: something in the operator under test
// depends on the wall clock, on global randomness, on map order or on addresses.
type NondeterminismError struct {
	// Step is the index of the first record that differs, First and Second are the two.
	Step          int
	First, Second string
}

// Error implements error.
func (e *NondeterminismError) Error() string {
	return fmt.Sprintf("operator under test is nondeterministic: two executions of one schedule differ at step %d: %q and %q; "+
		"look there for the wall clock, global randomness, map order or goroutines that race", e.Step, e.First, e.Second)
}

// explorer is one exploration.
type explorer struct {
	options  Options
	world    *sim.World
	result   *history.Result
	begun    time.Time
	hash     canon.Hasher
	coverage *coverage
	strategy *history.StrategyResult
}

// Run explores a scenario. It returns an error where the scenario cannot be run, not for findings: a
// *[sim.SettleError], a *[sim.ProgramError], a *[sim.StuckError], a *[NondeterminismError], or that of
// Options.Found. If the context ends, it returns the context's error together with what it came to, if the default order
// was executed by then.
func Run(ctx context.Context, config *sim.Config, options Options) (*history.Result, error) {
	if options.For > 0 && options.Clock == nil {
		return nil, errors.New("explore: Options.For needs a clock: set Options.Clock, to time.Now for instance")
	}
	x := &explorer{options: options, result: &history.Result{Scenario: config.Name, Seed: options.Seed}}
	x.begun = x.now()
	x.coverage = newCoverage(config)
	world, err := sim.NewWorld(config)
	if err != nil {
		return nil, err
	}
	x.world = world
	if err := x.defaultOrder(); err != nil {
		return nil, err
	}
	if err = x.sweep(ctx); err == nil {
		err = x.walk(ctx)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		return nil, err
	}
	x.result.Coverage = x.coverage.result(x.result.Default)
	x.result.Hash = x.hash.Sum()
	x.result.Elapsed = x.now().Sub(x.begun)
	return x.result, err
}

// spent reports whether the budget of real time has been used up.
func (x *explorer) spent() bool {
	return x.options.For > 0 && x.now().Sub(x.begun) >= x.options.For
}

func (x *explorer) now() time.Time {
	if x.options.Clock == nil {
		return time.Time{}
	}
	return x.options.Clock()
}

// begin starts the account of a strategy.
func (x *explorer) begin(name, scope string) *history.StrategyResult {
	x.result.Strategies = append(x.result.Strategies, history.StrategyResult{Name: name, Scope: scope})
	x.strategy = &x.result.Strategies[len(x.result.Strategies)-1]
	return x.strategy
}

// defaultRuns is how often the default order is executed. Twice would show most nondeterminism; but a map of a few keys is
// walked in one order twice running about one time in five.
const defaultRuns = 4

// defaultOrder runs the default order, and checks that it comes out the same each time.
func (x *explorer) defaultOrder() error {
	account := x.begin(DefaultOrder, "no preemption, no faults, constant latency; more than once, to see that nothing differs")
	first, err := x.execute(sim.Plan{Seed: x.options.Seed}, defaultRuns)
	if err != nil {
		return err
	}
	x.result.Default = first
	for range defaultRuns - 1 {
		again, err := x.execute(sim.Plan{Seed: x.options.Seed}, defaultRuns)
		if err == nil {
			err = compare(first, again)
		}
		if err != nil {
			return err
		}
	}
	account.Complete = true
	return nil
}

// compare checks that two executions of one schedule are the same.
func compare(first, second *history.History) error {
	if first.Hash == second.Hash {
		return nil
	}
	n := max(len(first.Records), len(second.Records))
	if err := divergence(first, second, n); err != nil {
		return err
	}
	for i := range n {
		a, b := first.Records[i].After, second.Records[i].After
		if a != nil && b != nil && canon.Hash(a) != canon.Hash(b) {
			text := describe(first, i)
			return &NondeterminismError{Step: i, First: text, Second: text + ", with another object"}
		}
	}
	return &NondeterminismError{Step: n, First: "equal steps", Second: "equal steps, but histories that differ"}
}

// divergence checks that two histories agree in their first n steps.
func divergence(first, second *history.History, n int) error {
	for i := range n {
		if i < len(first.Records) && i < len(second.Records) {
			a, b := &first.Records[i], &second.Records[i]
			if a.Event == b.Event && a.At == b.At && a.Code == b.Code && a.Reason == b.Reason {
				continue
			}
		}
		return &NondeterminismError{Step: i, First: describe(first, i), Second: describe(second, i)}
	}
	return nil
}

// describe returns a step of a history in words.
func describe(h *history.History, i int) string {
	if i >= len(h.Records) {
		return "the end of the run"
	}
	r := &h.Records[i]
	text := fmt.Sprintf("%s at %s", r.Event, r.At)
	if r.Code != 0 {
		text += fmt.Sprintf(", answered %d %s", r.Code, r.Reason)
	}
	return strings.TrimSpace(text)
}

// execute runs one plan and accounts for it.
func (x *explorer) execute(plan sim.Plan, planned int) (*history.History, error) {
	h, err := x.world.Run(plan)
	if err != nil {
		return nil, err
	}
	x.strategy.Executions++
	x.coverage.add(h)
	x.hash.Int(int64(h.Hash))
	if h.Outcome == history.Inconclusive {
		x.strategy.Inconclusive++
	}
	if h.Failed() {
		x.strategy.Findings++
		if err := x.found(plan, h); err != nil {
			return nil, err
		}
	}
	if x.options.Progress != nil {
		x.options.Progress(Progress{Strategy: x.strategy.Name, Executions: x.coverage.executions,
			Planned: planned, Done: x.strategy.Executions, Findings: len(x.result.Findings)})
	}
	return h, nil
}

// found files a run that failed: with the finding of its signature, or as a new one. A run whose order came about as the
// plan says explains a finding better than one that was only delayed, and takes its place.
func (x *explorer) found(plan sim.Plan, h *history.History) error {
	finding := history.Finding{
		Signature: Signature(h), Strategy: x.strategy.Name, Seed: plan.Seed, Execution: x.coverage.executions,
		Elapsed: x.now().Sub(x.begun), Run: h,
	}
	findings := x.result.Findings
	i := slices.IndexFunc(findings, func(f history.Finding) bool { return sameBug(&f, &finding) })
	switch {
	case i < 0:
		i = len(findings)
		x.result.Findings = append(findings, finding)
	case len(h.Constraints) > 0 && matched(h) && !matched(findings[i].Run):
		finding.Also = findings[i].Also + 1
		findings[i] = finding
	default:
		findings[i].Also++
		return nil
	}
	if x.options.Found == nil {
		return nil
	}
	return x.options.Found(&x.result.Findings[i])
}

// sameBug reports whether two findings are one: they have one signature, or the first needs no particular order to break
// what the other breaks, with the same values.
func sameBug(known, other *history.Finding) bool {
	return known.Signature == other.Signature || known.Strategy == DefaultOrder && brokenWith(known.Run) == brokenWith(other.Run)
}

// matched reports whether every constraint of a run was.
func matched(h *history.History) bool {
	return !slices.ContainsFunc(h.Constraints, func(c history.ConstraintResult) bool { return !c.Matched })
}
