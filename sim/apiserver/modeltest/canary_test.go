package modeltest

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// buggy is a server with a planted bug.
type buggy struct {
	*handler.Local
	do    func(b *buggy, req *apiserver.Request) *apiserver.Response
	watch func(req *apiserver.Request)
	event func(e apiserver.Event) (again, lost bool)
	seen  map[types.NamespacedName]apiserver.Object // what a cache may hold
}

// Do executes a request, wrongly.
func (b *buggy) Do(ctx context.Context, req *apiserver.Request) (*apiserver.Response, error) {
	if b.do == nil {
		return b.Local.Do(ctx, req)
	}
	return b.do(b, req), nil
}

// honestly executes a request as the server does.
func (b *buggy) honestly(req *apiserver.Request) *apiserver.Response {
	response, err := b.Local.Do(context.Background(), req)
	if err != nil {
		panic(err)
	}
	return response
}

// Watch begins a watch, wrongly.
func (b *buggy) Watch(ctx context.Context, req *apiserver.Request, initial bool) (*handler.Watch, error) {
	if b.watch != nil {
		b.watch(req)
	}
	w, err := b.Local.Watch(ctx, req, initial)
	if err == nil && b.event != nil && w.Events != nil {
		w.Events = &buggyEvents{Events: w.Events, event: b.event}
	}
	return w, err
}

// buggyEvents loses events, and tells some twice.
type buggyEvents struct {
	handler.Events
	event func(apiserver.Event) (again, lost bool)
	next  *apiserver.Event
}

// Next returns the next event.
func (b *buggyEvents) Next(ctx context.Context) (apiserver.Event, error) {
	if again := b.next; again != nil {
		b.next = nil
		return *again, nil
	}
	for {
		e, err := b.Events.Next(ctx)
		if err != nil {
			return e, err
		}
		again, lost := b.event(e)
		if again {
			b.next = &e
		}
		if !lost {
			return e, nil
		}
	}
}

// changed answers with another object than is stored.
func changed(response *apiserver.Response, change func(apiserver.Object)) *apiserver.Response {
	if response.Object != nil {
		response.Object = response.Object.DeepCopyObject().(apiserver.Object)
		change(response.Object)
	}
	return response
}

func onRequest(change func(*apiserver.Request)) func(*buggy, *apiserver.Request) *apiserver.Response {
	return func(b *buggy, req *apiserver.Request) *apiserver.Response {
		change(req)
		return b.honestly(req)
	}
}

func onWrite(change func(req *apiserver.Request, response *apiserver.Response)) func(*buggy, *apiserver.Request) *apiserver.Response {
	return func(b *buggy, req *apiserver.Request) *apiserver.Response {
		response := b.honestly(req)
		if response.Err == nil && req.Verb.IsWrite() {
			change(req, response)
		}
		return response
	}
}

