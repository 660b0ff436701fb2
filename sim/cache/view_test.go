package cache_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

var podKind = apiserver.NewKinds(apiserver.V136).ByName("Pod")

// pods is a source of pods: a server without its rules.
type pods struct {
	revision int64
	log      []apiserver.Event
	state    map[types.NamespacedName]*corev1.Pod
}

func (p *pods) Revision() int64                       { return p.revision }
func (p *pods) Log(*apiserver.Kind) []apiserver.Event { return p.log }

func (p *pods) List(_ *apiserver.Kind, namespace string) []apiserver.Object {
	var list []apiserver.Object
	for _, pod := range sorted(p.state) {
		if namespace == "" || pod.Namespace == namespace {
			list = append(list, pod)
		}
	}
	return list
}

func sorted(state map[types.NamespacedName]*corev1.Pod) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range state {
		list = append(list, pod)
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list
}

func key(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// put creates or replaces a pod.
func (p *pods) put(pod *corev1.Pod) {
	p.revision++
	pod.ResourceVersion = strconv.FormatInt(p.revision, 10)
	event := apiserver.Event{Revision: p.revision, Type: apiserver.Added, Object: pod}
	if old := p.state[key(pod)]; old != nil {
		event.Type, event.Prev = apiserver.Modified, old
	}
	p.state[key(pod)] = pod
	p.log = append(p.log, event)
}

// remove deletes a pod.
func (p *pods) remove(at types.NamespacedName) {
	old := p.state[at]
	p.revision++
	gone := old.DeepCopy()
	gone.ResourceVersion = strconv.FormatInt(p.revision, 10)
	delete(p.state, at)
	p.log = append(p.log, apiserver.Event{Revision: p.revision, Type: apiserver.Deleted, Object: gone, Prev: old})
}

// change makes a random change.
func (p *pods) change(random *rand.Rand) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("ns", random.IntN(3)), Name: fmt.Sprint("pod", random.IntN(3)),
		Labels: map[string]string{"app": fmt.Sprint(random.IntN(2))},
	}}
	pod.Spec.NodeName = fmt.Sprint("node", random.IntN(2))
	switch n := random.IntN(10); {
	case n < 6:
		p.put(pod)
	case n < 9 && p.state[key(pod)] != nil:
		p.remove(key(pod))
	default:
		p.revision++ // a commit to another kind
	}
}

// selection is what a selector chooses, said another way.
type selection struct {
	cache.Selector
	chooses func(*corev1.Pod) bool
}

func selections() map[string]selection {
	app := func(pod *corev1.Pod) bool { return pod.Labels["app"] == "1" }
	node := func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node1" }
	byApp, byNode := labels.SelectorFromSet(labels.Set{"app": "1"}), fields.OneTermEqualSelector("spec.nodeName", "node1")
	return map[string]selection{
		"all":          {cache.Selector{}, func(*corev1.Pod) bool { return true }},
		"by label":     {cache.Selector{Labels: byApp}, app},
		"by field":     {cache.Selector{Fields: byNode}, node},
		"by namespace": {cache.Selector{Namespace: "ns1"}, func(pod *corev1.Pod) bool { return pod.Namespace == "ns1" }},
		"by everything": {cache.Selector{Namespace: "ns1", Labels: byApp, Fields: byNode}, func(pod *corev1.Pod) bool {
			return pod.Namespace == "ns1" && app(pod) && node(pod)
		}},
	}
}

// follower checks a view against a model: the state that the log gives up to the view's revision.
type follower struct {
	t      *testing.T
	source *pods
	view   *cache.View
	chosen selection
	// base is the state at the initial list, and told how many entries of the log the model has gone through.
	state map[types.NamespacedName]*corev1.Pod
	told  int
}

func (f *follower) chooses(obj apiserver.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && f.chosen.chooses(pod)
}

// sync takes the initial list.
func (f *follower) sync() {
	f.state, f.told = map[types.NamespacedName]*corev1.Pod{}, len(f.source.log)
	var want []string
	for _, pod := range sorted(f.source.state) {
		if f.chooses(pod) {
			f.state[key(pod)] = pod
			want = append(want, fmt.Sprintf("ADDED %s %s initial", key(pod), pod.ResourceVersion))
		}
	}
	var got []string
	for _, d := range f.view.Sync() {
		got = append(got, text(d))
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("initial list is %q, want %q", got, want)
	}
	if f.view.Revision() != f.source.revision {
		f.t.Fatalf("revision after the initial list is %d, want %d", f.view.Revision(), f.source.revision)
	}
}

func text(d cache.Delta) string {
	s := fmt.Sprintf("%s %s %s", d.Type, d.Key(), d.Object.GetResourceVersion())
	if d.Old != nil {
		s += " after " + d.Old.GetResourceVersion()
	}
	if d.Initial {
		s += " initial"
	}
	if d.Unknown {
		s += " unknown"
	}
	return s
}

