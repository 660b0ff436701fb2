package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Options say what to explore, and how.
type Options struct {
	// Dirs are the directories of scenarios.
	Dirs []string
	// Registry says what the names of reconcilers stand for, and which variants there are; with Reconcilers, which take the place of the
	// scenarios' own by the names of controllers, variants are left out.
	Registry    *scenarios.Registry `json:"-"`
	Reconcilers map[string]string
	// Seed is the first; there are Runs runs by seed of each target or, if it is negative, as many as there is time for: For, from
	// the start. Without a For there must be Runs.
	Seed int64
	Runs int
	For  time.Duration
	// Workers is the number of worker processes; zero means one for each core.
	Workers int
	// Corpus is the corpus directory, Out where findings are written to: a folder for each target.
	Corpus, Out string
	// Shard of Shards, from 1: the seeds and the sweeps are shared out. Zero of zero means one of one.
	Shard, Shards int
	// Stuck bounds the real time that a run may go without a step; 30 s if zero.
	Stuck time.Duration
	// Hang bounds the real time that a run may take, after which its process is killed; 4 times Stuck and 10 s if zero.
	Hang time.Duration
	// Memory bounds what a worker may take, in bytes; 2 GiB if zero.
	Memory int64
	// Worker is the command line that makes a process a worker, to which the name of its black box is added.
	Worker []string
	// Replay returns the command line that replays a file.
	Replay func(file string) string `json:"-"`
	// Status, if set, is told now and then how far it is.
	Status func(Status) `json:"-"`
	// Log is told what a person should know at once, a line each.
	Log func(string) `json:"-"`
}

// complete checks the options, and fills in what they leave open.
func (o *Options) complete() error {
	switch {
	case o.Shards == 0 && o.Shard == 0:
		o.Shard, o.Shards = 1, 1
	case o.Shard < 1 || o.Shard > o.Shards:
		return usagef("--shard %d/%d: want k/n with k from 1 to n", o.Shard, o.Shards)
	case o.Shards > maxShards:
		return usagef("--shard %d/%d: want %d shards at most", o.Shard, o.Shards, maxShards)
	case o.Runs > maxRuns:
		return usagef("--runs %d: want %d at most", o.Runs, maxRuns)
	case o.Seed > math.MaxInt64-maxRuns-maxShards:
		return usagef("--seed %d: the seeds of the runs after the first count on from it, and there are not enough above", o.Seed)
	}
	if o.Runs < 0 && o.For <= 0 {
		return usagef("give --for a time, or --runs a number of runs: without either there is no end")
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		return usagef("--workers %d: want 1 to %d", o.Workers, maxWorkers)
	}
	if o.Workers == 0 {
		o.Workers = runtime.NumCPU()
	}
	if o.Stuck == 0 {
		o.Stuck = 30 * time.Second
	}
	if o.Hang == 0 {
		o.Hang = 4*o.Stuck + 10*time.Second
	}
	if o.Memory == 0 {
		o.Memory = 2 << 30
	}
	return nil
}

const (
	// maxWorkers is more than any machine has use for.
	maxWorkers = 1024
	// maxShards and maxRuns are more than anybody has time for, and no sum of seeds overflows with them.
	maxShards, maxRuns = 100_000, 1_000_000_000
	// lookEvery is how often a worker at work is looked at.
	lookEvery = 50 * time.Millisecond
	// sessionQuantum is how much more than its fair share a target may have had, if a worker has it open that is to be given something.
	sessionQuantum = time.Second
	// maxTries is how many workers may die of one unit that each die elsewhere in it; maxDeaths how many of its executions may be left
	// out, and maxFirst how many of them from the first on; a hang counts for hangWeight.
	maxTries, maxDeaths, maxFirst, hangWeight = 40, 50, 5, 10
	// shrinkTime is how long shrinking may go on when the time is over, and endTime how long units that were begun may.
	shrinkTime, endTime = 2 * time.Minute, 20 * time.Second
)

