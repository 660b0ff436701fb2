package detect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A canary is a small operator that does what a detector is for, and is found in the default order or the sweeps. Its twins are
// nearly the same operators, but correct, or in a world where the same is no mistake: of them nothing is found there, nor in runs
// by seed, by any of the detectors.
type canary struct {
	name string
	// finds is the detector that finds the operator, and also are others that find it, too.
	finds detect.Type
	also  []detect.Type
	world
	buggy operator
	twins []twin
}

// twin is an operator that is correct. What its world says takes the place of the canary's.
type twin struct {
	name string
	world
	operator
}

// world is what is around an operator: objects, what users and the cluster do, and what may go wrong.
type world struct {
	given   []apiserver.Object
	racers  []sim.RacerConfig
	rules   []sim.FaultRule
	owns    []ctrlclient.Object
	settled bool
	steps   int // that a run may take; the default if zero
}

// operator is an operator: what it does in a pass over an App. It is made at each start of its process.
type operator func() pass

type pass func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error)

// stateless makes an operator of a pass that remembers nothing.
func stateless(p pass) operator { return func() pass { return p } }

var appKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}

var testScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	scheme.AddKnownTypeWithName(appKind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(appKind.GroupVersion().WithKind("AppList"), &unstructured.UnstructuredList{})
	return scheme
}()

func TestCanaries(t *testing.T) {
	for _, c := range slices.Concat(loopCanaries, writerCanaries, objectCanaries, outcomeCanaries) {
		t.Run(c.name, func(t *testing.T) {
			t.Run("canary", func(t *testing.T) { c.sings(t) })
			for _, twin := range c.twins {
				t.Run("twin "+twin.name, func(t *testing.T) { c.quiet(t, twin) })
			}
		})
	}
}

// TestEveryDetectorHasACanary keeps the canaries complete.
func TestEveryDetectorHasACanary(t *testing.T) {
	all := slices.Concat(loopCanaries, writerCanaries, objectCanaries, outcomeCanaries)
	for _, name := range detect.Types() {
		if !slices.ContainsFunc(all, func(c canary) bool { return c.finds == name && len(c.twins) > 0 }) {
			t.Errorf("%s has no canary with a twin", name)
		}
	}
}

// errFound ends an exploration.
var errFound = errors.New("found")

// sings checks that the operator is found, and that there is no verdict where its detector is off.
func (c *canary) sings(t *testing.T) {
	var names, others []string
	options := explore.Options{Seed: 1, Runs: -1, Shrink: -1, Found: func(f *history.Finding) error {
		names = broken(f.Run)
		for _, name := range names {
			if name != string(c.finds) && !slices.Contains(c.also, detect.Type(name)) {
				others = append(others, f.Signature)
			}
		}
		if slices.Contains(names, string(c.finds)) {
			return errFound
		}
		return nil
	}}
	result, err := explore.Run(t.Context(), c.config(t, c.buggy, detect.NewSet(map[detect.Type]bool{c.finds: true})), options)
	if err != nil && !errors.Is(err, errFound) {
		t.Fatal(err)
	}
	if err == nil {
		t.Errorf("%s found nothing in %d executions; others: %v%s", c.finds, result.Coverage.Executions, names, steps(result.Default))
	}
	if len(others) > 0 {
		t.Errorf("others find it, too: %s", others)
	}
	off, err := sim.NewWorld(c.config(t, c.buggy, detect.NewSet(map[detect.Type]bool{c.finds: false})))
	if err != nil {
		t.Fatal(err)
	}
	h, err := off.Run(sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(h.Verdicts, func(v property.Verdict) bool { return v.Property.Name == string(c.finds) }) {
		t.Errorf("%s is off, and has a verdict", c.finds)
	}
}

// quiet checks that nothing is found of a twin by any detector.
func (c *canary) quiet(t *testing.T, twin twin) {
	around := c.world
	if twin.given != nil {
		around.given = twin.given
	}
	if twin.racers != nil {
		around.racers = twin.racers
	}
	if twin.rules != nil {
		around.rules = twin.rules
	}
	of := canary{world: around}
	config := of.config(t, twin.operator, detect.NewSet(map[detect.Type]bool{c.finds: true}))
	result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 100, Shrink: -1})
	if err != nil {
		t.Fatal(err)
	}
	if result.Failed() {
		t.Errorf("found: %s%s", signatures(result), steps(result.Findings[0].Run))
	}
	if result.Coverage.Inconclusive > 0 {
		t.Errorf("%d executions ran into a limit", result.Coverage.Inconclusive)
	}
}