// expect returns what the view is to be told next, empty if nothing.
func (f *follower) expect() string {
	for ; f.told < len(f.source.log); f.told++ {
		e := f.source.log[f.told]
		before, after := f.chooses(e.Prev), e.Type != apiserver.Deleted && f.chooses(e.Object)
		pod := e.Object.(*corev1.Pod)
		switch {
		case !before && !after:
			continue
		case after:
			f.state[key(pod)] = pod
		default:
			delete(f.state, key(pod))
		}
		f.told++
		switch {
		case !before:
			return fmt.Sprintf("ADDED %s %d", key(pod), e.Revision)
		case after:
			return fmt.Sprintf("MODIFIED %s %d after %s", key(pod), e.Revision, e.Prev.GetResourceVersion())
		default:
			return fmt.Sprintf("DELETED %s %d after %s", key(pod), e.Revision, e.Prev.GetResourceVersion())
		}
	}
	return ""
}

// advance moves the view by one event and compares it with the model.
func (f *follower) advance() {
	pending, ok := f.view.Pending()
	want := f.expect()
	if !ok {
		if want != "" {
			f.t.Fatalf("nothing is pending, want %s", want)
		}
		if n := len(f.source.log); n > 0 && f.view.Revision() < f.source.log[n-1].Revision {
			f.t.Fatalf("the view is at revision %d with nothing pending, the log at %d", f.view.Revision(), f.source.log[n-1].Revision)
		}
		f.compare()
		return
	}
	if again, _ := f.view.Pending(); text(pending) != text(again) {
		f.t.Fatalf("pending is %s, and asked again %s", text(pending), text(again))
	}
	got := f.view.Advance()
	if text(got) != text(pending) || text(got) != want {
		f.t.Fatalf("pending was %s, the view was told %s, want %s", text(pending), text(got), want)
	}
	if revision := got.Object.GetResourceVersion(); revision != strconv.FormatInt(f.view.Revision(), 10) {
		f.t.Fatalf("the view is at revision %d after %s", f.view.Revision(), text(got))
	}
	f.compare()
}

// compare compares all that can be read from the view.
func (f *follower) compare() {
	var want []string
	for _, pod := range sorted(f.state) {
		want = append(want, names(pod)...)
		if f.view.Get(pod.Namespace, pod.Name) != apiserver.Object(pod) {
			f.t.Fatalf("Get %s is %v", key(pod), f.view.Get(pod.Namespace, pod.Name))
		}
	}
	if got := names(f.view.List("")...); !slices.Equal(got, want) {
		f.t.Fatalf("the view lists %q, want %q", got, want)
	}
	for _, namespace := range []string{"", "ns0", "ns1", "ns2"} {
		inNamespace := slices.DeleteFunc(slices.Clone(want), func(name string) bool {
			return namespace != "" && !strings.HasPrefix(name, namespace+"/")
		})
		if got := names(f.view.List(namespace)...); !slices.Equal(got, inNamespace) {
			f.t.Fatalf("namespace %q lists %q, want %q", namespace, got, inNamespace)
		}
	}
}

func names[T apiserver.Object](list ...T) []string {
	var texts []string
	for _, obj := range list {
		pod := apiserver.Object(obj).(*corev1.Pod)
		texts = append(texts, fmt.Sprintf("%s at %s on %s", key(pod), pod.ResourceVersion, pod.Spec.NodeName))
	}
	return texts
}

// TestViewModel compares views with a model over random changes, with the views now ahead and now behind.
func TestViewModel(t *testing.T) {
	for name, chosen := range selections() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				random := rand.New(rand.NewPCG(seed, 1))
				f := &follower{t: t, source: &pods{state: map[types.NamespacedName]*corev1.Pod{}}, chosen: chosen}
				f.view = cache.New(f.source, podKind, chosen.Selector)
				for range random.IntN(10) {
					f.source.change(random)
				}
				if _, ok := f.view.Pending(); ok || f.view.Synced() || len(f.view.List("")) > 0 {
					t.Fatal("the view holds something before its initial list")
				}
				f.sync()
				for range 60 {
					if random.IntN(2) == 0 {
						f.source.change(random)
					} else {
						f.advance()
					}
				}
			}
		})
	}
}

// TestNothingPending checks that the cursor does not move past the end of the log.
func TestNothingPending(t *testing.T) {
	for name, move := range map[string]func(*cache.View) cache.Delta{"Advance": (*cache.View).Advance, "Lose": (*cache.View).Lose} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("with nothing pending there is no panic")
				}
			}()
			view := cache.New(&pods{}, podKind, cache.Selector{})
			view.Sync()
			move(view)
		})
	}
}

