package reactors_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// slowCanaries are about a slow cluster: what takes longer than an operator waits for it.
var slowCanaries = []canary{
	{
		// The garbage collector deletes the old child later than the poll lasts, and takes away what the operator took for
		// the new one.
		name: "waits a minute for the garbage collector", by: []schedule.FaultType{schedule.Delay, schedule.Wedge},
		scenario: collected(terminal("replaced",
			`app.?data["phase"].orValue("") != "Replaced" || child.?metadata.labels["app"].orValue("") == "app"`)),
		buggy: always(replaceByCollector(false)),
		fixed: always(replaceByCollector(true)),
	},
	{
		// A collector that is wedged is no trouble: the operator takes over before it comes back.
		name: "does not expect the collector to come late", by: []schedule.FaultType{schedule.Delay},
		scenario: collected(terminal("replaced", `child.?metadata.labels["app"].orValue("") == "app"`)),
		buggy:    takingOver(false),
		fixed:    takingOver(true),
	},
	{
		name: "waits ten minutes for the kubelet", by: []schedule.FaultType{schedule.Wedge},
		scenario: scenario{
			settled: true,
			given:   []apiserver.Object{configMap(map[string]string{"version": "1"}), podOfVersion("1")},
			racers: []sim.RacerConfig{
				{Name: "kubelet", New: func() sim.Racer { return racer.NewKubelet(racer.KubeletOptions{Binds: true}) }},
				user(racer.UserStep{At: 10 * time.Second, Patch: &racer.UserPatch{Kind: "ConfigMap", Namespace: "default", Name: "app",
					Data: []byte(`{"data":{"version":"2"}}`)}}),
			},
			properties: []property.Definition{
				invariant("updated means a pod that stays",
					`app.?data["phase"].orValue("") != "Updated" || pod == null || pod.?metadata.deletionTimestamp == optional.none()`),
				terminal("updated", `app.?data["phase"].orValue("") == "Updated" && pod.?metadata.labels["version"].orValue("") == "2"`),
			},
		},
		buggy: always(replacePod(false)),
		fixed: always(replacePod(true)),
	},
}

// TestSlowCluster checks the three stories of a slow cluster by name: the canaries sweep them among others.
func TestSlowCluster(t *testing.T) {
	by := func(actor string, verb schedule.Verb, t schedule.FaultType, p schedule.Params) schedule.Fault {
		return schedule.Fault{Type: t, Select: &schedule.Selector{Actor: actor, Verbs: []schedule.Verb{verb}}, Params: p}
	}
	tests := []struct {
		name   string
		canary string
		fault  schedule.Fault
	}{
		{"the garbage collector deletes a dependent after the operator's poll", "waits a minute for the garbage collector",
			by("gc", schedule.Delete, schedule.Delay, schedule.Params{For: 150 * time.Second})},
		{"the kubelet does not let go of a pod", "waits ten minutes for the kubelet",
			by("kubelet", schedule.Delete, schedule.Wedge, schedule.Params{})},
		{"the operator is upgraded midway", "does not know the steps of the version before",
			by("operator", schedule.Create, schedule.Upgrade, schedule.Params{Reconciler: "next"})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := allCanaries[slices.IndexFunc(allCanaries, func(c canary) bool { return c.name == test.canary })]
			for _, version := range []struct {
				operator operator
				breaks   bool
			}{{c.buggy, true}, {c.fixed, false}} {
				world, standard := newWorld(t, c.config(t, version.operator))
				run := execute(t, world, test.fault)
				if len(brokenNames(standard)) > 0 || !run.Faults[0].Struck || run.Failed() != version.breaks {
					t.Errorf("broken without the fault %q, with it %q, struck %t%s", brokenNames(standard), brokenNames(run),
						run.Faults[0].Struck, steps(run))
				}
			}
		})
	}
}

func parent() *corev1.Secret {
	p := secret("parent")
	p.UID = "parent-1"
	return p
}

// ownedBy returns the child as it is before: the parent's.
func ownedBy(owner *corev1.Secret) *corev1.Secret {
	child := secret("app")
	child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID}}
	return child
}

