package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// World is a scenario ready to run: its objects are in the store, and settled unless the scenario says otherwise. Runs
// start from it and leave it as it is.
type World struct {
	config   *Config
	snapshot *apiserver.Snapshot
	begin    time.Time // the virtual time at which runs begin
	settled  *history.History
	// longest is the most records a run has had so far: what the next one may need, too.
	longest   atomic.Int64
	baselines baselines
	masks     detect.Masks
}

// SettleError says that a scenario does not come to rest without faults, so that there is nothing to start runs from.
type SettleError struct {
	Name    string
	History *history.History
}

// Error implements error.
func (e *SettleError) Error() string {
	text := fmt.Sprintf("scenario %q does not settle: %s", e.Name, e.History.Reason)
	if e.History.Panic != "" {
		return text + ": " + strings.TrimSpace(e.History.Panic)
	}
	if event, n := e.History.Busiest(); n > 1 {
		text += fmt.Sprintf("; %s was committed %d times", event, n)
	}
	return text + "; mend the operator or the scenario, or set settle: false to start from its objects as written"
}

// ProgramError says that a program could not be started: its first start ended with an error before it had reconciled anything,
// though nothing disturbed the default order. It is the operator's set-up that failed, or asks for what the scenario does not
// have.
type ProgramError struct {
	Process string
	Err     error
}

// Error implements error.
func (e *ProgramError) Error() string {
	return fmt.Sprintf("process %q does not start: %v", e.Process, e.Err)
}

// Unwrap returns the cause.
func (e *ProgramError) Unwrap() error { return e.Err }

// NewWorld loads the objects of a scenario and lets them settle.
func NewWorld(config *Config) (*World, error) {
	if config.Kinds == nil {
		return nil, fmt.Errorf("scenario %q: Config.Kinds is nil: make a kinds table with apiserver.NewKinds", config.Name)
	}
	if config.Scheme != nil {
		whole := *config
		whole.Kinds = config.Kinds.WithTypes(config.Scheme)
		config = &whole
	}
	world := &World{config: config, begin: Epoch}
	server := apiserver.NewServer(config.Kinds, func() time.Time { return Epoch })
	if err := server.LoadAll(config.Given); err != nil {
		return nil, err
	}
	if err := config.addWebhooks(server); err != nil {
		return nil, err
	}
	world.snapshot = server.Snapshot()
	if config.Unsettled {
		return world, nil
	}
	settling := &run{world: world, plan: &Plan{}, settling: true}
	settled, err := settling.execute()
	if err != nil {
		return nil, fmt.Errorf("settling: %w", err)
	}
	if settled.Outcome != history.Terminal {
		return nil, &SettleError{Name: config.Name, History: settled}
	}
	world.settled = settled
	world.snapshot = settling.engine.server.Snapshot()
	world.begin = Epoch.Add(settled.End).Truncate(time.Second).Add(time.Second)
	return world, nil
}

// recordsHint returns how many records to make room for.
func (w *World) recordsHint() int { return int(max(64, w.longest.Load())) }

// Config returns what the world was made from. Its kinds table also has the kinds that only the scheme knows.
func (w *World) Config() *Config { return w.config }

// Settled returns the history of the scenario's settling, nil if it starts unsettled.
func (w *World) Settled() *history.History { return w.settled }