// supervisor is an exploration at work.
type supervisor struct {
	Options
	campaign *campaign
	out      *os.File // the folder of findings, locked
	plan     plan
	catalog  *catalog
	begun    time.Time
	deadline time.Time // zero for none

	mutex   sync.Mutex
	changed *sync.Cond
	ledgers []*ledger
	ended   bool // nothing more is given out
	busy    int
	broken  error // what keeps the supervisor from going on
}

// Run explores. An interrupted exploration, by the end of the context, comes to what there is.
func Run(ctx context.Context, o Options) (*Night, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	catalog, err := collect(o.Dirs, o.Registry, o.Reconcilers)
	if err != nil {
		return nil, UsageError{err}
	}
	canary, err := builtIn()
	if err != nil {
		return nil, err
	}
	catalog.targets = append([]*Target{canary}, catalog.targets...)
	s := &supervisor{Options: o, catalog: catalog, plan: plan{o.Seed, o.Runs, o.Shard, o.Shards}, begun: time.Now()}
	s.changed = sync.NewCond(&s.mutex)
	defer s.close()
	if err := s.open(); err != nil {
		return nil, err
	}
	return s.explore(ctx)
}

// open opens the corpus, and takes up what was done.
func (s *supervisor) open() error {
	if err := openCorpus(s.Corpus); err != nil {
		return err
	}
	for _, dir := range []string{s.Out, filepath.Join(s.Out, knownFolder)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return usagef("--out: %w", err)
		}
	}
	var err error
	if s.out, err = lockFolder(s.Out); err != nil {
		return usagef("--out %s: %w", s.Out, err)
	}
	program, err := programDigest()
	if err != nil {
		return err
	}
	forgotten := false
	if s.campaign, forgotten, err = openCampaign(s.Corpus, s.plan.name(), program); err != nil {
		return err
	}
	if forgotten {
		s.log("the program has changed: the exploration begins anew; the corpus stays")
	}
	if left := s.For - s.campaign.Spent; s.For > 0 {
		if s.campaign.Spent > 0 {
			s.log(fmt.Sprintf("going on with an exploration that was interrupted: %s of %s are left", max(left, 0).Truncate(time.Second), s.For))
		}
		s.deadline = s.begun.Add(left)
	}
	for i, t := range s.catalog.targets {
		corpus, err := s.corpusOf(t)
		if err != nil {
			return err
		}
		p := s.plan
		if t.File == "" {
			p.runs = 0 // the sweeps find the built-in canary, or nothing does
		}
		l, err := openLedger(t, i, &p, filepath.Join(s.campaign.dir, "targets"), corpus)
		if err != nil {
			return fmt.Errorf("%s: %w", t.text(), err)
		}
		if err := s.keepNovel(l); err != nil { // what was done when a supervisor was killed
			return err
		}
		s.ledgers = append(s.ledgers, l)
	}
	return nil
}

// close lets others have the directories.
func (s *supervisor) close() {
	if s.campaign != nil && s.campaign.lock != nil {
		_ = s.campaign.close()
	}
	if s.out != nil {
		_ = s.out.Close()
	}
}

func (s *supervisor) log(text string) {
	if s.Log != nil {
		s.Log(text)
	}
}

// explore has the workers work until there is nothing left to do, the time is over, or the context ends.
func (s *supervisor) explore(ctx context.Context) (*Night, error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	stopClock := context.AfterFunc(working, func() { s.end() })
	defer stopClock()
	var workers sync.WaitGroup
	for n := range s.Workers {
		workers.Go(func() { s.slot(working, n) })
	}
	over := make(chan struct{})
	go func() {
		workers.Wait()
		close(over)
	}()
	s.watch(over, stop)
	if s.broken != nil {
		return nil, s.broken
	}
	finished := ctx.Err() == nil
	spent := s.campaign.Spent + time.Since(s.begun)
	if finished {
		spent = 0
	}
	if err := s.campaign.spend(spent); err != nil {
		return nil, err
	}
	for _, l := range s.ledgers {
		if err := errors.Join(s.keepNovel(l), l.putTogether()); err != nil {
			return nil, fmt.Errorf("%s: %w", l.text(), err)
		}
	}
	return s.night(finished)
}

