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
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// DefaultRuns is the number of runs by seed after the sweep, unless told otherwise.
const DefaultRuns = 100

// DefaultRevealed is the most faults that are swept at sites which only a swept run reveals, unless told otherwise.
const DefaultRevealed = 200

// The names of the strategies.
const (
	DefaultOrder  = "default order"
	Committed     = "committed schedules"
	Sweep         = "sweep"
	FaultSweep    = "fault sweep"
	RevealedSweep = "sweep of revealed sites"
	PCT           = "PCT"
	SelectivePCT  = "selective PCT"
	RandomWalk    = "random walk"
)

// Options say how far to explore.
type Options struct {
	// Seed of the first run by seed; the n-th has Seed+n-1.
	Seed int64
	// Runs is the number of runs by seed; negative means none, zero means DefaultRuns.
	Runs int
	// For, if set, takes the place of Runs: runs by seed go on until so much real time has passed since the beginning. A
	// sweep that takes longer than that ends then, and is not complete. It needs a Clock.
	For time.Duration
	// Strategies are those that runs by seed take turns in: some of PCT, SelectivePCT and RandomWalk; empty means all.
	Strategies []string
	// Schedules are run before the sweep: those that found something once.
	Schedules []*schedule.Schedule
	// Revealed bounds the faults that are swept at sites which only a swept run reveals; negative means none, zero means
	// DefaultRevealed.
	Revealed int
	// Shrink bounds the executions that shrinking one finding takes; negative means not to shrink, zero means
	// [shrink.DefaultExecutions].
	Shrink int
	// ScriptSteps is the number of steps of the scenario's script, which shrinking may take out; zero keeps them all.
	ScriptSteps int
	// Clock tells real time, for budgets and for what reports say of it; nil stops it. It has no influence on runs.
	Clock func() time.Time
	// Progress, if set, is called after every execution, those that shrink a finding among them.
	Progress func(Progress)
	// Found, if set, is called with every new finding before the exploration goes on, and again when another run takes the
	// place of the one that represents it. Its error ends the exploration.
	Found func(*history.Finding) error
	// Before, if set, is called before every execution, whatever it is for. Its error ends the exploration.
	Before func(Execution) error
	// After, if set, is called after every execution: with its history or, where there is none, with the error.
	After func(Execution, *history.History, error)
}

// Progress is how far an exploration is.
type Progress struct {
	Strategy   string
	Executions int
	// Shrinking is the number of executions besides, which were made to shrink findings.
	Shrinking int
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
	faults   *sim.Faults
	result   *history.Result
	begun    time.Time
	hash     canon.Hasher
	coverage *coverage
	accounts []*history.StrategyResult
	strategy *history.StrategyResult // the one whose turn it is
	survey   *Survey
	planned  int // how many executions it takes, zero if it goes by time
	revealed revealed
	playing  *schedule.Schedule // the committed schedule whose run this is, if it is one
}

// Run explores a scenario. It returns an error where the scenario cannot be run, not for findings: a
// *[sim.SettleError], a *[sim.ProgramError], a *[sim.StuckError], a *[NondeterminismError], or that of
// Options.Found. If the context ends, it returns the context's error together with what it came to, if the default order
// was executed by then.
func Run(ctx context.Context, config *sim.Config, options Options) (*history.Result, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	x := &explorer{options: options, faults: &config.Faults,
		result: &history.Result{Header: history.Header{Scenario: config.Name}, Seed: options.Seed}}
	x.begun = x.now()
	x.coverage = newCoverage(config)
	world, err := sim.NewWorld(config)
	if err != nil {
		return nil, err
	}
	x.world = world
	if err := x.defaultOrder(ctx); err != nil {
		return nil, err
	}
	for _, strategy := range []func(context.Context) error{x.committed, x.sweep, x.faultSweep, x.revealedSweep, x.swarm} {
		if err = strategy(ctx); err != nil {
			break
		}
	}
	if err == nil {
		err = x.sayLate(ctx)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		return nil, err
	}
	for _, account := range x.accounts {
		x.result.Strategies = append(x.result.Strategies, *account)
	}
	x.result.Coverage = x.coverage.result(x.result.Default)
	if note := baselineNote(world); note != "" {
		x.result.Coverage.Notes = append(x.result.Coverage.Notes, note)
	}
	x.result.Hash = x.hash.Sum()
	x.result.Elapsed = x.now().Sub(x.begun)
	return x.result, err
}

