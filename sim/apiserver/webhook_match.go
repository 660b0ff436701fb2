package apiserver

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// attributes are what webhooks are told of a request; pkg/admission/attributes.go.
type attributes struct {
	operation       admissionv1.Operation
	view            *Kind // of the resource that was asked for
	subresource     string
	namespace, name string
	// object and old are what the request makes of it, and how it was; nil for none. They have the form of the kind behind the
	// view, or of the subresource.
	object, old Object
	foreign     *schema.GroupVersionKind // of the subresource's own objects, nil if they are those of the kind
}

// matched says how a webhook is told of a request: in the form of which kind.
type matched struct {
	view *Kind
	kind schema.GroupVersionKind
}

// match reports whether a webhook is asked about a request, and in what form; ShouldCallHook of pkg/admission/plugin/webhook/
// generic/webhook.go. An error is one of the request.
func (s *Server) match(h *hook, a *attributes) (*matched, *statusError) {
	if h.err != nil {
		return nil, apierrors.NewInternalError(h.err)
	}
	inNamespace, missing := s.matchesNamespace(h, a)
	if !inNamespace && missing == nil {
		return nil, nil
	}
	if !h.objects.Empty() && !labelled(a.object, h.objects) && !labelled(a.old, h.objects) {
		return nil, nil
	}
	m := h.matchRules(a)
	switch {
	case m == nil:
		return nil, nil
	case missing != nil:
		return nil, missing
	}
	if len(h.spec.MatchConditions) > 0 {
		s.gap(fmt.Sprintf("the match conditions of the webhook %s are not modelled: it is called as if they held", h.spec.Name))
	}
	return m, nil
}

func labelled(obj Object, selector labels.Selector) bool {
	return obj != nil && selector.Matches(labels.Set(obj.GetLabels()))
}

// matchesNamespace applies the namespace selector; predicates/namespace/matcher.go.
func (s *Server) matchesNamespace(h *hook, a *attributes) (bool, *statusError) {
	aboutNamespaces := a.view.Resource == "namespaces"
	if a.namespace == "" && !aboutNamespaces || h.namespaces.Empty() {
		return true, nil
	}
	if aboutNamespaces && a.subresource == "" && a.operation != admissionv1.Delete {
		return labelled(a.object, h.namespaces), nil
	}
	namespaces := s.kinds.rows[namespaceOrder]
	e := s.table(namespaces).get("", a.namespace)
	if e == nil {
		return false, notFound(namespaces, a.namespace)
	}
	return labelled(e.object, h.namespaces), nil
}

// matchRules applies the rules to the resource that was asked for, and then, unless the webhook wants exact matches, to the
// others that show the same objects.
func (h *hook) matchRules(a *attributes) *matched {
	for i := range h.spec.Rules {
		if ruleMatches(&h.spec.Rules[i], a, a.view) {
			return a.as(a.view)
		}
	}
	if h.spec.MatchPolicy != nil && *h.spec.MatchPolicy == registrationv1.Exact {
		return nil
	}
	equivalents := a.view.equivalents()
	for i := range h.spec.Rules {
		for _, k := range equivalents {
			if ruleMatches(&h.spec.Rules[i], a, k) {
				return a.as(k)
			}
		}
	}
	return nil
}

// as returns how a webhook is told that is for the resource of a kind.
func (a *attributes) as(k *Kind) *matched {
	if a.foreign != nil {
		return &matched{view: k, kind: *a.foreign}
	}
	return &matched{view: k, kind: k.GroupVersionKind}
}

// equivalents returns the other kinds that show the same objects.
func (k *Kind) equivalents() []*Kind {
	behind := k.behind()
	if len(behind.fields.aliases) == 0 {
		return nil
	}
	all := append([]*Kind{behind}, behind.fields.aliases...)
	return slices.DeleteFunc(all, func(other *Kind) bool { return other == k })
}

