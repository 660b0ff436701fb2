package apiserver

import (
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

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// watcher follows a watch with selectors as a client does: all it knows it has been told.
type watcher struct {
	req   *Request
	log   func() []Event
	next  int
	state map[string]Object
	told  []string
}

func newWatcher(s *Server, req *Request) (*watcher, error) {
	start, err := s.StartWatch(req, true)
	if err != nil {
		return nil, err
	}
	w := &watcher{req: req, log: func() []Event { return s.Log(req.Kind) }, next: start.Next, state: map[string]Object{}}
	for _, obj := range start.Objects {
		w.state[obj.GetNamespace()+"/"+obj.GetName()] = obj
	}
	return w, nil
}

// follow tells the watcher of what it has not been told yet, and checks that each event is one that fits what it knows.
func (w *watcher) follow() error {
	for log := w.log(); w.next < len(log); w.next++ {
		event, ok := w.req.Kind.Transition(log[w.next], w.req.Namespace, w.req.LabelSelector, w.req.FieldSelector)
		if !ok {
			continue
		}
		obj := event.Object
		key := obj.GetNamespace() + "/" + obj.GetName()
		known := w.state[key]
		revision, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
		switch {
		case revision != log[w.next].Revision:
			return fmt.Errorf("%s %s is at revision %d, and was committed at %d", event.Type, key, revision, log[w.next].Revision)
		case (event.Type == Added) != (known == nil):
			return fmt.Errorf("%s %s, known before: %v", event.Type, key, known != nil)
		case event.Type == Deleted && !w.req.Kind.Matches(obj, w.req.LabelSelector, w.req.FieldSelector):
			return fmt.Errorf("%s %s in a state that the watch does not choose", event.Type, key)
		case event.Type == Deleted:
			delete(w.state, key)
		default:
			w.state[key] = obj
		}
		w.told = append(w.told, fmt.Sprintf("%s %s", event.Type, key))
	}
	return nil
}

// TestTransitions checks rows 53, 54 and 58: what watches with selectors by label, by field and by namespace are told makes, after
// every commit, what a list with them shows; an object that ceases to match is deleted in the state in which it last matched.
func TestTransitions(t *testing.T) {
	kind := GoldenKinds(V136).ByName("Pod")
	byLabel := func(text string) labels.Selector { return must(labels.Parse(text)) }
	byField := func(text string) fields.Selector { return must(fields.ParseSelector(text)) }
	selections := []*Request{
		{},
		{Namespace: "default"},
		{LabelSelector: byLabel("color in (red, blue)")},
		{LabelSelector: byLabel("!color")},
		{FieldSelector: byField("spec.nodeName=n1")},
		{FieldSelector: byField("spec.nodeName=")},
		{FieldSelector: byField("status.phase!=Running")},
		{Namespace: "other", LabelSelector: byLabel("color=red"), FieldSelector: byField("spec.nodeName!=n1,status.phase=Running")},
		{FieldSelector: byField("metadata.name=a,metadata.namespace=other")},
	}
	told := make([]map[string]int, len(selections))
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := NewServer(GoldenKinds(V136), fixedClock)
		s.addNamespace("other")
		var watchers []*watcher
		for i, req := range selections {
			req.Verb, req.Kind = schedule.Watch, kind
			w, err := newWatcher(s, req)
			if err != nil {
				t.Fatal(err)
			}
			watchers = append(watchers, w)
			if told[i] == nil {
				told[i] = map[string]int{}
			}
		}
		for step := range 60 {
			changePod(s, kind, random)
			for i, w := range watchers {
				if err := w.follow(); err != nil {
					t.Fatalf("seed %d, step %d, watch %d: %v", seed, step, i, err)
				}
				list := s.Do(&Request{
					Verb: schedule.List, Kind: kind, Namespace: w.req.Namespace,
					LabelSelector: w.req.LabelSelector, FieldSelector: w.req.FieldSelector,
				})
				if want, have := versions(list.Items), versions(mapValues(w.state)); want != have {
					t.Fatalf("seed %d, step %d, watch %d: the watch has made %s, a list shows %s", seed, step, i, have, want)
				}
			}
		}
		for i, w := range watchers {
			for _, line := range w.told {
				eventType, _, _ := strings.Cut(line, " ")
				told[i][eventType]++
			}
		}
	}
	for i := range selections {
		if told[i]["ADDED"] == 0 || told[i]["MODIFIED"] == 0 || told[i]["DELETED"] == 0 {
			t.Errorf("watch %d was told of %v, want some of each", i, told[i])
		}
	}
}