// Run executes the scenario once, under a plan, in a bubble of its own. The same plan gives the same history, with the
// same hash, on any machine. An error is the harness's or the program's set-up's, never a finding; see also [StuckError].
// Where a program ends before it has reconciled anything, the default order tells whether the set-up or the plan is to blame:
// it is executed besides.
func (w *World) Run(plan Plan) (*history.History, error) {
	r := &run{world: w, plan: &plan}
	if w.config.Detectors.NeedsBaseline() {
		r.baseline = w.Baseline(plan.Skip)
	}
	h, err := r.execute()
	if err == nil && r.engine.notStarted {
		_, err = (&run{world: w, plan: &Plan{}}).execute()
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// run is one execution.
type run struct {
	world    *World
	plan     *Plan
	settling bool
	basic    bool // the run is for a baseline: detectors do not judge it
	baseline *detect.Baseline
	engine   *engine
	failure  error
}

func (r *run) execute() (*history.History, error) {
	progress := &atomic.Int64{}
	err := bubble(progress, r.world.config.Limits.stuck(), func() { r.inBubble(progress) })
	if leak, ok := errors.AsType[*leakError](err); ok && r.failure == nil {
		err = nil
		r.engine.abandonTo(leak)
	}
	if err != nil {
		var stuck *StuckError
		if !errors.As(err, &stuck) && r.failure != nil {
			return nil, r.failure
		}
		return nil, err
	}
	if r.failure != nil {
		return nil, r.failure
	}
	h := r.engine.history
	if n := int64(len(h.Records)); n > r.world.longest.Load() {
		r.world.longest.Store(n)
	}
	return h, nil
}

// inBubble is the run, from its begin to the exit of its last goroutine.
func (r *run) inBubble(progress *atomic.Int64) {
	defer func() {
		// A panic on the engine's goroutine is ours, or a racer's. It must not take the whole process along.
		if value := recover(); value != nil {
			r.failure = fmt.Errorf("internal error: %v\n%s", value, debug.Stack())
		}
	}()
	time.Sleep(time.Until(r.world.begin)) // of virtual time, as all in a bubble
	seedGlobalRand()
	e := newEngine(r, progress)
	r.engine = e
	if r.failure = e.config.addWebhooks(e.server); r.failure != nil {
		return
	}
	if r.failure = e.prepareFaults(); r.failure != nil {
		return
	}
	e.begin()
	r.failure = e.loop()
	e.finish()
}

func newEngine(r *run, progress *atomic.Int64) *engine {
	config := r.world.config
	plan := config.CompletePlan(*r.plan)
	e := &engine{
		config: config, plan: &plan, progress: progress, settling: r.settling, of: r,
		start:   time.Now(), // virtual: this is within the bubble
		history: &history.History{Records: make([]history.Record, 0, r.world.recordsHint())},
		arrival: make(chan struct{}, 1),
		events:  make(map[schedule.Event]*eventState, 128),
		commits: map[int64]int{},
		states:  map[uint64]int{}, contents: map[apiserver.Object]uint64{}, gaps: map[string]bool{},
		last: -1,
	}
	e.holds, e.latencies, e.permutations = newHolds(e.plan), newLatencies(e.plan.Latencies), newPermutations(e.plan.Orders)
	if e.plan.Record {
		e.trace = &schedule.Trace{}
	}
	e.server = r.world.snapshot.NewServer(e.now)
	e.server.SetWebhookClient(e.callWebhook)
	e.hashed = e.server.Revision()
	e.monitor = config.Properties.NewMonitor(storeReader{config.Kinds, e.server})
	return e
}

// begin starts the properties, the processes and the racers.
func (e *engine) begin() {
	if !e.settling {
		e.monitor.Start(e.clock)
	}
	for i := range e.config.Processes {
		config := &e.config.Processes[i]
		e.launch(newProcess(e, config, config.Program), -1)
	}
	for i := range e.config.Racers {
		if racer := &e.config.Racers[i]; !racer.WithScript {
			e.startRacer(racer)
		}
	}
	if e.config.Unsettled || e.settling {
		e.beginScript()
	}
}

// beginScript starts the racers that tell the story. From here on strategies apply.
func (e *engine) beginScript() {
	e.scripted = true
	e.history.ScriptBegins = len(e.history.Records)
	if e.settling {
		return
	}
	e.quiet.commit(e.clock)
	e.disturbed(e.clock)
	e.beginFaults()
	for _, racer := range e.racers {
		if listener, ok := racer.racer.(ScriptListener); ok {
			listener.ScriptBegins()
		}
	}
	for i := range e.config.Racers {
		if racer := &e.config.Racers[i]; racer.WithScript {
			e.startRacer(racer)
		}
	}
}

// finish judges the run, and ends every goroutine of it.
func (e *engine) finish() {
	h := e.history
	e.collect() // those that parked in the last step are to be ended, too
	if !e.settling {
		if e.outcome == history.Terminal {
			e.monitor.Terminal(e.clock)
		}
		h.Verdicts = e.monitor.Verdicts()
	}
	h.Hash = e.hash.Sum()
	h.Outcome, h.Reason = e.outcome, e.reason
	h.Steps, h.End = e.steps, e.clock
	h.Gaps = e.touchedGaps()
	h.Webhooks = e.server.Webhooks()
	h.Passes = e.endedPasses()
	h.Constraints = e.constraintResults()
	h.Rules, h.Sites = e.ruleResults(), e.siteResults()
	h.Trace = e.trace
	e.deviations.tell(h)
	h.Unfinished = e.unfinished()
	if e.plan.State {
		h.State = e.of.world.masks.StateOf(e.server).Hash
	}
	e.detect()
	for _, p := range e.processes {
		if p.dead {
			e.died = true
		} else {
			p.kill()
		}
	}
	e.drain()
}

// detect has the detectors judge the run.
func (e *engine) detect() {
	h, world := e.history, e.of.world
	slices.SortStableFunc(h.Ends, func(a, b history.PassEnd) int { // passes may end side by side
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Thread, b.Thread))
	})
	switch {
	case e.settling:
	case e.of.basic:
		e.final = world.masks.StateOf(e.server)
	default:
		judged := &detect.Run{History: h, Settled: world.settled, Server: e.server, Story: map[string]bool{},
			Baseline: e.of.baseline, Masks: &world.masks}
		for i := range e.config.Racers {
			judged.Story[e.config.Racers[i].Name] = e.config.Racers[i].WithScript
		}
		h.Verdicts = append(h.Verdicts, e.config.Detectors.Judge(judged)...)
	}
}