// canaries are bugs that rivals have or had, each planted in a server.
var canaries = map[string]buggy{
	"a write that changes nothing gets a revision": {do: func(b *buggy, req *apiserver.Request) *apiserver.Response {
		response := b.honestly(req)
		if req.Verb == schedule.Update && response.Err == nil && response.Committed == 0 && !req.DryRun && response.Object != nil {
			touch := func(value string) *apiserver.Response {
				return b.honestly(&apiserver.Request{
					Verb: schedule.Patch, Kind: req.Kind, Namespace: req.Namespace, Name: req.Name, PatchType: types.MergePatchType,
					PatchData: []byte(`{"metadata":{"annotations":{"touched":` + value + `}}}`),
				})
			}
			touch(`"1"`)
			return touch(`null`)
		}
		return response
	}},
	"a second delete moves the deletionTimestamp": {do: func(b *buggy, req *apiserver.Request) *apiserver.Response {
		response := b.honestly(req)
		if req.Verb == schedule.Delete && response.Committed == 0 && response.Object != nil {
			now := metav1.Now()
			return changed(response, func(obj apiserver.Object) { obj.SetDeletionTimestamp(&now) })
		}
		return response
	}},
	"a UID precondition of a delete is ignored": {do: onRequest(func(req *apiserver.Request) {
		if p := req.Delete.Preconditions; p != nil {
			req.Delete.Preconditions = &metav1.Preconditions{ResourceVersion: p.ResourceVersion}
		}
	})},
	"a revision precondition of a delete is ignored": {do: onRequest(func(req *apiserver.Request) {
		if p := req.Delete.Preconditions; p != nil {
			req.Delete.Preconditions = &metav1.Preconditions{UID: p.UID}
		}
	})},
	"a stale update is taken": {do: onRequest(func(req *apiserver.Request) {
		if req.Verb == schedule.Update && req.Kind.UnconditionalUpdate && req.Object != nil {
			req.Object.SetResourceVersion("")
		}
	})},
	"an update of a predecessor is taken": {do: onRequest(func(req *apiserver.Request) {
		if req.Verb == schedule.Update && req.Object != nil {
			req.Object.SetUID("")
		}
	})},
	"a dry run is none":              {do: onRequest(func(req *apiserver.Request) { req.DryRun = false })},
	"an apply takes what it wants":   {do: onRequest(func(req *apiserver.Request) { req.Force = forced(req) })},
	"the policy of a delete is lost": {do: onRequest(func(req *apiserver.Request) { req.Delete.PropagationPolicy = nil })},
	"the grace of a delete is lost":  {do: onRequest(func(req *apiserver.Request) { req.Delete.GracePeriodSeconds = nil })},
	"a status write writes the spec": {do: onRequest(func(req *apiserver.Request) {
		if req.Verb == schedule.Update && req.Subresource == "status" && !req.Kind.Custom() {
			req.Subresource = ""
		}
	})},
	"a list forgets its limit":  {do: onRequest(func(req *apiserver.Request) { req.Limit = 0 })},
	"a list forgets its labels": {do: onRequest(func(req *apiserver.Request) { req.LabelSelector = nil })},
	"a list forgets its revision": {do: onRequest(func(req *apiserver.Request) {
		if req.Verb == schedule.List {
			req.ResourceVersion, req.ResourceVersionMatch = "", ""
		}
	})},
	"the generation counts every write": {do: onWrite(func(_ *apiserver.Request, response *apiserver.Response) {
		if response.Committed > 0 && response.Before != nil {
			changed(response, func(obj apiserver.Object) { obj.SetGeneration(obj.GetGeneration() + 1) })
		}
	})},
	"creation keeps the UID of the client": {do: onWrite(func(req *apiserver.Request, response *apiserver.Response) {
		if req.Verb == schedule.Create && response.Object != nil {
			changed(response, func(obj apiserver.Object) { obj.SetUID("00000000-1111-2222-3333-444444444444") })
		}
	})},
	"a read is stale": {do: func(b *buggy, req *apiserver.Request) *apiserver.Response {
		response := b.honestly(req)
		if req.Verb != schedule.Get || response.Err != nil || req.Subresource == "scale" {
			return response
		}
		key := types.NamespacedName{Namespace: req.Kind.Resource + "/" + req.Namespace, Name: req.Name}
		if old := b.seen[key]; old != nil {
			response.Object = old
		} else {
			b.seen[key] = response.Object
		}
		return response
	}},
	"the last finalizer's end is not told": {do: func(b *buggy, req *apiserver.Request) *apiserver.Response {
		if req.Verb == schedule.Update && req.Object != nil && len(req.Object.GetFinalizers()) == 0 {
			stored := b.honestly(&apiserver.Request{Verb: schedule.Get, Kind: req.Kind, Namespace: req.Namespace, Name: req.Name})
			if stored.Err == nil && stored.Object.GetDeletionTimestamp() != nil {
				req.Object.SetFinalizers(stored.Object.GetFinalizers())
			}
		}
		return b.honestly(req)
	}},
	"a watch shows what it does not select": {watch: func(req *apiserver.Request) { req.LabelSelector = nil }},
	"a watch shows other namespaces":        {watch: func(req *apiserver.Request) { req.Namespace = "" }},
	"a watch loses an event":                {event: func(e apiserver.Event) (bool, bool) { return false, e.Object.GetName() == "b" }},
	"a watch doubles an event":              {event: func(e apiserver.Event) (bool, bool) { return e.Object.GetName() == "b", false }},
	"a watch begins one event late": {watch: func(req *apiserver.Request) {
		if n, err := strconv.ParseInt(req.ResourceVersion, 10, 64); err == nil && n > 0 {
			req.ResourceVersion = strconv.FormatInt(n+1, 10)
		}
	}},
	"a watch tells deletions as they were": {event: func(e apiserver.Event) (bool, bool) {
		if e.Type == apiserver.Deleted && e.Prev != nil {
			e.Object.SetResourceVersion(e.Prev.GetResourceVersion())
		}
		return false, false
	}},
}

func forced(req *apiserver.Request) *bool {
	if req.PatchType == types.ApplyPatchType {
		return new(true)
	}
	return req.Force
}

// TestCanaries checks that the model finds every planted bug, and cuts its sequence down to a few requests.
func TestCanaries(t *testing.T) {
	for name, bug := range canaries {
		t.Run(name, func(t *testing.T) {
			planted := func(seed uint64) subject {
				b := bug
				b.Local = newLocal(seed)
				b.seen = map[types.NamespacedName]apiserver.Object{}
				return subject{RoundTripper: http.RoundTripper(handler.New(&b)), version: versionOf(seed), use: b.Use}
			}
			const sequences = 20
			for seed := range uint64(sequences) {
				s := every(seed, length)
				wrong := play(t, s, planted)
				if wrong == nil {
					continue
				}
				s, wrong = shrink(t, s, wrong, planted)
				t.Logf("sequence %d, %d requests:\n%s", seed, len(s.steps), report(s, wrong))
				if len(s.steps) > 6 {
					t.Errorf("cut down to %d requests, want at most 6", len(s.steps))
				}
				return
			}
			t.Errorf("not found in %d sequences", sequences)
		})
	}
}
