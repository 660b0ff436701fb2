package fuzz

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/explore"
)

const (
	// unitsPerGeneration is how many units of seeds a generation has, whatever the number of workers. What the units of a generation
	// know of others is what there was when it began: so findings do not depend on who did what when.
	unitsPerGeneration = 16
	// seedsPerUnit is how many runs by seed a unit has at most, and minSeeds how many it has at least where there are so many.
	seedsPerUnit, minSeeds = 100, 5
	// looseFiles is how many files of units are kept before they are put together, and looseBytes how large they may be together.
	looseFiles, looseBytes = 64, 1 << 20
)

// plan says how far targets are explored.
type plan struct {
	seed int64
	// runs is the number of runs by seed for each target, all shards together; negative for no end.
	runs          int
	shard, shards int // from 1
}

// perUnit is the number of seeds of a unit: such that a few runs are work for several workers, too.
func (p *plan) perUnit() int {
	if p.runs < 0 {
		return seedsPerUnit
	}
	return min(max(p.own()/unitsPerGeneration, minSeeds), seedsPerUnit)
}

// own is the number of runs by seed of this shard.
func (p *plan) own() int { return (p.runs + p.shards - p.shard) / p.shards }

// units is the number of units of seeds.
func (p *plan) units() int {
	if p.runs < 0 {
		return math.MaxInt
	}
	return (p.own() + p.perUnit() - 1) / p.perUnit()
}

// unit returns the n-th unit of seeds.
func (p *plan) unit(n int) explore.Unit {
	first, size := n*p.perUnit(), p.perUnit()
	if p.runs >= 0 {
		size = min(size, p.own()-first)
	}
	return explore.Unit{
		Kind: explore.SeedUnit, First: p.seed + int64(first*p.shards) + int64(p.shard-1), Step: int64(p.shards), Count: size,
	}
}

// name names the campaign that follows the plan.
func (p *plan) name() string {
	runs := "on-and-on"
	if p.runs >= 0 {
		runs = fmt.Sprintf("%d-runs", p.runs)
	}
	return fmt.Sprintf("seed-%d-%s-shard-%d-of-%d", p.seed, runs, p.shard, p.shards)
}

// record is what is known of a target besides what its units came to.
type record struct {
	Deaths []*Death `json:"deaths,omitempty"`
	// GivenUp are units that came to nothing, with the reasons; Failed is why all of the target came to nothing.
	GivenUp map[string]string `json:"givenUp,omitempty"`
	Failed  *failure          `json:"failed,omitempty"`
	// Corpus are the schedules that there were when the campaign began, by the names of their files, and Skipped those that do not fit.
	Corpus  []string       `json:"corpus"`
	Skipped []*skippedFile `json:"skipped,omitempty"`
	// Killed counts the workers that something else killed.
	Killed int `json:"killed,omitempty"`
}

// ledger is how far one target is explored.
type ledger struct {
	*Target
	index int
	plan  *plan
	dir   string
	record
	done map[string]bool
	// base is what units came to, but for those of seeds of the present generation, of which current has the parts; cpu is what they took.
	base    *explore.Part
	current map[int]*explore.Part
	cpu     time.Duration
	// generation is the present one, known and seen what its units know: the first that many of marks.
	generation int
	known      []explore.Failure
	marks      []explore.Mark
	seen       int
	ends       map[explore.Mark]bool // the states of base that the corpus has been told of
	// loose are the files of units that wholeFile does not have; looseSize and wholeSize are their sizes, in bytes.
	loose                []string
	looseSize, wholeSize int64
	// given are the units that were given out and have not come to their end, again those of them whose worker has died, shrinks those
	// that wait.
	given   map[string]bool
	again   []*job
	shrinks []explore.Unit
	early   map[string]bool // signatures of findings that were written before their units ended
	closing bool            // no new runs
	dirty   bool            // there are findings whose files have not been written
	// findings is how many there were when they were last written, resumed how many executions there were before this session.
	findings, resumed int
}

// job is a unit that a worker is given.
type job struct {
	of     *ledger
	key    string
	rank   int
	unit   explore.Unit
	corpus []string
	// trace and opening name the execution that killed a worker before, which death is about; zero and nil for none.
	trace   int
	opening bool
	death   *Death
	// tries counts the workers that died of it, or in it.
	tries int
}

// The ranks of units: what comes first.
const (
	rankCorpus = iota
	rankSweeps
	rankSeeds
)

const (
	keySweeps, keyCorpus, keySeeds = "sweeps", "corpus", "seeds-"
	wholeFile, recordFile          = "whole.json", "target.json"
)

func seedsKey(n int) string { return fmt.Sprintf("%s%06d", keySeeds, n) }

// shrinkKey names a unit that shrinks.
func shrinkKey(u *explore.Unit) string {
	o := u.Origin
	return fmt.Sprintf("shrink-%s-%d-%d", strings.ReplaceAll(strings.ToLower(o.Strategy), " ", "-"), o.Seed, o.Execution)
}

