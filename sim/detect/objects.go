package detect

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// creates reports whether a step of an operator made an object.
func creates(r *history.Record) bool {
	return r.OfProcess() && r.Committed != 0 && r.Before == nil && r.After != nil && r.Event.Subresource == "" &&
		(r.Event.Verb == schedule.Create || r.Event.Verb == schedule.Patch || r.Event.Verb == schedule.Update)
}

// deletes reports whether a step of an operator deleted an object, or marked it.
func deletes(r *history.Record) bool {
	return r.OfProcess() && r.Committed != 0 && r.Event.Verb == schedule.Delete && r.Before != nil &&
		r.Before.GetDeletionTimestamp() == nil
}

// pass returns the index of the first record of the pass that a record belongs to.
func (r *Run) pass(i int) int {
	records := r.History.Records
	first := i
	for j := i - 1; j >= 0; j-- {
		if records[j].Thread != records[i].Thread {
			continue
		}
		if records[j].Attempt != records[i].Attempt {
			break
		}
		first = j
	}
	return first
}

// samePass reports whether two steps belong to one pass.
func samePass(a, b *history.Record) bool { return a.Thread == b.Thread && a.Attempt == b.Attempt }

// findSelfDelete finds an operator that deletes what it made in the same pass or the one before it, while nobody else asked for
// anything else.
func findSelfDelete(r *Run) (*Found, int) {
	records := r.History.Records
	made := map[types.UID]int{}
	exercised := 0
	for i := range records {
		record := &records[i]
		switch {
		case creates(record):
			made[record.After.GetUID()] = i
		case deletes(record):
			at, known := made[record.Before.GetUID()]
			exercised++
			if !known || !r.justMade(at, i) || finished(record.Before) {
				continue
			}
			return &Found{At: record.At, Values: []property.Value{about("write", record.Event.Base())},
				Note: fmt.Sprintf("it was made by %s", records[at].Event)}, exercised
		}
	}
	return nil, exercised
}

// justMade reports whether nothing has happened between the creation of an object and its deletion that could be a reason for it.
func (r *Run) justMade(made, deleted int) bool {
	records := r.History.Records
	a, b := &records[made], &records[deleted]
	if a.Thread != b.Thread || b.Attempt > a.Attempt+1 {
		return false
	}
	for i := made + 1; i < deleted; i++ {
		record := &records[i]
		failed := record.Thread == a.Thread && record.Event.Verb.IsWrite() && (record.Code >= 400 || record.Code == history.NoAnswer)
		if samePass(a, b) && failed { // it takes back what it did
			return false
		}
		if record.Committed != 0 && record.Event.Actor != a.Event.Actor && asksForMore(record, a.Event.Key) {
			return false
		}
	}
	return true
}

// asksForMore reports whether a write changed what an object of the key's name asks for, or whether it is to be there.
func asksForMore(r *history.Record, key string) bool {
	if r.Event.Key != "" && r.Event.Key == key && r.Event.Subresource == "status" {
		return false
	}
	obj := r.After
	if obj == nil {
		obj = r.Before
	}
	if obj == nil || keyOf(obj) != key {
		return false
	}
	return r.Before == nil || r.After == nil || r.Event.Verb == schedule.Delete ||
		r.Before.GetGeneration() != r.After.GetGeneration() ||
		(r.Before.GetDeletionTimestamp() == nil) != (r.After.GetDeletionTimestamp() == nil)
}

