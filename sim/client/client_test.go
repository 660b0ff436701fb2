package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// counter counts up the data of a ConfigMap until it is done, and owns a Secret.
type counter struct {
	ctrlclient.Client
	until int
}

func (c *counter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cm := &corev1.ConfigMap{}
	if err := c.Get(ctx, request.NamespacedName, cm); err != nil {
		return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	if err := c.Get(ctx, request.NamespacedName, secret); apierrors.IsNotFound(err) {
		secret.Name = cm.Name
		if err := ctrl.SetControllerReference(cm, secret, c.Scheme()); err != nil {
			return ctrl.Result{}, err
		}
		log.FromContext(ctx).Info("creating secret", "for", cm.Name)
		if err := c.Create(ctx, secret); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(cm.Data["n"]) >= c.until {
		return ctrl.Result{}, nil
	}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	cm.Data["n"] += "x"
	if err := c.Update(ctx, cm); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: 30 * time.Second}, nil
}

func (c *counter) SetupWithManager(m ctrl.Manager) error {
	c.Client = m.GetClient()
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(c)
}

func TestManager(t *testing.T) {
	scheme := newScheme(t)
	config := &sim.Config{
		Name: "counter", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: scheme, Unsettled: true,
		Given: []apiserver.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}},
		Processes: []sim.Process{{Name: "operator", Program: client.Manager(scheme, func(m ctrl.Manager) error {
			return (&counter{until: 3}).SetupWithManager(m)
		})}},
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := world.Run(sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	dump(t, h)
	if h.Outcome != history.Terminal {
		t.Errorf("outcome is %s (%s), want %s", h.Outcome, h.Reason, history.Terminal)
	}
}

func dump(t *testing.T, h *history.History) {
	t.Helper()
	for i, r := range h.Records {
		t.Log(fmt.Sprintf("%3d %12s t%d c%d %s %d %s x%d", i, r.At, r.Thread, r.Cause, r.Event, r.Code, r.Reason, r.Repeats))
	}
	for _, l := range h.Logs {
		t.Log(fmt.Sprintf("%12s %s(%s) %s %v", l.At, l.Actor, l.Key, l.Message, l.Values))
	}
	t.Log(h.Outcome, h.Reason, h.Steps, h.Hash)
}
