package reactors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgotesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A reactor that a team has for its fake clientset, which refuses the first Secret, takes its place in front of the simulated
// server. It holds state, so each run has its own.
func ExampleFromClientGo() {
	refuseFirst := func() []clientgotesting.Reactor {
		refused := false
		return []clientgotesting.Reactor{&clientgotesting.SimpleReactor{Verb: "create", Resource: "secrets",
			Reaction: func(action clientgotesting.Action) (bool, runtime.Object, error) {
				if refused {
					return false, nil, nil
				}
				refused = true
				return true, nil, apierrors.NewInternalError(errors.New("the quota is not known yet"))
			}}}
	}
	world, err := sim.NewWorld(&sim.Config{
		Name: "example", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: testScheme, Unsettled: true,
		Given: []apiserver.Object{configMap(nil)},
		Processes: []sim.Process{{Name: "operator", Program: client.Reconcilers(testScheme, client.Reconciler{
			For: &corev1.ConfigMap{},
			New: func(deps sim.Deps) (reconcile.Reconciler, error) {
				return reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
					err := deps.Client.Create(ctx, secret("app"))
					fmt.Println("create:", err)
					return ctrl.Result{}, err
				}), nil
			}})}},
		Reactors: []func() sim.Reactor{reactors.FromClientGo(reactors.ClientGo{
			Match: schedule.Selector{Actor: "operator"}, Make: refuseFirst,
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := world.Run(sim.Plan{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// create: Internal error occurred: the quota is not known yet
	// create: <nil>
}

func getChild(ctx context.Context, live ctrlclient.Client, d *diary) {
	found := &corev1.Secret{}
	err := live.Get(ctx, appKey, found)
	d.write("%v, labels %v", err, found.Labels)
}

func createChild(ctx context.Context, live ctrlclient.Client, d *diary) {
	d.write("%v", live.Create(ctx, labelled()))
}

func listChildren(ctx context.Context, live ctrlclient.Client, d *diary) {
	list := &corev1.SecretList{}
	err := live.List(ctx, list)
	d.write("%v, %d items, revision %s", err, len(list.Items), list.ResourceVersion)
}

func returning(obj runtime.Object, err error) clientgotesting.ReactionFunc {
	return func(clientgotesting.Action) (bool, runtime.Object, error) { return true, obj, err }
}

// relabelled is a child that is not in the store.
var relabelled = func() *corev1.Secret {
	child := labelled()
	child.Labels["from"] = "reactor"
	return child
}()

// chains are reactors, and what an operator sees of them.
var chains = []struct {
	name           string
	match          schedule.Selector
	verb, resource string
	reaction       clientgotesting.ReactionFunc
	call           func(context.Context, ctrlclient.Client, *diary)
	want           string
}{
	{"object", schedule.Selector{}, "get", "secrets", returning(relabelled, nil), getChild, "<nil>, labels map[app:app from:reactor]"},
	{"empty object", schedule.Selector{}, "*", "secrets", returning(nil, nil), getChild, "<nil>, labels map[]"},
	{"status error", schedule.Selector{}, "*", "*", returning(nil, apierrors.NewUnauthorized("who are you")), getChild,
		"who are you, labels map[]"},
	{"other error", schedule.Selector{}, "create", "*", returning(nil, errors.New("cable cut")), createChild, "cable cut"},
	{"other resource", schedule.Selector{}, "*", "pods", returning(nil, errors.New("cable cut")), createChild, "<nil>"},
	{"subresource", schedule.Selector{}, "*", "secrets/status", returning(nil, errors.New("cable cut")), createChild, "<nil>"},
	{"other verb", schedule.Selector{}, "delete", "*", returning(nil, errors.New("cable cut")), createChild, "<nil>"},
	{"other actor", schedule.Selector{Actor: "gc"}, "*", "*", returning(nil, errors.New("cable cut")), createChild, "<nil>"},
	{"not the second", schedule.Selector{Kind: "Secret", Occurrence: 2}, "*", "*", returning(nil, errors.New("cable cut")), createChild,
		"<nil>"},
	{"list", schedule.Selector{}, "list", "secrets", returning(&corev1.SecretList{Items: make([]corev1.Secret, 2)}, nil), listChildren,
		"<nil>, 2 items, revision 0"},
	{"change without an answer", schedule.Selector{}, "create", "*", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		action.(clientgotesting.CreateAction).GetObject().(*corev1.Secret).Name = "changed"
		return false, nil, nil
	}, func(ctx context.Context, live ctrlclient.Client, d *diary) {
		d.write("%v", live.Create(ctx, labelled()))
		getChild(ctx, live, d)
	}, "<nil>\n0s <nil>, labels map[app:app]"},
	{"a 429 is none of client-go's", schedule.Selector{}, "create", "*", returning(nil, apierrors.NewTooManyRequests("slowly", 1)),
		createChild, "slowly"},
}

// TestFromClientGo checks what an operator gets of what reactors return.
func TestFromClientGo(t *testing.T) {
	for _, test := range chains {
		t.Run(test.name, func(t *testing.T) {
			d := &diary{}
			s := scenario{given: []apiserver.Object{configMap(nil)}}
			config := s.config(t, d.once(func(ctx context.Context, live ctrlclient.Client) { test.call(ctx, live, d) }))
			config.Reactors = []func() sim.Reactor{reactors.FromClientGo(reactors.ClientGo{Match: test.match,
				Make: func() []clientgotesting.Reactor {
					pass := &clientgotesting.SimpleReactor{Verb: "*", Resource: "*", Reaction: func(clientgotesting.Action) (
						bool, runtime.Object, error) {
						return false, nil, nil
					}}
					return []clientgotesting.Reactor{pass, &clientgotesting.SimpleReactor{Verb: test.verb, Resource: test.resource,
						Reaction: test.reaction}}
				}})}
			_, h := newWorld(t, config)
			want := "0s " + test.want
			got := ""
			for i, line := range d.lines {
				if i > 0 {
					got += "\n"
				}
				got += line
			}
			if got != want {
				t.Errorf("got %s\nwant %s%s", got, want, steps(h))
			}
		})
	}
}

// TestFromClientGoIsMadeAnew checks that reactors of one run know nothing of another.
func TestFromClientGoIsMadeAnew(t *testing.T) {
	made := 0
	d := &diary{}
	s := scenario{given: []apiserver.Object{configMap(nil)}}
	config := s.config(t, d.once(func(ctx context.Context, live ctrlclient.Client) { d.write("%v", live.Create(ctx, labelled())) }))
	config.Reactors = []func() sim.Reactor{reactors.FromClientGo(reactors.ClientGo{Make: func() []clientgotesting.Reactor {
		made++
		calls := 0
		return []clientgotesting.Reactor{&clientgotesting.SimpleReactor{Verb: "create", Resource: "*",
			Reaction: func(clientgotesting.Action) (bool, runtime.Object, error) {
				calls++
				return true, nil, fmt.Errorf("call %d", calls)
			}}}
	}})}
	world, _ := newWorld(t, config)
	execute(t, world)
	if made != 2 || !slices.Equal(d.lines, []string{"0s call 1", "0s call 1"}) {
		t.Errorf("made %d times: %q", made, d.lines)
	}
}
