package property_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// story is a run told to a monitor, one minute per line.
type story struct {
	t       *testing.T
	cluster *cluster
	monitor *property.Monitor
	now     time.Duration
}

// tell begins a story with the objects of begin, each a StatefulSet at the given replicas.
func tell(t *testing.T, begin map[string]int32, definitions ...property.Definition) *story {
	s := &story{t: t, cluster: newCluster()}
	for name, replicas := range begin {
		s.cluster.put("StatefulSet", statefulSet(name, replicas))
	}
	s.monitor = compile(t, []property.Variable{
		{Name: "sts", Kind: "StatefulSet", ObjectName: "web"},
		{Name: "old", Kind: "StatefulSet", ObjectName: "web", AtStart: true},
		{Name: "sets", Kind: "StatefulSet", Labels: map[string]string{"tier": "db"}},
		{Name: "pod", Kind: "Pod", ObjectName: "web-0"},
	}, definitions...).NewMonitor(s.cluster)
	s.monitor.Start(0)
	return s
}

func (s *story) scale(name string, replicas int32) {
	s.now += time.Minute
	s.cluster.put("StatefulSet", statefulSet(name, replicas))
	s.monitor.Committed(s.now, "StatefulSet")
}

func (s *story) remove(name string) {
	s.now += time.Minute
	s.cluster.remove("StatefulSet", name)
	s.monitor.Committed(s.now, "StatefulSet")
}

func (s *story) settled() {
	s.now += time.Minute
	s.monitor.Settled(s.now)
}

func (s *story) terminal() {
	s.now += time.Minute
	s.monitor.Terminal(s.now)
}

// request is a request for StatefulSet web; effect is what it does to the cluster.
func (s *story) request(verb schedule.Verb, code int, effect func()) {
	s.now += time.Minute
	event := schedule.Event{Actor: "operator", Verb: verb, Kind: "StatefulSet", Namespace: "default", Name: "web"}
	req := &apiserver.Request{Verb: verb, Namespace: "default", Name: "web"}
	if verb == schedule.Create {
		req.Name, req.Object = "", statefulSet("web", 3)
	}
	resp := &apiserver.Response{Code: code}
	if code == 409 {
		resp.Err = apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "web", fmt.Errorf("stale"))
	}
	s.monitor.Before(s.now, event)
	if effect != nil {
		effect()
		s.monitor.Committed(s.now, "StatefulSet")
	}
	s.monitor.After(s.now, event, req, resp)
}

// expect compares the verdict on the only property with a line: status, evaluations, time, then error, note and values.
func (s *story) expect(want string) {
	s.t.Helper()
	if got := describe(s.monitor.Verdicts()[0]); got != want {
		s.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func describe(v property.Verdict) string {
	parts := []string{fmt.Sprintf("%s evaluations=%d at=%s", v.Status, v.Evaluations, v.At)}
	for _, text := range []string{v.Error, v.Note} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	for _, value := range v.Values {
		parts = append(parts, value.Path+"="+value.Value)
	}
	return strings.Join(parts, "\n")
}

var (
	update = &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet"}
	create = &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Create}, Kind: "StatefulSet"}
)

var (
	alwaysScaledUp   = property.Definition{Name: "p", Type: property.Always, Rule: `sts == null || sts.spec.replicas > 0`}
	terminalScaledUp = property.Definition{Name: "p", Type: property.Terminal, Rule: `sts != null && sts.spec.replicas > 0`}
	eventuallyThree  = property.Definition{Name: "p", Type: property.Eventually, Within: 5 * time.Minute,
		Rule: `sts.?spec.?replicas.orValue(0) == 3`}
	sometimesGone     = property.Definition{Name: "p", Type: property.Sometimes, Rule: `sts == null`}
	sometimesConflict = property.Definition{Name: "p", Type: property.Sometimes, Match: update, Rule: `response.code == 409`}
	createWhenGone    = property.Definition{Name: "p", Type: property.Request, Match: create, Rule: `sts == null`}
	one               = map[string]int32{"web": 1}
)