// watch tells how far it is, and ends the exploration when its time is over: first no new runs are given out, then nothing is shrunk
// any more, and at last what was begun is ended.
func (s *supervisor) watch(over <-chan struct{}, stop func()) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	spent, noted := s.campaign.Spent, time.Now()
	closed, published := false, time.Now()
	for {
		select {
		case <-over:
			return
		case now := <-ticker.C:
			s.mutex.Lock()
			status := s.status(now)
			if !s.deadline.IsZero() && now.After(s.deadline) && !closed {
				closed = true
				for _, l := range s.ledgers {
					l.close()
				}
				s.changed.Broadcast()
			}
			if now.Sub(published) > publishEvery {
				published = now
				s.publishOne()
			}
			s.mutex.Unlock()
			if s.Status != nil {
				s.Status(status)
			}
			if now.Sub(noted) > 5*time.Second && s.For > 0 {
				noted = now
				_ = s.campaign.spend(spent + now.Sub(s.begun)) // for one that is killed; the worst is that it has more time
			}
			switch late := now.Sub(s.deadline); {
			case s.deadline.IsZero():
			case late > shrinkTime+endTime:
				stop()
			case late > shrinkTime:
				s.end()
			}
		}
	}
}

const (
	// statusEvery is how often the status is told.
	statusEvery = 100 * time.Millisecond
	// publishEvery is how often the files of a target are written anew that has new findings: those that are new are there at once, as
	// they were met.
	publishEvery = 500 * time.Millisecond
)

// publishOne writes the files of one target that has new findings: of what is not known to be broken first.
func (s *supervisor) publishOne() {
	var next *ledger
	for _, l := range s.ledgers {
		if l.dirty && (next == nil || l.Fails() && !next.Fails()) {
			next = l
		}
	}
	if next == nil {
		return
	}
	next.dirty = false
	if err := s.publish(next); err != nil {
		s.broken, s.ended = errors.Join(s.broken, err), true
		s.changed.Broadcast()
	}
}

// end gives nothing more out.
func (s *supervisor) end() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// fail ends the exploration for good.
func (s *supervisor) fail(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.broken = errors.Join(s.broken, err)
	s.ended = true
	s.changed.Broadcast()
}

