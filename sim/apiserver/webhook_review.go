package apiserver

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// maxReviews bounds how often a request is made anew because its own webhooks change the object that it is about. A real server
// goes on until its deadline.
const maxReviews = 32

// overtaken is the answer of an attempt whose object has changed while webhooks were asked: the request is made anew.
var overtaken = &statusError{}

// review is what webhooks say about one attempt at a request. It is nil where there are none that could be asked.
type review struct {
	server *Server
	req    *Request
	hooks  []*hook // whose rules the request may match, in order
	called []string
	struck *hook       // the one that a fault acts in place of
	about  *attributes // what the mutating webhooks have been told
}

// reviewed reports whether webhooks may have to be asked about a request.
func (s *Server) reviewed(req *Request) bool {
	return (req.Webhook != nil || s.hooked()) && req.Verb.IsWrite()
}

// doReviewed executes a write that webhooks may have to be asked about: again if they change its object meanwhile, as
// GuaranteedUpdate of pkg/storage/etcd3/store.go does.
func (s *Server) doReviewed(req *Request) *Response {
	hooks := s.candidates(req)
	if len(hooks) == 0 && (req.Webhook == nil || req.view().exempt()) {
		return s.route(req)
	}
	committed := int64(0)
	for range maxReviews {
		attempt := *req
		if req.Object != nil {
			attempt.Object = req.Object.DeepCopyObject().(Object)
		}
		attempt.review = &review{server: s, req: &attempt, hooks: hooks}
		response := s.route(&attempt)
		committed = max(committed, response.Committed)
		if response.Err != overtaken {
			req.warnings = attempt.warnings
			response.Committed, response.Webhooks = committed, attempt.review.called
			return response
		}
		hooks = s.candidates(req)
	}
	// pkg/endpoints/handlers/finisher/finisher.go
	return failed(apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0))
}

// mutate has the mutating webhooks change an object that is about to be stored in place of another, nil for none, and returns
// the result. What they change belongs to no field manager: managedFields are those of what the client sent.
func (v *review) mutate(obj, stored Object, c *claim) (Object, *statusError) {
	k := v.req.Kind
	operation := admissionv1.Update
	if stored == nil {
		operation = admissionv1.Create
		obj.SetUID("") // pkg/registry/rest/meta.go WipeObjectMetaSystemFields
		obj.SetCreationTimestamp(metav1.Time{})
	}
	a := v.req.attributes(operation)
	about := v.req.home(obj)
	a.object, a.old = about, stored
	if stored == nil {
		a.name = obj.GetName()
		if k.order == namespaceOrder {
			a.namespace = a.name
		}
	}
	v.about = a
	if err := v.askMutating(a); err != nil {
		return nil, err
	}
	changed := a.object
	if changed == about {
		return obj, nil
	}
	if takeManagedFields(k, changed, stored) != nil {
		v.server.gap("a mutating webhook changed managedFields, which is not modelled: they stay as they were")
	}
	if !c.tracked() && c.by.sent == nil {
		c.send(obj)
	}
	if err := placeIn(v.req.Namespace, changed); err != nil {
		return nil, err
	}
	v.req.dropRepeatedOwners(changed, " after mutating admission happens")
	if stored == nil {
		changed.SetDeletionTimestamp(nil)
		changed.SetDeletionGracePeriodSeconds(nil)
	} else if changed.GetName() != stored.GetName() {
		errs := builtin.ValidateMetadata(changed, stored, k.metadataRules(v.req.Subresource), string(v.server.kinds.version))
		return nil, invalid(k, v.req.Name, errs)
	}
	if v.req.alias != nil && v.req.alias.Custom() {
		changed = v.req.shown(changed) // it is checked in the version that was asked for
	}
	return changed, nil
}