// canaries are, for each type of property, stories with a planted violation, which must be found, and correct twins, which
// must not.
var canaries = []struct {
	name       string
	definition property.Definition
	begin      map[string]int32
	tell       func(s *story)
	want       string
}{
	{"Always/broken for a moment", alwaysScaledUp, one, func(s *story) {
		s.scale("web", 0)
		s.scale("web", 1)
		s.terminal()
	}, "Broken evaluations=2 at=1m0s\nsts=StatefulSet default/web\nsts.spec.replicas=0"},
	{"Always/broken from the start", alwaysScaledUp, map[string]int32{"web": 0}, func(*story) {},
		"Broken evaluations=1 at=0s\nsts=StatefulSet default/web\nsts.spec.replicas=0"},
	{"Always/held", alwaysScaledUp, one, func(s *story) {
		s.scale("web", 2)
		s.remove("web")
		s.terminal()
	}, "Held evaluations=3 at=2m0s"},

	{"Terminal/broken", terminalScaledUp, one, func(s *story) {
		s.scale("web", 0)
		s.terminal()
	}, "Broken evaluations=1 at=2m0s\nsts=StatefulSet default/web\nsts.spec.replicas=0"},
	{"Terminal/broken by absence", terminalScaledUp, one, func(s *story) {
		s.remove("web")
		s.terminal()
	}, "Broken evaluations=1 at=2m0s\nsts=absent\nsts.spec.replicas=absent"},
	{"Terminal/broken on the way only", terminalScaledUp, one, func(s *story) {
		s.scale("web", 0)
		s.scale("web", 1)
		s.terminal()
	}, "Held evaluations=1 at=3m0s"},
	{"Terminal/no rest", terminalScaledUp, one, func(s *story) { s.scale("web", 0) }, "NotExercised evaluations=0 at=0s"},

	{"Eventually/never", eventuallyThree, one, func(s *story) {
		s.scale("web", 2)
		s.settled()
		s.terminal()
	}, "Broken evaluations=2 at=3m0s\nit never held\nsts.spec.replicas=2"},
	{"Eventually/too late", eventuallyThree, one, func(s *story) {
		s.settled()
		s.now += 5 * time.Minute
		s.scale("web", 3)
		s.terminal()
	}, "Broken evaluations=2 at=7m0s\nit holds for good only from 7m0s on, 6m0s after everything had settled at 1m0s; " +
		"it has 5m0s\nsts.spec.replicas=1"},
	{"Eventually/held but not to stay", eventuallyThree, map[string]int32{"web": 3}, func(s *story) {
		s.settled()
		s.scale("web", 1)
		s.terminal()
	}, "Broken evaluations=2 at=3m0s\nit held from 0s until 2m0s, but not in the end\nsts.spec.replicas=1"},
	{"Eventually/interrupted until too late", eventuallyThree, map[string]int32{"web": 3}, func(s *story) {
		s.settled()
		s.scale("web", 1)
		s.now += 10 * time.Minute
		s.scale("web", 3)
		s.terminal()
	}, "Broken evaluations=3 at=13m0s\nit holds for good only from 13m0s on, 12m0s after everything had settled at 1m0s; " +
		"it has 5m0s\nsts.spec.replicas=1"},
	{"Eventually/just in time", eventuallyThree, one, func(s *story) {
		s.settled()
		s.now += 4 * time.Minute
		s.scale("web", 3)
		s.terminal()
	}, "Held evaluations=2 at=6m0s"},
	{"Eventually/holds on while things change", eventuallyThree, one, func(s *story) {
		s.settled()
		s.scale("web", 3)
		s.now += 10 * time.Minute
		s.scale("web", 3)
		s.terminal()
	}, "Held evaluations=3 at=2m0s"},
	{"Eventually/settled later", eventuallyThree, one, func(s *story) {
		s.settled()
		s.now += 10 * time.Minute
		s.settled()
		s.scale("web", 3)
		s.terminal()
	}, "Held evaluations=2 at=13m0s"},
	{"Eventually/before it settled", eventuallyThree, one, func(s *story) {
		s.scale("web", 3)
		s.settled()
		s.terminal()
	}, "Held evaluations=2 at=1m0s"},
	{"Eventually/no rest", eventuallyThree, one, func(s *story) { s.scale("web", 3) }, "NotExercised evaluations=2 at=1m0s"},

	{"Sometimes/never", sometimesGone, one, func(s *story) {
		s.scale("web", 2)
		s.terminal()
	}, "NotExercised evaluations=1 at=1m0s"},
	{"Sometimes/seen", sometimesGone, one, func(s *story) {
		s.remove("web")
		s.scale("web", 2)
		s.terminal()
	}, "Held evaluations=1 at=1m0s"},
	{"Sometimes/matched, never", sometimesConflict, one, func(s *story) {
		s.request(schedule.Update, 200, nil)
		s.request(schedule.Create, 409, nil)
	}, "NotExercised evaluations=1 at=1m0s"},
	{"Sometimes/matched, seen", sometimesConflict, one, func(s *story) {
		s.request(schedule.Update, 200, nil)
		s.request(schedule.Update, 409, nil)
		s.request(schedule.Update, 200, nil)
	}, "Held evaluations=2 at=2m0s"},

	{"Request/broken", createWhenGone, one, func(s *story) {
		s.request(schedule.Update, 200, nil)
		s.request(schedule.Create, 409, nil)
	}, "Broken evaluations=1 at=2m0s\nsts=StatefulSet default/web"},
	{"Request/held, as it sees the state before", createWhenGone, nil, func(s *story) {
		s.request(schedule.Create, 201, func() { s.cluster.put("StatefulSet", statefulSet("web", 3)) })
	}, "Held evaluations=1 at=1m0s"},
	{"Request/no such request", createWhenGone, one, func(s *story) { s.request(schedule.Update, 200, nil) },
		"NotExercised evaluations=0 at=0s"},
}

