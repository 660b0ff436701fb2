package reports

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var update = flag.Bool("update", os.Getenv("SIM_UPDATE") == "1", "rewrite the golden files")

// golden compares a text with a file in testdata, or rewrites the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update if that is meant); got:\n%s\nwant:\n%s", path, got, want)
	}
}

func render(t *testing.T, r *history.Result, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestUnfinished checks that a report from before the end of an exploration claims nothing that is only known then.
func TestUnfinished(t *testing.T) {
	r := found()
	r.Hash, r.Strategies, r.Coverage = 0, nil, history.Coverage{Notes: []string{"interrupted"}}
	got := render(t, r, Options{})
	if strings.Contains(got, "\nCOVERED") || strings.Contains(got, "history hash") || !strings.Contains(got, "- interrupted") {
		t.Errorf("the report says:\n%s", got)
	}
}

// passed is what the fix of the cascade comes to.
func passed() *history.Result {
	r := found()
	r.Reconcilers = []string{"operator=clickhouse/patch-a"}
	r.Command = "stalemate run scenarios/clickhouse/recreate.yaml --reconciler operator=clickhouse/patch-a --seed 1"
	r.Findings = nil
	r.Strategies[1].Findings = 0
	for i := range r.Coverage.Properties {
		p := &r.Coverage.Properties[i]
		p.Held, p.Broken = p.Held+p.Broken, 0
	}
	return r
}

func vacuous() *history.Result {
	r := passed()
	r.Coverage.Properties[2].Held = 0
	r.Strategies[1] = history.StrategyResult{Name: "sweep", Executions: 12, Candidates: 86, Scope: sweepScope}
	return r
}

func inconclusive() *history.Result {
	r := passed()
	r.Coverage.Executions, r.Coverage.Inconclusive = 1, 1
	r.Strategies = []history.StrategyResult{{Name: "default order", Executions: 1, Inconclusive: 1}}
	r.Default.Outcome, r.Default.Reason = history.Livelock, "limit of 5000 steps, the last 400 in a circle"
	for i := range r.Coverage.Properties {
		r.Coverage.Properties[i] = history.PropertyCoverage{Property: r.Coverage.Properties[i].Property}
	}
	return r
}

func invalid() *history.Result {
	r := found()
	r.Coverage.Properties[0].Invalid, r.Coverage.Properties[0].Error = 1, "no such key: replicas"
	return r
}

func diverged() *history.Result {
	r := passed()
	r.Diverged = "step 41: operator Create Pod default/x #1, the second time operator Create Pod default/y #1"
	return r
}

// overwritten is a finding of a random walk: no constraints, an unconditional write over another actor's, a panic.
func overwritten() *history.Result {
	t := newTape()
	t.attempt = 2
	one := statefulSet("7", 1, appsv1.StatefulSetStatus{})
	three := statefulSet("8", 3, appsv1.StatefulSetStatus{})
	get := t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", read(one, 7))
	t.step("user", schedule.Patch, "StatefulSet", "chi-a-0-0", "", write(one, three, 8))
	t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		write(three, one, 9)(r)
		r.ReadsFrom = get
	})
	t.step("user", schedule.Create, "ConfigMap", "c", "", func(r *history.Record) {
		r.Event.Namespace, r.Code, r.Committed = "other", 201, 10
	})
	t.Outcome, t.Reason = history.Panicked, "operator panicked in a reconcile of default/a"
	t.Panic = "runtime error: index out of range [0] with length 0\n\n" +
		"goroutine 7 [running]:\nmain.(*Reconciler).Reconcile(...)\n\t/src/main.go:42\n"
	t.Faults = []history.FaultResult{{Fault: schedule.Fault{Type: schedule.ServiceUnavailable, At: schedule.Event{
		Actor: "user", Verb: schedule.Patch, Kind: "Pod", Namespace: "default", Name: "x", Occurrence: 1}}, Struck: true, Record: -1}}
	t.Unfinished = []string{"operator sleeps in a reconcile of default/b"}
	r := found()
	r.Default = endsWell()
	r.Findings = []history.Finding{
		{Strategy: "random walk", Seed: 7, Execution: 90, Elapsed: 3 * time.Second, Run: t.end()},
		r.Findings[0],
	}
	return r
}