// askMutating asks the mutating webhooks one after the other, each about what those before it have made of the object; and
// then those again which want to see what others have changed after them: mutating/dispatcher.go and
// pkg/admission/reinvocation.go.
func (v *review) askMutating(a *attributes) *statusError {
	asked, again := map[string]bool{}, map[string]bool{}
	anyChange := false
	for round := range 2 {
		for _, h := range v.hooks {
			if !h.mutates {
				continue
			}
			m, err := v.server.match(h, a)
			if err != nil {
				return err
			}
			if m == nil || round > 0 && !again[h.id] {
				continue
			}
			said := v.ask(h, m, a)
			if said.changed {
				for id := range asked {
					again[id] = true
				}
				anyChange = true
			}
			if p := h.spec.ReinvocationPolicy; p != nil && *p == registrationv1.IfNeededReinvocationPolicy {
				asked[h.id] = true
			}
			if err := said.fails(h); err != nil {
				return err
			}
		}
		if !anyChange {
			break
		}
	}
	return nil
}

// validate asks all validating webhooks, of which none changes anything: validating/dispatcher.go. If several refuse, the
// first is told.
func (v *review) validate(a *attributes) *statusError {
	type invocation struct {
		*hook
		*matched
	}
	var relevant []invocation
	for _, h := range v.hooks {
		if h.mutates {
			continue
		}
		m, err := v.server.match(h, a)
		if err != nil {
			return err
		}
		if m != nil {
			relevant = append(relevant, invocation{h, m})
		}
	}
	if h := v.standIn(); h != nil {
		relevant = append(relevant, invocation{h, a.as(a.view)})
	}
	var first *statusError
	for _, i := range relevant {
		if err := v.ask(i.hook, i.matched, a).fails(i.hook); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// standIn returns the webhook that a fault stands for where none has its name, else nil.
func (v *review) standIn() *hook {
	fault := v.req.Webhook
	if fault == nil || fault.Name == "" {
		return nil
	}
	if slices.Contains(v.server.Webhooks(), fault.Name) {
		return nil
	}
	return newHook("", &registrationv1.MutatingWebhook{
		Name: fault.Name, SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{
			Namespace: metav1.NamespaceDefault, Name: "webhook-service",
		}},
	}, false)
}

// validateStored asks the validating webhooks about an object that is ready to be stored.
func (v *review) validateStored(obj, stored Object) *statusError {
	a := *v.about
	a.object, a.old = obj, stored
	if err := v.validate(&a); err != nil {
		return err
	}
	if stored != nil {
		return v.current(stored)
	}
	return nil
}

// current reports whether an object is still what it was before webhooks were asked about it.
func (v *review) current(stored Object) *statusError {
	e := v.server.table(v.req.Kind).get(stored.GetNamespace(), stored.GetName())
	if e == nil || e.object != stored {
		return overtaken
	}
	return nil
}

// reviewDelete asks all webhooks about the delete of an object; pkg/registry/rest/delete.go AdmissionToValidateObjectDeleteFunc.
func (r *Request) reviewDelete(stored Object) *statusError {
	v := r.review
	if v == nil {
		return nil
	}
	a := v.req.attributes(admissionv1.Delete)
	a.old = stored
	if err := v.askMutating(a); err != nil {
		return err
	}
	if err := v.validate(a); err != nil {
		return err
	}
	return v.current(stored)
}

// reviewForeign asks all webhooks about an object of a subresource, which is of a kind of its own, and returns what they make of
// it. Stored is the object that the subresource is of.
func (r *Request) reviewForeign(gvk schema.GroupVersionKind, obj, old, stored Object) (Object, *statusError) {
	v := r.review
	if v == nil {
		return obj, nil
	}
	operation := admissionv1.Update
	if r.Verb == schedule.Create {
		operation = admissionv1.Create
	}
	a := v.req.attributes(operation)
	a.foreign, a.object, a.old = &gvk, obj, old
	if err := v.askMutating(a); err != nil {
		return nil, err
	}
	if err := v.validate(a); err != nil {
		return nil, err
	}
	return a.object, v.current(stored)
}

// mutateUpdate has the mutating webhooks change an object that is to take the place of a stored one, and then looks at its
// revision: Store.Update of pkg/registry/generic/registry/store.go.
func (s *Server) mutateUpdate(req *Request, obj, stored Object, c *claim) (Object, *statusError) {
	obj, err := req.review.mutate(obj, stored, c)
	if err != nil {
		return nil, err
	}
	if err := req.review.current(stored); err != nil {
		return nil, err
	}
	return obj, checkRevision(req.view(), obj, s.table(req.Kind).get(req.Namespace, req.Name))
}
