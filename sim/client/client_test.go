package client_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

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
	h := expect(t, sim.Plan{}, func(*diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error { return (&counter{until: 3}).SetupWithManager(m) }, configMap("a"))
	})
	want := []string{"Create Secret default/a", "Update ConfigMap default/a", "Update ConfigMap default/a", "Update ConfigMap default/a"}
	if got := called(h, schedule.Create, schedule.Update); !slices.Equal(got, want) {
		t.Errorf("writes are %q, want %q", got, want)
	}
	if len(h.Logs) == 0 || !slices.ContainsFunc(h.Logs, func(l history.Log) bool {
		return l.Message == "creating secret" && l.Key == "default/a" && slices.Equal(l.Values, []string{"for=a"})
	}) {
		t.Errorf("the history lacks the operator's log line:\n%s", dump(h))
	}
}