func TestCanaries(t *testing.T) {
	for _, test := range canaries {
		t.Run(test.name, func(t *testing.T) {
			s := tell(t, test.begin, test.definition)
			test.tell(s)
			s.expect(test.want)
			state := test.definition.Type == property.Always || test.definition.Type == property.Request
			if broken := strings.HasPrefix(test.want, "Broken"); state && s.monitor.Broken() != broken {
				t.Errorf("Broken() = %t", s.monitor.Broken())
			}
		})
	}
}

func TestRequestFields(t *testing.T) {
	rules := []string{
		`request.actor == "operator" && request.verb == "Create" && request.kind == "StatefulSet"`,
		`request.namespace == "default" && request.name == "web" && request.subresource == "" && !request.dryRun`,
		`request.object != null && request.object.spec.replicas == 3 && request.object.kind == "StatefulSet"`,
		`response.code == 409 && response.reason == "Conflict" && response.message.endsWith("stale")`,
	}
	for _, rule := range rules {
		s := tell(t, nil, property.Definition{Name: "p", Type: property.Request, Match: create, Rule: rule})
		s.request(schedule.Create, 409, nil)
		s.expect("Held evaluations=1 at=1m0s")
	}
	s := tell(t, nil, property.Definition{Name: "p", Type: property.Request, Match: update,
		Rule: `request.object != null || response.reason != "" || response.message != ""`})
	s.request(schedule.Update, 200, nil)
	s.expect("Broken evaluations=1 at=1m0s\nrequest.object=absent\nresponse.reason=\"\"\nresponse.message=\"\"")

	any := &schedule.Selector{Actor: "operator"} // of any kind: the body has no type
	s = tell(t, nil, property.Definition{Name: "p", Type: property.Request, Match: any, Rule: `request.object.spec.replicas == 2`})
	s.request(schedule.Create, 201, nil)
	s.expect("Broken evaluations=1 at=1m0s\nrequest.object.spec.replicas=3")
}

func TestOccurrence(t *testing.T) {
	second := *create
	second.Occurrence = 2
	s := tell(t, nil, property.Definition{Name: "p", Type: property.Request, Match: &second, Rule: `response.code == 201`})
	s.request(schedule.Create, 409, nil)
	s.request(schedule.Create, 201, nil)
	s.request(schedule.Create, 409, nil)
	s.expect("Held evaluations=1 at=2m0s")
}

