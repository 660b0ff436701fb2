package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// maxGoroutines is how many goroutines a worker may have between runs before it is replaced.
const maxGoroutines = 5000

// worker does units, one after the other.
type worker struct {
	registry *scenarios.Registry
	box      *blackBox
	replies  *json.Encoder
	opened   map[int]*opened
	// now is the task that is being done, opening whether its subject is still being opened, and flight what runs.
	now     *task
	opening bool
	flight  *flight
	early   map[string]bool // signatures of findings that were passed on
	// broken is why a reply could not be written: the supervisor is gone.
	broken error
}

// opened is a subject that was opened.
type opened struct {
	session  *explore.Session
	scenario *scenarios.Scenario
	seen     []explore.Mark
}

// Work is the life of a worker: it does the tasks that it reads from standard input, and writes down in a black box what it is
// about to run. What operators print goes to stderr. It returns the exit code of the process.
func Work(registry *scenarios.Registry, box string) int {
	// The supervisor ends its workers; an interrupt that a terminal sends to all is not for them.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	replies, err := divertOutput()
	if err == nil {
		err = work(registry, box, os.Stdin, replies)
	}
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "worker: %v\n", err)
		return 1
	}
	return 0
}

// errStuck ends a worker whose run cannot be ended.
var errStuck = errors.New("a run is stuck: its goroutines cannot be stopped")

func work(registry *scenarios.Registry, name string, from io.Reader, to io.Writer) error {
	box, err := openBlackBox(name)
	if err != nil {
		return err
	}
	w := &worker{registry: registry, box: box, replies: json.NewEncoder(to), opened: map[int]*opened{}}
	for t := range tasks(from) {
		if err := w.do(t); err != nil {
			return err
		}
	}
	return nil
}

// tasks reads what is to be done. When there is no more, as the supervisor has ended, the worker ends at once: what it does then is
// for nobody.
func tasks(from io.Reader) <-chan *task {
	all := make(chan *task)
	go func() {
		decoder := json.NewDecoder(from)
		for {
			t := &task{}
			if err := decoder.Decode(t); err != nil {
				os.Exit(0)
			}
			all <- t
		}
	}()
	return all
}

// do does a task and replies. An error ends the worker.
func (w *worker) do(t *task) error {
	begun := cpuTime()
	w.now, w.flight, w.early = t, nil, map[string]bool{}
	part, err := w.unit(t)
	if w.broken != nil {
		return w.broken
	}
	if found, ok := errors.AsType[*sim.StuckError](err); ok { // the black box has the run
		r := reply{Stuck: &stuck{Goroutines: found.Goroutines, Stacks: found.Stacks, Timeout: found.Timeout}}
		return errors.Join(w.replies.Encode(r), errStuck)
	}
	if err := w.box.begin(nil); err != nil {
		return err
	}
	if err != nil {
		return w.replies.Encode(reply{Failed: failureOf(err)})
	}
	var bodies bytes.Buffer
	if err := reports.EncodeResult(&bodies, part.Bodies()); err != nil {
		return err
	}
	return w.replies.Encode(reply{Done: &done{
		Part: part, Bodies: bodies.Bytes(), CPU: cpuTime() - begun, Retire: runtime.NumGoroutine() > maxGoroutines,
	}})
}

// failureOf says whose failure an error is.
func failureOf(err error) *failure {
	kind := internal
	_, broken := errors.AsType[*scenarios.Error](err)
	_, settle := errors.AsType[*sim.SettleError](err)
	_, program := errors.AsType[*sim.ProgramError](err)
	_, apart := errors.AsType[*explore.NondeterminismError](err)
	switch {
	case broken || settle || program:
		kind = wrongScenario
	case apart:
		kind = nondeterministic
	}
	return &failure{Kind: kind, Text: err.Error()}
}

