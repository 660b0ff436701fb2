package apiserver

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestDefaultPropagation checks what a delete without a policy does: Jobs and ReplicationControllers orphan their pods, and
// nothing else does. Events never wait for the garbage collector.
func TestDefaultPropagation(t *testing.T) {
	for _, k := range NewKinds(V136).All() {
		want := metav1.DeletePropagationBackground
		if k.Name() == "Job" || k.Name() == "ReplicationController" {
			want = metav1.DeletePropagationOrphan
		}
		if k.DefaultPropagation != want {
			t.Errorf("%s: %s, want %s", k.Name(), k.DefaultPropagation, want)
		}
		if event := k.Kind == "Event" && k.Alias == nil; k.Uncollected != event {
			t.Errorf("%s: uncollected: %t", k.Name(), k.Uncollected)
		}
	}
}

func newJob(name string) *batchv1.Job {
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
}

func newEvent(name string, finalizers ...string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
	}
}

// TestPropagationPrecedence deletes objects with options, finalizers and defaults that disagree.
func TestPropagationPrecedence(t *testing.T) {
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	with := func(obj Object, finalizers ...string) Object { obj.SetFinalizers(finalizers); return obj }
	for name, tt := range map[string]struct {
		obj     Object
		options metav1.DeleteOptions
		want    string // the finalizers, or "gone"
	}{
		"a job":                            {newJob("j"), metav1.DeleteOptions{}, "orphan"},
		"a job, background":                {newJob("j"), policy("Background"), "gone"},
		"a job, not orphanDependents":      {newJob("j"), metav1.DeleteOptions{OrphanDependents: new(false)}, "gone"},
		"a job that waits in foreground":   {with(newJob("j"), "foregroundDeletion"), metav1.DeleteOptions{}, "foregroundDeletion"},
		"a set":                            {newSet("s"), metav1.DeleteOptions{}, "gone"},
		"a set that orphans":               {with(newSet("s"), "orphan"), metav1.DeleteOptions{}, "orphan"},
		"a set that orphans, background":   {with(newSet("s"), "orphan"), policy("Background"), "gone"},
		"a set that orphans, foreground":   {with(newSet("s"), "orphan"), policy("Foreground"), "foregroundDeletion"},
		"a held set, foreground":           {with(newSet("s"), "e.x/f"), policy("Foreground"), "e.x/f foregroundDeletion"},
		"a held set that orphans, orphan":  {with(newSet("s"), "orphan", "e.x/f"), policy("Orphan"), "orphan e.x/f"},
		"the older of both finalizers":     {with(newSet("s"), "orphan", "foregroundDeletion"), metav1.DeleteOptions{}, "orphan"},
		"a custom resource":                {newWidget("w"), metav1.DeleteOptions{}, "gone"},
		"a custom resource, foreground":    {newWidget("w"), policy("Foreground"), "foregroundDeletion"},
		"an event, foreground":             {newEvent("e"), policy("Foreground"), "gone"},
		"an event, orphan":                 {newEvent("e"), policy("Orphan"), "gone"},
		"a held event that orphans":        {newEvent("e", "orphan", "e.x/f"), metav1.DeleteOptions{}, "e.x/f"},
		"an unbound pod, foreground":       {newPod("p", ""), policy("Foreground"), "foregroundDeletion"},
		"an unbound pod, orphanDependents": {newPod("p", ""), metav1.DeleteOptions{OrphanDependents: new(true)}, "orphan"},
	} {
		t.Run(name, func(t *testing.T) {
			test := newTester(t)
			if finalizers := tt.obj.GetFinalizers(); len(finalizers) == 2 && finalizers[1] == "foregroundDeletion" {
				test.load(tt.obj) // which no create lets pass
			} else {
				test.create(tt.obj)
			}
			k := test.Kinds().Of(tt.obj)
			response := test.remove(test.Get(k, "default", tt.obj.GetName()), tt.options)
			got := "gone"
			if left := test.Get(k, "default", tt.obj.GetName()); left != nil {
				got = strings.Join(left.GetFinalizers(), " ")
				if left.GetDeletionTimestamp() == nil || *left.GetDeletionGracePeriodSeconds() != 0 {
					t.Errorf("not marked: %v", left)
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			code := 200
			if tt.options.OrphanDependents != nil && !*tt.options.OrphanDependents && got != "gone" {
				code = 202
			}
			if response.Code != code {
				t.Errorf("answered %d, want %d", response.Code, code)
			}
		})
	}
}

// load puts an object into the store as it is, valid or not.
func (t *tester) load(obj Object) {
	t.Helper()
	finalizers := obj.GetFinalizers()
	obj.SetFinalizers(nil)
	stored := t.create(obj)
	marked := t.Kinds().Of(obj).shallowCopy(stored)
	marked.SetFinalizers(finalizers)
	t.commit(t.Kinds().Of(obj), marked, stored)
}

// TestAccepted answers an old way to ask for the background with 202 while the object is still there.
func TestAccepted(t *testing.T) {
	test := newTester(t)
	set := test.create(newSet("s", "e.x/f"))
	response := test.remove(set, metav1.DeleteOptions{OrphanDependents: new(false)})
	if response.Code != 202 || response.Object == nil {
		t.Errorf("%d %v, want 202 and the object", response.Code, response.Object)
	}
}

// TestMarked checks what a delete that has to wait leaves: the time, the grace, one generation more; and that the client can
// change the rest, but none of that.
func TestMarked(t *testing.T) {
	for _, name := range []string{"StatefulSet", "Widget", "ConfigMap"} {
		t.Run(name, func(t *testing.T) {
			test := newTester(t)
			k := test.kind(name)
			obj := map[string]Object{"StatefulSet": newSet("a"), "Widget": newWidget("a"), "ConfigMap": newConfig("a")}[name]
			obj.SetFinalizers([]string{"e.x/f", "e.x/g"})
			generation := test.create(obj).GetGeneration()
			test.time = test.time.Add(time.Minute)
			marked := test.remove(test.Get(k, "default", "a"), metav1.DeleteOptions{GracePeriodSeconds: new(int64(50))}).Object
			if !marked.GetDeletionTimestamp().Time.Equal(test.time) || *marked.GetDeletionGracePeriodSeconds() != 0 {
				t.Errorf("deleted at %v with grace %d", marked.GetDeletionTimestamp(), *marked.GetDeletionGracePeriodSeconds())
			}
			if want := generation + min(generation, 1); marked.GetGeneration() != want {
				t.Errorf("generation %d, want %d", marked.GetGeneration(), want)
			}
			test.time = test.time.Add(time.Minute)
			if again := test.remove(marked, metav1.DeleteOptions{}); again.Committed != 0 || again.Object != marked {
				t.Errorf("a second delete was committed at %d", again.Committed)
			}
			edited := marked.DeepCopyObject().(Object)
			edited.SetDeletionTimestamp(nil)
			edited.SetDeletionGracePeriodSeconds(nil)
			edited.SetFinalizers([]string{"e.x/g"})
			edited.SetLabels(map[string]string{"a": "b"})
			kept := test.do(&Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: edited}).Object
			if !kept.GetDeletionTimestamp().Equal(marked.GetDeletionTimestamp()) || kept.GetDeletionGracePeriodSeconds() == nil {
				t.Errorf("an update took the deletion away: %v", kept)
			}
			if !slices.Equal(kept.GetFinalizers(), []string{"e.x/g"}) || kept.GetLabels()["a"] != "b" {
				t.Errorf("finalizers %v, labels %v", kept.GetFinalizers(), kept.GetLabels())
			}
			patch := &Request{
				Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", PatchType: types.MergePatchType,
				PatchData: []byte(`{"metadata":{"finalizers":["e.x/g","e.x/h","e.x/i"]}}`),
			}
			const refused = `metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, ` +
				`found new finalizers []string{"e.x/h", "e.x/i"}`
			if err := test.Do(patch).Err; err == nil || !strings.Contains(err.ErrStatus.Message, refused) {
				t.Errorf("%v, want %s", err, refused)
			}
		})
	}
}

// TestDeletePreconditions checks that the UID is looked at first, and what is said of either.
func TestDeletePreconditions(t *testing.T) {
	test := newTester(t)
	stored := test.create(newSet("s", "e.x/f"))
	uid, revision := stored.GetUID(), stored.GetResourceVersion()
	for name, tt := range map[string]struct {
		p    metav1.Preconditions
		want string
	}{
		"uid": {metav1.Preconditions{UID: new(types.UID("u"))}, "the UID in the precondition (u) does not match the UID in record (" +
			string(uid) + "). The object might have been deleted and then recreated"},
		"both": {metav1.Preconditions{UID: new(types.UID("u")), ResourceVersion: new("1")}, "the UID in the precondition (u)"},
		"revision": {metav1.Preconditions{UID: &uid, ResourceVersion: new("1")}, "the ResourceVersion in the precondition (1) does not " +
			"match the ResourceVersion in record (" + revision + "). The object might have been modified"},
		"an empty uid": {metav1.Preconditions{UID: new(types.UID(""))}, "the UID in the precondition ()"},
	} {
		req := &Request{Verb: schedule.Delete, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "s"}
		req.Delete.Preconditions = &tt.p
		err := test.Do(req).Err
		want := `Operation cannot be fulfilled on StatefulSet.apps "s": ` + tt.want
		if err == nil || err.ErrStatus.Code != 409 || !strings.HasPrefix(err.ErrStatus.Message, want) ||
			err.ErrStatus.Details.Kind != "StatefulSet" {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	test.remove(stored, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
	if test.Get(test.kind("StatefulSet"), "default", "s").GetDeletionTimestamp() == nil {
		t.Error("preconditions that hold, and it is not deleted")
	}
}

// TestDeleteDryRun checks that nothing happens, and what is said of it.
func TestDeleteDryRun(t *testing.T) {
	test := newTester(t)
	all := metav1.DeleteOptions{DryRun: []string{"All"}}
	for _, obj := range []Object{newConfig("c"), newSet("s", "e.x/f"), newPod("p", "node1"), newPod("q", "")} {
		stored := test.create(obj)
		before := test.Revision()
		response := test.remove(stored, all)
		k := test.Kinds().Of(obj)
		if test.Revision() != before || response.Committed != 0 || test.Get(k, "default", obj.GetName()) != stored {
			t.Errorf("%s %s: something was committed", k, obj.GetName())
		}
		marks := len(obj.GetFinalizers()) > 0 || k.Graceful != nil
		if shown := response.Object; (shown != nil && shown.GetDeletionTimestamp() != nil) != marks {
			t.Errorf("%s %s: answered with %v", k, obj.GetName(), shown)
		}
	}
}

// collection is a request to delete the ConfigMaps of the namespace default.
func collection(k *Kind, edit func(*Request)) *Request {
	req := &Request{Verb: schedule.DeleteCollection, Kind: k, Namespace: "default"}
	edit(req)
	return req
}

func names(objects []Object) string {
	var all []string
	for _, obj := range objects {
		all = append(all, obj.GetName())
	}
	return strings.Join(all, " ")
}

// TestDeleteCollection deletes some of the ConfigMaps a to e; c has a finalizer, a and d a label.
func TestDeleteCollection(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	for name, tt := range map[string]struct {
		edit  func(*Request)
		items string // of the response
		left  string
	}{
		"all":          {func(*Request) {}, "a b c d e", "c"},
		"by label":     {func(r *Request) { r.LabelSelector = labels.SelectorFromSet(labels.Set{"l": "x"}) }, "a d", "b c e"},
		"by field":     {func(r *Request) { r.FieldSelector = fields.OneTermEqualSelector("metadata.name", "b") }, "b", "a c d e"},
		"none":         {func(r *Request) { r.FieldSelector = fields.OneTermEqualSelector("metadata.name", "z") }, "", "a b c d e"},
		"dry run":      {func(r *Request) { r.DryRun = true }, "a b c d e", "a b c d e"},
		"dry option":   {func(r *Request) { r.Delete.DryRun = []string{"All"} }, "a b c d e", "a b c d e"},
		"limited":      {func(r *Request) { r.Limit = 2 }, "a b", "c d e"},
		"in the front": {func(r *Request) { r.Delete.PropagationPolicy = &foreground }, "a b c d e", "a b c d e"},
	} {
		t.Run(name, func(t *testing.T) {
			test := newTester(t)
			k := test.kind("ConfigMap")
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				obj := newConfig(name)
				switch name {
				case "c":
					obj.Finalizers = []string{"e.x/f"}
				case "a", "d":
					obj.Labels = map[string]string{"l": "x"}
				}
				test.create(obj)
			}
			before := test.Revision()
			response := test.do(collection(k, tt.edit))
			if got := names(response.Items); got != tt.items {
				t.Errorf("answered with %q, want %q", got, tt.items)
			}
			for _, item := range response.Items {
				if revision, _ := strconv.ParseInt(item.GetResourceVersion(), 10, 64); revision > before || item.GetDeletionTimestamp() != nil {
					t.Errorf("%s is not as it was: %v", item.GetName(), item)
				}
			}
			if got := names(test.List(k, "default")); got != tt.left {
				t.Errorf("left %q, want %q", got, tt.left)
			}
			if committed := test.Revision() != before; committed && response.Committed != test.Revision() || !committed && response.Committed != 0 {
				t.Errorf("committed at %d, the server is at %d", response.Committed, test.Revision())
			}
			if (response.Continue != "") != (name == "limited") {
				t.Errorf("continue %q", response.Continue)
			}
		})
	}
}

// TestDeleteCollectionStops meets a precondition that one object does not meet: what came before is gone.
func TestDeleteCollectionStops(t *testing.T) {
	test := newTester(t)
	k := test.kind("ConfigMap")
	first := test.create(newConfig("a"))
	test.create(newConfig("b"))
	uid := first.GetUID()
	response := test.Do(collection(k, func(r *Request) { r.Delete.Preconditions = &metav1.Preconditions{UID: &uid} }))
	if response.Code != 409 || response.Err.ErrStatus.Details.Name != "b" || response.Committed != test.Revision() {
		t.Errorf("%d %v, committed at %d", response.Code, response.Err, response.Committed)
	}
	if got := names(test.List(k, "default")); got != "b" {
		t.Errorf("left %q, want b", got)
	}
}

// TestDeleteCollectionDefaults deletes pods in their grace period, and jobs with the default of their kind: the options of one do
// not become those of the next.
func TestDeleteCollectionDefaults(t *testing.T) {
	test := newTester(t)
	short := newPod("a", "node1")
	short.Spec.TerminationGracePeriodSeconds = new(int64(5))
	test.create(short)
	test.create(newPod("b", "node1"))
	test.create(newPod("c", ""))
	test.create(newJob("j"))
	test.do(collection(test.kind("Pod"), func(*Request) {}))
	graces := map[string]int64{}
	for _, pod := range test.List(test.kind("Pod"), "default") {
		graces[pod.GetName()] = *pod.GetDeletionGracePeriodSeconds()
	}
	if len(graces) != 2 || graces["a"] != 5 || graces["b"] != 30 {
		t.Errorf("grace periods %v", graces)
	}
	test.do(collection(test.kind("Job"), func(*Request) {}))
	if got := test.Get(test.kind("Job"), "default", "j"); got == nil || !slices.Equal(got.GetFinalizers(), []string{"orphan"}) {
		t.Errorf("the job: %v", got)
	}
}

// TestDeleteCollectionRefused checks which collections cannot be deleted at all.
func TestDeleteCollectionRefused(t *testing.T) {
	test := newTester(t)
	for name, tt := range map[string]struct {
		edit func(*Request)
		code int
	}{
		"of all namespaces": {func(r *Request) { r.Namespace = "" }, 405},
		"of namespaces":     {func(r *Request) { r.Kind = test.kind("Namespace") }, 405},
		"by an odd field":   {func(r *Request) { r.FieldSelector = fields.OneTermEqualSelector("data.k", "v") }, 400},
		"with odd options":  {func(r *Request) { r.Delete.PropagationPolicy = new(metav1.DeletionPropagation("Odd")) }, 422},
		"at a bad revision": {func(r *Request) { r.ResourceVersion = "x" }, 400},
		"with two policies": {func(r *Request) {
			r.Delete = metav1.DeleteOptions{OrphanDependents: new(true), PropagationPolicy: new(metav1.DeletePropagationOrphan)}
		}, 422},
		"with a bad token":   {func(r *Request) { r.Continue = "x" }, 400},
		"of a missing space": {func(r *Request) { r.Namespace = "nowhere" }, 200}, // there is nothing in it
	} {
		if response := test.Do(collection(test.kind("ConfigMap"), tt.edit)); response.Code != tt.code {
			t.Errorf("%s: %d %v, want %d", name, response.Code, response.Err, tt.code)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	test.do(&Request{Verb: schedule.Create, Kind: test.kind("Node"), Object: node})
	test.do(&Request{Verb: schedule.DeleteCollection, Kind: test.kind("Node")})
	if test.Get(test.kind("Node"), "", "n") != nil {
		t.Error("the nodes are still there")
	}
}
