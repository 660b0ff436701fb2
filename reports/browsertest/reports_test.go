package browsertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// explored explores a scenario file with the given reconciler, by sweeps alone.
func explored(t *testing.T, file, reconciler string) *history.Result {
	t.Helper()
	registry := &scenarios.Registry{}
	reference.Register(registry)
	loaded, err := scenarios.Load(filepath.Join("..", "..", "scenarios", file), scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	scenario := loaded.Entries()[0]
	overrides := map[string]string{"operator": reconciler}
	config, err := scenario.Config(registry, overrides)
	if err != nil {
		t.Fatal(err)
	}
	result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: -1, ScriptSteps: scenario.Steps()})
	if err != nil {
		t.Fatal(err)
	}
	result.Header = scenario.Header(config, overrides)
	result.Command = "stalemate run scenarios/" + file + " --reconciler operator=" + reconciler
	return result
}

// replayLine is the line that a report of a result is to have for a finding.
func replayLine(r *history.Result) func(*history.Finding) string {
	return func(f *history.Finding) string {
		return "stalemate replay findings/" + reports.ScheduleName(&r.Header, f.Schedule) + ".yaml"
	}
}

// written writes the report of a result to a file, and returns its name and size.
func written(t *testing.T, r *history.Result) (string, int) {
	t.Helper()
	var b bytes.Buffer
	if err := reports.HTML(&b, r, reports.HTMLOptions{Replay: replayLine(r)}); err != nil {
		t.Fatal(err)
	}
	size := b.Len()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, size
}

// hostile is what a name may be at the worst.
const hostile = `</script><script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">'"--><!--` + "`${window.pwned = 3}`"

// long returns the result of a made-up finding with so many steps: an operator and three racers write, and caches are told.
func long(steps int, name string) *history.Result {
	rule := &property.Definition{Name: name, Type: property.Always, Rule: "pod != null", Message: name}
	h := &history.History{Outcome: history.Terminal, Reason: name, Horizon: 10 * time.Minute}
	pods, last := map[int]*corev1.Pod{}, map[int]int{}
	revision := int64(10)
	for i := 0; len(h.Records) < steps; i++ {
		object := i % 40
		e := schedule.Event{Actor: fmt.Sprintf("racer-%d", i%3), Verb: schedule.Update, Kind: "Pod", Namespace: "default",
			Name: fmt.Sprintf("%s-%d", name, object), Occurrence: i + 1}
		r := history.Record{At: time.Duration(i) * 40 * time.Millisecond, Event: e, Code: 200, ReadsFrom: -1, Cause: -1}
		if i%4 == 0 {
			r.Event.Actor, r.Event.Incarnation, r.Event.Key, r.Attempt, r.Thread = "operator", 1, e.Namespace+"/"+e.Name, 1+i/400, 1+object
		}
		if i%7 == 0 {
			r.Code, r.Reason, r.Message = 409, "Conflict", "the object has been modified "+name
			h.Records = append(h.Records, r)
			continue
		}
		revision++
		r.Before = nil
		after := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: e.Name, ResourceVersion: fmt.Sprint(revision), Generation: int64(i),
			Annotations: map[string]string{"note": name, "at": fmt.Sprint(i)},
		}}
		if before := pods[object]; before != nil {
			r.Before = before
		}
		pods[object], last[object] = after, len(h.Records)
		r.After, r.Revision, r.Committed = after, revision, revision
		h.Records = append(h.Records, r)
		told := history.Record{At: r.At + 20*time.Millisecond, Event: e, ReadsFrom: -1, Cause: len(h.Records) - 1, After: after}
		told.Event.Actor, told.Event.Incarnation, told.Event.Verb = "operator", 1, schedule.Deliver
		h.Records = append(h.Records, told)
		h.Logs = append(h.Logs, history.Log{At: told.At, Actor: "operator", Record: len(h.Records) - 1, Message: "told of " + name})
	}
	h.Steps, h.End = len(h.Records), h.Records[len(h.Records)-1].At+h.Horizon
	at := len(h.Records) * 3 / 4
	h.Verdicts = []property.Verdict{{Property: rule, Status: property.Broken, Evaluations: 1, At: h.Records[at].At,
		Values: []property.Value{{Path: "pod", Value: name}}}}
	finding := history.Finding{Signature: name, Strategy: "sweep", Execution: 1, Run: h, Schedule: &schedule.Schedule{}}
	return &history.Result{
		Header:   history.Header{Scenario: name, Reconcilers: []string{"operator=" + name}, Racers: []string{"racer-1=" + name}},
		Command:  "stalemate run " + name,
		Findings: []history.Finding{finding},
		Coverage: history.Coverage{Executions: 1, Gaps: []string{name}, Notes: []string{name}},
	}
}
