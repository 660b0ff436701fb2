package simtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// told returns what a watch tells until it has been silent for a while, one event a line.
func told(w watch.Interface) string {
	var events []string
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return strings.Join(append(events, "closed"), "\n")
			}
			text, _ := json.Marshal(event.Object)
			events = append(events, fmt.Sprintf("%s %T %s", event.Type, event.Object, text))
		case <-time.After(100 * time.Millisecond):
			return strings.Join(events, "\n")
		}
	}
}

// labelled is a widget with a label.
func labelled(name, value string) *widgetv1.Widget {
	w := aWidget(name)
	w.Labels = map[string]string{"app": value}
	return w
}

// watched returns what a watch is told of some changes, with the client or over HTTP.
func watched(t *testing.T, wired bool, list client.ObjectList, options []client.ListOption) string {
	t.Helper()
	scheme := newScheme(t)
	now := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	server := simtest.NewClientBuilder(t).WithScheme(scheme).WithCRDs(widgetCRD).WithClock(now).
		WithObjects(labelled("old", "web"), labelled("gone", "web")).Server()
	c := server.Client()
	server.Use(func(s *apiserver.Server) { s.Compact(5) })
	if wired {
		var err error
		if c, err = client.NewWithWatch(server.Config(), client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := c.Watch(t.Context(), list, options...)
	if err != nil {
		return saw(nil, err)
	}
	p := &prober{t, c}
	p.create(labelled("new", "db"), aSecret("a"))
	for _, value := range []string{"web", "web", "db"} {
		change := read(t.Context(), c, aWidget("new"))
		change.Labels = map[string]string{"app": value}
		change.Spec.Replicas++
		if err := c.Update(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), aWidget("gone")); err != nil {
		t.Fatal(err)
	}
	text := told(w)
	w.Stop()
	return text + "\nthen " + told(w)
}

// TestWatchSameAsOverHTTP watches with the client and with the one of controller-runtime over HTTP, and compares all they are told.
func TestWatchSameAsOverHTTP(t *testing.T) {
	loose := &unstructured.UnstructuredList{}
	loose.SetAPIVersion("example.com/v1")
	loose.SetKind("WidgetList")
	bare := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "WidgetList"}}
	raw := func(o metav1.ListOptions) client.ListOption { return &client.ListOptions{Raw: &o} }
	initial := metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	}
	for _, test := range []struct {
		name    string
		list    client.ObjectList
		options []client.ListOption
	}{
		{"typed", &widgetv1.WidgetList{}, nil},
		{"secrets", &corev1.SecretList{}, nil},
		{"unstructured", loose, nil},
		{"metadata", bare, nil},
		{"labels", &widgetv1.WidgetList{}, []client.ListOption{client.InNamespace("default"), client.MatchingLabels{"app": "web"}}},
		{"name", &widgetv1.WidgetList{}, []client.ListOption{client.MatchingFields{"metadata.name": "new"}}},
		{"other namespace", &widgetv1.WidgetList{}, []client.ListOption{client.InNamespace("kube-system")}},
		{"initial events", &widgetv1.WidgetList{}, []client.ListOption{raw(initial)}},
		{"from a revision", &widgetv1.WidgetList{}, []client.ListOption{raw(metav1.ListOptions{ResourceVersion: "7"})}},
		{"too old", &widgetv1.WidgetList{}, []client.ListOption{raw(metav1.ListOptions{ResourceVersion: "3"})}},
		{"too old, unstructured", loose, []client.ListOption{raw(metav1.ListOptions{ResourceVersion: "3"})}},
		{"too old, metadata", bare, []client.ListOption{raw(metav1.ListOptions{ResourceVersion: "3"})}},
		{"unknown field", &widgetv1.WidgetList{}, []client.ListOption{client.MatchingFields{"spec.x": "new"}}},
		{"bad options", &widgetv1.WidgetList{}, []client.ListOption{raw(metav1.ListOptions{ResourceVersionMatch: "Exact"})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got, want := watched(t, false, test.list, test.options), watched(t, true, test.list, test.options); got != want {
				t.Errorf("the client is told\n%s\nover HTTP\n%s", got, want)
			}
		})
	}
}

// TestWatchEnds checks how watches end: with their context, with the test, after their time; and that none is left behind.
func TestWatchEnds(t *testing.T) {
	t.Run("with the test", func(t *testing.T) {
		c := simtest.NewClient(t)
		for range 3 {
			if _, err := c.Watch(t.Context(), &corev1.SecretList{}); err != nil {
				t.Fatal(err)
			}
		}
		(&prober{t, c}).create(aSecret("a")) // which nobody reads
	})
	t.Run("with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := simtest.NewClient(t).Watch(ctx, &corev1.SecretList{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if text := told(w); !strings.Contains(text, "context canceled") || !strings.HasSuffix(text, "closed") {
			t.Errorf("told %s", text)
		}
	})
	t.Run("after its time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := simtest.NewClient(t)
			start := time.Now()
			w, err := c.Watch(t.Context(), &corev1.SecretList{}, &client.ListOptions{Raw: &metav1.ListOptions{
				TimeoutSeconds: new(int64(300)), AllowWatchBookmarks: true,
			}})
			if err != nil {
				t.Fatal(err)
			}
			(&prober{t, c}).create(aSecret("a"))
			counts := map[watch.EventType]int{}
			for event := range w.ResultChan() {
				counts[event.Type]++
			}
			if lasted := time.Since(start); lasted != 5*time.Minute || counts[watch.Added] != 1 || counts[watch.Bookmark] != 6 {
				t.Errorf("the watch lasted %s and told %v", lasted, counts)
			}
		})
	})
}

// TestBubbles checks that a client that is older than a bubble works within it, and after it.
func TestBubbles(t *testing.T) {
	c := simtest.NewClient(t)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := &prober{t, c}
			w, err := c.Watch(t.Context(), &corev1.SecretList{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			p.create(aSecret("a"))
			if event := <-w.ResultChan(); event.Type != watch.Added {
				t.Errorf("event %v", event)
			}
			synctest.Wait()
			w.Stop()
			if err := c.Delete(t.Context(), aSecret("a")); err != nil {
				t.Fatal(err)
			}
		})
	}
	(&prober{t, c}).create(aSecret("b"))
}

// TestConcurrentUse lets many goroutines use one client: every write counts, every watch is told all.
func TestConcurrentUse(t *testing.T) {
	const writers, writes = 8, 25
	scheme := newScheme(t)
	c := simtest.NewClientBuilder(t).WithScheme(scheme).WithObjects(aSecret("shared")).Build()
	w, err := c.Watch(t.Context(), &corev1.SecretList{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range writes {
				patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"w%d":"n%d"}}}`, i, n))
				if err := c.Patch(t.Context(), aSecret("shared"), patch); err != nil {
					t.Error(err)
				}
				if err := c.Create(t.Context(), aWidget(fmt.Sprintf("w%d-%d", i, n))); err != nil {
					t.Error(err)
				}
				if err := c.List(t.Context(), &widgetv1.WidgetList{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last := ""
	for range 1 + writers*writes { // it begins with what is there
		event := <-w.ResultChan()
		last = event.Object.(client.Object).GetResourceVersion()
	}
	all.Wait()
	stored := read(t.Context(), c, aSecret("shared"))
	if stored.ResourceVersion != last || len(stored.Labels) != writers {
		t.Errorf("stored %s with %v, last told %s", stored.ResourceVersion, stored.Labels, last)
	}
}
