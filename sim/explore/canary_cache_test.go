package explore_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// staleCacheCanaries hold bugs that come out when a cache lags.
var staleCacheCanaries = []canary{
	{
		name: "creates another child from a stale cache",
		config: scenario{
			given: []apiserver.Object{configMap("app", nil)},
			owns:  []ctrlclient.Object{&corev1.Secret{}},
			properties: []property.Definition{{Name: "one-child", Type: property.Always, Rule: "size(children) <= 1"},
				terminal("a-child", "size(children) == 1")},
		}.build(),
		buggy:    ensureChild(metav1.ObjectMeta{GenerateName: "app-"}),
		fixed:    ensureChild(metav1.ObjectMeta{Name: "app"}),
		strategy: explore.Sweep,
		broken:   []string{"one-child", "a-child"},
	},
	{
		name: "panics when the object goes between two reads",
		config: scenario{
			given:      []apiserver.Object{configMap("app", nil), secret("app")},
			racers:     []sim.RacerConfig{cleaner(10 * time.Second)},
			properties: alwaysThere,
		}.build(),
		buggy:    copyFirst(func(err error) error { return nil }),
		fixed:    copyFirst(func(err error) error { return err }),
		strategy: explore.Sweep,
		broken:   []string{"panic"},
	},
}

// ensureChild creates a Secret if there is none in the cache, and looks again a little later.
func ensureChild(meta metav1.ObjectMeta) reconcileFunc {
	return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		children := &corev1.SecretList{}
		if err := deps.Client.List(ctx, children, ctrlclient.InNamespace(key.Namespace)); err != nil {
			return ctrl.Result{}, err
		}
		if len(children.Items) > 0 {
			return ctrl.Result{}, nil
		}
		child := &corev1.Secret{ObjectMeta: meta}
		child.Namespace = key.Namespace
		err := deps.Client.Create(ctx, child)
		return ctrl.Result{RequeueAfter: time.Second}, ctrlclient.IgnoreAlreadyExists(err)
	}
}

// copyFirst copies a key into the data of the first Secret that a list shows.
func copyFirst(check func(error) error) reconcileFunc {
	return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		list := &corev1.SecretList{}
		if err := deps.Live.List(ctx, list); err != nil || len(list.Items) == 0 {
			return ctrl.Result{}, err
		}
		found := &corev1.Secret{}
		if err := check(deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(&list.Items[0]), found)); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		if found.Name == "" {
			found.Data["name"] = nil
		}
		return ctrl.Result{}, nil
	}
}

// TestCanarySometimes checks that what was never exercised shows: it is no finding, but it is no pass either.
func TestCanarySometimes(t *testing.T) {
	config := scenario{
		given: []apiserver.Object{configMap("app", map[string]string{"want": "1"})},
		properties: append([]property.Definition{
			{Name: "child-was-created", Type: property.Sometimes, Rule: "child != null"}}, alwaysThere...),
	}.build()
	for _, test := range []struct {
		name string
		f    reconcileFunc
		seen bool // in every execution, or in none
	}{
		{"never gets there", applyThenMark(func(error) bool { return false }), true},
		{"gets there", announce(), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := explored(t, config(t, test.f), explore.Options{Runs: -1})
			if result.Failed() {
				t.Errorf("findings: %v", result.Findings)
			}
			want := 0
			if test.seen {
				want = result.Coverage.Executions
			}
			if got := result.Coverage.Properties[0]; got.Held != want || got.Broken != 0 {
				t.Errorf("seen in %d executions and broken in %d of %d, want %d and 0",
					got.Held, got.Broken, result.Coverage.Executions, want)
			}
		})
	}
}
