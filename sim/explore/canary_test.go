package explore_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A canary is a scenario with a bug planted in its reconciler, and a twin without it. The exploration must find the one and
// leave the other alone: it is what makes a pass of the harness mean something.
type canary struct {
	name string
	// config makes the scenario with the reconciler given.
	config       func(t testing.TB, reconcile reconcileFunc) *sim.Config
	buggy, fixed reconcileFunc
	strategy     string // that finds it
	broken       []string
	runs         int // random walks; none if zero
}

// reconcileFunc reconciles the ConfigMap of a name.
type reconcileFunc func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error)

var testScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}()

// kindTable tells the property compiler of the kinds.
type kindTable struct{ kinds *apiserver.Kinds }

func (k kindTable) Lookup(name string) (property.Kind, bool) {
	kind := k.kinds.ByName(name)
	if kind == nil {
		return property.Kind{}, false
	}
	model := must(testScheme.New(kind.GroupVersionKind))
	return property.Kind{GroupVersionKind: kind.GroupVersionKind, Type: reflect.TypeOf(model).Elem()}, true
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The objects of the scenarios: a ConfigMap "app" that is reconciled, and what belongs to it.
var variables = []property.Variable{
	{Name: "app", Kind: "ConfigMap", Namespace: "default", ObjectName: "app"},
	{Name: "child", Kind: "Secret", Namespace: "default", ObjectName: "app"},
	{Name: "children", Kind: "Secret", Namespace: "default"},
}

// scenario is a scenario around one operator.
type scenario struct {
	given      []apiserver.Object
	owns       []ctrlclient.Object
	racers     []sim.RacerConfig
	properties []property.Definition
	settled    bool
}

// build returns the function that makes the scenario with a reconciler.
func (s scenario) build() func(testing.TB, reconcileFunc) *sim.Config {
	return func(t testing.TB, f reconcileFunc) *sim.Config {
		t.Helper()
		kinds := apiserver.NewKinds(apiserver.V136)
		set, errs := property.Compile(kindTable{kinds}, variables, s.properties)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return &sim.Config{
			Name: "canary", Kinds: kinds, Scheme: testScheme, Given: s.given, Unsettled: !s.settled, Racers: s.racers,
			Processes:  []sim.Process{{Name: "operator", Program: program(f, s.owns)}},
			Properties: set,
		}
	}
}

func program(f reconcileFunc, owns []ctrlclient.Object) sim.Program {
	c := controller("", f)
	c.Owns = owns
	return client.Reconcilers(testScheme, c)
}

// controller runs the function on every ConfigMap.
func controller(name string, f reconcileFunc) client.Reconciler {
	return client.Reconciler{
		Name: name, For: &corev1.ConfigMap{},
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				return f(ctx, deps, request.NamespacedName)
			}), nil
		},
	}
}

// user is a racer that takes steps, once everything has settled.
func user(steps ...racer.UserStep) sim.RacerConfig {
	return sim.RacerConfig{Name: "user", WithScript: true, New: func() sim.Racer {
		return racer.NewUser(racer.UserOptions{Steps: steps})
	}}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func terminal(name, rule string) property.Definition {
	return property.Definition{Name: name, Type: property.Terminal, Rule: rule}
}

// mergePatch is a user's patch of the ConfigMap "app".
func mergePatch(patch string) racer.UserStep {
	return racer.UserStep{Patch: &racer.UserPatch{Kind: "ConfigMap", Namespace: "default", Name: "app", Data: []byte(patch)}}
}

func TestCanaries(t *testing.T) {
	for _, c := range slices.Concat(defaultOrderCanaries, sweepCanaries, staleCacheCanaries) {
		t.Run(c.name, func(t *testing.T) {
			t.Run("buggy", func(t *testing.T) { c.checkFound(t) })
			t.Run("fixed", func(t *testing.T) { c.checkLeftAlone(t) })
		})
	}
}

func (c *canary) options() explore.Options {
	if c.runs == 0 {
		return explore.Options{Seed: 1, Runs: -1}
	}
	return explore.Options{Seed: 1, Runs: c.runs, Strategies: []string{c.strategy}}
}

func (c *canary) checkFound(t *testing.T) {
	result := explored(t, c.config(t, c.buggy), c.options())
	if len(result.Findings) == 0 {
		t.Fatalf("nothing found in %d executions of %s", result.Coverage.Executions, steps(result.Default))
	}
	finding := result.Findings[0]
	if finding.Strategy != c.strategy {
		t.Errorf("found by %s, want %s", finding.Strategy, c.strategy)
	}
	if got := brokenNames(finding.Run); !slices.Equal(got, c.broken) {
		t.Errorf("broken: %q, want %q; the run was%s", got, c.broken, steps(finding.Run))
	}
	if c.strategy == explore.Sweep && !finding.Run.Constraints[0].Matched {
		t.Errorf("the order did not come about: %s", finding.Run.Constraints[0].Constraint)
	}
}

func (c *canary) checkLeftAlone(t *testing.T) {
	result := explored(t, c.config(t, c.fixed), c.options())
	for _, finding := range result.Findings {
		t.Errorf("%s found %s by %v in the run%s", finding.Strategy, finding.Signature, finding.Run.Constraints, steps(finding.Run))
	}
	if result.Coverage.Inconclusive > 0 {
		t.Errorf("%d executions are inconclusive; the default order ended %s", result.Coverage.Inconclusive, result.Default.Reason)
	}
	for _, p := range result.Coverage.Properties {
		if p.Invalid > 0 || p.Held == 0 {
			t.Errorf("property %s never held, or is invalid: %+v", p.Property.Name, p)
		}
	}
}

func explored(t *testing.T, config *sim.Config, options explore.Options) *history.Result {
	t.Helper()
	result, err := explore.Run(t.Context(), config, options)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func brokenNames(h *history.History) []string {
	var names []string
	if h.Outcome == history.Panicked {
		names = append(names, "panic")
	}
	for _, v := range h.Broken() {
		names = append(names, v.Property.Name)
	}
	return names
}

// steps prints the requests and cached reads of a run, for failures.
func steps(h *history.History) string {
	var b strings.Builder
	for i := range h.Records {
		if r := &h.Records[i]; r.Event.Verb.IsRequest() || r.Event.Verb.IsRead() || r.Event.Verb == schedule.Deliver {
			b.WriteString("\n\t" + r.At.String() + " " + r.Event.String() + " " + r.Reason)
		}
	}
	return b.String()
}