// changePod does something to one of a few pods.
func changePod(s *Server, kind *Kind, random *rand.Rand) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"default", "other"}[random.IntN(2)], Name: []string{"a", "b", "c"}[random.IntN(3)],
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	req := &Request{Verb: schedule.Create, Kind: kind, Namespace: pod.Namespace, Name: pod.Name, Object: pod}
	stored := s.Get(kind, pod.Namespace, pod.Name)
	switch action := random.IntN(5); {
	case stored == nil:
		pod.Labels = randomColor(random)
		if random.IntN(2) == 0 {
			pod.Spec.NodeName = "n1"
		}
	case action == 0:
		*req = Request{Verb: schedule.Delete, Kind: kind, Namespace: pod.Namespace, Name: pod.Name}
		req.Delete.GracePeriodSeconds = new(int64(0))
	case action < 3:
		changed := stored.DeepCopyObject().(*corev1.Pod)
		changed.Labels = randomColor(random)
		req.Verb, req.Object = schedule.Update, changed
	default:
		changed := stored.DeepCopyObject().(*corev1.Pod)
		changed.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[random.IntN(2)]
		req.Verb, req.Object, req.Subresource = schedule.Update, changed, "status"
	}
	if response := s.Do(req); response.Err != nil {
		panic(response.Err)
	}
}

func randomColor(random *rand.Rand) map[string]string {
	if color := []string{"", "red", "blue", "green"}[random.IntN(4)]; color != "" {
		return map[string]string{"color": color}
	}
	return nil
}

func versions(objects []Object) string {
	var all []string
	for _, obj := range objects {
		all = append(all, obj.GetNamespace()+"/"+obj.GetName()+"@"+obj.GetResourceVersion())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func mapValues(m map[string]Object) (values []Object) {
	for _, obj := range m {
		values = append(values, obj)
	}
	return values
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestWatchStarts checks rows 52 and 56: where watches begin, and how those are refused that cannot.
func TestWatchStarts(t *testing.T) {
	kinds := GoldenKinds(V136)
	kind, events := kinds.ByName("ConfigMap"), kinds.ByName("Event")
	s := NewServer(kinds, fixedClock)
	var revisions []string
	for _, name := range []string{"a", "b", "c", "d"} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		response := s.Do(&Request{Verb: schedule.Create, Kind: kind, Namespace: "default", Name: name, Object: obj})
		if response.Err != nil {
			t.Fatal(response.Err)
		}
		revisions = append(revisions, response.Object.GetResourceVersion())
		if name == "b" {
			s.Compact(response.Revision)
		}
	}
	last := s.Revision()
	future := strconv.FormatInt(last+1, 10)
	tooOld := fmt.Sprintf("410 too old resource version: %s (%d)", revisions[0], last)
	tooLarge := fmt.Sprintf("504 Timeout: Too large resource version: %s, current: %d", future, last)
	const tooOldInStorage = "410 The resourceVersion for the provided watch is too old."
	tests := []struct {
		kind    *Kind
		version string
		initial bool
		byField string
		want    string // the objects at the start, and then the events
	}{
		{kind, "", true, "", "a b c d; "},
		{kind, "0", true, "", "a b c d; "},
		{kind, revisions[3], true, "", "a b c d; "},
		{kind, revisions[0], true, "", "a b c d; "}, // not older than that
		{kind, future, true, "", tooLarge},
		{kind, "", false, "", "; "},
		{kind, "0", false, "", "; "},
		{kind, revisions[1], false, "", "; ADDED c ADDED d"}, // compacted up to here, but what follows is there
		{kind, revisions[2], false, "", "; ADDED d"},
		{kind, revisions[3], false, "", "; "},
		{kind, future, false, "", "; "},
		{kind, revisions[0], false, "", tooOld},
		{events, revisions[0], false, "", tooOldInStorage},
		{kind, "abc", false, "", `500 resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{kind, "", true, "metadata.name=b", "b; "},
		{kind, revisions[1], false, "metadata.name=d", "; ADDED d"},
		{kind, "", true, "data.x=1", `400 "data.x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	}
	for _, test := range tests {
		name := fmt.Sprintf("%s %q initial=%v %s", test.kind, test.version, test.initial, test.byField)
		req := &Request{Verb: schedule.Watch, Kind: test.kind, Namespace: "default", ResourceVersion: test.version,
			FieldSelector: must(fields.ParseSelector(test.byField))}
		if have := watched(s, req, test.initial); have != test.want {
			t.Errorf("%s: %s, want %s", name, have, test.want)
		}
	}
}

// watched begins a watch, and returns what it tells.
func watched(s *Server, req *Request, initial bool) string {
	start, err := s.StartWatch(req, initial)
	if err == nil && start.Failure != nil {
		err = start.Failure
	}
	if err != nil {
		status := err.(interface{ Status() metav1.Status }).Status()
		return fmt.Sprintf("%d %s", status.Code, status.Message)
	}
	var objects, events []string
	for _, obj := range start.Objects {
		objects = append(objects, obj.GetName())
	}
	for _, event := range s.Log(req.Kind)[start.Next:] {
		if shown, ok := req.Kind.Transition(event, req.Namespace, req.LabelSelector, req.FieldSelector); ok {
			events = append(events, shown.Type.String()+" "+shown.Object.GetName())
		}
	}
	return strings.Join(objects, " ") + "; " + strings.Join(events, " ")
}
