package handler

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is what a request is about, as far as its method, path and parameters say; RequestInfo of
// pkg/endpoints/request/requestinfo.go.
type target struct {
	resource bool   // it is about a resource, and the fields below are set
	verb     string // "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"; else the method
	schema.GroupVersionResource
	legacy      bool // below /api
	namespace   string
	name        string
	subresource string
	watchPath   bool     // by the old way to ask for a watch: /watch/ before the resource
	parts       []string // of the path, after the version and watch/
}

// splitPath returns the parts of a path.
func splitPath(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// targetOf reads a request.
func targetOf(r *http.Request) (target, error) {
	t := target{verb: strings.ToLower(r.Method)}
	parts := splitPath(r.URL.Path)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.legacy, t.Version, t.parts = true, parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Group, t.Version, t.parts = parts[1], parts[2], parts[3:]
	default:
		return t, nil
	}
	t.resource = true
	t.verb = map[string]string{
		http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	if t.parts[0] == "watch" {
		if len(t.parts) < 2 {
			return t, badRequest("unable to determine kind and namespace from url, %v", r.URL)
		}
		t.verb, t.watchPath, t.parts = "watch", true, t.parts[1:]
	}
	t.locate()
	t.refine(r)
	return t, nil
}

// locate reads namespace, resource, name and subresource from the parts of the path.
func (t *target) locate() {
	parts := t.parts
	if parts[0] == "namespaces" && len(parts) > 1 {
		t.namespace = parts[1]
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	t.Resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
	}
}

// refine tells requests for collections from those for single objects.
func (t *target) refine(r *http.Request) {
	switch {
	case t.name != "":
	case t.verb == "delete":
		t.verb = "deletecollection"
	case t.verb == "get":
		options, err := listOptions(r)
		if err != nil { // the parameters are refused later, for the right verb
			watch := r.URL.Query()["watch"]
			options = internalversion.ListOptions{Watch: len(watch) > 0 && watch[0] != "0" && !strings.EqualFold(watch[0], "false")}
		}
		t.verb = "list"
		if options.Watch {
			t.verb = "watch"
		}
		if options.FieldSelector != nil {
			name, ok := options.FieldSelector.RequiresExactMatch("metadata.name")
			if ok && len(content.IsPathSegmentName(name)) == 0 {
				t.name = name
			}
		}
	}
}

// listOptions reads the parameters of a list or a watch.
func listOptions(r *http.Request) (internalversion.ListOptions, error) {
	var options internalversion.ListOptions
	err := metascheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, &options)
	return options, err
}

// place is where the path of a request leads, by its form alone: the routes of pkg/endpoints/installer.go.
type place struct {
	inNamespace bool
	item        bool // a single object
	subresource string
	resource    string
}

// places returns how the parts of a path can be read, at most in two ways: below /namespaces/x there are the subresources of
// a namespace, and the resources in it.
func places(parts []string) []place {
	var all []place
	if parts[0] == "namespaces" && (len(parts) == 3 || len(parts) == 4 || len(parts) == 5) {
		p := place{inNamespace: true, resource: parts[2], item: len(parts) > 3}
		if len(parts) == 5 {
			p.subresource = parts[4]
		}
		all = append(all, p)
	}
	if len(parts) <= 3 {
		p := place{resource: parts[0], item: len(parts) > 1}
		if len(parts) == 3 {
			p.subresource = parts[2]
		}
		all = append(all, p)
	}
	return all
}
