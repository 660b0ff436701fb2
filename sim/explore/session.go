package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Session explores a scenario unit by unit. It is used by one goroutine at a time.
//
// An exploration is opened in each process that takes part in it, with equal options. What its units come to is put together with
// [Merge]; the findings of the whole are those of [Part.Result], whichever process did which unit, and in which order:
//
//	session, err := explore.Open(ctx, config, options)
//	...
//	whole := explore.Merge(sweeps, seeds, more)
//	for _, unit := range whole.Pending() { // what is to be shrunk
//		part, err := session.Do(ctx, unit)
//		...
//		whole = explore.Merge(whole, part)
//	}
//	result := whole.Result()
type Session struct {
	options  Options
	world    *sim.World
	faults   *sim.Faults
	begun    time.Time
	standard *history.History // the default run
	survey   *Survey
}

func newSession(config *sim.Config, options Options) (*Session, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	s := &Session{options: options, faults: &config.Faults}
	s.begun = s.now()
	if options.Before != nil {
		if err := options.Before(Execution{Purpose: Settling, Strategy: DefaultOrder}); err != nil {
			return nil, err
		}
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		return nil, err
	}
	s.world = world
	return s, nil
}

// Open makes the world of a scenario, and runs its default order, see [Run] for the errors. Of the options Runs, For, Clock,
// Progress and Found mean nothing to a session.
func Open(ctx context.Context, config *sim.Config, options Options) (*Session, error) {
	options.Runs, options.For, options.Clock, options.Progress, options.Found = 0, 0, nil, nil, nil
	s, err := newSession(config, options)
	if err != nil {
		return nil, err
	}
	x := s.explorer()
	x.unit = newUnitWork(Unit{Kind: SweepUnit})
	if err := x.defaultOrder(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// World returns the world that the session explores.
func (s *Session) World() *sim.World { return s.world }

// unitWork is a unit that is being done.
type unitWork struct {
	Unit
	playing int // the number of the schedule of a corpus, from 1
	raws    []*raw
	seen    seen
	novel   []Novelty
}

// raw is a way in which runs of a unit failed, with the first of them.
type raw struct {
	Failure
	run *history.History
}

func newUnitWork(unit Unit) *unitWork {
	u := &unitWork{Unit: unit, seen: seen{}}
	for _, m := range unit.Seen {
		u.seen[m] = true
	}
	return u
}

// met takes note of a run that failed.
func (u *unitWork) met(f Failure, h *history.History) {
	i := slices.IndexFunc(u.raws, func(known *raw) bool { return known.Signature == f.Signature })
	if i < 0 {
		u.raws = append(u.raws, &raw{f, h})
		return
	}
	known := u.raws[i]
	f.Count += known.Count
	if compareFailures(&f, &known.Failure) < 0 {
		*known = raw{f, h}
	}
	known.Count = f.Count
}

// known reports whether a failure needs no history: another one, of this unit or of those before it, accounts for it.
func (u *unitWork) known(f *raw) bool {
	return slices.ContainsFunc(u.Known, func(known Failure) bool { return known.accountsFor(&f.Failure) }) ||
		slices.ContainsFunc(u.raws, func(other *raw) bool { return other != f && other.accountsFor(&f.Failure) })
}

// Do does a unit. Its errors are those of [Run]; a unit that it returns an error for has come to nothing, and the session can go on
// with others.
func (s *Session) Do(ctx context.Context, unit Unit) (*Part, error) {
	x := s.explorer()
	x.unit = newUnitWork(unit)
	part := &Part{Units: 1, Scenario: x.result.Scenario, Seed: s.options.Seed}
	var err error
	switch unit.Kind {
	case SweepUnit:
		err = x.doSweeps(ctx, part)
	case SeedUnit:
		err = x.doSeeds(ctx, part)
	case ScheduleUnit:
		err = x.doSchedules(ctx, part)
	case ShrinkUnit:
		err = x.doShrink(ctx, part)
	default:
		err = fmt.Errorf("explore: unit of kind %q: choose from %q", unit.Kind,
			[]UnitKind{SweepUnit, SeedUnit, ScheduleUnit, ShrinkUnit})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	x.close()
	part.Tally, part.Novel = *x.tally, x.unit.novel
	slices.SortStableFunc(part.Novel, func(a, b Novelty) int { return CompareOrigins(a.Origin, b.Origin) })
	return part, nil
}

// doSweeps does all that does not go by seed.
func (x *explorer) doSweeps(ctx context.Context, part *Part) error {
	if err := x.defaultOrder(ctx); err != nil {
		return err
	}
	if err := x.sweeps(ctx); err != nil {
		return err
	}
	for i := range x.result.Findings {
		finding := &x.result.Findings[i]
		f := failureOf(finding.Run)
		f.Origin = Origin{Strategy: finding.Strategy, Seed: finding.Seed, Execution: finding.Execution}
		f.Signature, f.Count, f.Kept, f.Place = finding.Signature, 1+finding.Also, true, i+1
		f.Elements = elementsOf(finding.Schedule)
		part.addFailure(f, finding)
	}
	part.run, part.replays = x.result.Default, x.result.Replays
	return x.sayLate(ctx) // the part has the findings themselves, and so what is said here
}

// doSeeds executes runs by seed.
func (x *explorer) doSeeds(ctx context.Context, part *Part) error {
	for i := range x.unit.Count {
		if err := ctx.Err(); err != nil {
			return err
		}
		seed := x.unit.First + int64(i)*x.unit.step()
		h, err := x.seeded(ctx, seed, x.unit.Count)
		if err == nil && i == 0 {
			err = x.recheck(seed, h)
		}
		if err != nil {
			return err
		}
	}
	x.completeSeeded()
	return x.keep(part)
}

// corpusScope says what the schedules of a corpus are.
const corpusScope = "schedules that once showed something new"

// doSchedules executes the schedules of a corpus.
func (x *explorer) doSchedules(ctx context.Context, part *Part) error {
	for i, s := range x.unit.Schedules {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Size() == 0 && bySeed(s.Origin.Strategy) {
			x.playing = nil
			if _, err := x.seeded(ctx, s.Origin.Seed, len(x.unit.Schedules)); err != nil {
				return err
			}
			continue
		}
		x.account(Corpus, corpusScope)
		x.strategy.Complete = true
		x.playing, x.unit.playing = s, int(x.unit.First)+i+1
		if _, err := x.execute(ctx, sim.PlanOf(s), len(x.unit.Schedules)); err != nil {
			return err
		}
	}
	x.playing = nil
	x.completeSeeded()
	return x.keep(part)
}

// keep puts the failures of the unit into its part, with the histories of those that nothing else accounts for.
func (x *explorer) keep(part *Part) error {
	slices.SortFunc(x.unit.raws, func(a, b *raw) int { return compareFailures(&a.Failure, &b.Failure) })
	ways := map[string]int{}
	for i := range x.unit.Known {
		ways[x.unit.Known[i].Class]++
	}
	for _, r := range x.unit.raws {
		var body *history.Finding
		if ways[r.Class]++; ways[r.Class] <= MaxWays && !x.unit.known(r) {
			finding, err := x.body(r)
			if err != nil {
				return err
			}
			body, r.Kept = finding, true
		}
		part.addFailure(r.Failure, body)
	}
	return nil
}

// body makes a finding of a failure as it is, with a schedule that brings it about.
func (x *explorer) body(r *raw) (*history.Finding, error) {
	finding := &history.Finding{Signature: r.Signature, Strategy: r.Origin.Strategy, Seed: r.Origin.Seed,
		Execution: r.Origin.Execution, Run: r.run}
	if r.Schedule != nil {
		x.account(Corpus, corpusScope)
		finding.Schedule = withFullNames(x.world, r.Schedule)
		return finding, x.complete(finding)
	}
	x.accountOf(r.Origin.Strategy)
	recorded, err := x.again(Recording, finding.Seed)
	if errors.Is(err, errSkipped) {
		finding.Schedule = deviationsOf(r.run)
		finding.Schedule.Origin = schedule.Origin{Strategy: finding.Strategy, Seed: finding.Seed, Size: finding.Schedule.Size()}
		finding.Schedule.Expect = expectation(r.run)
		return finding, nil
	}
	if err == nil {
		err = Compare(r.run, recorded)
	}
	if err != nil {
		return nil, err
	}
	if err := x.pin(finding, recorded); err != nil {
		return nil, err
	}
	return finding, x.complete(finding)
}

// doShrink shrinks a finding.
func (x *explorer) doShrink(ctx context.Context, part *Part) error {
	origin := x.unit.Origin
	if origin == nil || !steered(origin.Strategy) || origin.Strategy == Corpus && len(x.unit.Schedules) != 1 {
		return errors.New("explore: a ShrinkUnit needs the origin of a run by seed, or that of a schedule together with the schedule")
	}
	finding := &history.Finding{Strategy: origin.Strategy, Seed: origin.Seed, Execution: origin.Execution}
	run := func() (*history.History, error) {
		x.accountOf(origin.Strategy)
		return x.again(Recording, origin.Seed)
	}
	if origin.Strategy == Corpus {
		s := withFullNames(x.world, x.unit.Schedules[0])
		finding.Schedule = s
		run = func() (*history.History, error) {
			x.account(Corpus, corpusScope)
			return x.run(Recording, sim.PlanOf(s))
		}
	}
	h, err := run()
	x.strategy.Complete = true
	switch {
	case errors.Is(err, errSkipped):
		part.addShrunk(Shrinkage{Origin: *origin}, nil)
		return nil
	case err != nil:
		return err
	case !h.Failed():
		return fmt.Errorf("explore: %s does not fail: shrink it with the code, the scenario and the options that it failed with", origin)
	}
	finding.Signature, finding.Run = Signature(h), h
	switch {
	case finding.Schedule == nil:
		err = x.shrinkRecorded(ctx, finding, h)
	case x.options.Shrink >= 0:
		err = x.shrinkFinding(ctx, finding)
	}
	if err == nil {
		err = x.complete(finding)
	}
	if err != nil {
		return err
	}
	part.addShrunk(Shrinkage{Origin: *origin, Kept: true}, finding)
	return nil
}