func TestAtStart(t *testing.T) {
	s := tell(t, map[string]int32{"web": 1}, property.Definition{Name: "p", Type: property.Always,
		Rule: `old.spec.replicas == 1 && (sts == null || sts.spec.replicas >= old.spec.replicas)`})
	s.scale("web", 2)
	s.remove("web")
	s.expect("Held evaluations=3 at=2m0s")
	s.scale("web", 0)
	s.expect("Broken evaluations=4 at=3m0s\nold.spec.replicas=1\nsts=StatefulSet default/web\nsts.spec.replicas=0")
}

func TestInvalid(t *testing.T) {
	for _, definition := range []property.Definition{
		{Type: property.Always}, {Type: property.Sometimes}, {Type: property.Eventually, Within: time.Minute},
	} {
		definition.Name, definition.Rule = "p", `sts.spec.replicas > 0`
		s := tell(t, map[string]int32{"web": 1}, definition)
		if definition.Type == property.Sometimes {
			s.monitor = compile(t, []property.Variable{{Name: "sts", Kind: "StatefulSet", ObjectName: "web"}}, property.Definition{
				Name: "p", Type: property.Sometimes, Rule: `sts.spec.replicas > 1`}).NewMonitor(s.cluster)
			s.monitor.Start(0)
		}
		s.remove("web")
		s.scale("web", 0) // would break it, but an invalid property stays invalid
		s.terminal()
		v := s.monitor.Verdicts()[0]
		if v.Status != property.Invalid || !strings.HasPrefix(v.Error, "no such key: spec") || v.At != time.Minute ||
			fmt.Sprint(v.Values) != "[{sts.spec.replicas absent}]" || s.monitor.Broken() {
			t.Errorf("%s: %s", definition.Type, describe(v))
		}
	}
	s := tell(t, map[string]int32{"web": 0}, property.Definition{Name: "p", Type: property.Always, Rule: `sts.spec.replicas > 0`})
	s.remove("web")
	s.expect("Broken evaluations=1 at=0s\nsts.spec.replicas=0") // the first Broken wins
}

// TestEvaluatedOnChangeOnly checks that a commit evaluates just the rules whose variables changed.
func TestEvaluatedOnChangeOnly(t *testing.T) {
	s := tell(t, map[string]int32{"web": 1},
		property.Definition{Name: "sts", Type: property.Always, Rule: `sts == null || true`},
		property.Definition{Name: "sets", Type: property.Always, Rule: `sets.size() >= 0`},
		property.Definition{Name: "pod", Type: property.Always, Rule: `pod == null || true`},
		property.Definition{Name: "both", Type: property.Always, Rule: `pod == null || sts == null || true`},
		property.Definition{Name: "none", Type: property.Always, Rule: `true`},
		property.Definition{Name: "frozen", Type: property.Always, Rule: `old == null || true`},
	)
	counts := func() string {
		var counts []int
		for _, v := range s.monitor.Verdicts() {
			counts = append(counts, v.Evaluations)
		}
		return fmt.Sprint(counts)
	}
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"start", func() {}, "[1 1 1 1 1 1]"},
		{"web changes", func() { s.scale("web", 2) }, "[2 2 1 2 1 1]"},
		{"another set appears", func() { s.scale("db", 1) }, "[2 3 1 2 1 1]"},
		{"nothing changes", func() { s.monitor.Committed(s.now, "StatefulSet") }, "[2 3 1 2 1 1]"},
		{"the pod appears", func() {
			s.cluster.put("Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}})
			s.monitor.Committed(s.now, "Pod")
		}, "[2 3 2 3 1 1]"},
		{"a kind nobody binds", func() { s.monitor.Committed(s.now, "Secret") }, "[2 3 2 3 1 1]"},
	}
	for _, step := range steps {
		step.do()
		if got := counts(); got != step.want {
			t.Errorf("%s: evaluations %s, want %s", step.what, got, step.want)
		}
	}
	queries := s.cluster.queries
	s.monitor.Before(s.now, schedule.Event{Actor: "operator", Verb: schedule.Create, Kind: "StatefulSet"})
	s.monitor.Committed(s.now, "Secret")
	if s.cluster.queries != queries {
		t.Error("the state was read though nothing looks at it")
	}
}

