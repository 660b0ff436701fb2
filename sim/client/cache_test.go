package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var configMapsKind = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}

// onceWith is a scenario in which a reconciler of ConfigMaps does something in its first pass.
func onceWith(f func(ctx context.Context, m ctrl.Manager, d *diary) error, given ...apiserver.Object) func(*diary) *sim.Config {
	return func(d *diary) *sim.Config {
		done := false
		return newConfig(func(m ctrl.Manager) error {
			return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				if done {
					return ctrl.Result{}, nil
				}
				done = true
				if err := f(ctx, m, d); err != nil {
					d.write("error: %v", err)
				}
				return ctrl.Result{}, nil
			})
		}, given...)
	}
}

func key(name string) ctrlclient.ObjectKey {
	return ctrlclient.ObjectKey{Namespace: "default", Name: name}
}

// TestStaleness checks that a cache which a schedule holds back shows the old state, also after the process's own write,
// while the API reader shows the new one.
func TestStaleness(t *testing.T) {
	scenario := onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		if err := m.GetClient().Update(ctx, configMap("a", "n=2")); err != nil {
			return err
		}
		for range 2 {
			cached, live, untyped := &corev1.ConfigMap{}, &corev1.ConfigMap{}, &unstructured.Unstructured{}
			untyped.SetGroupVersionKind(configMapsKind.GroupVersionKind())
			err := errors.Join(m.GetClient().Get(ctx, key("a"), cached), m.GetAPIReader().Get(ctx, key("a"), live),
				m.GetClient().Get(ctx, key("a"), untyped))
			if err != nil {
				return err
			}
			content, _, _ := unstructured.NestedString(untyped.Object, "data", "n")
			d.write("cached %s, live %s, unstructured %s", cached.Data["n"], live.Data["n"], content)
			if err := m.GetClient().Create(ctx, secret("s")); err != nil {
				return ctrlclient.IgnoreAlreadyExists(err)
			}
		}
		return nil
	}, configMap("a", "n=1"))
	t.Run("default order", func(t *testing.T) {
		expect(t, sim.Plan{}, scenario, "cached 2, live 2, unstructured 2", "cached 2, live 2, unstructured 2")
	})
	t.Run("held", func(t *testing.T) {
		held := schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Deliver, Kind: "ConfigMap",
			Namespace: "default", Name: "a", Occurrence: 1}
		waits := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Create, Kind: "Secret",
			Namespace: "default", Name: "s", Occurrence: 1}
		h := expect(t, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: waits}}}, scenario,
			"cached 1, live 2, unstructured 2", "cached 2, live 2, unstructured 2")
		if c := h.Constraints[0]; !c.Held || !c.Matched {
			t.Errorf("constraint: held %v, matched %v; want both", c.Held, c.Matched)
		}
	})
}