// failing is an exploration that broke nothing, for one of the operator's controllers never got anything done.
func failing() *history.Result {
	r := passed()
	r.Strategies[1] = history.StrategyResult{Name: "sweep", Complete: true, Scope: sweepScope}
	r.Default.Problems = []string{"user: Create of Pod default/p: 422 Invalid: spec.containers: Required value"}
	r.Default.Unfinished = []string{"the script of user has steps left that nothing made due"}
	r.Default.Passes = []history.Passes{
		{Actor: "operator", Controller: "config-sync", Total: 21, Failed: 21, LastError: "no kind is registered for Widget"},
		{Actor: "operator", Controller: "widget", Total: 20, Failed: 10, LastError: "conflict"},
		{Actor: "operator", Controller: "pods", Total: 20, Failed: 1, LastError: "conflict"},
	}
	return r
}

// healed is a state that must never be: it is there for a moment, then all goes on for long. A second run breaks the same.
func healed() *history.Result {
	down := &property.Definition{Name: "never-down", Type: property.Always, Rule: "sts.spec.replicas > 0", Message: "sts.spec.replicas > 0"}
	tape := func(replicas int32) *history.History {
		t := newTape()
		t.attempt = 1
		one, zero := statefulSet("7", 1, appsv1.StatefulSetStatus{}), statefulSet("8", replicas, appsv1.StatefulSetStatus{})
		t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", read(one, 7))
		t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", write(one, zero, 8))
		at := t.now
		t.step("kcm", schedule.Create, "Pod", "", "", func(r *history.Record) {
			r.Code, r.After, r.Committed = 201, object(map[string]any{"metadata": map[string]any{"name": "chi-x7k2p"}}), 9
		})
		t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", write(zero, one, 10))
		for i := range 9 {
			t.attempt++
			t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", read(one, 10))
			t.log(-1, "Reconciler error", "err=busy")
			t.log(-1, "Reconciler error", "err=busy")
			t.step("operator", schedule.Patch, "Widget", "w", "status", write(nil, nil, int64(11+i)))
			t.step("user", schedule.Patch, "Widget", fmt.Sprintf("w-%d", i), "", write(nil, nil, int64(30+i)))
		}
		h := t.end()
		h.Horizon = h.End - 10*time.Millisecond
		h.Verdicts = []property.Verdict{{Property: down, Status: property.Broken, Evaluations: 2, At: at, Values: []property.Value{
			{Path: "sts.spec.replicas", Value: fmt.Sprint(replicas)}, {Path: "sts", Value: "StatefulSet default/chi-a-0-0"}}}}
		return h
	}
	r := found()
	r.Findings = []history.Finding{
		{Strategy: "random walk", Seed: 7, Execution: 90, Elapsed: time.Second, Run: tape(0)},
		{Strategy: "random walk", Seed: 9, Execution: 92, Elapsed: time.Second, Run: tape(-1)},
	}
	r.Default.Problems = []string{"user: Create of Pod default/p: 409 AlreadyExists"}
	return r
}

