package detect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// What is deleted so soon after it was made has just been made: in virtual time, and in passes over the same key.
const (
	soonTime   = time.Minute
	soonPasses = 2
)

// findSelfDelete finds an operator that deletes what it has just made, while nobody asked for anything else.
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
			exercised++
			at, known := made[record.Before.GetUID()]
			if !known || finished(record.Before) || r.beats(record.Event.Kind) || !r.justMade(at, i) {
				continue
			}
			return &Found{At: record.At, Values: []property.Value{about("write", record.Event)},
				Note: fmt.Sprintf("it was made by %s", records[at].Event)}, exercised
		}
	}
	return nil, exercised
}

// justMade reports whether an object was deleted soon after it was made, and nothing had happened that could be a reason.
func (r *Run) justMade(made, deleted int) bool {
	records := r.History.Records
	a, b := &records[made], &records[deleted]
	if a.Thread != b.Thread || b.Attempt > a.Attempt+soonPasses || b.At > a.At+soonTime {
		return false
	}
	begin := r.begin(made)
	for i := begin; i < deleted; i++ {
		record := &records[i]
		if i > made && record.Thread == a.Thread && record.Attempt == b.Attempt && b.Attempt == a.Attempt && failed(record) {
			return false // it takes back what it did
		}
		if record.Event.Verb == schedule.Deliver && record.Cause >= 0 { // it may have known nothing of it when it made the object
			record = &records[record.Cause]
		}
		if record.IsRelist() || record.Committed != 0 && record.Event.Actor != a.Event.Actor && r.asks(record, a.Event.Key) {
			return false
		}
	}
	return true
}

// asks reports whether a write of somebody else asks for something else: it changed what the object of a key, or anything in the
// scenario's story, is to be, or whether it is to be at all.
func (r *Run) asks(record *history.Record, key string) bool {
	if !r.Story[record.Event.Actor] && objectOf(record).key() != key || record.Event.Subresource == "status" {
		return false
	}
	before, after := record.Before, record.After
	if before == nil || after == nil || record.Event.Verb == schedule.Delete {
		return true
	}
	counted := after.GetGeneration() > 0 // of some kinds the server does not count the changes
	return !counted || before.GetGeneration() != after.GetGeneration()
}

// runsToCompletion reports whether an object is one that does something once, like a last backup.
func runsToCompletion(obj apiserver.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o.Spec.RestartPolicy != corev1.RestartPolicyAlways && o.Spec.RestartPolicy != ""
	case *batchv1.Job:
		return true
	default:
		return false
	}
}

// finished reports whether an object has done what it was made for, so that one who deletes it tidies up.
func finished(obj apiserver.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	case *batchv1.Job:
		return slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		})
	default:
		return false
	}
}

// findMistakenDelete finds a delete that hit another object than the one the operator had looked at in that
// pass: one of the same name, with another UID.
func findMistakenDelete(r *Run) (*Found, int) {
	records := r.History.Records
	exercised := 0
	for i := range records {
		record := &records[i]
		if !deletes(record) {
			continue
		}
		seen := r.lastSeen(i)
		if seen == nil {
			continue
		}
		exercised++
		if seen.GetUID() != record.Before.GetUID() {
			return &Found{At: record.At, Values: []property.Value{about("write", record.Event)},
				Note: "the object has another UID than the one that the operator had read: a precondition on the UID would have stopped it",
			}, exercised
		}
	}
	return nil, exercised
}

// lastSeen returns the object of a request as the actor saw it last in the pass of the request; nil if it did not.
func (r *Run) lastSeen(i int) apiserver.Object {
	request := &r.History.Records[i].Event
	kind := r.Server.Kinds().ByName(request.Kind)
	for _, j := range r.pass(i) {
		record := &r.History.Records[j]
		if record.Event.Kind != request.Kind {
			continue
		}
		switch record.Event.Verb {
		case schedule.List, schedule.CachedList:
			if record.Event.Namespace == "" || record.Event.Namespace == request.Namespace {
				if obj := r.at(kind, request.Namespace, request.Name, record.Revision); obj != nil {
					return obj
				}
			}
		default:
			if record.Event.Name == request.Name && record.Event.Namespace == request.Namespace && record.After != nil {
				return record.After
			}
		}
	}
	return nil
}

