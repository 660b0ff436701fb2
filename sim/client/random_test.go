package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// anyOrder is a strategy that chooses by a seed.
type anyOrder struct{ random *rand.Rand }

func newAnyOrder(seed uint64) *anyOrder { return &anyOrder{rand.New(rand.NewPCG(seed, 0))} }

// Choose implements sim.Strategy.
func (s *anyOrder) Choose(enabled []sim.Choice) int { return s.random.IntN(len(enabled)) }

// Delay implements sim.Strategy.
func (s *anyOrder) Delay(schedule.Event) time.Duration {
	if s.random.IntN(5) > 0 {
		return 0
	}
	return time.Duration(s.random.IntN(5000)) * time.Millisecond
}

// Permute implements sim.Strategy.
func (s *anyOrder) Permute(_ schedule.Event, n int) []int { return s.random.Perm(n) }

// everything sets up controllers that do all that may be put in a wrong order: several workers, event handlers that make calls,
// goroutines side by side, retries, events, indexes, and queues of the operator's own choice.
func everything(m ctrl.Manager) error {
	c := m.GetClient()
	byOwner := func(obj ctrlclient.Object) []string { return []string{obj.GetLabels()["of"]} }
	if err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Secret{}, "of", byOwner); err != nil {
		return err
	}
	recorder := m.GetEventRecorderFor("everything")
	children := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		cm := &corev1.ConfigMap{}
		if err := c.Get(ctx, request.NamespacedName, cm); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		list := &corev1.SecretList{}
		if err := c.List(ctx, list, ctrlclient.MatchingFields{"of": cm.Name}); err != nil {
			return ctrl.Result{}, err
		}
		results := make(chan error)
		for i := len(list.Items); i < 3; i++ {
			go func() {
				child := secret(fmt.Sprintf("%s-%d", cm.Name, i))
				child.Labels = map[string]string{"of": cm.Name}
				results <- errors.Join(ctrl.SetControllerReference(cm, child, c.Scheme()), c.Create(ctx, child))
			}()
		}
		var err error
		for i := len(list.Items); i < 3; i++ {
			err = errors.Join(err, <-results)
		}
		recorder.Eventf(cm, corev1.EventTypeNormal, "Counted", "%d children", len(list.Items))
		if err != nil {
			return ctrl.Result{}, err
		}
		base := cm.DeepCopy()
		cm.Data = map[string]string{"children": fmt.Sprint(len(list.Items))}
		return ctrl.Result{}, c.Patch(ctx, cm, ctrlclient.MergeFromWithOptions(base, ctrlclient.MergeFromWithOptimisticLock{}))
	}
	toAll := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj ctrlclient.Object) []reconcile.Request {
		list := &corev1.ConfigMapList{}
		if err := m.GetAPIReader().List(ctx, list, ctrlclient.InNamespace(obj.GetNamespace())); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: ctrlclient.ObjectKeyFromObject(&list.Items[i])})
		}
		return requests
	})
	read := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, ctrlclient.IgnoreNotFound(c.Get(ctx, request.NamespacedName, &corev1.ConfigMap{}))
	})
	own := func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return priorityqueue.New[reconcile.Request]("own")
	}
	return errors.Join(
		ctrl.NewControllerManagedBy(m).Named("children").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: 2}).Complete(reconcile.Func(children)),
		ctrl.NewControllerManagedBy(m).Named("mapped").Watches(&corev1.Secret{}, toAll).
			WithOptions(controller.Options{UsePriorityQueue: new(false)}).Complete(read),
		ctrl.NewControllerManagedBy(m).Named("own").For(&corev1.ConfigMap{}).
			WithOptions(controller.Options{NewQueue: own}).Complete(read))
}

// TestRandomOrders checks that a random order, too, is the same whenever it is chosen, and that orders differ.
func TestRandomOrders(t *testing.T) {
	world, err := sim.NewWorld(newConfig(everything, configMap("a"), configMap("b"), configMap("c")))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for seed := range uint64(40) {
		var hash uint64
		for n := range 4 {
			h, err := world.Run(sim.Plan{Strategy: newAnyOrder(seed)})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if n == 0 {
				hash = h.Hash
			}
			if h.Hash != hash {
				t.Errorf("seed %d: run %d differs from the first one", seed, n)
			}
			if h.Failed() {
				t.Fatalf("seed %d: %s\n%s", seed, h.Panic, dump(h))
			}
		}
		seen[hash] = true
	}
	if len(seen) < 40 {
		t.Errorf("40 seeds give %d orders", len(seen))
	}
}
