package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// twin is a story that is played twice: on a simulated manager, and on controller-runtime's own with its cache, its client and
// client-go's reflectors, which is connected to the simulated API server by the HTTP handler. Both must see the same.
type twin struct {
	name string
	// options are those of the manager, made anew for each.
	options func() ctrl.Options
	given   []apiserver.Object
	// setup runs before the manager is started, story after it, when its caches have synced.
	setup func(context.Context, ctrl.Manager, *diary) error
	story func(context.Context, ctrl.Manager, *diary) error
}

// tell adds the story to a manager.
func (w *twin) tell(m ctrl.Manager, d *diary, done func()) error {
	ctx := context.Background()
	if w.setup != nil {
		if err := w.setup(ctx, m, d); err != nil {
			d.write("setup: %v", err)
		}
	}
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer done()
		time.Sleep(time.Minute)
		if err := w.story(ctx, m, d); err != nil {
			d.write("story: %v", err)
		}
		time.Sleep(time.Minute)
		d.write("%s", theEnd)
		return nil
	}))
}

// theEnd is the last line that counts: a simulated manager goes on until nothing happens any more.
const theEnd = "- the end"

// simulated plays the story on a simulated manager.
func (w *twin) simulated(t *testing.T) []string {
	t.Helper()
	h, lines := play(t, sim.Plan{}, func(d *diary) *sim.Config {
		setup := func(m ctrl.Manager) error { return w.tell(m, d, func() {}) }
		var given []apiserver.Object
		for _, obj := range w.given {
			given = append(given, obj.DeepCopyObject().(apiserver.Object))
		}
		return &sim.Config{
			Name: "twin", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: scheme, Unsettled: true, Given: given,
			Processes: []sim.Process{{Name: "operator", Program: client.Manager(scheme, setup, client.WithOptions(w.options()))}},
		}
	})
	if h.Outcome != history.Terminal || len(h.Unfinished) > 0 || len(h.Gaps) > 0 {
		t.Errorf("outcome is %s (%s), unfinished %q, gaps %q\n%s", h.Outcome, h.Reason, h.Unfinished, h.Gaps, h.Panic)
	}
	return lines
}

// real plays the story on controller-runtime's manager.
func (w *twin) real(t *testing.T) []string {
	t.Helper()
	d := &diary{}
	inBubble(t, func(t *testing.T) {
		s := apiserver.NewServer(apiserver.NewKinds(apiserver.V136), time.Now)
		var given []apiserver.Object
		for _, obj := range w.given {
			given = append(given, obj.DeepCopyObject().(apiserver.Object))
		}
		if err := s.LoadAll(given); err != nil {
			t.Fatal(err)
		}
		options := w.options()
		options.Scheme, options.Metrics = scheme, server.Options{BindAddress: "0"}
		m, err := ctrl.NewManager(handler.New(handler.NewLocal(s)).Config(), options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := w.tell(m, d, cancel); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
	})
	return d.lines
}

// inBubble runs a test in a bubble of virtual time.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() {
		// A metadata-only watch that is stopped while it has something to tell leaves a goroutine behind: watch.Filter of
		// k8s.io/apimachinery. That is no matter of ours; TestMain looks for any other.
		if value := recover(); value != nil && !strings.Contains(fmt.Sprint(value), "blocked goroutines remain") {
			panic(value)
		}
	}()
	synctest.Test(t, f)
}

// TestTwins plays each story twice.
func TestTwins(t *testing.T) {
	for _, w := range slices.Concat(cacheTwins(), clientTwins()) {
		if w.options == nil {
			w.options = func() ctrl.Options { return ctrl.Options{} }
		}
		t.Run(w.name, func(t *testing.T) {
			ours, real := chapters(w.simulated(t)), chapters(w.real(t))
			if !slices.Equal(ours, real) {
				t.Errorf("the simulated manager\n\t%s\nthe real one\n\t%s", strings.Join(ours, "\n\t"), strings.Join(real, "\n\t"))
			}
			if len(ours) == 0 {
				t.Error("the story has no lines")
			}
			if testing.Verbose() {
				t.Logf("both saw\n\t%s", strings.Join(ours, "\n\t"))
			}
		})
	}
}

