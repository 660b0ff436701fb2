package handler

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// subresource is a subresource of a kind.
type subresource struct {
	name  string
	verbs []string                // what can be done with it
	kind  schema.GroupVersionKind // of its bodies
}

var (
	readWrite    = []string{"get", "patch", "update"}
	evictionKind = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	scaleKind    = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
)

// moreSubresources are those that the kinds table says nothing of.
var moreSubresources = map[schema.GroupResource][]subresource{
	{Resource: "pods"}: {
		{"binding", []string{"create"}, schema.GroupVersionKind{Version: "v1", Kind: "Binding"}},
		{"ephemeralcontainers", readWrite, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}},
		{"eviction", []string{"create"}, evictionKind},
		{"resize", readWrite, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}},
	},
	{Resource: "namespaces"}: {{"finalize", []string{"update"}, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}}},
	{Resource: "serviceaccounts"}: {
		{"token", []string{"create"}, schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}},
	},
}

// subresources returns the subresources of a kind, in the order of their names.
func subresources(k *apiserver.Kind) []subresource {
	all := slices.Clone(moreSubresources[k.GroupResource()])
	if k.HasStatus {
		all = append(all, subresource{"status", readWrite, k.GroupVersionKind})
	}
	if k.Scale != nil {
		all = append(all, subresource{"scale", readWrite, scaleKind})
	}
	slices.SortFunc(all, func(a, b subresource) int { return strings.Compare(a.name, b.name) })
	return all
}

// verbs returns what can be done with the resource of a kind, in the order in which discovery lists it.
func verbs(k *apiserver.Kind) []string {
	if k.Custom() { // pkg/apiserver/customresource_discovery_controller.go of k8s.io/apiextensions-apiserver
		return []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	}
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if k.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
		all = slices.Delete(all, 2, 3)
	}
	return all
}

// endpoint is a resource or a subresource of a kind, as one path reaches it.
type endpoint struct {
	kind        *apiserver.Kind
	verb        string
	item        bool // it is about one object, whose name is in the path
	subresource string
	body        schema.GroupVersionKind // of what is sent to it
}

// methods of the verbs.
var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut,
	"patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

// route finds the endpoint of a request for a resource; an error refuses it.
func (h *Handler) route(r *http.Request, t target) (endpoint, error) {
	kinds := h.backend.Kinds()
	kind := kinds.ByGVR(t.GroupVersionResource)
	switch {
	case t.legacy == (t.Group != ""):
		return endpoint{}, noSuchPath{}
	case kind != nil && kind.Custom():
		return routeCustom(t, kind)
	case slices.ContainsFunc(kinds.All(), func(k *apiserver.Kind) bool {
		return !k.Custom() && k.Group == t.Group && k.Version == t.Version
	}):
		return h.routeBuiltin(r, t)
	case t.legacy || h.hasBuiltins(t.Group): // the web service of /api or of the group knows no such path
		return endpoint{}, routing(http.StatusNotFound, "404: Page Not Found")
	default:
		return endpoint{}, noSuchPath{}
	}
}

// hasBuiltins reports whether the server itself serves a group: what is below its path is then refused by a web service, which says
// so in an API object.
func (h *Handler) hasBuiltins(group string) bool {
	return slices.ContainsFunc(h.backend.Kinds().All(), func(k *apiserver.Kind) bool { return !k.Custom() && k.Group == group })
}

// routeCustom finds the endpoint of a custom resource; pkg/apiserver/customresource_handler.go of
// k8s.io/apiextensions-apiserver.
func routeCustom(t target, kind *apiserver.Kind) (endpoint, error) {
	across := t.verb == "list" || t.verb == "watch"
	if kind.Namespaced == (t.namespace == "") && (!kind.Namespaced || !across) {
		return endpoint{}, noSuchPath{}
	}
	e := endpoint{kind: kind, subresource: t.subresource, body: kind.GroupVersionKind}
	served := verbs(kind)
	if t.subresource != "" {
		all := subresources(kind)
		i := slices.IndexFunc(all, func(s subresource) bool { return s.name == t.subresource })
		if i < 0 {
			return e, apierrors.NewNotFound(kind.GroupResource(), t.name)
		}
		served, e.body = all[i].verbs, all[i].kind
	}
	e.verb = t.verb
	if !slices.Contains(served, t.verb) {
		return e, apierrors.NewMethodNotSupported(kind.GroupResource(), t.verb)
	}
	return e, nil
}