// baselineNote says why there is nothing that the ends of runs could be compared with; empty if there is.
func baselineNote(world *sim.World) string {
	if !world.Config().Detectors.NeedsBaseline() {
		return ""
	}
	switch b := world.Baseline(nil); {
	case b.Own() != nil:
		return ""
	case b == nil:
		return "not every run without faults comes to rest: nothing is said of errors that change the outcome"
	default:
		differing := b.Differing()
		return fmt.Sprintf("the scenario has no terminal state of its own: runs without faults come to %d different ones, which differ in %s; "+
			"nothing is said of errors that change the outcome", len(b.States), strings.Join(differing[:min(len(differing), 3)], ", "))
	}
}

// check refuses options that cannot be followed.
func (o *Options) check() error {
	if o.For > 0 && o.Clock == nil {
		return errors.New("explore: Options.For needs a clock: set Options.Clock, to time.Now for instance")
	}
	for _, name := range o.Strategies {
		if !slices.Contains(seeded, name) {
			return fmt.Errorf("explore: strategy %q has no runs by seed: choose from %q", name, seeded)
		}
	}
	return nil
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
	x.strategy = &history.StrategyResult{Name: name, Scope: scope}
	x.accounts = append(x.accounts, x.strategy)
	return x.strategy
}

// defaultRuns is how often the default order is executed. Twice would show most nondeterminism; but a map of a few keys is
// walked in one order twice running about one time in five.
const defaultRuns = 4

// defaultOrder runs the default order, and checks that it comes out the same each time: at last with a strategy that takes
// it too, and tells what choices there were.
func (x *explorer) defaultOrder(ctx context.Context) error {
	account := x.begin(DefaultOrder, "no preemption, no faults, constant latency; more than once, to see that nothing differs")
	first, err := x.execute(ctx, sim.Plan{Seed: x.options.Seed}, defaultRuns)
	if err != nil {
		return err
	}
	x.result.Default = first
	watcher := &watcher{}
	for n := range defaultRuns - 1 {
		plan := sim.Plan{Seed: x.options.Seed}
		if n == defaultRuns-2 {
			plan.Strategy = watcher
		}
		again, err := x.execute(ctx, plan, defaultRuns)
		if err == nil {
			err = Compare(first, again)
		}
		if err != nil {
			return err
		}
	}
	x.survey = newSurvey(x.world, first, watcher)
	account.Complete = true
	return nil
}

// Compare checks that two executions of one schedule are the same: if not, the error is a *[NondeterminismError].
func Compare(first, second *history.History) error {
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
	switch {
	case r.Code == history.NoAnswer:
		text += ", no answer"
	case r.Code != 0:
		text += fmt.Sprintf(", answered %d %s", r.Code, r.Reason)
	}
	return strings.TrimSpace(text)
}

// execute runs one plan and accounts for it.
func (x *explorer) execute(ctx context.Context, plan sim.Plan, planned int) (*history.History, error) {
	h, err := x.world.Run(plan)
	if err != nil {
		return nil, err
	}
	x.planned = planned
	x.strategy.Executions++
	x.coverage.add(h)
	x.hash.Int(int64(h.Hash))
	if h.Outcome == history.Inconclusive && !h.Failed() {
		x.strategy.Inconclusive++
	}
	if h.Failed() {
		x.strategy.Findings++
		if err := x.found(ctx, plan, h); err != nil {
			return nil, err
		}
	}
	x.progress()
	return h, nil
}

// progress tells how far the exploration is.
func (x *explorer) progress() {
	if x.options.Progress == nil {
		return
	}
	shrinking := 0
	for _, account := range x.accounts {
		shrinking += account.Shrinking
	}
	x.options.Progress(Progress{Strategy: x.strategy.Name, Executions: x.coverage.executions, Shrinking: shrinking,
		Planned: x.planned, Done: x.done(), Findings: len(x.result.Findings)})
}

// done returns how many executions there were of the strategy whose turn it is; those by seed count together.
func (x *explorer) done() int {
	n := x.strategy.Executions
	for _, account := range x.accounts {
		if account != x.strategy && slices.Contains(seeded, account.Name) && slices.Contains(seeded, x.strategy.Name) {
			n += account.Executions
		}
	}
	return n
}
