package handler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// The paths that tell whether the server is well, and those of its checks that can be asked for alone: those of every server,
// pkg/server/healthz/healthz.go, and the one of its storage.
var (
	checked = []string{"/healthz", "/livez", "/readyz"}
	checks  = []string{"ping", "log", "etcd"}
)

// serveOther answers what is no request for a resource: discovery, health and the version.
func (h *Handler) serveOther(r *http.Request) (*answer, error) {
	path := "/" + strings.Trim(r.URL.Path, "/")
	switch path {
	case "/version":
		return h.showVersion()
	}
	if slices.Contains(checked, path) {
		return text(http.StatusOK, "ok"), nil
	}
	parts := splitPath(path)
	if len(parts) == 2 && slices.Contains(checked, "/"+parts[0]) && slices.Contains(checks, parts[1]) {
		return text(http.StatusOK, "ok"), nil
	}
	known := len(parts) > 0 && (parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3)
	if !known {
		return nil, noSuchPath{}
	}
	found, err := h.discover(r, parts)
	switch {
	case err != nil:
		return nil, err
	case found == nil && (parts[0] == "api" || h.hasBuiltins(parts[1])):
		return nil, routing(http.StatusNotFound, "404: Page Not Found")
	case found == nil:
		return nil, noSuchPath{}
	case r.Method != http.MethodGet:
		return nil, notAllowed{routing(http.StatusMethodNotAllowed, "405: Method Not Allowed"), []string{http.MethodGet}}
	}
	return h.show(r, found)
}

// discover returns the discovery document of a path, nil for none. /api and /apis tell everything at once if they are asked to.
func (h *Handler) discover(r *http.Request, parts []string) (kruntime.Object, error) {
	legacy := parts[0] == "api"
	groups := h.groups()
	switch {
	case len(parts) == 1 && aggregated(r) != nil:
		return h.aggregate(groups, legacy), nil
	case len(parts) == 1 && legacy:
		return &metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: "stalemate.invalid:443"}},
		}, nil
	case len(parts) == 1:
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{}}
		for _, g := range groups {
			if g.name != "" {
				list.Groups = append(list.Groups, g.describe())
			}
		}
		return list, nil
	}
	gv := schema.GroupVersion{Version: parts[len(parts)-1]}
	if !legacy {
		gv.Group = parts[1]
	}
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == gv.Group && (g.name == "") == legacy })
	switch {
	case i < 0:
		return nil, nil
	case !legacy && len(parts) == 2:
		described := groups[i].describe()
		described.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
		return &described, nil
	case !slices.Contains(groups[i].versions, gv.Version):
		return nil, nil
	}
	return h.resources(gv), nil
}

// show answers with a discovery document.
func (h *Handler) show(r *http.Request, obj kruntime.Object) (*answer, error) {
	if all, ok := obj.(*discoveryv2.APIGroupDiscoveryList); ok {
		return showAggregated(*aggregated(r), all)
	}
	form, ok := codecs().negotiate(r, offer{})
	if !ok {
		return nil, nothingAcceptable(codecs().names(false))
	}
	return show(form, http.StatusOK, obj)
}

// showVersion answers with the version that the server models. It is no API object, and JSON whatever is asked for.
func (h *Handler) showVersion() (*answer, error) {
	name := string(h.backend.Kinds().Version())
	patches := map[apiserver.Version]string{apiserver.V136: "3", apiserver.V137: "1"} // those that were recorded
	major, minor, _ := strings.Cut(name, ".")
	body, err := json.MarshalIndent(version.Info{
		Major: major, Minor: minor, EmulationMajor: major, EmulationMinor: minor,
		GitVersion:   fmt.Sprintf("v%s.%s", name, cmp.Or(patches[apiserver.Version(name)], "0")),
		GitTreeState: "clean", GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return &answer{code: http.StatusOK, header: http.Header{"Content-Type": {kruntime.ContentTypeJSON}}, body: body}, nil
}

// group is an API group with its versions, the preferred one first.
type group struct {
	name     string
	versions []string
}

// groups returns the groups that have kinds, in the order of the kinds table.
func (h *Handler) groups() []group {
	var groups []group
	for _, kind := range h.backend.Kinds().All() {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == kind.Group })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{name: kind.Group})
		}
		if !slices.Contains(groups[i].versions, kind.Version) {
			groups[i].versions = append(groups[i].versions, kind.Version)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	}
	return groups
}