// chapters sorts the lines between those that begin with a dash: what is told there at the same time has no order.
func chapters(lines []string) []string {
	end := slices.Index(lines, theEnd)
	if end < 0 {
		return nil
	}
	sorted := slices.Clone(lines[:end])
	for begin, i := 0, 0; i <= len(sorted); i++ {
		if i == len(sorted) || strings.HasPrefix(sorted[i], "- ") {
			slices.Sort(sorted[begin:i])
			begin = min(i+1, len(sorted))
		}
	}
	return sorted
}

// step begins a chapter, does something, and gives caches the time to hear of it.
func (d *diary) step(name string, f func() error) {
	d.write("- %s", name)
	if err := f(); err != nil {
		d.write("error: %v", err)
	}
	time.Sleep(time.Second)
}

// hear adds an event handler that writes down what it is told.
func hear(m ctrl.Manager, d *diary, name string, obj ctrlclient.Object) error {
	informer, err := m.GetCache().GetInformer(context.Background(), obj)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { d.write("%s: added %s initial=%v", name, portrait(obj), initial) },
		UpdateFunc: func(old, obj any) {
			d.write("%s: updated %s to %s same=%v", name, portrait(old), portrait(obj), old == obj)
		},
		DeleteFunc: func(obj any) { d.write("%s: deleted %s", name, portrait(obj)) },
	})
	return err
}

// portrait describes an object without what differs between two servers.
func portrait(obj any) string {
	o, ok := obj.(ctrlclient.Object)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	data := "-"
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		data = fmt.Sprint(o.Data)
	case *unstructured.Unstructured:
		content, _, _ := unstructured.NestedMap(o.Object, "data")
		data = fmt.Sprint(content)
	}
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return fmt.Sprintf("%T %q %s labels=%v annotations=%v data=%s", o, kind, ctrlclient.ObjectKeyFromObject(o),
		o.GetLabels(), o.GetAnnotations(), data)
}

// get reads an object and describes what came of it.
func get(ctx context.Context, r ctrlclient.Reader, namespace, name string, obj ctrlclient.Object, opts ...ctrlclient.GetOption) string {
	if err := r.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, obj, opts...); err != nil {
		return "error: " + err.Error()
	}
	return portrait(obj)
}

// list lists objects and describes what came of it.
func list(ctx context.Context, r ctrlclient.Reader, of ctrlclient.ObjectList, opts ...ctrlclient.ListOption) string {
	if err := r.List(ctx, of, opts...); err != nil {
		return "error: " + err.Error()
	}
	var items []string
	err := eachItem(of, func(obj ctrlclient.Object) { items = append(items, portrait(obj)) })
	slices.Sort(items)
	return fmt.Sprintf("%q continue=%q version=%v err=%v: %s", of.GetObjectKind().GroupVersionKind().Kind, of.GetContinue(),
		of.GetResourceVersion() != "", err, strings.Join(items, ", "))
}

func eachItem(list ctrlclient.ObjectList, f func(ctrlclient.Object)) error {
	items, err := meta.ExtractList(list)
	for _, item := range items {
		f(item.(ctrlclient.Object))
	}
	return err
}

func untypedConfigMap() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(configMapsKind.GroupVersionKind())
	return obj
}

func untypedConfigMaps() *unstructured.UnstructuredList {
	obj := &unstructured.UnstructuredList{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	return obj
}

func metadataOfConfigMap() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: configMapsKind}
}

func metadataOfConfigMaps() *metav1.PartialObjectMetadataList {
	obj := &metav1.PartialObjectMetadataList{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	return obj
}

// in puts an object into another namespace.
func in[T ctrlclient.Object](namespace string, obj T) T {
	obj.SetNamespace(namespace)
	return obj
}
