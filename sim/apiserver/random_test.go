package apiserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRandomRequests makes sequences of requests at random and checks after each what must hold after any.
func TestRandomRequests(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &walk{tester: newTester(t), rand: rand.New(rand.NewPCG(seed, 1)), stored: map[Object]string{}}
			for range 150 {
				w.step()
			}
			w.checkReplay()
			w.checkUnchanged()
		})
	}
}

// TestParallelServers makes servers from one snapshot do the same in parallel: they share objects, so that a write to one
// of those would show under the race detector, or as a difference.
func TestParallelServers(t *testing.T) {
	first := &walk{tester: newTester(t), rand: rand.New(rand.NewPCG(7, 7)), stored: map[Object]string{}}
	for range 60 {
		first.step()
	}
	snapshot := first.Snapshot()
	states := make([]string, 4)
	var group sync.WaitGroup
	for i := range states {
		group.Go(func() {
			w := &walk{tester: newTester(t), rand: rand.New(rand.NewPCG(8, 8))}
			w.Server = snapshot.NewServer(func() time.Time { return w.time })
			for range 100 {
				w.Do(w.request())
			}
			for _, k := range w.Kinds().All() {
				for _, event := range w.Log(k) {
					states[i] += event.Type.String() + " " + w.without(event.Object) + "\n"
				}
			}
		})
	}
	group.Wait()
	first.checkUnchanged()
	for i := range states {
		if states[i] != states[0] {
			t.Errorf("server %d differs from server 0:\n%s", i, cmp.Diff(states[0], states[i]))
		}
	}
}

// walk is one random sequence.
type walk struct {
	*tester
	rand   *rand.Rand
	stored map[Object]string // every object that was ever stored, and its JSON form at that time
	stale  []Object          // what clients may still hold
}

func pick[T any](w *walk, choices ...T) T { return choices[w.rand.IntN(len(choices))] }