// A view goes its own way: it holds what it has been told of, whatever the server holds by now.
func ExampleView() {
	server := &pods{state: map[types.NamespacedName]*corev1.Pod{}}
	web := func(node string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		pod.Spec.NodeName = node
		return pod
	}
	server.put(web(""))
	view := cache.New(server, podKind, cache.Selector{})
	view.Sync()
	server.put(web("node1"))
	server.remove(types.NamespacedName{Namespace: "default", Name: "web"})

	fmt.Println(len(view.List("default")), "pod, on node", strconv.Quote(view.Get("default", "web").(*corev1.Pod).Spec.NodeName))
	for _, ok := view.Pending(); ok; _, ok = view.Pending() {
		delta := view.Advance()
		fmt.Println(delta.Type, delta.Key(), "at revision", view.Revision())
	}
	fmt.Println(len(view.List("default")), "pods")
	// Output:
	// 1 pod, on node ""
	// MODIFIED default/web at revision 2
	// DELETED default/web at revision 3
	// 0 pods
}

// expectRelist returns what the view is to be told of a new list: what it holds and is gone, and then what there is.
func (f *follower) expectRelist() []string {
	present := map[types.NamespacedName]*corev1.Pod{}
	for at, pod := range f.source.state {
		if f.chooses(pod) {
			present[at] = pod
		}
	}
	var want []string
	for _, pod := range sorted(f.state) {
		if present[key(pod)] == nil {
			want = append(want, fmt.Sprintf("DELETED %s %s after %[2]s unknown", key(pod), pod.ResourceVersion))
		}
	}
	for _, pod := range sorted(present) {
		if old := f.state[key(pod)]; old != nil {
			want = append(want, fmt.Sprintf("MODIFIED %s %s after %s", key(pod), pod.ResourceVersion, old.ResourceVersion))
		} else {
			want = append(want, fmt.Sprintf("ADDED %s %s", key(pod), pod.ResourceVersion))
		}
	}
	f.state, f.told = present, len(f.source.log)
	return want
}

// relist loses some of the events that are pending and takes a new list.
func (f *follower) relist(random *rand.Rand) {
	for range random.IntN(3) {
		if pending, ok := f.view.Pending(); ok {
			if lost := f.view.Lose(); text(lost) != text(pending) {
				f.t.Fatalf("pending was %s, lost is %s", text(pending), text(lost))
			}
		}
	}
	f.compare()
	want := f.expectRelist()
	var got []string
	for _, d := range f.view.Relist() {
		got = append(got, text(d))
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("a new list is %q, want %q", got, want)
	}
	if f.view.Revision() != f.source.revision {
		f.t.Fatalf("revision after a new list is %d, want %d", f.view.Revision(), f.source.revision)
	}
	if delta, ok := f.view.Pending(); ok {
		f.t.Fatalf("%s is pending after a new list", text(delta))
	}
	f.compare()
}

// TestRelistModel compares views whose watches break, now and then, with a model.
func TestRelistModel(t *testing.T) {
	for name, chosen := range selections() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				random := rand.New(rand.NewPCG(seed, 2))
				f := &follower{t: t, source: &pods{state: map[types.NamespacedName]*corev1.Pod{}}, chosen: chosen}
				f.view = cache.New(f.source, podKind, chosen.Selector)
				f.sync()
				for range 80 {
					switch random.IntN(8) {
					case 0:
						f.relist(random)
					case 1, 2, 3:
						f.advance()
					default:
						f.source.change(random)
					}
				}
			}
		})
	}
}

// A watch that cannot be continued loses what came to pass in between; a new list shows what it came to.
func ExampleView_Relist() {
	server := &pods{state: map[types.NamespacedName]*corev1.Pod{}}
	pod := func(name, uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	}
	server.put(pod("a", "a1"))
	server.put(pod("b", "b1"))
	view := cache.New(server, podKind, cache.Selector{})
	view.Sync()

	server.remove(types.NamespacedName{Namespace: "default", Name: "a"})
	server.put(pod("a", "a2"))
	server.remove(types.NamespacedName{Namespace: "default", Name: "b"})
	server.put(pod("c", "c1"))
	for _, delta := range view.Relist() {
		fmt.Print(delta.Type, " ", delta.Key(), " ", delta.Object.GetUID(), " at ", delta.Object.GetResourceVersion())
		if delta.Recreated() {
			fmt.Print(", was ", delta.Old.GetUID())
		}
		fmt.Println(map[bool]string{true: ", final state unknown"}[delta.Unknown])
	}
	// Output:
	// DELETED default/b b1 at 2, final state unknown
	// MODIFIED default/a a2 at 4, was a1
	// ADDED default/c c1 at 6
}
