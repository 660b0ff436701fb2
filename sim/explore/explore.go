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
	"github.com/stalemate-dev/stalemate/sim/shrink"
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
	Corpus        = "corpus"
	PCT           = "PCT"
	SelectivePCT  = "selective PCT"
	LagPCT        = "PCT with lag"
	RandomWalk    = "random walk"
)

// strategies are the strategies in the order in which they are explored, as far as there is one.
var strategies = []string{DefaultOrder, Committed, Sweep, FaultSweep, RevealedSweep, Corpus, SelectivePCT, PCT, LagPCT, RandomWalk}

// Options say how far to explore.
type Options struct {
	// Seed of the first run by seed; the n-th has Seed+n-1.
	Seed int64
	// Runs is the number of runs by seed; negative means none, zero means DefaultRuns.
	Runs int
	// For, if set, takes the place of Runs: runs by seed go on until so much real time has passed since the beginning. A
	// sweep that takes longer than that ends then, and is not complete. It needs a Clock.
	For time.Duration
	// Strategies are those that runs by seed take turns in: some of PCT, SelectivePCT, LagPCT and RandomWalk; empty means all but
	// LagPCT.
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

// explorer is one exploration, or a unit of one.
type explorer struct {
	*Session
	result   *history.Result
	begun    time.Time
	hash     canon.Hasher
	tally    *Tally
	accounts []*history.StrategyResult
	strategy *history.StrategyResult // the one whose turn it is
	planned  int                     // how many executions it takes, zero if it goes by time
	revealed revealed
	playing  *schedule.Schedule // the schedule whose run this is, if it is one that was given
	number   int                // of the latest execution, whatever it was for
	unit     *unitWork          // nil for a whole exploration
	skipped  map[string]bool    // the strategies of which an execution was left out
}

func (s *Session) explorer() *explorer {
	x := &explorer{Session: s, skipped: map[string]bool{}, tally: newTally(s.world.Config()),
		result: &history.Result{Header: history.Header{Scenario: s.world.Config().Name}, Seed: s.options.Seed}}
	x.begun = x.now()
	return x
}

// Run explores a scenario. It returns an error where the scenario cannot be run, not for findings: a
// *[sim.SettleError], a *[sim.ProgramError], a *[sim.StuckError], a *[NondeterminismError], or that of
// Options.Found or Options.Before. If the context ends, it returns the context's error together with what it came to, if the
// default order was executed by then.
func Run(ctx context.Context, config *sim.Config, options Options) (*history.Result, error) {
	session, err := newSession(config, options)
	if err != nil {
		return nil, err
	}
	x := session.explorer()
	x.begun = session.begun
	if err := x.defaultOrder(ctx); err != nil {
		return nil, err
	}
	err = x.sweeps(ctx)
	if err == nil {
		err = x.swarm(ctx)
	}
	if err == nil {
		err = x.sayLate(ctx)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		return nil, err
	}
	x.close()
	x.result.Strategies = x.tally.Strategies
	x.result.Coverage = x.tally.coverage()
	x.result.Hash = x.hash.Sum()
	x.result.Elapsed = x.now().Sub(x.begun)
	return x.result, err
}

// sweeps executes what there is to execute besides runs by seed.
func (x *explorer) sweeps(ctx context.Context) error {
	for _, strategy := range []func(context.Context) error{x.committed, x.sweep, x.faultSweep, x.revealedSweep} {
		if err := strategy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close ends the counting.
func (x *explorer) close() {
	for _, account := range x.accounts {
		account.Complete = account.Complete && !x.skipped[account.Name]
		x.tally.Strategies = append(x.tally.Strategies, *account)
	}
	x.tally.Notes = x.notes()
	x.tally.close()
}

// notes says what limits there are to what was modelled, besides those that the counts show; sorted.
func (s *Session) notes() []string {
	var notes []string
	if s.standard.Outcome == history.Terminal {
		notes = append(notes, "a state counts as terminal after "+s.standard.Horizon.String()+" of virtual time without a commit")
	}
	if note := baselineNote(s.world); note != "" {
		notes = append(notes, note)
	}
	return notes
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

func (s *Session) now() time.Time {
	if s.options.Clock == nil {
		return time.Time{}
	}
	return s.options.Clock()
}

// begin starts the account of a strategy.
func (x *explorer) begin(name, scope string) *history.StrategyResult {
	x.strategy = &history.StrategyResult{Name: name, Scope: scope}
	x.accounts = append(x.accounts, x.strategy)
	return x.strategy
}

// account gives a strategy its turn, and starts its account unless it has one.
func (x *explorer) account(name, scope string) {
	i := slices.IndexFunc(x.accounts, func(a *history.StrategyResult) bool { return a.Name == name })
	if i < 0 {
		x.begin(name, scope)
		return
	}
	x.strategy = x.accounts[i]
}

// defaultRuns is how often the default order is executed. Twice would show most nondeterminism; but a map of a few keys is
// walked in one order twice running about one time in five.
const defaultRuns = 4

// defaultOrder runs the default order, and checks that it comes out the same each time: at last with a strategy that takes
// it too, and tells what choices there were.
func (x *explorer) defaultOrder(ctx context.Context) error {
	account := x.begin(DefaultOrder, "no preemption, no faults, constant latency; more than once, to see that nothing differs")
	first, err := x.execute(ctx, sim.Plan{Seed: x.options.Seed}, defaultRuns)
	if err == nil && first == nil {
		err = errors.New("explore: the default order is to be skipped, without which nothing can be explored")
	}
	if err != nil {
		return err
	}
	x.result.Default, x.standard = first, first
	watcher := &watcher{}
	for n := range defaultRuns - 1 {
		plan := sim.Plan{Seed: x.options.Seed}
		if n == defaultRuns-2 {
			plan.Strategy = watcher
		}
		again, err := x.execute(ctx, plan, defaultRuns)
		if err == nil && again != nil {
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

// errSkipped says that an execution was left out.
var errSkipped = errors.New("skipped")

// run executes a plan for a purpose, after it has said so. The error is errSkipped if the unit is to leave it out.
func (x *explorer) run(purpose Purpose, plan sim.Plan) (*history.History, error) {
	x.number++
	if x.unit != nil && slices.Contains(x.unit.Skip, x.number) {
		x.tally.Skipped++
		return nil, errSkipped
	}
	e := Execution{Number: x.number, Purpose: purpose, Strategy: x.strategy.Name, Seed: plan.Seed, plan: &plan}
	if x.options.Before != nil {
		if err := x.options.Before(e); err != nil {
			return nil, err
		}
	}
	h, err := x.world.Run(plan)
	if x.options.After != nil {
		x.options.After(e, h, err)
	}
	return h, err
}

// recorder executes a plan for its trace.
func (x *explorer) recorder(plan sim.Plan) (*history.History, error) { return x.run(Recording, plan) }

// runner returns a function that executes plans for a purpose. One that is skipped comes to nothing: to an empty history, which
// fails in no way.
func (x *explorer) runner(purpose Purpose) shrink.Runner {
	return func(plan sim.Plan) (*history.History, error) {
		h, err := x.run(purpose, plan)
		if errors.Is(err, errSkipped) {
			return &history.History{}, nil
		}
		return h, err
	}
}

// execute runs one plan and accounts for it. The history is nil if the execution is to be skipped.
func (x *explorer) execute(ctx context.Context, plan sim.Plan, planned int) (*history.History, error) {
	x.planned = planned
	plan.State = x.unit != nil
	h, err := x.run(Exploring, plan)
	if errors.Is(err, errSkipped) {
		x.skipped[x.strategy.Name] = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x.strategy.Executions++
	x.tally.count(h)
	x.hash.Int(int64(h.Hash))
	if h.Outcome == history.Inconclusive && !h.Failed() {
		x.strategy.Inconclusive++
	}
	if x.unit != nil {
		x.unit.mark(x.origin(plan), h)
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

// origin says which run the latest one is.
func (x *explorer) origin(plan sim.Plan) Origin {
	o := Origin{Strategy: x.strategy.Name, Seed: plan.Seed}
	switch {
	case bySeed(o.Strategy):
	case o.Strategy == Corpus:
		o.Execution = x.unit.playing
	default:
		o.Execution = x.tally.Executions
	}
	return o
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
	x.options.Progress(Progress{Strategy: x.strategy.Name, Executions: x.tally.Executions, Shrinking: shrinking,
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
