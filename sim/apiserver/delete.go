package apiserver

import (
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// delete answers a DELETE; Store.Delete of pkg/registry/generic/registry/store.go and BeforeDelete of
// pkg/registry/rest/delete.go.
func (s *Server) delete(req *Request) *Response {
	k := req.Kind
	options := req.Delete
	if err := checkDeleteOptions(&options); err != nil {
		return failed(err)
	}
	req.warnOfOrphans()
	e := s.table(k).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.view(), req.Name))
	}
	if k.order == namespaceOrder {
		if response := s.deleteNamespace(req, e.object); response != nil {
			return response
		}
	}
	return s.deleteStored(req, e, options, req.dryRun())
}

// deleteStored deletes an object, or begins to; the options, which are not those of the request, are valid.
func (s *Server) deleteStored(req *Request, e *entry, options metav1.DeleteOptions, dryRun bool) *Response {
	k := req.Kind
	if err := checkPreconditions(k, e, options.Preconditions); err != nil {
		return failed(err)
	}
	stored := e.object
	marked, outcome := s.markDeleted(k, stored, &options)
	unmarked := outcome == removeNow && marked == nil && len(stored.GetFinalizers()) > 0 // it only lost finalizers of the collector
	if p := options.Preconditions; unmarked && !dryRun && p != nil && p.ResourceVersion != nil {
		// Store.Delete takes the revision of what its first step has returned, which is nothing here.
		return failed(storageConflict(req.view(), e.namespace, e.name, "ResourceVersion", "", stored.GetResourceVersion(), false))
	}
	response := answer(stored, stored)
	if marked != nil {
		if err := req.reviewDelete(stored); err != nil {
			return failed(err)
		}
		response = s.write(k, marked, stored, dryRun)
	}
	if outcome == removeNow && (!dryRun || marked == nil) {
		if err := req.reviewDelete(response.Object); err != nil { // once more, if it was marked first
			return failed(err)
		}
	}
	if outcome == removeNow && !dryRun {
		s.remove(k, response)
	}
	switch {
	case dryRun && unmarked:
		response.Object = k.nothing() // an update that found nothing left to do, and then nobody fills in what it returns
	case dryRun && outcome == removeNow && marked != nil: // as it was marked
	case outcome != marking && !k.ReturnsDeleted:
		response.Object = nil
	}
	if outcome != removeNow {
		return stillThere(response, &options)
	}
	return response
}

// nothing is an object of the kind of which nothing is known.
func (k *Kind) nothing() Object {
	obj := k.New()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		delete(u.Object, "metadata")
	}
	return obj
}

// stillThere completes the response to a delete that leaves its object in the store. Whoever asks by an old option not to orphan
// dependents is told so by the code; DeleteResource of pkg/endpoints/handlers/delete.go.
func stillThere(response *Response, options *metav1.DeleteOptions) *Response {
	if options.OrphanDependents != nil && !*options.OrphanDependents {
		response.Code = http.StatusAccepted
	}
	return response
}