// slot is one place for a worker: it gives one unit after the other to the worker that it has, and replaces that when it has died.
func (s *supervisor) slot(ctx context.Context, n int) {
	w := &slotWorker{supervisor: s, n: n}
	defer w.dismiss()
	for {
		j := s.choose(w)
		if j == nil {
			return
		}
		err := w.do(ctx, j)
		s.mutex.Lock()
		s.busy--
		s.changed.Broadcast()
		s.mutex.Unlock()
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// choose waits for a unit that can be given out. There is none if there will be none.
func (s *supervisor) choose(w *slotWorker) *job {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		if s.ended {
			return nil
		}
		var best *job
		var take func()
		for _, l := range s.ledgers {
			j, t := l.next()
			if j != nil && (best == nil || w.prefers(j, best)) {
				best, take = j, t
			}
		}
		if best != nil {
			take()
			best.of.given[best.key] = true
			s.busy++
			return best
		}
		if s.busy == 0 { // nobody can find anything new to do
			s.ended = true
			s.changed.Broadcast()
			return nil
		}
		s.changed.Wait()
	}
}

// slotWorker is the worker of a slot.
type slotWorker struct {
	*supervisor
	n       int
	process *process
	// told is, for each target that the process has open, how many marks it was told of.
	told map[int]int
}

// prefers reports whether one unit is given out before another one: one whose target the worker has open, if that is nearly as fair.
func (w *slotWorker) prefers(j, other *job) bool {
	_, mine := w.told[j.of.index]
	_, others := w.told[other.of.index]
	apart := (j.of.cpu - other.of.cpu).Abs()
	if j.rank == other.rank && mine != others && apart < sessionQuantum {
		return mine
	}
	return j.before(other)
}

// dismiss ends the worker.
func (w *slotWorker) dismiss() {
	if w.process != nil {
		w.process.dismiss()
		w.process = nil
	}
}

// box is the worker's black box.
func (w *slotWorker) box() string { return w.campaign.box(w.n) }

// start starts a worker.
func (w *slotWorker) start() error {
	for _, file := range []string{w.box(), choicesFile(w.box())} { // an old worker may still have them open
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	command := append(slices.Clone(w.Worker), w.box())
	process, err := startProcess(command, []string{"GOMAXPROCS=1", "GOTRACEBACK=single"})
	if err != nil {
		return err
	}
	w.process, w.told = process, map[int]int{}
	return nil
}

// do has the worker do a unit. An error is one of the supervisor's own: disks that are full, processes that cannot be started.
func (w *slotWorker) do(ctx context.Context, j *job) error {
	if w.process == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	l := j.of
	w.mutex.Lock()
	t := &task{Target: l.index, Subject: l.Subject, Seed: w.Seed, Unit: j.unit, Corpus: j.corpus, Trace: j.trace, Opening: j.opening,
		Stuck: w.Stuck, Early: l.Fails(), Seen: l.marks[w.told[l.index]:l.seen]}
	t.Unit.Skip = l.skip(j.key)
	w.told[l.index] = l.seen
	w.mutex.Unlock()
	w.process.give(t)
	return w.follow(ctx, j)
}

// follow listens to what the worker replies until the unit has come to something, or the worker has died.
func (w *slotWorker) follow(ctx context.Context, j *job) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var count int64
	since := time.Now()
	for {
		select {
		case r, ok := <-w.process.replies:
			if !ok {
				<-w.process.exited
				if err := w.process.broken; err != nil {
					w.process = nil
					_, err = w.replied(j, &reply{Failed: &failure{internal, fmt.Sprintf(
						"what its worker replied cannot be read: %v: see that the operator does not write to standard output", err)}})
					return err
				}
				return w.died(j, deathOf(w.process.state, w.process.output.String()))
			}
			if final, err := w.replied(j, &r); final || err != nil {
				return err
			}
		case now := <-ticker.C:
			if c := boxCount(w.box()); c != count {
				count, since = c, now
			}
			switch size := residentMemory(w.process.command.Process.Pid); {
			case size > w.Memory:
				w.process.quit()
				stacks := w.process.output.String()
				return w.died(j, &Death{Kind: Memory, Where: busyIn(stacks), Output: stacks})
			case now.Sub(since) > w.Hang:
				w.process.quit()
				stacks := w.process.output.String()
				return w.died(j, &Death{Kind: Hang, Where: busyIn(stacks), Output: stacks})
			}
		case <-ctx.Done():
			w.process.kill()
			w.process = nil
			return nil
		}
	}
}

// replied deals with a reply. It reports whether that was the last one.
func (w *slotWorker) replied(j *job, r *reply) (final bool, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	l := j.of
	switch {
	case r.Finding != nil:
		return false, w.writeEarly(l, r.Finding)
	case r.Skipped != nil:
		l.Skipped = append(l.Skipped, r.Skipped)
		return false, l.write()
	case r.Leak != nil:
		return false, w.leaked(j, r.Leak)
	case r.Failed != nil:
		l.Failed = r.Failed
		delete(l.given, j.key)
		w.log(fmt.Sprintf("%s: %s", l.text(), r.Failed.Text))
		return true, l.write()
	case r.Stuck != nil:
		w.mutex.Unlock()
		<-w.process.drained()
		err := w.died(j, hangOf(r.Stuck))
		w.mutex.Lock()
		return true, err
	case r.Done != nil:
		return true, w.done(j, r.Done)
	default:
		return true, errors.New("worker: a reply that says nothing")
	}
}

// done takes what a unit came to.
func (w *slotWorker) done(j *job, d *done) error {
	l := j.of
	if j.death != nil { // it did not come about again
		w.once(j)
		if err := l.write(); err != nil {
			return err
		}
	}
	if err := l.finish(j, d); err != nil {
		return fmt.Errorf("%s: %w", l.text(), err)
	}
	if d.Retire || residentMemory(w.process.command.Process.Pid) > w.Memory/2 { // before it costs a run
		process := w.process
		w.process = nil
		go process.dismiss()
	}
	if err := w.keepNovel(l); err != nil { // before what follows forgets the schedules
		return err
	}
	if err := l.compact(); err != nil {
		return fmt.Errorf("%s: %w", l.text(), err)
	}
	kept := func(f explore.Failure) bool { return f.Kept }
	if len(d.Part.Shrunk) > 0 || slices.ContainsFunc(d.Part.Failures, kept) { // others add to what was found
		l.dirty = true
	}
	return nil
}

// once takes note of a death that did not come about again when the execution was repeated: what a signal did is nothing that the
// operator did.
func (w *slotWorker) once(j *job) {
	death := j.death
	if death.Kind == Killed {
		j.of.Killed++
		return
	}
	w.keepDeath(j.of, death)
}

// leaked takes note of a run that left goroutines behind.
func (w *slotWorker) leaked(j *job, i *incident) error {
	d := &Death{Kind: Leak, Where: i.Where, Unit: j.key, Flight: i.Flight, Schedule: i.Flight.Schedule}
	known := w.knownDeath(j.of, d)
	if known != nil && compareDeaths(known, d) <= 0 {
		return nil
	}
	w.keepDeath(j.of, d)
	return j.of.write()
}

// died takes note of the death of the worker, and sees to it that the unit is done again: first with the choices of the execution on
// disk that killed it, to see whether it does that again; and then without that execution.
func (w *slotWorker) died(j *job, d *Death) error {
	w.process = nil
	w.mutex.Lock()
	defer w.mutex.Unlock()
	l := j.of
	f, err := readBlackBox(w.box())
	again := &job{of: l, key: j.key, rank: j.rank, unit: j.unit, corpus: j.corpus, tries: j.tries + 1}
	d.Unit = j.key
	switch {
	case err != nil || f == nil: // it died between two executions, or before the first
		d.Flight = flight{Opening: true}
		if again.tries >= maxFirst {
			return w.giveUp(l, j.key, fmt.Sprintf("%d workers died of it, between executions: %s", again.tries, d.Text()))
		}
		if d.Kind == Killed {
			l.Killed++
		}
		l.again = append(l.again, again)
		return l.write()
	default:
		d.Opening, d.Flight, d.Schedule = f.Opening, *f, f.Schedule
	}
	same := j.death != nil && j.opening == f.Opening && j.trace == f.Number
	if known := w.knownDeath(l, d); !same && (known == nil || d.Kind == Killed || compareDeaths(d, known) < 0) && f.Number > 0 {
		if again.tries >= maxTries {
			return w.giveUp(l, j.key, fmt.Sprintf("%d workers died of it, each elsewhere; the last time: %s", again.tries, d.Text()))
		}
		again.trace, again.opening, again.death = f.Number, f.Opening, d
		l.again = append(l.again, again)
		return nil
	}
	if same {
		d.Repeated = true
		if full := readTrace(w.box(), d.Schedule); full != nil && isBySeed(f.Strategy) {
			d.Schedule = full
		}
	}
	d.Skipped = true
	w.keepDeath(l, d)
	if f.Opening || f.Number == 0 {
		l.Failed = &failure{Kind: deadly, Text: d.Text() + " (" + d.origin() + ")"}
		delete(l.given, j.key)
		return l.write()
	}
	if why := hopeless(l, j.key); why != "" {
		return w.giveUp(l, j.key, why)
	}
	again.tries = 0
	l.again = append(l.again, again)
	return l.write()
}

// isBySeed reports whether the runs of a strategy take their choices from their seeds.
func isBySeed(strategy string) bool {
	return slices.Contains([]string{explore.PCT, explore.SelectivePCT, explore.LagPCT, explore.RandomWalk}, strategy)
}

// hopeless says why a unit is given up of which executions have killed workers; empty if it is not.
func hopeless(l *ledger, key string) string {
	skipped := l.skip(key)
	first := 0
	for first < len(skipped) && skipped[first] == first+1 {
		first++
	}
	weight := len(skipped)
	for _, d := range l.Deaths {
		if d.Unit == key && d.Skipped && d.Kind == Hang {
			weight += hangWeight - 1
		}
	}
	switch {
	case first >= maxFirst:
		return fmt.Sprintf("each of its first %d executions killed its worker", first)
	case weight >= maxDeaths:
		return fmt.Sprintf("%d of its executions killed their workers", len(skipped))
	default:
		return ""
	}
}

// giveUp ends a unit that comes to nothing.
func (w *slotWorker) giveUp(l *ledger, key, why string) error {
	if l.GivenUp == nil {
		l.GivenUp = map[string]string{}
	}
	l.GivenUp[key] = why
	delete(l.given, key)
	w.log(fmt.Sprintf("%s: %s is given up: %s", l.text(), key, why))
	if len(l.GivenUp) >= maxFirst {
		l.Failed = &failure{Kind: deadly, Text: fmt.Sprintf("%d units were given up, the last one as %s", len(l.GivenUp), why)}
	}
	l.turn()
	return l.write()
}

// knownDeath returns the finding that a death belongs to, nil if it is the first of its kind.
func (w *slotWorker) knownDeath(l *ledger, d *Death) *Death {
	var known *Death
	for _, other := range l.Deaths {
		if other.id() == d.id() && (known == nil || compareDeaths(other, known) < 0) {
			known = other
		}
	}
	return known
}

// keepDeath takes note of a death, and writes the file of the finding that it is.
func (w *slotWorker) keepDeath(l *ledger, d *Death) {
	same := func(other *Death) bool {
		return other.id() == d.id() && other.Unit == d.Unit && other.Opening == d.Opening && other.Flight.Number == d.Flight.Number
	}
	if i := slices.IndexFunc(l.Deaths, same); i >= 0 {
		l.Deaths[i] = d
	} else {
		l.Deaths = append(l.Deaths, d)
	}
	first := w.knownDeath(l, d)
	if first == d {
		w.log(fmt.Sprintf("%s: %s (%s)", l.text(), d.Text(), d.origin()))
	}
	for _, other := range l.Deaths {
		if other != first && other.id() == d.id() {
			other.forget()
		}
	}
	l.dirty = true
}

// writeEarly writes a finding whose unit has not ended.
func (w *slotWorker) writeEarly(l *ledger, content []byte) error {
	f, err := reports.DecodeFinding(bytes.NewReader(content))
	if err != nil {
		return err
	}
	if l.early[f.Signature] || l.File == "" {
		return nil
	}
	l.early[f.Signature] = true
	r := &history.Result{Header: l.header, Seed: w.Seed, Findings: []history.Finding{*f}}
	r.Coverage.Executions = f.Execution
	r.Coverage.Notes = []string{"this report was written as soon as it was found; what is found is shrunk later"}
	file := filepath.Join(w.folder(l), earlyPrefix+history.SignatureID(f.Signature)[:8]+".yaml")
	text, err := w.findingFile(l, r, 0, file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return reports.WriteFile(file, text)
}

// earlyPrefix begins the names of findings that may still be shrunk.
const earlyPrefix = "found-"

// findingFile returns the content of a file for a finding.
func (w *slotWorker) findingFile(l *ledger, r *history.Result, i int, file string) ([]byte, error) {
	var text strings.Builder
	replay := func(*history.Finding) string { return w.Replay(file) }
	if err := reports.Finding(&text, r, i, reports.Options{Width: reports.CommentWidth, Replay: replay}); err != nil {
		return nil, err
	}
	f := &r.Findings[i]
	s := f.Schedule
	if s == nil {
		s = &schedule.Schedule{Origin: schedule.Origin{Strategy: f.Strategy, Seed: f.Seed}}
	}
	content, err := l.scenario.EncodeSchedule(file, scenarios.ScheduleFile{
		Name: strings.TrimSuffix(filepath.Base(file), ".yaml"), Reconcilers: l.Reconcilers, Spec: s,
	})
	return append([]byte(reports.Comment(text.String())), content...), err
}