// openLedger takes up what was done of a target.
func openLedger(t *Target, index int, p *plan, dir string, corpus []string) (*ledger, error) {
	l := &ledger{
		Target: t, index: index, plan: p, dir: filepath.Join(dir, t.Name+"-"+t.Digest), done: map[string]bool{}, base: &explore.Part{},
		current: map[int]*explore.Part{}, given: map[string]bool{}, early: map[string]bool{},
		ends: map[explore.Mark]bool{},
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	if err := l.takeUp(corpus); err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	l.turn()
	l.resumed = l.part().Tally.Executions
	return l, nil
}

// takeUp reads the record, or begins one. What was done of a target whose record cannot be used, as the machine went down while it was
// written, is done again.
func (l *ledger) takeUp(corpus []string) error {
	err := readJSON(filepath.Join(l.dir, recordFile), &l.record)
	if err == nil {
		err = l.check()
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.RemoveAll(l.dir), os.MkdirAll(l.dir, 0o755)); err != nil {
			return err
		}
	}
	l.record = record{Corpus: corpus}
	return l.write()
}

// write writes the record.
func (l *ledger) write() error { return writeJSON(filepath.Join(l.dir, recordFile), l.record) }

// load reads the parts of units. A file that cannot be read is that of a unit which is to be done again.
func (l *ledger) load() error {
	var whole saved
	if err := readJSON(filepath.Join(l.dir, wholeFile), &whole); err == nil && whole.Seeds >= 0 && whole.Seeds <= maxRuns {
		l.wholeSize = sizeOf(filepath.Join(l.dir, wholeFile))
		if part, err := whole.attach(); err == nil {
			l.base, l.cpu = part, whole.CPU
			for n := range whole.Seeds {
				l.done[seedsKey(n)] = true
			}
			for _, key := range whole.Keys {
				l.done[key] = true
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(l.dir, "unit-*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		key := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "unit-"), ".json")
		var s saved
		if err := readJSON(file, &s); err != nil || l.done[key] {
			_ = os.Remove(file) // it is in the whole, or is no use
			continue
		}
		part, err := s.attach()
		if err != nil {
			_ = os.Remove(file)
			continue
		}
		l.take(key, part, s.CPU)
		l.loosen(file)
	}
	return nil
}

// loosen takes note of a file of a unit.
func (l *ledger) loosen(file string) {
	l.loose = append(l.loose, file)
	l.looseSize += sizeOf(file)
}

// take puts what a unit came to with the rest.
func (l *ledger) take(key string, part *explore.Part, cpu time.Duration) {
	l.done[key] = true
	delete(l.given, key)
	l.cpu += cpu
	var n int
	if _, err := fmt.Sscanf(key, keySeeds+"%d", &n); err == nil {
		l.current[n] = part
		return
	}
	l.base = explore.Merge(l.base, part)
}

// finish takes what a unit came to, on disk first.
func (l *ledger) finish(j *job, d *done) error {
	s := saved{CPU: d.CPU, Part: d.Part, Bodies: d.Bodies}
	part, err := s.attach()
	if err != nil {
		return err
	}
	file := filepath.Join(l.dir, "unit-"+j.key+".json")
	if err := writeJSON(file, s); err != nil {
		return err
	}
	l.loosen(file)
	l.take(j.key, part, d.CPU)
	switch {
	case l.closing: // it was given out before, and its generation will not end
		l.close()
	case j.rank != rankSeeds: // a generation tells what there is to shrink of it when it ends
		l.shrinkPending()
	}
	l.turn()
	return nil
}

// turn begins the next generation if the present one has ended.
func (l *ledger) turn() {
	ended := false
	for l.generationDone() {
		for _, n := range slices.Sorted(maps.Keys(l.current)) {
			l.base = explore.Merge(l.base, l.current[n])
			delete(l.current, n)
		}
		l.generation++
		ended = true
	}
	if ended || l.known == nil {
		l.known = append([]explore.Failure{}, l.base.Known()...)
		l.see()
		l.shrinkPending()
	}
}

// see takes note of the marks that are new.
func (l *ledger) see() {
	known := make(map[explore.Mark]bool, len(l.marks))
	for _, m := range l.marks {
		known[m] = true
	}
	for _, m := range l.base.Seen() {
		if !known[m] {
			l.marks = append(l.marks, m)
		}
	}
	l.seen = len(l.marks)
}

// generationDone reports whether all units of the present generation are done, and there is a next one.
func (l *ledger) generationDone() bool {
	begin := l.generation * unitsPerGeneration
	if begin >= l.plan.units() || !l.settled() {
		return false
	}
	for n := begin; n < begin+unitsPerGeneration && n < l.plan.units(); n++ {
		if !l.over(seedsKey(n)) {
			return false
		}
	}
	return true
}

// over reports whether a unit has come to its end.
func (l *ledger) over(key string) bool { return l.done[key] || l.GivenUp[key] != "" }

// settled reports whether what comes before the second generation of seeds has come to its end: then it is the same each time what there
// is to shrink. An exploration for a time, which is never the same, does not wait for that.
func (l *ledger) settled() bool {
	return l.plan.runs < 0 || (!l.sweeps() || l.over(keySweeps)) && (l.Corpus == nil || l.over(keyCorpus))
}

// shrinkPending has all shrunk that is to be and is not.
func (l *ledger) shrinkPending() {
	l.shrinks = nil
	if !l.settled() && !l.closing {
		return
	}
	for _, unit := range l.base.Pending() {
		key := shrinkKey(&unit)
		if !l.over(key) && !l.given[key] {
			l.shrinks = append(l.shrinks, unit)
		}
	}
}

// close ends the exploration of the target: what has been found is still shrunk.
func (l *ledger) close() {
	l.closing = true
	for _, n := range slices.Sorted(maps.Keys(l.current)) {
		l.base = explore.Merge(l.base, l.current[n])
		delete(l.current, n)
	}
	l.shrinkPending()
}

// part returns what all units came to.
func (l *ledger) part() *explore.Part {
	parts := []*explore.Part{l.base}
	for _, n := range slices.Sorted(maps.Keys(l.current)) {
		parts = append(parts, l.current[n])
	}
	return explore.Merge(parts...)
}

// compact puts the files of units together when they are many, or take as much room as what was put together before: units of one
// generation do not know of each other, and so each has much that the others have, too.
func (l *ledger) compact() error {
	if len(l.loose) < looseFiles && l.looseSize < max(looseBytes, l.wholeSize) {
		return nil
	}
	return l.putTogether()
}

// putTogether puts the files of units together, unless some of a generation that has not ended are among them: what the others of it
// know must not depend on when they were interrupted. An exploration for a time is never the same.
func (l *ledger) putTogether() error {
	if len(l.loose) == 0 || len(l.current) > 0 || l.closing && l.plan.runs > 0 {
		return nil
	}
	s, err := newSaved(l.base)
	if err != nil {
		return err
	}
	s.CPU = l.cpu
	for l.done[seedsKey(s.Seeds)] {
		s.Seeds++
	}
	for _, key := range slices.Sorted(maps.Keys(l.done)) {
		var n int
		if _, err := fmt.Sscanf(key, keySeeds+"%d", &n); err != nil || n >= s.Seeds {
			s.Keys = append(s.Keys, key)
		}
	}
	whole := filepath.Join(l.dir, wholeFile)
	if err := writeJSON(whole, s); err != nil {
		return err
	}
	for _, file := range l.loose {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	l.loose, l.looseSize, l.wholeSize = nil, 0, sizeOf(whole)
	return nil
}

// next returns the next unit to give out, nil if there is none at present. If it is not taken, nothing has changed.
func (l *ledger) next() (j *job, take func()) {
	open := func(key string) bool { return !l.over(key) && !l.given[key] }
	switch {
	case l.Failed != nil:
		return nil, nil
	case len(l.again) > 0:
		return l.again[0], func() { l.again = l.again[1:] }
	case len(l.shrinks) > 0:
		unit := l.shrinks[0]
		return l.job(shrinkKey(&unit), rankSeeds, unit), func() { l.shrinks = l.shrinks[1:] }
	case l.closing:
		return nil, nil
	case l.Corpus != nil && open(keyCorpus):
		j := l.job(keyCorpus, rankCorpus, explore.Unit{Kind: explore.ScheduleUnit})
		j.corpus = l.Corpus
		return j, func() {}
	case l.sweeps() && open(keySweeps):
		return l.job(keySweeps, rankSweeps, explore.Unit{Kind: explore.SweepUnit}), func() {}
	}
	begin := l.generation * unitsPerGeneration
	for n := begin; n < begin+unitsPerGeneration && n < l.plan.units(); n++ {
		if open(seedsKey(n)) {
			unit := l.plan.unit(n)
			unit.Known = l.known
			return l.job(seedsKey(n), rankSeeds, unit), func() {}
		}
	}
	return nil, nil
}

// sweeps reports whether the target's sweeps are this shard's: they are shared out, too. Each shard looks for the built-in canary.
func (l *ledger) sweeps() bool { return l.File == "" || l.index%l.plan.shards == l.plan.shard-1 }

// job makes a unit ready to be given out.
func (l *ledger) job(key string, rank int, unit explore.Unit) *job {
	return &job{of: l, key: key, rank: rank, unit: unit}
}

// skip are the executions of a unit that are left out.
func (l *ledger) skip(key string) []int {
	var numbers []int
	for _, d := range l.Deaths {
		if d.Unit == key && !d.Opening && d.Skipped {
			numbers = append(numbers, d.Flight.Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// idle reports whether nothing of the target is left to do or being done.
func (l *ledger) idle() bool {
	j, _ := l.next()
	return j == nil && len(l.given) == 0
}

// before orders what is to be given out: by rank, and then by the time that targets have had, for fair shares.
func (j *job) before(other *job) bool {
	return cmp.Or(cmp.Compare(j.rank, other.rank), cmp.Compare(j.of.cpu, other.of.cpu), cmp.Compare(j.of.index, other.of.index)) < 0
}
