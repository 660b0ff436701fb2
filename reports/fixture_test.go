package reports

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// tape builds a history by hand, step by step.
type tape struct {
	history.History
	now     time.Duration
	attempt int
	counts  map[schedule.Event]int
}

func newTape() *tape {
	return &tape{
		History: history.History{Outcome: history.Terminal, Reason: "quiet for 10m0s", Horizon: 10 * time.Minute},
		counts:  map[schedule.Event]int{},
	}
}

// step appends a record a millisecond after the last one and returns its index.
func (t *tape) step(actor string, verb schedule.Verb, kind, name, sub string, change func(*history.Record)) int {
	t.now += time.Millisecond + time.Nanosecond
	e := schedule.Event{Actor: actor, Incarnation: 1, Verb: verb, Kind: kind, Namespace: "default", Name: name, Subresource: sub}
	r := history.Record{At: t.now, ReadsFrom: -1}
	if actor == "operator" && verb.IsRequest() {
		e.Key, r.Attempt = "default/a", t.attempt
	}
	if verb.IsRequest() {
		r.Code = 200
	}
	t.counts[e]++
	e.Occurrence = t.counts[e]
	r.Event = e
	if change != nil {
		change(&r)
	}
	t.Records = append(t.Records, r)
	return len(t.Records) - 1
}

func (t *tape) log(level int, message string, values ...string) {
	t.Logs = append(t.Logs, history.Log{
		At: t.now, Actor: "operator", Record: len(t.Records) - 1, Key: "default/a", Attempt: t.attempt,
		Level: level, Message: message, Values: values,
	})
}

func (t *tape) end() *history.History {
	t.Steps, t.End = len(t.Records), t.now+t.Horizon
	for _, r := range t.Records {
		if r.Event.Verb.IsRequest() {
			t.Requests++
		}
	}
	return &t.History
}

// statefulSet makes the set of the ClickHouse scenario.
func statefulSet(rv string, replicas int32, status appsv1.StatefulSetStatus) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "chi-a-0-0", ResourceVersion: rv, Generation: 2,
			Labels: map[string]string{"clickhouse.altinity.com/object-version": "old"},
		},
		Spec:   appsv1.StatefulSetSpec{Replicas: &replicas, ServiceName: "chi-a-0-0"},
		Status: status,
	}
}

func installation(rv, status string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clickhouse.altinity.com/v1", "kind": "ClickHouseInstallation",
		"metadata": map[string]any{"namespace": "default", "name": "a", "resourceVersion": rv, "generation": int64(3)},
		"spec":     map[string]any{"shards": int64(1), "replicas": int64(1)},
		"status":   map[string]any{"status": status},
	}}
}

func read(o apiserver.Object, revision int64) func(*history.Record) {
	return func(r *history.Record) { r.After, r.Revision = o, revision }
}

func write(before, after apiserver.Object, revision int64) func(*history.Record) {
	return func(r *history.Record) {
		r.Before, r.After, r.Committed, r.Revision = before, after, revision, revision
	}
}

func refuse(code int, reason, message string) func(*history.Record) {
	return func(r *history.Record) { r.Code, r.Reason, r.Message = code, reason, message }
}

var (
	completed = &property.Definition{
		Name: "completed-means-scaled-up", Type: property.Terminal,
		Rule:    `chi.?status.?status.orValue("") != "Completed" || (sts != null && sts.spec.replicas > 0)`,
		Message: "CHI says Completed while its StatefulSet is absent or at 0 replicas",
	}
	comesBack = &property.Definition{
		Name: "host-comes-back", Type: property.Eventually, Within: 15 * time.Minute,
		Rule: `chi.?status.?status.orValue("") != "Completed" || sts.?status.?readyReplicas.orValue(0) == 1`,
	}
	reached = &property.Definition{
		Name: "recreate-path-was-reached", Type: property.Sometimes, Rule: `request.name == "chi-a-0-0"`,
		Match: &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Create}, Kind: "StatefulSet"},
	}
	variables = []property.Variable{
		{Name: "chi", Kind: "ClickHouseInstallation", ObjectName: "a"},
		{Name: "sts", Kind: "StatefulSet", ObjectName: "chi-a-0-0"},
		{Name: "unused", Kind: "Pod", ObjectName: "chi-a-0-0-0"},
	}
)

const immutable = `StatefulSet.apps "chi-a-0-0" is invalid: spec: Forbidden: updates to statefulset spec for fields other ` +
	`than 'replicas' are forbidden`

const conflict = `Operation cannot be fulfilled on statefulsets.apps "chi-a-0-0": the object has been modified; ` +
	`please apply your changes to the latest version and try again`