// TestValues checks what a broken rule is said to have read.
func TestValues(t *testing.T) {
	tests := []struct{ rule, want string }{
		{`sts.spec.replicas == 7`, `sts.spec.replicas=1`},
		{`sts.?spec.?replicas.orValue(0) == 7 && sts.spec.replicas == 7`, `sts.spec.replicas=1`},
		{`pod != null || sts.metadata.name == "x"`, `pod=absent|sts.metadata.name="web"`},
		{`has(sts.status.readyReplicas)`, `sts.status.readyReplicas=absent`},
		{`sts.metadata.labels["app"] == "x" || sts.metadata.labels[?"none"].hasValue()`,
			`sts.metadata.labels["app"]="web"|sts.metadata.labels["none"]=absent`},
		{`sts.metadata.__namespace__ == "x"`, `sts.metadata.namespace="default"`},
		{`sts.spec.template.spec.containers[0].name == "x"`, `sts.spec.template.spec.containers[0].name="db"`},
		{`sts.metadata.?uid.hasValue() && sts.spec.replicas > 1`,
			`sts.metadata.uid="7c6f5d1a-0000-4000-8000-000000000001"|sts.spec.replicas=1`},
		{`sets.size() == 7`, `sets=[StatefulSet default/db, StatefulSet default/web]`},
		{`sets.all(s, s.spec.replicas == sts.status.replicas)`,
			`sets=[StatefulSet default/db, StatefulSet default/web]|sets[0].spec.replicas=5|sets[1].spec.replicas=1|` +
				`sts.status.replicas=0`},
		{`sets.filter(s, s.metadata.name != "x").exists(s, s.spec.replicas == 7)`,
			`sets=[StatefulSet default/db, StatefulSet default/web]|sets[0].metadata.name="db"|sets[1].metadata.name="web"|` +
				`sets[0].spec.replicas=5|sets[1].spec.replicas=1`},
		{`sts.metadata.?ownerReferences.orValue([]).exists(o, o.uid == "x")`,
			`sts.metadata.ownerReferences=[{"apiVersion": "", "kind": "ClickHouseInstallation", "name": "a", "uid": "u-1"}]|` +
				`sts.metadata.ownerReferences[0].uid="u-1"`},
		{`sets.exists(s, s.spec.template.spec.containers.exists(c, c.name == "x"))`,
			`sets=[StatefulSet default/db, StatefulSet default/web]|sets[0].spec.template.spec.containers=` +
				`[{"livenessProbe": {"httpGet": {"port": 8123}}, "name": "db", "ports": [{"containerPort": 9000}], ` +
				`"resources": {"limits": {"memory": "2Gi"}}}]|` +
				`sets[1].spec.template.spec.containers=` +
				`[{"livenessProbe": {"httpGet": {"port": 8123}}, "name": "db", "ports": [{"containerPort": 9000}], ` +
				`"resources": {"limits": {"memory": "2Gi"}}}]|` +
				`sets[0].spec.template.spec.containers[0].name="db"|sets[1].spec.template.spec.containers[0].name="db"`},
		{`sts.metadata.labels[?sts.metadata.name].orValue("") == "x"`,
			`sts.metadata.labels={"app": "web", "tier": "db"}|sts.metadata.name="web"`},
		{`sts.metadata.labels.exists(k, k == "x")`, `sts.metadata.labels={"app": "web", "tier": "db"}`},
		{`[1, 2].exists(sts, sts == 3)`, ``},
		{`[sts.spec.replicas].exists(x, x == 3) || {"a": old.spec.replicas}["a"] == 7`, `sts.spec.replicas=1|old.spec.replicas=1`},
		{`sts.metadata.creationTimestamp < timestamp("2000-01-01T00:00:00Z")`, `sts.metadata.creationTimestamp=2031-01-01T12:00:00Z`},
		{`sets.all(i, s, i == 7 && s.spec.replicas == 1)`,
			`sets=[StatefulSet default/db, StatefulSet default/web]|sets[0].spec.replicas=5|sets[1].spec.replicas=1`},
		{`sts == old && false`, `sts=StatefulSet default/web|old=StatefulSet default/web`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			s := tell(t, map[string]int32{"web": 1, "db": 5},
				property.Definition{Name: "p", Type: property.Always, Rule: test.rule})
			v := s.monitor.Verdicts()[0]
			var got []string
			for _, value := range v.Values {
				got = append(got, value.Path+"="+value.Value)
			}
			if strings.Join(got, "|") != test.want || v.Status != property.Broken {
				t.Errorf("%s %s\ngot  %s\nwant %s", v.Status, v.Error, strings.Join(got, "|"), test.want)
			}
		})
	}
}

