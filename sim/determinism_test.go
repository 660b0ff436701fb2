package sim_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// coreKinds tells the property compiler of the built-in kinds.
type coreKinds struct{ kinds *apiserver.Kinds }

func (k coreKinds) Lookup(name string) (property.Kind, bool) {
	kind := k.kinds.ByName(name)
	if kind == nil || kind.Type == nil {
		return property.Kind{}, false
	}
	obj, err := testScheme.New(kind.GroupVersionKind)
	if err != nil {
		return property.Kind{}, false
	}
	return property.Kind{GroupVersionKind: kind.GroupVersionKind, Type: reflect.TypeOf(obj).Elem()}, true
}

// TestDeterminism executes random walks twice each, with one and with two processors: the same seed must give the same
// history, and different seeds different ones. SIM_RUNS raises the number of seeds.
func TestDeterminism(t *testing.T) {
	runs := 100
	if text := os.Getenv("SIM_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, config := range map[string]*sim.Config{
		"writers": writers(), "fan-out": fanOut(), "alike": alike(), "sleepers": sleepers(),
	} {
		t.Run(name, func(t *testing.T) {
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			distinct := map[uint64]bool{}
			for seed := range int64(runs) {
				var hashes []uint64
				for processors := 1; processors <= 2; processors++ {
					runtime.GOMAXPROCS(processors)
					for range 2 {
						h, err := world.Run(sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)})
						if err != nil {
							t.Fatal(err)
						}
						hashes = append(hashes, h.Hash)
						distinct[h.Hash] = true
					}
				}
				for _, hash := range hashes[1:] {
					if hash != hashes[0] {
						t.Fatalf("seed %d: hashes are %x", seed, hashes)
					}
				}
			}
			if len(distinct) < runs*9/10 {
				t.Errorf("%d seeds gave only %d histories", runs, len(distinct))
			}
		})
	}
}

// writers are two operators that count a ConfigMap up, against a user who edits it.
func writers() *sim.Config {
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if len(cm.Data["value"]) >= 6 {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: time.Second}, set(ctx, c, cm, cm.Data["value"]+"x")
	}, configMap("a"), configMap("b"), configMap("c"))
	config.Processes = append(config.Processes, sim.Process{Name: "second", Program: config.Processes[0].Program})
	config.Racers = []sim.RacerConfig{{Name: "annotator", New: func() sim.Racer {
		return racer.NewAnnotator(racer.AnnotatorOptions{Kind: "ConfigMap", Namespace: "default", Name: "a", Times: 5})
	}}}
	return config
}

// fanOut is an operator with several workers, whose passes start goroutines, over caches, with children that are collected.
func fanOut() *sim.Config {
	config := newConfig(nil, configMap("a"), configMap("b"))
	config.Processes[0].Program = client.Reconcilers(testScheme, client.Reconciler{
		For: &corev1.ConfigMap{}, Owns: []ctrlclient.Object{&corev1.Secret{}}, MaxConcurrentReconciles: 3,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				cm := &corev1.ConfigMap{}
				if err := deps.Client.Get(ctx, request.NamespacedName, cm); err != nil {
					return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
				}
				errs := make(chan error)
				for i := range 3 {
					go func() {
						child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name + strconv.Itoa(i)}}
						if err := ctrl.SetControllerReference(cm, child, deps.Scheme); err != nil {
							errs <- err
							return
						}
						errs <- ctrlclient.IgnoreAlreadyExists(deps.Client.Create(ctx, child))
					}()
				}
				var failure error
				for range 3 {
					if err := <-errs; err != nil {
						failure = err
					}
				}
				return ctrl.Result{}, failure
			}), nil
		},
	})
	config.Racers = []sim.RacerConfig{
		{Name: "gc", New: func() sim.Racer { return racer.NewGarbageCollector(racer.GarbageCollectorOptions{}) }},
		{Name: "user", WithScript: true, New: func() sim.Racer {
			return racer.NewUser(racer.UserOptions{Steps: []racer.UserStep{
				{At: 10 * time.Millisecond, Delete: &racer.UserDelete{Kind: "ConfigMap", Namespace: "default", Name: "a"}}}})
		}},
	}
	return config
}

// alike is an operator whose passes start goroutines that read the same, from the server with a context that may end before
// the answer comes, and from a cache, before each does something of its own with it.
func alike() *sim.Config {
	config := newConfig(nil, configMap("a"), configMap("b"), configMap("c"))
	config.Processes[0].Program = client.Reconcilers(testScheme, client.Reconciler{
		For: &corev1.ConfigMap{},
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
				defer cancel()
				part := func(name string) error {
					if err := deps.Live.Get(short, request.NamespacedName, &corev1.ConfigMap{}); err != nil {
						name += "-late"
					}
					all := &corev1.ConfigMapList{}
					if err := deps.Client.List(ctx, all); err != nil {
						return err
					}
					child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name + name}}
					for _, cm := range all.Items {
						child.Type += corev1.SecretType(cm.Name)
					}
					return ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, child))
				}
				errs := make(chan error)
				for i := range 3 {
					go func() { errs <- part(strconv.Itoa(i)) }()
				}
				return ctrl.Result{}, errors.Join(<-errs, <-errs, <-errs)
			}), nil
		},
	})
	return config
}

// sleepers are two operators that sleep, time out, poll and fail.
func sleepers() *sim.Config {
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		deadline, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		for range 3 {
			time.Sleep(5 * time.Second)
			if err := c.Get(deadline, ctrlclient.ObjectKeyFromObject(cm), cm); err != nil {
				return ctrl.Result{}, err
			}
		}
		if len(cm.Data["value"]) >= 3 {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(deadline, c, cm, cm.Data["value"]+"x")
	}, configMap("a"), configMap("b"))
	config.Processes = append(config.Processes, sim.Process{Name: "second", Program: config.Processes[0].Program})
	return config
}