// late is a run in which a step was held in vain, so that another controller's write went through before it.
func late() *history.Result {
	run := func(hold time.Duration) *history.History {
		t := newTape()
		t.attempt = 1
		t.step("user", schedule.Create, "Widget", "w", "", write(nil, nil, 8))
		if hold > 0 {
			t.step("operator", schedule.Update, "ConfigMap", "shop-config", "", write(nil, nil, 9))
			t.step("kubelet", schedule.Update, "Lease", "node", "", write(nil, nil, 10))
			t.step("kcm", schedule.Create, "Pod", "p", "", write(nil, nil, 11))
		}
		t.now += hold
		t.step("gc", schedule.Get, "ConfigMap", "shop-config", "", read(nil, 9))
		t.step("gc", schedule.Delete, "ConfigMap", "shop-config", "", write(nil, nil, 12))
		return t.end()
	}
	h := run(2 * time.Minute)
	never := schedule.Event{Actor: "operator", Controller: "config-sync", Incarnation: 1, Verb: schedule.Create, Kind: "ConfigMap",
		Namespace: "default", Name: "shop-config", Key: "default/a", Occurrence: 1}
	h.Constraints = []history.ConstraintResult{
		{Constraint: schedule.Constraint{Event: h.Records[4].Event, Waits: never}, Held: true}}
	h.Verdicts = []property.Verdict{{Status: property.Broken, At: h.End, Property: &property.Definition{
		Name: "config-stays", Type: property.Eventually, Within: time.Minute, Rule: "cm != null"}, Note: "it does not hold in the end"}}
	r := found()
	r.Default = run(0)
	r.Findings = []history.Finding{{Strategy: "sweep", Execution: 12, Elapsed: time.Second, Run: h}}
	return r
}

var results = map[string]func() *history.Result{
	"found": found, "passed": passed, "vacuous": vacuous, "inconclusive": inconclusive, "invalid": invalid,
	"diverged": diverged, "overwritten": overwritten, "failing": failing, "healed": healed, "late": late,
	"crashed": crashed,
}

func TestTextGolden(t *testing.T) {
	for name, result := range results {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", render(t, result(), Options{Findings: 1}))
		})
	}
}

func TestTextIsDeterministic(t *testing.T) {
	for name, result := range results {
		if first, second := render(t, result(), Options{}), render(t, result(), Options{}); first != second {
			t.Errorf("%s: two reports of equal results differ:\n%s\n%s", name, first, second)
		}
	}
}

// TestCascadeIsTold checks that what the reader looks for stands on one line each, whatever the layout.
func TestCascadeIsTold(t *testing.T) {
	got := render(t, found(), Options{})
	for _, want := range []string{
		"The status write to StatefulSet chi-a-0-0 by kcm (StatefulSetController) came between",
		"No fault was injected", "Under the default order alone the scenario ends well", "execution 17 of 100, after 412ms",
		"switch from Update to Recreate", "doDeleteStatefulSet", "UNABLE to update", "already exists", "Got recreate action. Ignore",
		"reconcile completed successfully", "Update StatefulSet chi-a-0-0 → 409 Conflict", found().Command,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"a detail nobody needs", "Starting workers", "reconcileID", "Deliver", "resourceVersion:"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("the report has %q:\n%s", unwanted, got)
		}
	}
}