// step makes one request at random.
func (w *walk) step() {
	w.Helper()
	w.time = w.time.Add(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
	w.perform(w.request())
}

// perform makes a request and checks what it did.
func (w *walk) perform(req *Request) *Response {
	w.Helper()
	before, revision := w.Get(req.Kind, req.Namespace, req.Name), w.Revision()
	events := len(w.Log(req.Kind))
	response := w.Do(req)
	committed := w.Revision() - revision
	if int64(len(w.Log(req.Kind))-events) != committed {
		w.Fatalf("%v: %d revisions but %d events", req, committed, len(w.Log(req.Kind))-events)
	}
	switch {
	case committed == 0 && response.Committed != 0, committed > 0 && response.Committed != w.Revision():
		w.Fatalf("%v: says it committed at %d, the store is at %d after %d", req, response.Committed, w.Revision(), revision)
	case committed > 0 && (response.Err != nil || req.DryRun || !req.Verb.IsWrite()):
		w.Fatalf("%v: committed, though it answered %d %v", req, response.Code, response.Err)
	case committed == 0 && req.Verb.IsWrite() && w.Get(req.Kind, req.Namespace, req.Name) != before:
		w.Fatalf("%v: changed the object without a commit", req)
	case (response.Err == nil) != (response.Code < 300):
		w.Fatalf("%v: code %d with error %v", req, response.Code, response.Err)
	}
	for _, event := range w.Log(req.Kind)[events:] {
		w.checkEvent(event)
	}
	return response
}

// request makes up a request.
func (w *walk) request() *Request {
	k := w.kind(pick(w, "StatefulSet", "Pod", "ConfigMap", "Widget", "Lease"))
	req := &Request{
		Kind: k, Namespace: "default", Name: pick(w, "a", "b"), DryRun: w.rand.IntN(10) == 0,
		Verb: pick(w, schedule.Get, schedule.List, schedule.Create, schedule.Create, schedule.Update, schedule.Update,
			schedule.Update, schedule.Patch, schedule.Patch, schedule.Delete),
	}
	switch req.Verb {
	case schedule.Create:
		req.Object = w.fresh(k, req.Name)
	case schedule.Update:
		req.Object = w.edited(k, req.Name)
		req.Subresource = pick(w, "", "", "status")
	case schedule.Patch:
		if w.rand.IntN(4) == 0 {
			applyRequest(req, w.fresh(k, req.Name), w.rand)
			break
		}
		req.PatchType = pick(w, types.MergePatchType, types.JSONPatchType, types.StrategicMergePatchType)
		req.PatchData = []byte(pick(w,
			`{"metadata":{"labels":{"x":"1"}}}`, `{"metadata":{"finalizers":null}}`, `{"metadata":{"finalizers":["e.x/f"]}}`,
			`{"spec":{"replicas":2,"size":4}}`, `{"metadata":{"resourceVersion":"3"}}`, `{"data":{"k":"w"}}`, `nonsense`, `null`,
			`[{"op":"remove","path":"/metadata/labels"}]`, `[{"op":"add","path":"/metadata/labels","value":{"y":"2"}}]`))
	case schedule.Delete:
		if w.rand.IntN(3) == 0 {
			req.Delete.GracePeriodSeconds = new(int64(w.rand.IntN(3)))
		}
		if w.rand.IntN(3) == 0 {
			policy := pick(w,
				metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground)
			req.Delete.PropagationPolicy = &policy
		}
	}
	return req
}

func (w *walk) fresh(k *Kind, name string) Object {
	var obj Object
	switch k.Kind {
	case "StatefulSet":
		obj = newSet(name)
	case "Pod":
		obj = newPod(name, pick(w, "", "node1"))
	case "ConfigMap":
		obj = newConfig(name)
	case "Widget":
		obj = newWidget(name)
	default:
		obj = k.New()
		obj.SetName(name)
	}
	obj.SetFinalizers(pick(w, nil, nil, []string{"e.x/f"}))
	return obj
}

// edited returns a changed copy of what is stored, or of what was stored once.
func (w *walk) edited(k *Kind, name string) Object {
	base := w.Get(k, "default", name)
	for _, obj := range w.stale {
		if w.Kinds().Of(obj) == k && obj.GetName() == name && w.rand.IntN(8) == 0 {
			base = obj
		}
	}
	if base == nil {
		return w.fresh(k, name)
	}
	obj := base.DeepCopyObject().(Object)
	switch w.rand.IntN(6) {
	case 0:
		obj.SetLabels(map[string]string{"n": fmt.Sprint(w.rand.IntN(3))})
	case 1:
		obj.SetFinalizers(pick(w, nil, []string{"e.x/f"}, []string{"e.x/f", "e.x/g"}))
	case 2:
		obj.SetResourceVersion("")
	case 3:
		if u, ok := obj.(*unstructured.Unstructured); ok {
			u.Object[pick(w, "spec", "status")] = map[string]any{"size": int64(w.rand.IntN(3))}
		}
	case 4:
		obj.SetUID(pick[types.UID](w, "", "somebody-else"))
	}
	return obj
}

func (w *walk) checkEvent(event Event) {
	w.Helper()
	w.stale = append(w.stale, event.Object)
	if got := revisionOf(event.Object); got != event.Revision {
		w.Fatalf("the event at %d has an object of revision %d", event.Revision, got)
	}
	if event.Prev != nil && w.stored[event.Prev] == "" {
		w.Fatalf("the event at %d replaces an object that was never stored", event.Revision)
	}
	data, err := json.Marshal(event.Object)
	if err != nil {
		w.Fatal(err)
	}
	w.stored[event.Object] = string(data)
	if event.Prev != nil && event.Type == Modified {
		a, b := event.Prev.DeepCopyObject().(Object), event.Object.DeepCopyObject().(Object)
		a.SetResourceVersion("")
		b.SetResourceVersion("")
		// What is stored without a default is written once more to store it.
		if before, _ := json.Marshal(a); w.Kinds().Of(a).reread == nil && string(before) == w.without(b) {
			w.Fatalf("the commit at %d changed nothing: %s", event.Revision, before)
		}
		if event.Prev.GetUID() != event.Object.GetUID() {
			w.Fatalf("the commit at %d changed the UID", event.Revision)
		}
	}
}

func (w *walk) without(obj Object) string {
	data, _ := json.Marshal(obj)
	return string(data)
}

// checkReplay checks that the event logs lead to the state.
func (w *walk) checkReplay() {
	w.Helper()
	for _, k := range w.Kinds().All() {
		state := map[string]Object{}
		last := int64(0)
		for _, event := range w.Log(k) {
			if event.Revision <= last {
				w.Fatalf("%s: revision %d comes after %d", k, event.Revision, last)
			}
			last = event.Revision
			key := event.Object.GetNamespace() + "/" + event.Object.GetName()
			if (state[key] != nil) != (event.Prev != nil) || event.Prev != nil && state[key] != event.Prev {
				w.Fatalf("%s: the event at %d does not follow from the one before", k, event.Revision)
			}
			state[key] = event.Object
			if event.Type == Deleted {
				delete(state, key)
			}
		}
		objects := w.List(k, "")
		if len(objects) != len(state) {
			w.Fatalf("%s: %d objects, %d by the log", k, len(objects), len(state))
		}
		for _, obj := range objects {
			if state[obj.GetNamespace()+"/"+obj.GetName()] != w.Get(k, obj.GetNamespace(), obj.GetName()) {
				w.Fatalf("%s %s differs from the log", k, obj.GetName())
			}
		}
	}
}

// checkUnchanged checks that nobody ever wrote to a stored object.
func (w *walk) checkUnchanged() {
	w.Helper()
	for obj, want := range w.stored {
		if got := w.without(obj); got != want {
			w.Fatalf("a stored object was written to:\nwas %s\nis  %s", want, got)
		}
	}
}