func checkDeleteOptions(options *metav1.DeleteOptions) *statusError {
	if errs := metavalidation.ValidateDeleteOptions(options); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// warnOfOrphans warns of a delete that leaves pods behind without having been told to; pkg/registry/batch/job/storage/storage.go.
func (r *Request) warnOfOrphans() {
	if r.Kind.order == jobOrder && r.Delete.PropagationPolicy == nil && r.Delete.OrphanDependents == nil {
		r.warnings = append(r.warnings, "child pods are preserved by default when jobs are deleted; set "+
			"propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
}

// remove takes the object of the response out of the store, and completes the response.
func (s *Server) remove(k *Kind, response *Response) {
	revision := s.commit(k, nil, response.Object)
	events := s.table(k).log
	response.Object = events[len(events)-1].Object
	response.Revision, response.Committed = revision, revision
}

// checkPreconditions compares the preconditions of a delete with what is stored.
func checkPreconditions(k *Kind, e *entry, preconditions *metav1.Preconditions) *statusError {
	if preconditions == nil {
		return nil
	}
	if want := preconditions.UID; want != nil && *want != e.object.GetUID() {
		return preconditionFailed(k, e.name, "UID", string(*want), string(e.object.GetUID()), "deleted and then recreated")
	}
	if want := preconditions.ResourceVersion; want != nil && *want != e.object.GetResourceVersion() {
		return preconditionFailed(k, e.name, "ResourceVersion", *want, e.object.GetResourceVersion(), "modified")
	}
	return nil
}

// deletion is what becomes of an object that is deleted.
type deletion uint8

const (
	marking   deletion = iota // it stays, marked as being deleted
	removeNow                 // it goes: after being marked, if its kind has a grace period, and at once if not
	pending                   // its grace period runs already, and ends no later than asked for
)

// markDeleted returns the object as the delete leaves it, nil if it is removed without being marked first.
func (s *Server) markDeleted(k *Kind, stored Object, options *metav1.DeleteOptions) (Object, deletion) {
	marked := k.shallowCopy(stored)
	graceful, isPending := s.beginGrace(k, marked, options)
	if isPending {
		return nil, pending
	}
	if finalizers, changed := k.collectorFinalizers(marked, options); changed {
		marked.SetFinalizers(finalizers)
	}
	waiting := len(marked.GetFinalizers()) > 0
	switch {
	case !graceful && waiting:
		s.markAsDeleting(marked)
		return marked, marking
	case !graceful:
		return nil, removeNow
	case waiting || *marked.GetDeletionGracePeriodSeconds() > 0:
		return marked, marking
	default:
		return marked, removeNow
	}
}

// beginGrace starts or shortens the grace period of a kind that has one.
func (s *Server) beginGrace(k *Kind, obj Object, options *metav1.DeleteOptions) (graceful, isPending bool) {
	if k.Graceful == nil {
		return false, false
	}
	if options.GracePeriodSeconds != nil && *options.GracePeriodSeconds < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	deleted := obj.GetDeletionTimestamp()
	if deleted == nil {
		seconds, ok := k.Graceful(obj, options)
		if !ok {
			return false, false
		}
		end := metav1.NewTime(s.timestamp().Add(time.Duration(seconds) * time.Second))
		obj.SetDeletionTimestamp(&end)
		obj.SetDeletionGracePeriodSeconds(&seconds)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		return true, false
	}
	current := obj.GetDeletionGracePeriodSeconds()
	if current == nil || *current == 0 {
		return false, false
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *current {
		return false, true
	}
	s.shortenGrace(obj, *current, *options.GracePeriodSeconds)
	return true, false
}

// shortenGrace moves the end of a grace period forward, though not into the past.
func (s *Server) shortenGrace(obj Object, current, wanted int64) {
	end := obj.GetDeletionTimestamp().Add(time.Duration(wanted-current) * time.Second)
	if now := s.timestamp(); end.Before(now.Time) {
		end = now.Time
		wanted = min(wanted, 1)
	}
	timestamp := metav1.NewTime(end)
	obj.SetDeletionTimestamp(&timestamp)
	obj.SetDeletionGracePeriodSeconds(&wanted)
}

// markAsDeleting marks an object that finalizers keep.
func (s *Server) markAsDeleting(obj Object) {
	now := s.timestamp()
	deleted := obj.GetDeletionTimestamp()
	if deleted == nil && obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if deleted == nil || deleted.After(now.Time) {
		obj.SetDeletionTimestamp(&now)
	}
	obj.SetDeletionGracePeriodSeconds(new(int64(0)))
}

// collectorFinalizers returns the finalizers of a deleted object with those that tell the garbage collector what to do
// about its dependents, and whether that is a change; deletionFinalizersForGarbageCollection of store.go.
func (k *Kind) collectorFinalizers(obj Object, options *metav1.DeleteOptions) ([]string, bool) {
	old := obj.GetFinalizers()
	policy := k.propagation(old, options)
	if k.Uncollected {
		policy = metav1.DeletePropagationBackground
	}
	var finalizers []string
	for _, f := range old {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			finalizers = append(finalizers, f)
		}
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	within := func(a, b []string) bool { // as sets
		return !slices.ContainsFunc(a, func(f string) bool { return !slices.Contains(b, f) })
	}
	if within(old, finalizers) && within(finalizers, old) {
		return old, false
	}
	return finalizers, true
}

// propagation returns what is to become of the dependents: what the options say, what an earlier delete said, or what the
// kind does by default, in this order.
func (k *Kind) propagation(finalizers []string, options *metav1.DeleteOptions) metav1.DeletionPropagation {
	switch {
	case options.OrphanDependents != nil && *options.OrphanDependents:
		return metav1.DeletePropagationOrphan
	case options.OrphanDependents != nil:
		return metav1.DeletePropagationBackground
	case options.PropagationPolicy != nil:
		return *options.PropagationPolicy
	}
	for _, f := range finalizers {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return metav1.DeletePropagationOrphan
		case metav1.FinalizerDeleteDependents:
			return metav1.DeletePropagationForeground
		}
	}
	return k.DefaultPropagation
}

// deleteCollection lists and deletes one object after another, in the order of their storage keys. It stops at the first
// error; what was deleted by then stays deleted. Committed is the revision of the last commit.
func (s *Server) deleteCollection(req *Request) *Response {
	if req.Kind.Namespaced && req.Namespace == "" {
		// Only the collections of single namespaces can be deleted: pkg/endpoints/installer.go.
		if req.Kind.Custom() {
			return failed(noSuchResource())
		}
		return failed(noSuchMethod())
	}
	if req.Kind.order == namespaceOrder {
		return failed(noSuchMethod())
	}
	if err := checkDeleteOptions(&req.Delete); err != nil {
		return failed(err)
	}
	req.warnOfOrphans()
	response := s.list(req)
	if response.Err != nil {
		return response
	}
	for _, obj := range response.Items {
		one := &Request{
			Verb: req.Verb, Kind: req.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
			DryRun: req.DryRun, Delete: req.Delete, review: req.review,
		}
		deleted := s.delete(one)
		if deleted.Err != nil && !apierrors.IsNotFound(deleted.Err) {
			deleted.Committed = response.Committed
			return deleted
		}
		response.Committed = max(response.Committed, deleted.Committed)
	}
	return response
}