// findDyingParent finds an object that an operator made for an owner which it knew to be terminating, or out of one that belongs
// to a predecessor of its owner, of the same name and with another UID.
func findDyingParent(r *Run) (*Found, int) {
	records := r.History.Records
	exercised := 0
	for i := range records {
		record := &records[i]
		if !creates(record) {
			continue
		}
		exercised++
		if parent := r.dyingParent(i); parent != "" {
			return &Found{At: record.At,
				Values: []property.Value{about("write", record.Event), {Path: "parent", Value: parent}}}, exercised
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
	var foreign []int
	for _, j := range r.pass(i) {
		record := &records[j]
		if v := record.Event.Verb; v != schedule.Get && v != schedule.CachedGet || record.After == nil {
			continue
		}
		if record.After.GetUID() == owner.UID {
			if owning == nil {
				owning = record.After
			}
			continue
		}
		its := metav1.GetControllerOfNoCopy(record.After)
		if its != nil && its.Kind == owner.Kind && its.Name == owner.Name && its.UID != owner.UID {
			foreign = append(foreign, j)
		}
	}
	if owning == nil {
		return ""
	}
	if owning.GetDeletionTimestamp() != nil && !runsToCompletion(child) {
		return fmt.Sprintf("%s %s, which is terminating", owner.Kind, keyOf(owning))
	}
	for _, j := range foreign {
		read := &records[j]
		sameRole := read.Event.Kind == records[i].Event.Kind && read.After.GetName() == child.GetName() // it takes that one's place
		if !sameRole && r.takesAfter(child, read.After, owning) {
			return objectOf(read).String() + ", which belongs to a predecessor of its owner"
		}
	}
	return ""
}

// telling is the least length of a value that says where it comes from. Shorter ones, and words without a digit, are what all
// parts of an application have.
const telling = 5

// takesAfter reports whether an object has a label or annotation of another one, of a predecessor of its owner, which it can have
// from nowhere else: the owner does not say so, and asks for something else than the predecessor did.
func (r *Run) takesAfter(child, parent, owner apiserver.Object) bool {
	predecessor := r.predecessor(metav1.GetControllerOfNoCopy(parent), owner.GetNamespace())
	if predecessor != nil && r.sameSpec(predecessor, owner) {
		return false
	}
	given := map[string]bool{}
	for _, value := range fieldsOf(owner) {
		given[value] = true
	}
	shares := func(a, b map[string]string) bool {
		for key, value := range a {
			if b[key] == value && !given[value] && len(value) >= telling && strings.ContainsAny(value, "0123456789") &&
				!strings.Contains(child.GetName(), value) && !strings.HasPrefix(key, "app.kubernetes.io/") {
				return true
			}
		}
		return false
	}
	return shares(child.GetLabels(), parent.GetLabels()) || shares(child.GetAnnotations(), parent.GetAnnotations())
}

// predecessor returns an owner as it was last; nil if it is not known.
func (r *Run) predecessor(owner *metav1.OwnerReference, namespace string) apiserver.Object {
	for _, kind := range r.Server.Kinds().All() {
		if kind.Kind != owner.Kind {
			continue
		}
		for _, event := range slices.Backward(r.Server.Log(kind)) {
			if event.Object.GetUID() == owner.UID && event.Object.GetNamespace() == namespace {
				return event.Object
			}
		}
	}
	return nil
}

// sameSpec reports whether two objects ask for the same.
func (r *Run) sameSpec(a, b apiserver.Object) bool {
	spec := func(obj apiserver.Object) map[string]string {
		fields := fieldsOf(obj)
		for path := range fields {
			if section, _, _ := strings.Cut(path, "."); section == "metadata" || section == "status" {
				delete(fields, path)
			}
		}
		return fields
	}
	before, after := spec(a), spec(b)
	return !slices.ContainsFunc(sortedKeys(before, after), func(path string) bool { return before[path] != after[path] })
}