// config returns the scenario around an operator.
func (c *canary) config(t *testing.T, o operator, detectors *detect.Set) *sim.Config {
	t.Helper()
	kinds := apiserver.NewKinds(apiserver.V136)
	if _, err := kinds.AddType(appKind, "apps", true, true); err != nil {
		t.Fatal(err)
	}
	subject := &unstructured.Unstructured{}
	subject.SetGroupVersionKind(appKind)
	program := client.Reconcilers(testScheme, client.Reconciler{For: subject, Owns: c.owns,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			p := o()
			return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				return p(ctx, deps, request.NamespacedName)
			}), nil
		}})
	return &sim.Config{
		Name: "canary", Kinds: kinds, Scheme: testScheme, Given: c.given, Unsettled: !c.settled, Racers: c.racers,
		Processes: []sim.Process{{Name: "operator", Program: program}},
		Faults:    sim.Faults{Rules: c.rules}, NewReactor: reactors.New, Detectors: detectors, Limits: sim.Limits{Steps: c.steps},
	}
}

func broken(h *history.History) []string {
	var names []string
	for _, v := range h.Broken() {
		names = append(names, v.Property.Name)
	}
	return names
}

func signatures(result *history.Result) string {
	var texts []string
	for i := range result.Findings {
		texts = append(texts, result.Findings[i].Signature)
	}
	return strings.Join(texts, "\n")
}

// steps prints the requests and cached reads of a run, for failures.
func steps(h *history.History) string {
	var b strings.Builder
	for i := range h.Records[:min(len(h.Records), 200)] {
		if r := &h.Records[i]; r.Event.Verb.IsRequest() || r.Event.Verb.IsRead() {
			fmt.Fprintf(&b, "\n\t%s pass %d: %s %d %s %s", r.At, r.Attempt, r.Event, r.Code, r.Reason, r.Fault)
		}
	}
	return fmt.Sprintf("%s\n\t%s: %s", b.String(), h.Outcome, h.Reason)
}

// app returns an App with a specification.
func app(spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(appKind)
	obj.SetNamespace("default")
	obj.SetName("app")
	return obj
}

func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func secret(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: object(name)} }

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: object(name), Data: data}
}

// onApp makes a pass of what is done with the App, read from the server; gone says what where there is none.
func onApp(does func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error)) pass {
	return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		app := &unstructured.Unstructured{}
		app.SetGroupVersionKind(appKind)
		if err := deps.Live.Get(ctx, key, app); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		return does(ctx, deps, app)
	}
}

// field returns a text of the App's specification or status.
func field(app *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(app.Object, path...)
	return text
}

func setField(app *unstructured.Unstructured, value string, path ...string) {
	if err := unstructured.SetNestedField(app.Object, value, path...); err != nil {
		panic(err)
	}
}

// owned makes an object the App's.
func owned[T ctrlclient.Object](obj T, app *unstructured.Unstructured) T {
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(app, appKind)})
	return obj
}

// user is a racer that takes steps.
func user(steps ...racer.UserStep) sim.RacerConfig {
	return sim.RacerConfig{Name: "user", WithScript: true, New: func() sim.Racer {
		return racer.NewUser(racer.UserOptions{Steps: steps})
	}}
}

func patch(at time.Duration, kind, name, body string) racer.UserStep {
	return racer.UserStep{At: at, Patch: &racer.UserPatch{Kind: kind, Namespace: "default", Name: name, Data: []byte(body)}}
}

func deletion(at time.Duration, kind, name string) racer.UserStep {
	return racer.UserStep{At: at, Delete: &racer.UserDelete{Kind: kind, Namespace: "default", Name: name}}
}

func creation(at time.Duration, kind string, obj apiserver.Object) racer.UserStep {
	return racer.UserStep{At: at, Create: &racer.UserCreate{Kind: kind, Object: obj}}
}

// atCreates is a rule for faults of a type at what the operator creates.
func atCreates(faults ...schedule.FaultType) []sim.FaultRule {
	rule := sim.FaultRule{Name: "creates", Match: schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Create}}}
	for _, t := range faults {
		fault := schedule.Fault{Type: t}
		if t == schedule.LostResponse {
			fault.Params = schedule.Params{Means: schedule.ConnectionLost}
		}
		rule.Faults = append(rule.Faults, fault)
	}
	return []sim.FaultRule{rule}
}