func (g group) describe() metav1.APIGroup {
	described := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		described.Versions = append(described.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v, Version: v})
	}
	described.PreferredVersion = described.Versions[0]
	return described
}

// kindsOf returns the kinds of a group and version in the order of their resources.
func (h *Handler) kindsOf(gv schema.GroupVersion) []*apiserver.Kind {
	var kinds []*apiserver.Kind
	for _, kind := range h.backend.Kinds().All() {
		if kind.GroupVersion() == gv {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b *apiserver.Kind) int { return strings.Compare(a.Resource, b.Resource) })
	return kinds
}

// resources returns the document of one group and version.
func (h *Handler) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, kind := range h.kindsOf(gv) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
			Verbs: verbs(kind), ShortNames: kind.ShortNames, Categories: kind.Categories,
		})
		for _, sub := range subresources(kind) {
			resource := metav1.APIResource{
				Name: kind.Resource + "/" + sub.name, Namespaced: kind.Namespaced, Kind: sub.kind.Kind, Verbs: sub.verbs,
			}
			if sub.kind.GroupVersion() != gv {
				resource.Group, resource.Version = sub.kind.Group, sub.kind.Version
			}
			list.APIResources = append(list.APIResources, resource)
		}
	}
	return list
}

// aggregated returns the kind of aggregated discovery that the client prefers to the plain one, nil if it does not;
// pkg/endpoints/discovery/aggregated/wrapper.go.
func aggregated(r *http.Request) *schema.GroupVersionKind {
	for _, c := range accepted(r.Header.Get("Accept")) {
		if c.kind+"/"+c.subtype != kruntime.ContentTypeJSON {
			continue
		}
		as := c.convert()
		if as == nil {
			return nil
		}
		if as.Group == discoveryv2.GroupName && as.Kind == "APIGroupDiscoveryList" && (as.Version == "v2" || as.Version == "v2beta1") {
			return as
		}
	}
	return nil
}

// aggregate returns everything about the groups below /api or /apis.
func (h *Handler) aggregate(groups []group, legacy bool) *discoveryv2.APIGroupDiscoveryList {
	list := &discoveryv2.APIGroupDiscoveryList{Items: []discoveryv2.APIGroupDiscovery{}}
	for _, g := range groups {
		if (g.name == "") != legacy {
			continue
		}
		item := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			item.Versions = append(item.Versions, discoveryv2.APIVersionDiscovery{
				Version: v, Resources: h.aggregateResources(schema.GroupVersion{Group: g.name, Version: v}),
				Freshness: discoveryv2.DiscoveryFreshnessCurrent,
			})
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func (h *Handler) aggregateResources(gv schema.GroupVersion) []discoveryv2.APIResourceDiscovery {
	var resources []discoveryv2.APIResourceDiscovery
	for _, kind := range h.kindsOf(gv) {
		resource := discoveryv2.APIResourceDiscovery{
			Resource: kind.Resource, ResponseKind: (*metav1.GroupVersionKind)(&kind.GroupVersionKind), Scope: discoveryv2.ScopeCluster,
			SingularResource: kind.Singular, Verbs: verbs(kind), ShortNames: kind.ShortNames, Categories: kind.Categories,
		}
		if kind.Namespaced {
			resource.Scope = discoveryv2.ScopeNamespace
		}
		for _, sub := range subresources(kind) {
			resource.Subresources = append(resource.Subresources, discoveryv2.APISubresourceDiscovery{
				Subresource: sub.name, ResponseKind: (*metav1.GroupVersionKind)(&sub.kind), Verbs: sub.verbs,
			})
		}
		resources = append(resources, resource)
	}
	return resources
}

// showAggregated answers with a discovery document in the version asked for. The two versions are written alike.
func showAggregated(as schema.GroupVersionKind, list *discoveryv2.APIGroupDiscoveryList) (*answer, error) {
	list.SetGroupVersionKind(as)
	a, err := show(representation{SerializerInfo: codecs().media[0]}, http.StatusOK, list)
	if err != nil {
		return nil, err
	}
	a.header.Set("Content-Type", fmt.Sprintf("application/json;g=%s;v=%s;as=%s", as.Group, as.Version, as.Kind))
	return a, nil
}