// routeBuiltin finds the endpoint of a built-in kind. What go-restful does, by which a real server routes, is
// CurlyRouter.SelectRoute of github.com/emicklei/go-restful.
func (h *Handler) routeBuiltin(r *http.Request, t target) (endpoint, error) {
	var allowed []string
	for _, p := range places(t.parts) {
		kind := h.backend.Kinds().ByGVR(t.GroupVersion().WithResource(p.resource))
		if kind == nil || kind.Custom() {
			continue
		}
		e, served := reach(kind, p, t.watchPath)
		if i := slices.IndexFunc(served, func(verb string) bool { return methods[verb] == r.Method }); i >= 0 {
			e.verb = served[i]
			if e.verb == "list" && t.verb == "watch" {
				e.verb = "watch"
			}
			return e, checkMedia(r, t.watchPath || r.Method == http.MethodGet && !p.item)
		}
		for _, verb := range served {
			allowed = append(allowed, methods[verb])
		}
	}
	if len(allowed) == 0 {
		return endpoint{}, routing(http.StatusNotFound, "404: Page Not Found")
	}
	return endpoint{}, notAllowed{routing(http.StatusMethodNotAllowed, "405: Method Not Allowed"), unique(allowed)}
}

// reach returns what can be done with a kind at a place; nothing where the place does not exist.
func reach(kind *apiserver.Kind, p place, watch bool) (e endpoint, served []string) {
	e = endpoint{kind: kind, item: p.item, subresource: p.subresource, body: kind.GroupVersionKind}
	everywhere := kind.Namespaced && !p.inNamespace
	switch {
	case p.inNamespace && !kind.Namespaced || everywhere && p.item:
		return e, nil
	case p.subresource != "":
		for _, s := range subresources(kind) {
			if s.name == p.subresource && !watch {
				e.body = s.kind
				return e, s.verbs
			}
		}
		return e, nil
	case watch:
		return e, []string{"watch"}
	case p.item:
		return e, []string{"get", "update", "patch", "delete"}
	case everywhere:
		return e, []string{"list"}
	case slices.Contains(verbs(kind), "deletecollection"):
		return e, []string{"list", "create", "deletecollection"}
	default:
		return e, []string{"list", "create"}
	}
}

// patchTypes are the patches that built-in kinds take.
var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
}

// customPatchTypes are those that custom resources take.
var customPatchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}

// checkMedia refuses what the router of a real server refuses before the resource sees it: patches of an unknown type, and
// requests for an answer that there is not. It reads the Accept header in a simpler way than what negotiates afterwards.
func checkMedia(r *http.Request, streams bool) error {
	if r.Method == http.MethodPatch && !slices.ContainsFunc(patchTypes, func(name string) bool {
		return slices.Contains(mediaNames(r.Header.Get("Content-Type")), name)
	}) {
		return routing(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	available := codecs().names(false)
	if streams {
		available = append(available, codecs().names(true)...)
	}
	accept := r.Header.Get("Accept")
	if accept == "" || slices.ContainsFunc(mediaNames(accept), func(name string) bool {
		return name == "*/*" || slices.Contains(available, name)
	}) {
		return nil
	}
	return routing(http.StatusNotAcceptable,
		"406: Not Acceptable\n\nAvailable representations: "+strings.Join(available, ", "))
}

// mediaNames returns the media types that a header lists, without their parameters.
func mediaNames(header string) []string {
	var names []string
	for part := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(part, ";")
		names = append(names, strings.Trim(name, " "))
	}
	return names
}

// notAllowed is a method that a path does not take.
type notAllowed struct {
	error
	methods []string
}

func (n notAllowed) Unwrap() error { return n.error }

func unique(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
