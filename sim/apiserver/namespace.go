package apiserver

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The life and death of namespaces: the admission plugin NamespaceLifecycle (pkg/admission/plugin/namespace/lifecycle/
// admission.go of k8s.io/apiserver v1.36), and the storage of namespaces (pkg/registry/core/namespace of k8s.io/kubernetes).
// What empties a namespace that is being deleted is a racer.

// admitNamespace refuses to create an object where there is no namespace, or where it is going away.
func (s *Server) admitNamespace(k *Kind, obj Object) *statusError {
	// A name is generated after admission: until then the object is called by what it will begin with.
	return s.admitInto(k, obj.GetNamespace(), cmp.Or(obj.GetName(), obj.GetGenerateName(), "Unknown"))
}

// admitInto does so for a request that creates something of that name: an object, or a binding or an eviction of one.
func (s *Server) admitInto(k *Kind, namespace, name string) *statusError {
	if !k.Namespaced {
		return nil
	}
	namespaces := s.kinds.rows[namespaceOrder]
	e := s.table(namespaces).get("", namespace)
	if e == nil {
		return notFound(namespaces, namespace)
	}
	if ns := as[corev1.Namespace](e.object); ns.Status.Phase != corev1.NamespaceTerminating && ns.DeletionTimestamp == nil {
		return nil
	}
	err := apierrors.NewForbidden(k.GroupResource(), name,
		errorText("unable to create new content in namespace "+namespace+" because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
		Message: "namespace " + namespace + " is being terminated",
	})
	return err
}

// admitNamespaceOf refuses to change an object whose namespace has gone; in one that is going away, changes go on.
func (s *Server) admitNamespaceOf(req *Request) *statusError {
	if !s.homeless || !req.Kind.Namespaced {
		return nil
	}
	namespaces := s.kinds.rows[namespaceOrder]
	if s.table(namespaces).get("", req.Namespace) == nil {
		return notFound(namespaces, req.Namespace)
	}
	return nil
}

// deleteNamespace starts the end of a namespace: it is Terminating until the namespace controller has emptied it. It
// returns nil for one that is ready to go as any other object; pkg/registry/core/namespace/storage/storage.go.
func (s *Server) deleteNamespace(req *Request, stored Object) *Response {
	ns, options := as[corev1.Namespace](stored), &req.Delete
	if refusal := refuseNamespaceDelete(ns, options.Preconditions); refusal != "" {
		return failed(apierrors.NewConflict(req.Kind.GroupResource(), ns.Name, errorText(refusal)))
	}
	switch ns.Name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		refusal := errorText("this namespace may not be deleted")
		return failed(apierrors.NewForbidden(req.Kind.GroupResource(), ns.Name, refusal))
	}
	switch {
	case ns.DeletionTimestamp == nil:
		if err := req.reviewDelete(stored); err != nil {
			return failed(err)
		}
		return stillThere(s.write(req.Kind, s.terminating(ns, options), stored, req.dryRun()), options)
	case len(ns.Spec.Finalizers) > 0:
		return stillThere(answer(stored, stored), options)
	default:
		return nil
	}
}

// terminating returns a namespace as its first delete leaves it. The finalizers of the garbage collector follow the options in
// a way of their own: an orphanDependents that is false means to wait for the dependents here.
func (s *Server) terminating(ns *corev1.Namespace, options *metav1.DeleteOptions) *corev1.Namespace {
	marked := *ns
	now := s.timestamp()
	marked.DeletionTimestamp = &now
	marked.Status.Phase = corev1.NamespaceTerminating
	orphan := slices.Contains(ns.Finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(ns.Finalizers, metav1.FinalizerDeleteDependents)
	switch {
	case options.OrphanDependents != nil:
		orphan, foreground = *options.OrphanDependents, !*options.OrphanDependents
	case options.PropagationPolicy != nil:
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	}
	marked.Finalizers = withFinalizer(marked.Finalizers, metav1.FinalizerOrphanDependents, orphan)
	marked.Finalizers = withFinalizer(marked.Finalizers, metav1.FinalizerDeleteDependents, foreground)
	return &marked
}

// withFinalizer returns the finalizers with or without one of them. The order of the others stays; a real server shuffles them.
func withFinalizer(finalizers []string, finalizer string, wanted bool) []string {
	switch i := slices.Index(finalizers, finalizer); {
	case wanted && i < 0:
		return append(slices.Clip(finalizers), finalizer)
	case !wanted && i >= 0:
		return slices.Delete(slices.Clone(finalizers), i, i+1)
	default:
		return finalizers
	}
}

func refuseNamespaceDelete(ns *corev1.Namespace, preconditions *metav1.Preconditions) string {
	const text = "Precondition failed: %[1]s in precondition: %[2]s, %[1]s in object meta: %[3]s"
	switch p := preconditions; {
	case p == nil:
		return ""
	case p.UID != nil && *p.UID != ns.UID:
		return fmt.Sprintf(text, "UID", *p.UID, ns.UID)
	case p.ResourceVersion != nil && *p.ResourceVersion != ns.ResourceVersion:
		return fmt.Sprintf(text, "ResourceVersion", *p.ResourceVersion, ns.ResourceVersion)
	default:
		return ""
	}
}

// doFinalize answers a PUT to namespaces/finalize, the one way to change the finalizers of a namespace's spec. With the last of
// them goes a namespace that is being deleted, unless its metadata has finalizers too.
func (s *Server) doFinalize(req *Request) *Response {
	switch {
	case req.Kind.order != namespaceOrder:
		return failed(noSuchResource())
	case req.Verb != schedule.Update:
		return failed(noSuchMethod())
	default:
		return s.update(req)
	}
}

// resetForFinalize undoes what a write to the subresource finalize may not change; namespaceFinalizeStrategy in
// pkg/registry/core/namespace/strategy.go. Labels, annotations and finalizers of the metadata are those of the request.
func (k *Kind) resetForFinalize(obj, stored Object) {
	k.keepSystemFields(obj, stored)
	k.takeStatus(obj, stored)
}

// namespaceGaps returns what a namespace misses that is Terminating and that nobody works on: the namespace controller writes
// conditions before it does anything else that lasts.
func (s *Server) namespaceGaps() []string {
	gaps := make([]string, 0, len(s.gaps))
	for e := range s.table(s.kinds.rows[namespaceOrder]).all().entries() {
		if ns := as[corev1.Namespace](e.object); ns.DeletionTimestamp != nil && len(ns.Status.Conditions) == 0 {
			gaps = append(gaps, "the namespace "+ns.Name+" is Terminating and nobody empties it: let a NamespaceController race")
		}
	}
	return gaps
}