// TestRepeatedPasses checks that passes which alternate without an end are told once, and that nothing else is left out.
func TestRepeatedPasses(t *testing.T) {
	tape := newTape()
	for i := range 20 {
		tape.attempt++
		get := tape.step("operator", schedule.Get, "Widget", "w", "", nil)
		if i%2 == 0 {
			tape.step("operator", schedule.Update, "Widget", "w", "status", nil)
			tape.log(-1, "Reconciler error", fmt.Sprintf("reconcileID=%d", get))
		}
	}
	tape.attempt++
	tape.step("operator", schedule.Delete, "Widget", "w", "", nil)
	var got []string
	for _, r := range newTimeline(tape.end(), []string{"operator"}, nil).rows {
		got = append(got, r.words())
	}
	want := []string{
		"reconcile default/a, pass 1", "Get Widget w → 200", "Update Widget/status w → 200, no change", "» Reconciler error",
		"reconcile default/a, pass 2", "Get Widget w → 200", "the last 2 passes again, 9 more times until 0.030s",
		"reconcile default/a, pass 21", "Delete Widget w → 200, no change", "end: quiet for 10m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}

// TestTwoControllers checks that an actor's controllers are told apart, and that a pass begins only once.
func TestTwoControllers(t *testing.T) {
	tape := newTape()
	tape.attempt = 1
	in := func(controller string) func(*history.Record) {
		return func(r *history.Record) { r.Event.Controller = controller }
	}
	get := tape.step("operator", schedule.Get, "Widget", "w", "", in("widget"))
	patch := tape.step("operator", schedule.Patch, "Widget", "w", "", in("config-sync"))
	tape.step("operator", schedule.Update, "Widget", "w", "", in("widget"))
	h := tape.end()
	var got []string
	for _, r := range newTimeline(h, []string{"operator"}, nil).rows {
		got = append(got, r.words())
	}
	want := []string{
		"widget: reconcile default/a, pass 1", "Get Widget w → 200",
		"config-sync: reconcile default/a, pass 1", "Patch Widget w → 200, no change",
		"widget: reconcile default/a, pass 1 goes on", "Update Widget w → 200, no change", "end: quiet for 10m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
	h.Constraints = []history.ConstraintResult{
		{Constraint: schedule.Constraint{Event: h.Records[patch].Event, Waits: h.Records[get].Event}, Matched: true}}
	d := decider{run: h, actors: actors{"operator": "widgets"}}
	const words = "The Get of Widget default/w by operator/widget (widgets) came before the Patch of Widget default/w by " +
		"operator/config-sync (widgets), which waited for it."
	if got := d.decisions(); len(got) != 1 || got[0].words != words {
		t.Errorf("decisions are %v, want %q", got, words)
	}
}

// TestWarnings checks that what was wrong with the scenario is said first, in every kind of report.
func TestWarnings(t *testing.T) {
	for name, result := range results {
		r := result()
		if r.Default == nil {
			continue
		}
		r.Default.Problems, r.Default.Unfinished = []string{"user: refused"}, []string{"operator sleeps"}
		got := render(t, r, Options{})
		for _, want := range []string{
			"  ! The script went wrong: user: refused\n", "  ! Not finished at the end of the default order: operator sleeps\n",
		} {
			if at := strings.Index(got, want); at < 0 || at > strings.Index(got, "\n\n") {
				t.Errorf("%s: the report does not begin with %q:\n%s", name, want, got)
			}
		}
	}
}

// TestBrief checks that a further finding of the same property is told by what differs, but in full in a file of its own.
func TestBrief(t *testing.T) {
	got := render(t, healed(), Options{})
	second := got[strings.Index(got, "FINDING 2 OF 2"):strings.Index(got, "\nCOVERED")]
	for _, unwanted := range []string{"TIMELINE", "rule  ", "sts = "} {
		if strings.Contains(second, unwanted) {
			t.Errorf("the second finding has %q:\n%s", unwanted, second)
		}
	}
	if !strings.Contains(second, "sts.spec.replicas = -1") || !strings.Contains(second, "WHAT DECIDES") {
		t.Errorf("the second finding lacks what differs or what decides:\n%s", second)
	}
	r := healed()
	r.Findings = append(r.Findings, found().Findings...) // of other properties
	if got := render(t, r, Options{}); strings.Count(got, "\nTIMELINE") != 2 {
		t.Errorf("a finding of another property is not told in full:\n%s", got)
	}
	var b bytes.Buffer
	if err := Finding(&b, healed(), 1, Options{}); err != nil || !strings.Contains(b.String(), "TIMELINE") {
		t.Errorf("the file of the second finding (error %v):\n%s", err, b.String())
	}
}

func TestColorAddsNothingButColor(t *testing.T) {
	colored := render(t, found(), Options{Color: true})
	if !strings.Contains(colored, string(alarm)) {
		t.Fatal("a coloured report has no colour")
	}
	stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored, "")
	trim := regexp.MustCompile(`(?m) +$`)
	if got, want := trim.ReplaceAllString(stripped, ""), render(t, found(), Options{}); got != want {
		t.Errorf("without its colours the report differs:\n%s\nwant:\n%s", got, want)
	}
}

// TestWidth checks that words keep to the width; names, commands and diffs may run over.
func TestWidth(t *testing.T) {
	for _, width := range []int{80, 100, 160} {
		text := render(t, found(), Options{Width: width})
		timeline := text[strings.Index(text, "TIMELINE"):strings.Index(text, "OBJECTS")]
		for line := range strings.Lines(timeline) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: line of %d characters: %s", width, n, line)
			}
		}
	}
}