// keyOf returns the key under which an object is reconciled.
func keyOf(obj apiserver.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// finished reports whether an object has done what it was made for, so that one who deletes it tidies up.
func finished(obj apiserver.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// findMistakenDelete finds a delete without preconditions that hit another object than the one the operator had looked at in that
// pass: one of the same name, with another UID.
func findMistakenDelete(r *Run) (*Found, int) {
	records := r.History.Records
	exercised := 0
	for i := range records {
		record := &records[i]
		if !deletes(record) || record.Locked {
			continue
		}
		seen := r.lastSeen(i)
		if seen == nil {
			continue
		}
		exercised++
		if seen.GetUID() != record.Before.GetUID() {
			return &Found{At: record.At, Values: []property.Value{about("write", record.Event.Base())},
					Note: "the object has another UID than the one the operator had read: a precondition on the UID would have stopped it"},
				exercised
		}
	}
	return nil, exercised
}

// lastSeen returns the object of a request as the actor saw it last in the pass of the request; nil if it did not.
func (r *Run) lastSeen(i int) apiserver.Object {
	records := r.History.Records
	request := &records[i]
	kind := r.Server.Kinds().ByName(request.Event.Kind)
	for j := i - 1; j >= 0; j-- {
		record := &records[j]
		if record.Thread != request.Thread || record.Event.Kind != request.Event.Kind {
			continue
		}
		if record.Attempt != request.Attempt {
			return nil
		}
		switch record.Event.Verb {
		case schedule.List, schedule.CachedList:
			if record.Event.Namespace == "" || record.Event.Namespace == request.Event.Namespace {
				if obj := r.live(kind, request.Event.Namespace, request.Event.Name, record.Revision); obj != nil {
					return obj
				}
			}
		case schedule.Deliver, schedule.Handle, schedule.Sync:
		default:
			if record.Event.Name == request.Event.Name && record.Event.Namespace == request.Event.Namespace && record.After != nil {
				return record.After
			}
		}
	}
	return nil
}

// findDyingParent finds an object that an operator made for an owner which it knew to be terminating, or out of one that belonged
// to an owner's predecessor of the same name or was terminating itself: it has that one's labels or annotations, which say nothing
// of the new owner.
func findDyingParent(r *Run) (*Found, int) {
	records := r.History.Records
	exercised := 0
	for i := range records {
		record := &records[i]
		if !creates(record) {
			continue
		}
		exercised++
		if _, tidiesUp := record.After.(*batchv1.Job); tidiesUp {
			continue
		}
		if parent := r.dyingParent(i); parent != "" {
			return &Found{At: record.At,
				Values: []property.Value{about("write", record.Event.Base()), {Path: "parent", Value: parent}}}, exercised
		}
	}
	return nil, exercised
}

// dyingParent returns what an object was made for or out of that is on its way out; empty for nothing.
func (r *Run) dyingParent(i int) string {
	records := r.History.Records
	child := records[i].After
	owner := metav1.GetControllerOfNoCopy(child)
	if owner == nil {
		return ""
	}
	var owning apiserver.Object
	for j := r.pass(i); j < i; j++ {
		record := &records[j]
		if !samePass(record, &records[i]) || record.After == nil {
			continue
		}
		if v := record.Event.Verb; v != schedule.Get && v != schedule.CachedGet {
			continue
		}
		read := record.After
		if read.GetUID() == owner.UID {
			owning = read
			if read.GetDeletionTimestamp() != nil {
				return record.Event.Object() + ", which is terminating"
			}
			continue
		}
		its := metav1.GetControllerOfNoCopy(read)
		if record.Event.Kind == records[i].Event.Kind && read.GetName() == child.GetName() {
			continue // it takes that one's place
		}
		if its == nil || its.Kind != owner.Kind || its.Name != owner.Name || !takesAfter(child, read, owning) {
			continue
		}
		switch {
		case its.UID != owner.UID:
			return record.Event.Object() + ", which belongs to a predecessor of its owner"
		case read.GetDeletionTimestamp() != nil:
			return record.Event.Object() + ", which is terminating"
		}
	}
	return ""
}

// takesAfter reports whether an object has a label or annotation of another one that it can have from nowhere else: the value is
// none that says who the owner is, and the key none of those that all parts of an application have.
func takesAfter(child, parent, owner apiserver.Object) bool {
	given := map[string]bool{"": true}
	if owner != nil {
		given[owner.GetName()], given[owner.GetNamespace()] = true, true
		for _, values := range []map[string]string{owner.GetLabels(), owner.GetAnnotations()} {
			for _, value := range values {
				given[value] = true
			}
		}
	}
	shares := func(a, b map[string]string) bool {
		for key, value := range a {
			if !given[value] && b[key] == value && !strings.HasPrefix(key, "app.kubernetes.io/") {
				return true
			}
		}
		return false
	}
	return shares(child.GetLabels(), parent.GetLabels()) || shares(child.GetAnnotations(), parent.GetAnnotations())
}

// findOrphans finds what an operator made for a custom resource that is gone, and that is still there at the end. Claims are left
// out: to keep the data is a decision.
func findOrphans(r *Run) (*Found, int) {
	if !r.terminal() {
		return nil, 0
	}
	records := r.History.Records
	exercised := 0
	for i := range records {
		record := &records[i]
		if !creates(record) || record.Event.Key == "" || record.Event.Kind == "PersistentVolumeClaim" {
			continue
		}
		kind := r.Server.Kinds().ByName(record.Event.Kind)
		child := r.Server.Get(kind, record.After.GetNamespace(), record.After.GetName())
		if kind.Volatile || child == nil || child.GetUID() != record.After.GetUID() || child.GetDeletionTimestamp() != nil {
			continue
		}
		exercised++
		if made := r.madeFor(record); made != "" {
			return &Found{At: r.History.End, Values: []property.Value{{Path: "object", Value: objectOf(record)},
				{Path: "made for", Value: made}}, Note: "nothing is left that would remove it"}, exercised
		}
	}
	return nil, exercised
}

// madeFor returns the custom resource of the key of the pass in which an object was made, if there was one then and there is none
// now; else nothing.
func (r *Run) madeFor(record *history.Record) string {
	namespace, name, namespaced := strings.Cut(record.Event.Key, "/")
	if !namespaced {
		namespace, name = "", record.Event.Key
	}
	gone := ""
	for _, kind := range r.Server.Kinds().All() {
		if !kind.Custom() || kind.Namespaced != namespaced {
			continue
		}
		if r.Server.Get(kind, namespace, name) != nil {
			return ""
		}
		if r.live(kind, namespace, name, record.Committed) != nil {
			gone = kind.Name() + " " + record.Event.Key
		}
	}
	return gone
}