// cascade is the run of the ClickHouse bug, trimmed: a status write lands between the operator's Get and Update.
func cascade() *history.History {
	t := newTape()
	t.attempt = 1
	one := appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1}
	stale := statefulSet("7", 0, one)
	observed := statefulSet("12", 0, appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1})
	gone := statefulSet("15", 0, appsv1.StatefulSetStatus{ObservedGeneration: 2})
	inProgress, done := installation("11", "InProgress"), installation("13", "Completed")

	t.step("operator", schedule.Dequeue, "", "", "", nil)
	t.step("operator", schedule.Get, "ClickHouseInstallation", "a", "", read(installation("3", "Completed"), 3))
	t.step("operator", schedule.Update, "ClickHouseInstallation", "a", "status",
		write(installation("3", "Completed"), inProgress, 11))
	t.log(0, "Starting workers", "worker count=1")
	t.log(0, "reconcile started", "chi=default/a", "controllerKind=ClickHouseInstallation", "reconcileID=42")
	t.step("kcm", schedule.Deliver, "StatefulSet", "chi-a-0-0", "", nil)
	t.log(0, "Update StatefulSet(default/chi-a-0-0) - started")
	t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", refuse(422, "Invalid", immutable))
	t.log(-1, "StatefulSet update failed.", `err="StatefulSet.apps \"chi-a-0-0\" is invalid"`)
	t.log(0, "Update StatefulSet(default/chi-a-0-0) switch from Update to Recreate")
	t.log(0, "doDeleteStatefulSet(): default/chi-a-0-0")
	t.log(3, "a detail nobody needs")
	get := t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", read(stale, 7))
	by := t.step("kcm", schedule.Update, "StatefulSet", "chi-a-0-0", "status", write(stale, observed, 12))
	t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		refuse(409, "Conflict", conflict)(r)
		r.Before, r.After, r.Carried, r.ReadsFrom, r.Held = observed, observed, 7, get, 20*time.Millisecond
	})
	t.log(-1, "UNABLE to update StatefulSet default/chi-a-0-0")
	t.log(0, "Create StatefulSet: default/chi-a-0-0")
	t.step("operator", schedule.Create, "StatefulSet", "chi-a-0-0", "",
		refuse(409, "AlreadyExists", `statefulsets.apps "chi-a-0-0" already exists`))
	t.log(-1, `StatefulSet create failed. err: statefulsets.apps "chi-a-0-0" already exists`)
	t.log(0, "Got recreate action. Ignore and continue for now")
	t.step("operator", schedule.Update, "ClickHouseInstallation", "a", "status", write(inProgress, done, 13))
	t.log(0, "reconcile completed successfully")
	t.now = 20 * time.Second
	t.step("kubelet", schedule.Delete, "Pod", "chi-a-0-0-0", "", write(nil, nil, 14))
	t.step("kcm", schedule.Update, "StatefulSet", "chi-a-0-0", "status", write(observed, gone, 15))
	for i := range 3 {
		t.now += time.Second
		t.step("gc", schedule.Patch, "Pod", "p", "", write(nil, nil, int64(16+i)))
	}

	t.Constraints = []history.ConstraintResult{
		{Constraint: schedule.Constraint{Event: t.Records[by].Event, Waits: t.Records[get].Event}, Held: true, Matched: true},
	}
	h := t.end()
	values := []property.Value{{Path: "chi.status.status", Value: `"Completed"`}, {Path: "sts.spec.replicas", Value: "0"}}
	h.Verdicts = []property.Verdict{
		{Property: completed, Status: property.Broken, Evaluations: 1, At: h.End, Values: values},
		{Property: comesBack, Status: property.Broken, Evaluations: 9, At: h.End, Values: []property.Value{
			{Path: "sts.status.readyReplicas", Value: "absent"}}},
		{Property: reached, Status: property.Held, Evaluations: 1},
	}
	return h
}

// endsWell is the run of the same scenario in the default order.
func endsWell() *history.History {
	t := newTape()
	t.attempt = 1
	t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", nil)
	t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", refuse(422, "Invalid", "spec: Forbidden"))
	get := t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", nil)
	t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		r.ReadsFrom, r.Committed = get, 12
	})
	poll := t.step("operator", schedule.Get, "StatefulSet", "chi-a-0-0", "", nil)
	t.Records[poll].Repeats, t.Records[poll].LastAt = 4, 20*time.Second
	return t.end()
}

const sweepScope = "every feasible single reorder of two conflicting steps of the default run, at constant latency; " +
	"a step is held for at most 120 s of virtual time"

// found is the result of an exploration that found the cascade.
func found() *history.Result {
	return &history.Result{
		Header: history.Header{
			Scenario: "clickhouse-recreate", Path: "scenarios/clickhouse/recreate.yaml",
			Reconcilers: []string{"operator=clickhouse/buggy"},
			Racers:      []string{"kcm=StatefulSetController", "gc=GarbageCollector", "kubelet=Kubelet"},
			Variables:   variables,
		},
		Seed:    1,
		Command: "stalemate run scenarios/clickhouse/recreate.yaml --reconciler operator=clickhouse/buggy --seed 1",
		Findings: []history.Finding{{
			Signature: "completed-means-scaled-up", Strategy: "sweep", Execution: 17, Also: 2,
			Elapsed: 412 * time.Millisecond, Run: cascade(),
		}},
		Default: endsWell(),
		Strategies: []history.StrategyResult{
			{Name: "default order", Executions: 1, Complete: true},
			{Name: "sweep", Executions: 86, Findings: 3, Complete: true, Candidates: 86, Unmatched: 4, Scope: sweepScope},
			{Name: "random walk", Executions: 13, Inconclusive: 1},
		},
		Coverage: history.Coverage{
			Executions: 100, Inconclusive: 1,
			Properties: []history.PropertyCoverage{
				{Property: completed, Evaluations: 100, Held: 96, Broken: 3},
				{Property: comesBack, Evaluations: 900, Held: 96, Broken: 3},
				{Property: reached, Evaluations: 100, Held: 100},
			},
			NeverRaced: []string{"operator Update ClickHouseInstallation/status default/a"},
			Gaps:       []string{"StatefulSet spec.minReadySeconds"},
			Notes: []string{
				"no faults are injected yet",
				"a state counts as terminal after 10m0s of virtual time without a commit",
			},
		},
		Elapsed: 1234 * time.Millisecond, Hash: 0x2545f4914f6cdd1d,
	}
}