// TestLongNameInColumn checks that a field name longer than its column is broken, so that every line keeps the lines of the actors
// to its left.
func TestLongNameInColumn(t *testing.T) {
	const field = "status.conditions[example.com/SomethingWithAVeryLongName].lastTransitionTime"
	line := timeline{actors: []string{"operator", "kcm", "kubelet"}, rows: []row{
		{at: time.Second, actor: "kubelet", text: "Patch Pod/status web-0", detail: field + ` "a" → "b"`},
	}}
	p := &page{width: 80}
	line.print(p)
	lines := strings.Split(strings.TrimSpace(p.String()), "\n")
	told := ""
	for _, text := range lines[1:] {
		before, after, _ := strings.Cut(text, "│")
		if n := utf8.RuneCountInString(text); n > 80 || utf8.RuneCountInString(before) != line.left || !strings.Contains(after, "│") {
			t.Errorf("line of %d characters, or without the lines of operator and kcm: %s", n, text)
		}
		told += strings.TrimLeft(after, "│ ")
	}
	if !strings.Contains(told, field) {
		t.Errorf("the name is not whole:\n%s", p.String())
	}
}

func TestFindingStandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := Finding(&b, overwritten(), 1, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "FINDING 2 OF 2") || strings.Contains(got, "FINDING 1 OF 2") {
		t.Errorf("the report is not that of finding 2 alone:\n%s", got)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTextReportsWriteErrors(t *testing.T) {
	if err := Text(brokenWriter{}, found(), Options{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Text to a broken writer: %v", err)
	}
}

func TestJudge(t *testing.T) {
	want := map[string]Verdict{
		"found": Broken, "passed": Passed, "vacuous": Passed, "inconclusive": Inconclusive, "invalid": InvalidProperty,
		"diverged": Nondeterministic, "overwritten": Broken, "failing": Inconclusive, "healed": Broken, "late": Broken,
		"crashed": Broken,
	}
	for name, result := range results {
		if got := Judge(result()); got != want[name] {
			t.Errorf("Judge(%s) = %s, want %s", name, got, want[name])
		}
	}
	if got := Judge(&history.Result{}); got != Inconclusive {
		t.Errorf("Judge of nothing = %s, want %s", got, Inconclusive)
	}
}

// TestJudgeDefaultOrder checks that nothing passes on a default order that did not get anywhere, but that findings count.
func TestJudgeDefaultOrder(t *testing.T) {
	failed := func(failed ...int) []history.Passes {
		var all []history.Passes
		for i, n := range failed {
			all = append(all, history.Passes{Actor: "operator", Controller: fmt.Sprint(i), Total: 2, Failed: n})
		}
		return all
	}
	tests := []struct {
		name string
		run  history.History
		want Verdict
	}{
		{"at rest", history.History{Outcome: history.Terminal}, Passed},
		{"livelock", history.History{Outcome: history.Livelock}, Inconclusive},
		{"limit", history.History{Outcome: history.Inconclusive}, Inconclusive},
		{"some passes failed", history.History{Outcome: history.Terminal, Passes: failed(1, 0)}, Passed},
		{"all passes of one failed", history.History{Outcome: history.Terminal, Passes: failed(0, 2)}, Inconclusive},
		{"no passes", history.History{Outcome: history.Terminal, Passes: []history.Passes{{Actor: "operator"}}}, Passed},
	}
	for _, test := range tests {
		r := passed()
		r.Default = &test.run
		if got := Judge(r); got != test.want {
			t.Errorf("%s: the verdict is %s, want %s", test.name, got, test.want)
		}
		r.Findings = found().Findings
		if got := Judge(r); got != Broken {
			t.Errorf("%s, with a finding: the verdict is %s, want %s", test.name, got, Broken)
		}
	}
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000s", 12*time.Millisecond + 345: "0.012s", 59*time.Second + 999*time.Millisecond + 999999: "59.999s",
		5*time.Minute + 20*time.Second + 14*time.Millisecond: "5m20.014s", 26*time.Hour + 3*time.Second: "26h00m03.000s",
	} {
		if got := clock(d); got != want {
			t.Errorf("clock(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 340 * time.Millisecond: "340ms", 1234 * time.Millisecond: "1.2s", 10 * time.Minute: "10m", 90 * time.Second: "1m30s",
		2 * time.Hour: "2h", 2*time.Hour + 10*time.Minute: "2h10m", time.Hour + 5*time.Second: "1h0m5s", 20 * time.Second: "20s",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		rule, variable string
		want           bool
	}{
		{"sts.spec.replicas > 0", "sts", true},
		{"chi.?status.sts == 1", "sts", false},
		{"pods.all(p, p.sts == sts)", "sts", true},
		{"stsOld != null", "sts", false},
		{"chi.?sts.orValue(0) == 1", "sts", false},
	} {
		if got := mentions(c.rule, c.variable); got != c.want {
			t.Errorf("mentions(%q, %q) = %t", c.rule, c.variable, got)
		}
	}
}

func TestConstraintWithoutRead(t *testing.T) {
	tape := newTape()
	create := tape.step("user", schedule.Create, "Pod", "p", "", nil)
	list := tape.step("operator", schedule.List, "Pod", "", "", nil)
	h := tape.end()
	h.Constraints = []history.ConstraintResult{
		{Constraint: schedule.Constraint{Event: h.Records[list].Event, Waits: h.Records[create].Event}, Matched: true},
		{Constraint: schedule.Constraint{Event: h.Records[create].Event}},
	}
	d := decider{run: h, actors: actors{"user": "UserScript"}}
	got := d.decisions()
	want := "The Create of Pod default/p by user (UserScript) came before the List of Pod by operator, which waited for it."
	if len(got) != 1 || got[0].words != want {
		t.Errorf("decisions = %v, want %q", got, want)
	}
}

// TestHeldEitherWay checks that it is told in the same words whether the write was held until after the read, or the
// operator until after the write.
func TestHeldEitherWay(t *testing.T) {
	h := cascade()
	d := decider{run: h, actors: newActors(found())}
	want := d.decisions()[0].words
	step, write := find(h, h.Constraints[0].Event), find(h, h.Constraints[0].Event)+1
	h.Constraints[0].Constraint = schedule.Constraint{Event: h.Records[write].Event, Waits: h.Records[step].Event}
	if got := d.decisions()[0].words; got != want || !strings.Contains(got, "came between operator's Get and Update") {
		t.Errorf("told as %q and as %q", want, got)
	}
}

// TestObjects checks list variables: they bind by label, and objects that no rule is about stay out.
func TestObjectsOfList(t *testing.T) {
	tape := newTape()
	tape.step("kcm", schedule.Update, "StatefulSet", "chi-a-0-0", "", write(
		statefulSet("1", 1, appsv1.StatefulSetStatus{}), statefulSet("2", 0, appsv1.StatefulSetStatus{}), 2))
	tape.step("kcm", schedule.Delete, "StatefulSet", "other", "", nil)
	h := tape.end()
	const rule = "sets.size() == 1"
	bind := func(version string) []property.Variable {
		labels := map[string]string{"clickhouse.altinity.com/object-version": version}
		return []property.Variable{{Name: "sets", Kind: "StatefulSet", Labels: labels}}
	}
	got := objectsOf(h, bind("old"), rule, h.End)
	if len(got) != 1 || got[0].name != "StatefulSet chi-a-0-0" {
		t.Fatalf("objectsOf = %v, want the set that has the label", got)
	}
	if lines := strings.Join(objectDiff(got[0]), "\n"); !strings.Contains(lines, "-  replicas: 1\n+  replicas: 0") {
		t.Errorf("the diff does not show the change of replicas:\n%s", lines)
	}
	if got := objectsOf(h, bind("new"), rule, h.End); len(got) != 0 {
		t.Errorf("objectsOf = %v, want none with another label", got)
	}
}

func ExampleJudge() {
	r := &history.Result{Coverage: history.Coverage{Executions: 3}}
	fmt.Println(Judge(r))
	// Output: passed
}