// unit does the unit of a task.
func (w *worker) unit(t *task) (*explore.Part, error) {
	of, err := w.open(t)
	if err != nil {
		return nil, err
	}
	of.seen = append(of.seen, t.Seen...)
	unit := t.Unit
	unit.Seen = of.seen
	for _, file := range t.Corpus {
		s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: w.registry})
		switch {
		case err != nil:
			w.say(reply{Skipped: &skippedFile{file, firstLine(err)}})
		case s.Scenario.Name != of.scenario.Name || s.Scenario.Entry != of.scenario.Entry:
			w.say(reply{Skipped: &skippedFile{file, "it is a schedule of another scenario"}})
		default:
			unit.Schedules = append(unit.Schedules, s.Spec)
		}
	}
	w.opening = false
	return of.session.Do(context.Background(), unit)
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// open opens the subject of a task, if it was not before.
func (w *worker) open(t *task) (*opened, error) {
	if of := w.opened[t.Target]; of != nil {
		return of, nil
	}
	w.opening = true
	scenario, config, err := t.Subject.load(w.registry)
	if err != nil {
		return nil, err
	}
	config.Limits.Stuck = t.Stuck
	options := explore.Options{Seed: t.Seed, ScriptSteps: scenario.Steps(), Clock: time.Now, Before: w.before, After: w.after}
	for _, file := range t.Subject.Schedules {
		s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: w.registry})
		if err != nil {
			return nil, err
		}
		options.Schedules = append(options.Schedules, s.Spec)
	}
	session, err := explore.Open(context.Background(), config, options)
	if err != nil {
		return nil, err
	}
	of := &opened{session: session, scenario: scenario}
	w.opened[t.Target] = of
	return of, nil
}

// before writes down what is about to run.
func (w *worker) before(e explore.Execution) error {
	w.flight = &flight{Opening: w.opening, Number: e.Number, Purpose: e.Purpose, Strategy: e.Strategy, Seed: e.Seed, Schedule: e.Schedule()}
	if w.now.Trace != 0 && w.now.Trace == e.Number && w.now.Opening == w.opening {
		if err := w.box.beginTrace(); err != nil {
			return err
		}
		e.Record(w.box.trace)
	}
	return w.box.begin(w.flight)
}

// maxEarly is how many findings of a unit are passed on before it has ended.
const maxEarly = 20

// after looks at what a run did: to the process, and to what must hold. An error is what the unit comes to.
func (w *worker) after(e explore.Execution, h *history.History, err error) {
	if err != nil || e.Purpose != explore.Exploring {
		return
	}
	if where := leaked(h); where != "" {
		f := *w.flight
		f.Schedule = w.played(h)
		w.say(reply{Leak: &incident{f, where}})
	}
	if !h.Failed() || w.opening || !w.now.Early {
		return
	}
	signature := explore.Signature(h)
	known := func(f explore.Failure) bool { return f.Signature == signature }
	if w.early[signature] || len(w.early) >= maxEarly || slices.ContainsFunc(w.now.Unit.Known, known) {
		return
	}
	w.early[signature] = true
	w.broken = errors.Join(w.broken, w.found(&history.Finding{
		Signature: signature, Strategy: e.Strategy, Seed: e.Seed, Execution: e.Number, Run: h, Schedule: w.played(h),
	}))
}

// played returns a schedule of what has just been run: for a run by seed, with what its strategy did.
func (w *worker) played(h *history.History) *schedule.Schedule {
	s := *w.flight.Schedule
	s.Constraints = slices.Concat(s.Constraints, h.Deviations)
	if len(s.Latencies) == 0 {
		s.Latencies = h.Lateness
	}
	for i := len(s.Faults); i < len(h.Faults); i++ {
		if h.Faults[i].Struck {
			s.Faults = append(slices.Clip(s.Faults), h.Faults[i].Fault)
		}
	}
	s.Origin.Size = s.Size()
	return &s
}

// leaked says which goroutines of the operator a run has left behind; empty for none.
func leaked(h *history.History) string {
	var texts []string
	for _, text := range h.Unfinished {
		if where, ok := strings.CutPrefix(text, history.LeakedGoroutine); ok {
			texts = append(texts, where)
		}
	}
	return strings.Join(texts, "; ")
}

// found passes a finding on at once.
func (w *worker) found(f *history.Finding) error {
	var content bytes.Buffer
	if err := reports.EncodeFinding(&content, f); err != nil {
		return err
	}
	w.say(reply{Finding: content.Bytes()})
	return nil
}

// say replies something that is not final.
func (w *worker) say(r reply) {
	if err := w.replies.Encode(r); err != nil && w.broken == nil {
		w.broken = err
	}
}