// ruleMatches applies a rule to a resource; predicates/rules/rules.go.
func ruleMatches(rule *registrationv1.RuleWithOperations, a *attributes, k *Kind) bool {
	return scopeMatches(rule.Scope, a, k) && operationMatches(rule.Operations, a.operation) &&
		exactOrEvery(rule.APIGroups, k.Group) && exactOrEvery(rule.APIVersions, k.Version) &&
		resourceMatches(rule.Resources, k.Resource, a.subresource)
}

func scopeMatches(scope *registrationv1.ScopeType, a *attributes, k *Kind) bool {
	clusterWide := a.namespace == "" || k.order == namespaceOrder // the namespace of a Namespace is itself
	switch {
	case scope == nil || *scope == registrationv1.AllScopes:
		return true
	case *scope == registrationv1.ClusterScope:
		return clusterWide
	default:
		return !clusterWide
	}
}

func operationMatches(operations []registrationv1.OperationType, operation admissionv1.Operation) bool {
	return slices.ContainsFunc(operations, func(o registrationv1.OperationType) bool {
		return o == registrationv1.OperationAll || string(o) == string(operation)
	})
}

func exactOrEvery(items []string, wanted string) bool {
	return slices.Contains(items, "*") || slices.Contains(items, wanted)
}

func resourceMatches(patterns []string, resource, subresource string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		name, sub, _ := strings.Cut(pattern, "/")
		return (name == "*" || name == resource) && (sub == "*" || sub == subresource)
	})
}

// operations returns what a request may turn out to be.
func (r *Request) operations() []admissionv1.Operation {
	switch r.Verb {
	case schedule.Create:
		return []admissionv1.Operation{admissionv1.Create}
	case schedule.Delete, schedule.DeleteCollection:
		return []admissionv1.Operation{admissionv1.Delete}
	case schedule.Update, schedule.Patch:
		creates := r.Verb == schedule.Update && r.Kind.CreateOnUpdate || r.PatchType == types.ApplyPatchType
		if creates && r.Subresource == "" {
			return []admissionv1.Operation{admissionv1.Update, admissionv1.Create}
		}
		return []admissionv1.Operation{admissionv1.Update}
	default:
		return nil
	}
}

// exempt reports whether no webhook is asked about objects of a kind: those that say which webhooks there are;
// predicates/rules/rules.go IsExemptAdmissionConfigurationResource.
func (k *Kind) exempt() bool {
	if k.Group != registrationv1.GroupName {
		return false
	}
	switch k.Kind {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	default:
		return false
	}
}

// candidates returns the webhooks whose rules a request may match, whatever the objects turn out to be like.
func (s *Server) candidates(req *Request) []*hook {
	if !s.hooked() || req.view().exempt() {
		return nil
	}
	var found []*hook
	for _, h := range s.allHooks() {
		for _, operation := range req.operations() {
			if h.matchRules(req.attributes(operation)) != nil {
				found = append(found, h)
				break
			}
		}
	}
	return found
}

// attributes returns what is known of a request before it is looked at closely.
func (r *Request) attributes(operation admissionv1.Operation) *attributes {
	a := &attributes{
		operation: operation, view: r.view(), subresource: r.Subresource, namespace: r.Namespace, name: r.Name,
	}
	if !r.Kind.Namespaced {
		a.namespace = ""
	}
	if r.Kind.order == namespaceOrder {
		a.namespace = r.Name
	}
	if r.Verb == schedule.DeleteCollection {
		a.name = ""
	}
	return a
}

// WebhooksFor returns the names of the webhooks that a request would be sent to if it were made now, in their order, as far as
// that can be told without carrying it out: a webhook with an object selector is taken to be asked about any patch.
func (s *Server) WebhooksFor(req *Request) []string {
	var names []string
	for _, h := range s.candidates(req) {
		a := req.attributes(req.operations()[0])
		if e := s.table(req.Kind.behind()).get(a.namespace, a.name); e != nil {
			a.old = e.object
		}
		a.object = req.Object
		if inside, _ := s.matchesNamespace(h, a); !inside {
			continue
		}
		if req.Verb == schedule.Patch || h.objects.Empty() || labelled(a.object, h.objects) || labelled(a.old, h.objects) {
			names = append(names, h.spec.Name)
		}
	}
	return names
}