func TestLongValues(t *testing.T) {
	begin := map[string]int32{}
	for i := range 12 {
		begin[fmt.Sprintf("web-%02d", i)] = 1
	}
	s := tell(t, begin, property.Definition{Name: "p", Type: property.Always, Rule: `sets.all(s, s.spec.replicas == 2)`})
	values := s.monitor.Verdicts()[0].Values
	if len(values) != 11 || values[10] != (property.Value{Path: "sets[9].spec.replicas", Value: "1"}) {
		t.Errorf("not bounded: %v", values)
	}
	if text := values[0].Value; len([]rune(text)) != 161 || !strings.HasSuffix(text, "…") {
		t.Errorf("%d characters: %s", len([]rune(text)), text)
	}
}

func TestSignature(t *testing.T) {
	broken := func(name string, values ...property.Value) property.Verdict {
		return property.Verdict{Property: &property.Definition{Name: name}, Status: property.Broken, Values: values}
	}
	const uid1, uid2 = `"7c6f5d1a-0000-4000-8000-000000000001"`, `"7c6f5d1a-0000-4000-8000-000000000002"`
	tests := []struct {
		name     string
		verdicts []property.Verdict
		want     string
	}{
		{"none", []property.Verdict{{Property: &property.Definition{Name: "p"}, Status: property.Held}}, ""},
		{"sorted, broken only", []property.Verdict{
			broken("q", property.Value{Path: "sts", Value: "absent"}),
			{Property: &property.Definition{Name: "i"}, Status: property.Invalid},
			broken("p", property.Value{Path: "sts.spec.replicas", Value: "0"},
				property.Value{Path: "chi.status.status", Value: `"Completed"`}),
		}, `p{sts.spec.replicas=0, chi.status.status="Completed"}; q{sts=absent}`},
		{"canonical", []property.Verdict{broken("p",
			property.Value{Path: "a.metadata.uid", Value: uid2},
			property.Value{Path: "b.metadata.uid", Value: uid1},
			property.Value{Path: "c.metadata.uid", Value: uid2},
			property.Value{Path: "d.metadata.uid", Value: "absent"},
			property.Value{Path: "d.metadata.resourceVersion", Value: `"123"`},
			property.Value{Path: "d.metadata.creationTimestamp", Value: "2031-01-01T12:00:00.5Z"},
			property.Value{Path: "d.metadata", Value: `{"resourceVersion": "12", "uid": ` + uid1 + `}`},
		)}, `p{a.metadata.uid=uid-1, b.metadata.uid=uid-2, c.metadata.uid=uid-1, d.metadata.uid=absent, ` +
			`d.metadata.resourceVersion=revision, d.metadata.creationTimestamp=time, ` +
			`d.metadata={"resourceVersion": revision, "uid": "uid-2"}}`},
	}
	for _, test := range tests {
		before := fmt.Sprint(test.verdicts)
		if got := property.Signature(test.verdicts); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
		if fmt.Sprint(test.verdicts) != before {
			t.Errorf("%s: the verdicts were changed", test.name)
		}
	}
}

// TestStorageForm checks that a typed object and the same one unstructured are equal to rules.
func TestStorageForm(t *testing.T) {
	set := compile(t, []property.Variable{
		{Name: "a", Kind: "StatefulSet", ObjectName: "a"}, {Name: "b", Kind: "StatefulSet", ObjectName: "b"},
	}, property.Definition{Name: "p", Type: property.Always, Rule: `a.spec == b.spec && a.metadata.labels == b.metadata.labels &&
		a.metadata.ownerReferences == b.metadata.ownerReferences && a.status == b.status && a != b`})
	c := newCluster()
	typed, twin := statefulSet("a", 1), statefulSet("a", 1)
	twin.Name = "b"
	c.put("StatefulSet", typed)
	c.put("StatefulSet", asUnstructured(t, twin))
	m := set.NewMonitor(c)
	m.Start(0)
	if v := m.Verdicts()[0]; v.Status != property.Held {
		t.Error(describe(v))
	}
}