var errStillThere = errors.New("the old one is still there")

// await polls until the object is gone, and reports whether it is.
func await(ctx context.Context, deps sim.Deps, obj ctrlclient.Object, span time.Duration) (bool, error) {
	for begin := time.Now(); time.Since(begin) < span; time.Sleep(5 * time.Second) {
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// replaceByCollector deletes the parent, leaves it to the garbage collector to delete the child, and creates another child.
func replaceByCollector(careful bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if app.Data["phase"] == "Replaced" {
			return nil
		}
		if err := deps.Live.Delete(ctx, secret("parent")); ctrlclient.IgnoreNotFound(err) != nil {
			return err
		}
		found := secret("app")
		gone, err := await(ctx, deps, found, time.Minute)
		if err != nil {
			return err
		}
		if !gone && careful && found.Labels["app"] == "" {
			return errStillThere
		}
		if err := deps.Live.Create(ctx, labelled()); ctrlclient.IgnoreAlreadyExists(err) != nil {
			return err
		}
		return setData(ctx, deps, app, "phase", "Replaced")
	}
}

// collected is a scenario with a child that the garbage collector deletes, once its parent is gone.
func collected(d property.Definition) scenario {
	return scenario{
		given: []apiserver.Object{configMap(nil), parent(), ownedBy(parent())},
		racers: []sim.RacerConfig{{Name: "gc", New: func() sim.Racer {
			return racer.NewGarbageCollector(racer.GarbageCollectorOptions{})
		}}},
		properties: []property.Definition{d},
	}
}

// takingOver is an operator that replaces the child like replaceByCollector, but that takes over from a collector which has not
// come within a minute: in twenty, if there is something to take over by then. A careful one sees to the new child in any case.
func takingOver(careful bool) operator {
	return reconciling(func(deps sim.Deps) pass {
		waited := false
		return func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
			found := secret(key.Name)
			err := deps.Live.Get(ctx, key, found)
			gone := apierrors.IsNotFound(err)
			switch {
			case ctrlclient.IgnoreNotFound(err) != nil:
				return ctrl.Result{}, err
			case found.Labels["app"] == "app":
				return ctrl.Result{}, nil
			case waited && gone && !careful: // somebody has taken care of it
				return ctrl.Result{}, nil
			case !waited && !gone:
				if err := deps.Live.Delete(ctx, secret("parent")); ctrlclient.IgnoreNotFound(err) != nil {
					return ctrl.Result{}, err
				}
				if gone, err = await(ctx, deps, found, time.Minute); err != nil {
					return ctrl.Result{}, err
				}
				if !gone {
					waited = true
					return ctrl.Result{RequeueAfter: 20 * time.Minute}, nil
				}
			case !gone:
				if err := deps.Live.Delete(ctx, found); ctrlclient.IgnoreNotFound(err) != nil {
					return ctrl.Result{}, err
				}
			}
			return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, labelled()))
		}
	})
}

func podOfVersion(version string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", Labels: map[string]string{"version": version}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:" + version}}},
	}
}

// replacePod replaces a pod of another version than the one that is wanted, and says how far it is.
func replacePod(careful bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		found := podOfVersion("")
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(found), found)
		if err == nil && found.Labels["version"] == app.Data["version"] {
			return setData(ctx, deps, app, "phase", "Updated")
		}
		if ctrlclient.IgnoreNotFound(err) != nil {
			return err
		}
		if err := setData(ctx, deps, app, "phase", "Updating"); err != nil {
			return err
		}
		if err := deps.Live.Delete(ctx, found); ctrlclient.IgnoreNotFound(err) != nil {
			return err
		}
		gone, err := await(ctx, deps, found, 10*time.Minute)
		if err != nil {
			return err
		}
		if !gone && careful {
			return errStillThere
		}
		if err := deps.Live.Create(ctx, podOfVersion(app.Data["version"])); ctrlclient.IgnoreAlreadyExists(err) != nil {
			return err
		}
		return setData(ctx, deps, app, "phase", "Updated")
	}
}