// abandonTo takes what a run holds away from the goroutines that keep its engine in memory for ever, and notes that they do.
// Where a process has died they need no description, which would take longer with every run that leaves some: they wait for one
// that died in a call, as they would not in an operator that dies as a whole.
func (e *engine) abandonTo(leak *leakError) {
	if e.died {
		e.history.Unfinished = append(e.history.Unfinished, "goroutines that may wait for those of a process which died have not ended")
	} else {
		for _, g := range leak.goroutines() {
			e.history.Unfinished = append(e.history.Unfinished, history.LeakedGoroutine+g)
		}
	}
	if e.settling {
		return // its server is still needed, and there is one such run a world
	}
	e.server, e.monitor, e.events, e.contents = nil, nil, nil, nil
	e.informers, e.registrations, e.queues, e.ops, e.racers, e.timers = nil, nil, nil, nil, nil, nil
}

// drain lets virtual time go on until what user code still sleeps on has ended. Goroutines that make calls exit there;
// those that are still there after it are found, and named, when the bubble ends.
func (e *engine) drain() {
	e.settle()
	wait := func(d time.Duration) {
		time.Sleep(d)
		e.progress.Add(1) // a goroutine that ticks all that time makes this slow, but stuck it is not
		e.settle()
	}
	wait(time.Second)
	wait(time.Minute)
	for range 25 {
		wait(time.Hour)
	}
}

// touchedGaps returns what the run touched that is not modelled, sorted.
func (e *engine) touchedGaps() []string {
	for _, gap := range e.server.Gaps() {
		e.gaps[gap] = true
	}
	return slices.Sorted(maps.Keys(e.gaps))
}

// endedPasses counts the passes of every controller, over all starts of its process.
func (e *engine) endedPasses() []history.Passes {
	var all []history.Passes
	for _, p := range e.processes {
		for _, controller := range slices.Sorted(maps.Keys(p.ends)) {
			ended := *p.ends[controller]
			i := slices.IndexFunc(all, func(h history.Passes) bool { return h.Actor == p.name && h.Controller == controller })
			if i < 0 {
				all = append(all, ended)
				continue
			}
			all[i].Total += ended.Total
			all[i].Failed += ended.Failed
			all[i].LastError = cmp.Or(ended.LastError, all[i].LastError)
		}
	}
	return all
}

// unfinished describes passes that had not ended when the run did.
func (e *engine) unfinished() []string {
	var texts []string
	for _, p := range e.processes {
		if p.passes > 0 {
			texts = append(texts, fmt.Sprintf("%s is in the middle of a reconcile", p.name))
		}
		texts = append(texts, e.awaited(p)...)
		if p.exited != nil && p.dead && !slices.ContainsFunc(e.processes, p.precedes) {
			texts = append(texts, fmt.Sprintf("%s is in a crash loop: start %d ended with %v", p.name, p.incarnation, p.exited))
		}
	}
	for _, a := range e.racers {
		if script, ok := a.racer.(interface{ Finished() bool }); ok && !script.Finished() {
			texts = append(texts, fmt.Sprintf("the script of %s has steps left that nothing made due", a.config.Name))
		}
	}
	return texts
}

// storeReader lets properties read the server.
type storeReader struct {
	kinds  *apiserver.Kinds
	server *apiserver.Server
}

var _ property.Reader = storeReader{}

// Get implements property.Reader.
func (r storeReader) Get(kind, namespace, name string) apiserver.Object {
	if k := r.kinds.ByName(kind); k != nil {
		return r.server.Get(k, namespace, name)
	}
	return nil
}

// List implements property.Reader.
func (r storeReader) List(kind, namespace string, selector labels.Selector) []apiserver.Object {
	k := r.kinds.ByName(kind)
	if k == nil {
		return nil
	}
	var chosen []apiserver.Object
	for _, obj := range r.server.List(k, namespace) {
		if k.Matches(obj, selector, nil) {
			chosen = append(chosen, obj)
		}
	}
	return chosen
}
