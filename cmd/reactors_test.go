package cmd_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// freeze is an admission webhook that lets the operator change no StatefulSet the first two times.
type freeze struct{ refused int }

// Before is called when a request is about to be carried out.
func (f *freeze) Before(d *sim.Door) {
	if e := d.Event(); e.Actor != "operator" || e.Kind != "StatefulSet" || !e.Verb.IsWrite() || f.refused == 2 {
		return
	}
	f.refused++
	refusal := apierrors.NewForbidden(appsv1.Resource("statefulsets"), d.Event().Name, errors.New("changes are frozen"))
	d.Answer(&apiserver.Response{Err: refusal})
}

// After is called when there is an answer, which has not gone back yet.
func (f *freeze) After(*sim.Door) {}

// busy is what a fake clientset would have: a reaction that answers the first read of a StatefulSet with an error.
func busy() []clientgotesting.Reactor {
	answered := false
	return []clientgotesting.Reactor{&clientgotesting.SimpleReactor{Verb: "get", Resource: "statefulsets",
		Reaction: func(clientgotesting.Action) (handled bool, object runtime.Object, err error) {
			if answered {
				return false, nil, nil // it is the next reactor's, and in the end the server's
			}
			answered = true
			return true, nil, apierrors.NewTooManyRequests("come again", 1)
		}}}
}

func TestWidgetWithReactors(t *testing.T) {
	simtest.Run(t, simtest.Scenario("testdata/widget/simulation/widget-update.yaml"),
		simtest.Manager("widget/ours", widgetv1.AddToScheme, func(m ctrl.Manager) error {
			r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
			return r.SetupWithManager(m)
		}),
		simtest.Reactors(
			func() sim.Reactor { return &freeze{} },
			reactors.FromClientGo(reactors.ClientGo{Match: schedule.Selector{Actor: "operator"}, Make: busy}),
		))
}

// A fault of the catalogue in a fake clientset, without a simulation: the first update is carried out, and its answer lost.
func TestFakeClientset(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	clientset := fake.NewClientset(set)
	lost, err := reactors.Reaction(schedule.Selector{Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet"},
		schedule.Fault{Type: schedule.LostResponse}, clientset.Tracker())
	if err != nil {
		t.Fatal(err)
	}
	clientset.PrependReactor("*", "*", lost)

	set.Labels = map[string]string{"app": "shop"}
	if _, err := clientset.AppsV1().StatefulSets("default").Update(t.Context(), set, metav1.UpdateOptions{}); err == nil {
		t.Error("the answer came back")
	}
	if stored, err := clientset.AppsV1().StatefulSets("default").Get(t.Context(), "shop", metav1.GetOptions{}); err != nil ||
		stored.Labels["app"] != "shop" {
		t.Errorf("the update was not carried out: %v, %v", stored, err)
	}
}