// TestReadOnly checks that judging changes no stored object.
func TestReadOnly(t *testing.T) {
	stored := statefulSet("web", 1)
	before := stored.DeepCopy()
	s := tell(t, nil, property.Definition{Name: "p", Type: property.Always,
		Rule: `sts.spec.template.spec.containers.exists(c, quantity(c.resources.limits["memory"]).isLessThan(quantity("1")))`})
	s.cluster.put("StatefulSet", stored)
	s.monitor.Committed(0, "StatefulSet")
	s.monitor.Verdicts()
	// DeepEqual of the API machinery would call equal quantities equal; what is cached inside must not change either.
	if fmt.Sprintf("%#v", stored.Spec.Template.Spec.Containers[0].Resources) !=
		fmt.Sprintf("%#v", before.Spec.Template.Spec.Containers[0].Resources) {
		t.Error("the stored object was changed")
	}
}

// TestRunsShareSet checks that monitors of one set do not disturb each other.
func TestRunsShareSet(t *testing.T) {
	set := compile(t, []property.Variable{{Name: "sts", Kind: "StatefulSet", ObjectName: "web"}},
		property.Definition{Name: "p", Type: property.Always, Rule: `sts == null || sts.spec.replicas > 0`})
	done := make(chan []property.Verdict)
	for replicas := range int32(2) {
		go func() {
			c := newCluster()
			c.put("StatefulSet", statefulSet("web", replicas))
			m := set.NewMonitor(c)
			m.Start(0)
			for range 100 {
				c.put("StatefulSet", statefulSet("web", replicas))
				m.Committed(1, "StatefulSet")
			}
			done <- m.Verdicts()
		}()
	}
	var statuses []string
	for range 2 {
		statuses = append(statuses, string((<-done)[0].Status))
	}
	slices.Sort(statuses)
	if fmt.Sprint(statuses) != "[Broken Held]" {
		t.Error(statuses)
	}
}

func BenchmarkMonitor(b *testing.B) {
	set, errs := property.Compile(testKinds(b), []property.Variable{
		{Name: "chi", Kind: "ClickHouseInstallation", ObjectName: "a"},
		{Name: "sts", Kind: "StatefulSet", ObjectName: "web"},
	}, []property.Definition{
		{Name: "always", Type: property.Always,
			Rule: `chi.?status.?status.orValue("") != "Completed" || (sts != null && sts.spec.replicas > 0)`},
		{Name: "request", Type: property.Request, Match: create, Rule: `sts == null`},
	})
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	c := newCluster()
	c.put("ClickHouseInstallation", completed(b))
	versions := []*appsv1.StatefulSet{statefulSet("web", 1), statefulSet("web", 2)}
	c.kinds["StatefulSet"] = make([]apiserver.Object, 1)
	b.Run("commit that changes", func(b *testing.B) {
		m := set.NewMonitor(c)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.kinds["StatefulSet"][0] = versions[i%2]
			m.Committed(1, "StatefulSet")
		}
		if v := m.Verdicts()[0]; v.Status != property.Held || v.Evaluations < b.N {
			b.Fatal(describe(v))
		}
	})
	b.Run("commit that does not", func(b *testing.B) {
		m := set.NewMonitor(c)
		b.ReportAllocs()
		for b.Loop() {
			m.Committed(1, "StatefulSet")
		}
	})
	b.Run("request nobody looks at", func(b *testing.B) {
		m := set.NewMonitor(c)
		event := schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "StatefulSet", Name: "web"}
		b.ReportAllocs()
		for b.Loop() {
			m.Before(1, event)
			m.After(1, event, nil, nil)
		}
	})
}

func completed(tb testing.TB) apiserver.Object {
	return fromJSON(tb, `{"apiVersion": "example.com/v1", "kind": "ClickHouseInstallation", "metadata": {"name": "a"},
		"status": {"status": "Completed"}}`)
}