// TestReadErrors checks the errors of reads from the cache and from the server.
func TestReadErrors(t *testing.T) {
	byField := func(selector string) ctrlclient.ListOption {
		return ctrlclient.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie(selector)}
	}
	list := func(opts ...ctrlclient.ListOption) func(context.Context, ctrlclient.Reader) error {
		return func(ctx context.Context, r ctrlclient.Reader) error {
			return r.List(ctx, &corev1.ConfigMapList{}, opts...)
		}
	}
	get := func(key ctrlclient.ObjectKey, obj ctrlclient.Object) func(context.Context, ctrlclient.Reader) error {
		return func(ctx context.Context, r ctrlclient.Reader) error { return r.Get(ctx, key, obj) }
	}
	tests := []struct {
		name         string
		read         func(context.Context, ctrlclient.Reader) error
		cached, live string
	}{
		{"absent", get(key("b"), &corev1.ConfigMap{}), `ConfigMap "b" not found`, `configmaps "b" not found`},
		{"absent in a group", get(key("b"), statefulSet("")), `StatefulSet.apps "b" not found`, `statefulsets.apps "b" not found`},
		{"without a name", get(key(""), &corev1.ConfigMap{}), `ConfigMap "" not found`, "resource name may not be empty"},
		{"without a namespace", get(ctrlclient.ObjectKey{Name: "a"}, &corev1.ConfigMap{}), `ConfigMap "a" not found`,
			"an empty namespace may not be set when a resource name is provided"},
		{"with a path", get(key("a/b"), &corev1.ConfigMap{}), `ConfigMap "a/b" not found`,
			`invalid resource name "a/b": [may not contain '/']`},
		{"unknown kind", get(ctrlclient.ObjectKey{Name: "a"}, &flowcontrolv1.FlowSchema{}),
			`no matches for kind "FlowSchema" in version "flowcontrol.apiserver.k8s.io/v1"`,
			`no matches for kind "FlowSchema" in version "flowcontrol.apiserver.k8s.io/v1"`},
		{"no index", list(byField("data.n=1")), "Index with name field:data.n does not exist",
			`"data.n" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"inexact", list(byField("metadata.name!=a")), "non-exact field matches are not supported by the cache", ""},
		{"everything", list(ctrlclient.MatchingFieldsSelector{Selector: fields.Everything()}),
			"non-exact field matches are not supported by the cache", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
				for _, reader := range []ctrlclient.Reader{m.GetClient(), m.GetAPIReader()} {
					if err := test.read(ctx, reader); err != nil {
						d.write("%v", err)
					} else {
						d.write("")
					}
				}
				return nil
			}, configMap("a")), test.cached, test.live)
		})
	}
}

// TestCachedList checks what a cache's list leaves out, and what its objects look like.
func TestCachedList(t *testing.T) {
	other := configMap("a", ":l=1")
	other.Namespace = "other"
	tests := []struct {
		name string
		opts []ctrlclient.ListOption
		want string
	}{
		{"all", nil, "default/a default/b default/c other/a"},
		{"namespace", []ctrlclient.ListOption{ctrlclient.InNamespace("default")}, "default/a default/b default/c"},
		{"labels", []ctrlclient.ListOption{ctrlclient.MatchingLabels{"l": "1"}}, "default/a default/c other/a"},
		{"index", []ctrlclient.ListOption{ctrlclient.MatchingFields{"data.n": "2"}}, "default/b default/c"},
		{"index in a namespace", []ctrlclient.ListOption{ctrlclient.MatchingFields{"data.n": "2"},
			ctrlclient.InNamespace("other")}, ""},
		{"two indexes", []ctrlclient.ListOption{ctrlclient.MatchingFields{"data.n": "2", "name": "c"}}, "default/c"},
		{"index and labels", []ctrlclient.ListOption{ctrlclient.MatchingFields{"data.n": "2"},
			ctrlclient.MatchingLabels{"l": "1"}}, "default/c"},
		{"limit", []ctrlclient.ListOption{ctrlclient.Limit(2)}, "default/a default/b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			given := []apiserver.Object{configMap("a", ":l=1", "n=1"), configMap("b", "n=2"), configMap("c", ":l=1", "n=2"),
				other.DeepCopy()}
			scenario := onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
				byValue := func(obj ctrlclient.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["n"]} }
				byName := func(obj ctrlclient.Object) []string { return []string{obj.GetName()} }
				indexer := m.GetFieldIndexer()
				err := errors.Join(indexer.IndexField(ctx, &corev1.ConfigMap{}, "data.n", byValue),
					indexer.IndexField(ctx, &corev1.ConfigMap{}, "name", byName))
				if err != nil {
					return err
				}
				list := &corev1.ConfigMapList{}
				if err := m.GetClient().List(ctx, list, test.opts...); err != nil {
					return err
				}
				var names []string
				for _, item := range list.Items {
					names = append(names, ctrlclient.ObjectKeyFromObject(&item).String())
					if item.TypeMeta != configMapsKind {
						d.write("%s has type %v", item.Name, item.TypeMeta)
					}
				}
				d.write("%s", strings.Join(names, " "))
				if list.Continue != "continue-not-supported" || list.ResourceVersion != "" {
					d.write("continue %q, resourceVersion %q", list.Continue, list.ResourceVersion)
				}
				return nil
			}, given...)
			expect(t, sim.Plan{}, scenario, test.want)
		})
	}
}

// TestLateIndex checks an index that is added when the informer runs already.
func TestLateIndex(t *testing.T) {
	expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		byName := func(obj ctrlclient.Object) []string { return []string{obj.GetName()} }
		for range 2 {
			d.write("%v", m.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "name", byName))
		}
		list := &corev1.ConfigMapList{}
		err := m.GetClient().List(ctx, list, ctrlclient.MatchingFields{"name": "b"})
		d.write("%d items", len(list.Items))
		return err
	}, configMap("a"), configMap("b")), "<nil>", "indexer conflict: map[field:name:{}]", "1 items")
}

// TestBeforeStart checks what a set-up can do with caches before the manager starts: read live, but not cached; ask for
// informers, whose handlers hear of the initial list when it has started.
func TestBeforeStart(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			ctx := context.Background()
			cm := &corev1.ConfigMap{}
			err := m.GetClient().Get(ctx, key("a"), cm)
			d.write("cached: %v %v", err, errors.As(err, new(*ctrlcache.ErrCacheNotStarted)))
			d.write("live: %v", m.GetAPIReader().Get(ctx, key("a"), cm))
			informer, err := m.GetCache().GetInformer(ctx, &corev1.Secret{})
			if err != nil {
				return err
			}
			names := make(chan string) // nobody receives yet
			registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { names <- obj.(*corev1.Secret).Name },
			})
			if err != nil {
				return err
			}
			d.write("synced: %v %v", informer.HasSynced(), registration.HasSynced())
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				d.write("caches have synced: %v", m.GetCache().WaitForCacheSync(ctx))
				d.write("heard of %s", <-names)
				<-registration.HasSyncedChecker().Done()
				d.write("synced: %v %v %v", informer.HasSynced(), registration.HasSynced(), informer.IsStopped())
				return nil
			}))
		}, configMap("a"), secret("s"))
	},
		"cached: the cache is not started, can not read objects true", "live: <nil>", "synced: false false",
		"caches have synced: true", "heard of s", "synced: true true false")
	if h.Records[1].Event.Verb != schedule.Get {
		t.Errorf("the first call is %s, want the live Get", h.Records[1].Event)
	}
}

// TestRemovedInformer checks that the handlers of a removed informer hear of nothing any more, and that the next one who asks
// gets a new informer, without the indexes of the old one.
func TestRemovedInformer(t *testing.T) {
	expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		informer, err := m.GetCache().GetInformer(ctx, &corev1.Secret{})
		if err != nil {
			return err
		}
		add := func() (toolscache.ResourceEventHandlerRegistration, error) {
			return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { d.write("heard of %s", obj.(*corev1.Secret).Name) },
			})
		}
		byOne := func(any) ([]string, error) { return []string{"__all_namespaces/1"}, nil }
		if err := informer.AddIndexers(toolscache.Indexers{"field:x": byOne}); err != nil {
			return err
		}
		first, err := add()
		if err != nil {
			return err
		}
		if err := m.GetClient().Create(ctx, secret("one")); err != nil {
			return err
		}
		time.Sleep(time.Second)
		if err := informer.RemoveEventHandler(first); err != nil {
			return err
		}
		if _, err := add(); err != nil {
			return err
		}
		list := &corev1.SecretList{}
		d.write("%v", m.GetClient().List(ctx, list, ctrlclient.Continue("x")))
		if err := m.GetClient().List(ctx, list, ctrlclient.MatchingFields{"x": "1"}); err != nil {
			return err
		}
		d.write("%d by index", len(list.Items))
		if err := m.GetCache().RemoveInformer(ctx, &corev1.Secret{}); err != nil {
			return err
		}
		d.write("stopped: %v", informer.IsStopped())
		if err := m.GetClient().Create(ctx, secret("two")); err != nil {
			return err
		}
		d.write("%v", m.GetClient().List(ctx, list, ctrlclient.MatchingFields{"x": "1"}))
		err = m.GetClient().List(ctx, list)
		d.write("%d in all", len(list.Items))
		return err
	}, configMap("a")), "heard of one", "heard of one",
		"continue list option is not supported by the cache", "1 by index", "stopped: true",
		"Index with name field:x does not exist", "2 in all")
}

// TestForms checks that typed, unstructured and metadata-only objects of a kind come from informers of their own, each with
// its apiVersion and kind where controller-runtime has them.
func TestForms(t *testing.T) {
	describe := func(obj ctrlclient.Object) string {
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			data, _, _ := unstructured.NestedString(o.Object, "data", "n")
			return fmt.Sprintf("%T %s %s n=%s", o, o.GetKind(), o.GetName(), data)
		case *metav1.PartialObjectMetadata:
			return fmt.Sprintf("%T %s %s %v", o, o.Kind, o.Name, o.Labels)
		case *corev1.ConfigMap:
			return fmt.Sprintf("%T %s %s n=%s", o, o.Kind, o.Name, o.Data["n"])
		default:
			return fmt.Sprintf("%T", o)
		}
	}
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			hear := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj ctrlclient.Object) []reconcile.Request {
				d.write("event: %s", describe(obj))
				return nil
			})
			untyped, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{TypeMeta: configMapsKind}
			untyped.SetGroupVersionKind(configMapsKind.GroupVersionKind())
			err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
				for _, reader := range []ctrlclient.Reader{m.GetCache(), m.GetAPIReader()} {
					for _, obj := range []ctrlclient.Object{&corev1.ConfigMap{}, untyped.DeepCopy(), metadata.DeepCopy()} {
						if err := reader.Get(ctx, key("a"), obj); err != nil {
							return err
						}
						d.write("%s", describe(obj))
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).Named("forms").
				Watches(&corev1.ConfigMap{}, hear).Watches(untyped, hear).
				Watches(&corev1.ConfigMap{}, hear, builder.OnlyMetadata).WatchesMetadata(metadata, hear).Complete(nothing(d))
		}, configMap("a", "n=1", ":l=1"))
	},
		"event: *v1.ConfigMap  a n=1", "event: *v1.PartialObjectMetadata ConfigMap a map[l:1]",
		"event: *v1.PartialObjectMetadata ConfigMap a map[l:1]", "event: *unstructured.Unstructured ConfigMap a n=1",
		"*v1.ConfigMap ConfigMap a n=1", "*unstructured.Unstructured ConfigMap a n=1",
		"*v1.PartialObjectMetadata ConfigMap a map[l:1]",
		"*v1.ConfigMap  a n=1", "*unstructured.Unstructured ConfigMap a n=1", "*v1.PartialObjectMetadata ConfigMap a map[l:1]")
	var synced []string
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Sync && !strings.HasPrefix(r.Event.Name, "source ") && r.Event.Kind == "ConfigMap" {
			synced = append(synced, r.Event.Controller)
		}
	}
	if want := []string{"", "metadata", "unstructured"}; !slices.Equal(synced, want) {
		t.Errorf("informers are %q, want %q", synced, want)
	}
}

// TestEndedContext checks a context that ends while a call is parked: the call ends with its error. Reading from a cache is
// reading from memory, which no context stops.
func TestEndedContext(t *testing.T) {
	held := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Get, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 1}
	never := held
	never.Occurrence = 9
	h := expect(t, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: never}}},
		onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			err := m.GetAPIReader().Get(short, key("a"), &corev1.ConfigMap{})
			d.write("%v at %s", err, at().Round(time.Millisecond))
			d.write("%v", m.GetClient().Update(short, configMap("a", "n=1")))
			d.write("%v", m.GetClient().Get(short, key("a"), &corev1.ConfigMap{}))
			return nil
		}, configMap("a")),
		"context deadline exceeded at 5s", "context deadline exceeded", "<nil>")
	if wakes := called(h, schedule.Wake); len(wakes) != 2 {
		t.Errorf("%d calls parked once more, want 2", len(wakes))
	}
	if writes := called(h, schedule.Update); len(writes) != 0 {
		t.Errorf("writes with an ended context are %q, want none", writes)
	}
}

// upsideDown is the default order, but that everything without an order comes in another one each time: first the last half.
type upsideDown struct{ lists int }

// Choose implements sim.Strategy.
func (*upsideDown) Choose([]sim.Choice) int { return 0 }

// Delay implements sim.Strategy.
func (*upsideDown) Delay(schedule.Event) time.Duration { return 0 }

// Permute implements sim.Strategy.
func (s *upsideDown) Permute(event schedule.Event, n int) []int {
	if event.Verb != schedule.CachedList {
		return nil
	}
	s.lists++
	order := make([]int, n)
	for i := range order {
		order[i] = (i + s.lists) % n
	}
	return order
}

// TestListOrder checks row 51: a cache lists in the order of the keys by default, and in any other that a strategy wants, for each
// list anew; what a limit leaves of it depends on that.
func TestListOrder(t *testing.T) {
	scenario := onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		for _, opts := range [][]ctrlclient.ListOption{
			{}, {ctrlclient.InNamespace("default")}, {ctrlclient.Limit(2)}, {ctrlclient.MatchingLabels{"l": "1"}, ctrlclient.Limit(1)},
		} {
			list := &corev1.ConfigMapList{}
			if err := m.GetClient().List(ctx, list, opts...); err != nil {
				return err
			}
			names := ""
			for _, item := range list.Items {
				names += item.Name
			}
			d.write("%s", names)
		}
		live := &corev1.ConfigMapList{}
		err := m.GetAPIReader().List(ctx, live)
		d.write("live %s%s%s", live.Items[0].Name, live.Items[1].Name, live.Items[2].Name)
		return err
	}, configMap("a", ":l=1"), configMap("b"), configMap("c", ":l=1"))
	expect(t, sim.Plan{}, scenario, "abc", "abc", "ab", "a", "live abc")
	d := &diary{}
	run(t, scenario(d), sim.Plan{Strategy: &upsideDown{}})
	if want := []string{"bca", "cab", "ab", "c", "live abc"}; !slices.Equal(d.lines, want) {
		t.Errorf("the program saw %q, want %q", d.lines, want)
	}
}
