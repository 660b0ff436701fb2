package handler_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// exchange is a request and what it must be answered with.
type exchange struct {
	name   string
	send   string // method and path
	header string // "Name: value" lines
	body   string

	code    int
	message string // of the Status; a text that ends in "..." is how it begins
	plain   bool   // the answer is the message, as plain text
	answer  string // "Name: value" of a header of the answer
}

const (
	mapsPath    = "/api/v1/namespaces/default/configmaps"
	setsPath    = "/apis/apps/v1/namespaces/default/statefulsets"
	widgetsPath = "/apis/golden.example.com/v1/namespaces/default/widgets"

	aMap    = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"k":"v"}}`
	aWidget = `{"apiVersion":"golden.example.com/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"size":1,"color":"red"}}`

	mediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)

// routes are the answers of the router. Their texts come from go-restful, from the server's last handler, and from the handler
// of custom resources.
var routes = []exchange{
	{name: "nothing", send: "GET /nothing", code: 404, message: "404 page not found", plain: true},
	{
		name: "unknown group", send: "GET /apis/nope.example.com/v1/things", code: 404,
		message: "404 page not found",
		plain:   true,
	},
	{
		name: "unknown version", send: "GET /apis/apps/v9/statefulsets", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "unknown legacy version", send: "GET /api/v2/pods", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "unknown version of a group document", send: "GET /apis/apps/v9", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "unknown legacy group document", send: "GET /api/v9", code: 404,
		message: "the server could not find the requested resource",
	},
	{name: "no group", send: "GET /apis//v1/pods", code: 404, message: "404 page not found", plain: true},
	{
		name: "unknown group document", send: "GET /apis/nope.example.com", code: 404,
		message: "404 page not found",
		plain:   true,
	},
	{
		name: "unknown resource", send: "GET /api/v1/bogus", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "unknown custom resource", send: "GET /apis/golden.example.com/v1/bogus", code: 404,
		message: "404 page not found",
		plain:   true,
	},
	{
		name: "unknown subresource", send: "GET " + mapsPath + "/a/bogus", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "unknown custom subresource", send: "GET " + widgetsPath + "/w/bogus", code: 404,
		message: `widgets.golden.example.com "w" not found`,
	},
	{
		name: "namespaced resource without namespace", send: "GET /api/v1/configmaps/a", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "cluster resource in a namespace", send: "GET /api/v1/namespaces/default/nodes", code: 404,
		message: "the server could not find the requested resource",
	},
	{
		name: "custom resource without namespace", send: "GET /apis/golden.example.com/v1/widgets/w", code: 404,
		message: "404 page not found",
		plain:   true,
	},
	{
		name: "create in all namespaces", send: "POST /api/v1/configmaps", body: aMap, code: 405,
		message: "the server does not allow this method on the requested resource", answer: "Allow: GET",
	},
	{
		name: "post to an item", send: "POST " + mapsPath + "/a", body: aMap, code: 405,
		message: "the server does not allow this method on the requested resource",
		answer:  "Allow: GET, PUT, PATCH, DELETE",
	},
	{
		name: "delete all namespaces", send: "DELETE /api/v1/namespaces", code: 405,
		message: "the server does not allow this method on the requested resource",
	},
	{name: "head", send: "HEAD " + mapsPath, code: 405},
	{
		name: "create a custom status", send: "POST " + widgetsPath + "/w/status", body: aWidget, code: 405,
		message: `create is not supported on resources of kind "widgets.golden.example.com"`,
	},
	{
		name: "put without a name", send: "PUT " + widgetsPath,
		body: aWidget, code: 400,
		message: "name must be provided",
	},
	{
		name: "nothing to watch", send: "GET /api/v1/watch", code: 500, plain: true,
		message: `Internal Server Error: "/api/v1/watch": failed to create RequestInfo: unable to determine kind ` +
			`and namespace from url, /api/v1/watch`,
	},
	{
		name: "method of a document", send: "POST /apis/apps/v1", code: 405,
		message: "the server does not allow this method on the requested resource",
	},
}

// media are the answers about media types.
var media = []exchange{
	{
		name: "nothing acceptable", send: "GET " + mapsPath + "/a", header: "Accept: text/plain", code: 406,
		message: "406: Not Acceptable\n\nAvailable representations: " + mediaTypes,
	},
	{
		name: "nothing acceptable of a list", send: "GET " + mapsPath, header: "Accept: text/plain", code: 406,
		message: "406: Not Acceptable\n\nAvailable representations: " + mediaTypes +
			", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
	},
	{
		name: "nothing acceptable of a custom resource", send: "GET " + widgetsPath,
		header: "Accept: text/plain", code: 406,
		message: "only the following media types are accepted: " + mediaTypes,
	},
	{
		name: "custom resources have no protobuf", send: "GET " + widgetsPath,
		header: "Accept: application/vnd.kubernetes.protobuf", code: 406,
		answer: "Content-Type: application/vnd.kubernetes.protobuf", // errors have
	},
	{
		name: "watches have no YAML", send: "GET " + mapsPath + "?watch=1", header: "Accept: application/yaml",
		code: 406, plain: true,
		message: `apiVersion: v1
code: 406
kind: Status
message: 'only the following media types are accepted: application/json;stream=watch,
  application/vnd.kubernetes.protobuf;stream=watch'
metadata: {}
reason: NotAcceptable
status: Failure`,
	},
	{
		name: "second choice", send: "GET " + mapsPath, header: "Accept: text/plain, application/json;q=0.5",
		code: 200, answer: "Content-Type: application/json",
	},
	{
		name: "YAML", send: "GET " + mapsPath, header: "Accept: application/yaml", code: 200,
		answer: "Content-Type: application/yaml",
	},
	{
		name: "a table is not offered", send: "GET " + mapsPath, code: 200, answer: "Content-Type: application/json",
		header: "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
	},
	{
		name: "metadata of a list", send: "GET " + mapsPath,
		header: "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", code: 406,
		message: "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
	},
	{
		name: "unreadable body", send: "POST " + mapsPath, header: "Content-Type: text/plain", body: aMap, code: 415,
		message: "the body of the request was in an unknown format - accepted media types include: " + mediaTypes,
	},
	{
		name: "YAML body", send: "POST " + mapsPath, header: "Content-Type: application/yaml",
		body: "kind: ConfigMap\napiVersion: v1\nmetadata: {name: new}\n", code: 201,
	},
	{
		name: "patch of unknown type", send: "PATCH " + mapsPath + "/a",
		header: "Content-Type: application/json", body: "{}", code: 415,
		message: "415: Unsupported Media Type",
	},
	{
		name: "custom patch of unknown type", send: "PATCH " + widgetsPath + "/w",
		header: "Content-Type: application/strategic-merge-patch+json", body: "{}",
		code: 415, message: "the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
	},
	{
		name: "patch type with charset", send: "PATCH " + mapsPath + "/a",
		header: "Content-Type: application/merge-patch+json; charset=utf-8",
		body:   "{}", code: 200,
	},
	{
		name: "apply without manager", send: "PATCH " + mapsPath + "/a",
		header: "Content-Type: application/apply-patch+yaml", body: "{}", code: 422,
		message: `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`,
	},
}

// bodies are the answers about bodies that are no object of the kind.
var bodies = []exchange{
	{
		name: "no JSON", send: "POST " + mapsPath, body: `{"kind":`, code: 400,
		message: `the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; ` +
			`json parse error: unexpected end of JSON input ({"kind":)`,
	},
	{
		name: "empty", send: "POST " + mapsPath, code: 400,
		message: `the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; ` +
			`json parse error: unexpected end of JSON input (<empty>)`,
	},
	{
		name: "no object", send: "POST " + mapsPath, body: `[1]`, code: 400,
		message: `the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ` +
			`json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; ` +
			`Kind string "json:\"kind,omitempty\"" } (5b315d)`,
	},
	{
		name: "wrong type of a field", send: "POST " + mapsPath,
		body: `{"apiVersion":"v1","kind":"ConfigMap","data":1}`, code: 400,
		message: `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into ` +
			`Go struct field ConfigMap.data of type map[string]string`,
	},
	{
		name: "another kind", send: "POST " + setsPath, body: aMap, code: 400,
		message: `ConfigMap in version "v1" cannot be handled as a StatefulSet: converting (v1.ConfigMap) to ` +
			`(apps.StatefulSet): unknown conversion`,
	},
	{
		name: "no such kind", send: "POST " + mapsPath, body: aWidget, code: 400,
		message: `Widget in version "v1" cannot be handled as a ConfigMap: no kind "Widget" is registered for ` +
			`version "golden.example.com/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"`,
	},
	{
		name: "another version", send: "POST " + setsPath,
		body: `{"apiVersion":"apps/v1beta1","kind":"StatefulSet"}`, code: 400,
		message: `the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)`,
	},
	{name: "neither kind nor version", send: "POST " + mapsPath, body: `{"metadata":{"name":"implied"}}`, code: 201},
	{
		name: "custom, no kind", send: "POST " + widgetsPath, body: `{}`, code: 400,
		message: `the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{}' ({})`,
	},
	{
		name: "custom, no version", send: "POST " + widgetsPath, body: `{"kind":"Widget"}`, code: 400,
		message: `the API version in the data () does not match the expected API version (golden.example.com/v1)`,
	},
	{
		name: "custom, another kind", send: "POST " + widgetsPath,
		body: strings.Replace(aWidget, "Widget", "Gadget", 1), code: 422,
		message: `Gadget.golden.example.com "new" is invalid: kind: Invalid value: "Gadget": must be Widget`,
	},
	{
		name: "custom, malformed metadata", send: "POST " + widgetsPath,
		body: strings.Replace(aWidget, `"new"`, `"new","labels":{"a":1}`, 1), code: 400,
		message: `Widget in version "v1" cannot be handled as a Widget: ...`,
	},
	{
		name: "warned of an unknown field", send: "POST " + mapsPath,
		body: strings.Replace(aMap, `"data"`, `"dada"`, 1), code: 201,
		answer: `Warning: 299 - "unknown field \"dada\""`,
	},
	{
		name: "warned of a field that is there twice", send: "POST " + mapsPath, code: 201,
		body:   strings.Replace(aMap, `"data"`, `"data":{},"data"`, 1),
		answer: `Warning: 299 - "duplicate field \"data\""`,
	},
	{
		name: "not warned", send: "POST " + mapsPath + "?fieldValidation=Ignore",
		body: strings.Replace(aMap, `"data"`, `"dada"`, 1), code: 201,
		answer: "Warning: ",
	},
	{
		name: "strict", send: "POST " + mapsPath + "?fieldValidation=Strict",
		body: strings.Replace(aMap, `"data"`, `"dada"`, 1), code: 400,
		message: `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown ` +
			`field "dada"`,
	},
	{
		name: "custom, warned", send: "POST " + widgetsPath, code: 201,
		body:   strings.Replace(aWidget, `"size"`, `"bogus":1,"size"`, 1),
		answer: `Warning: 299 - "unknown field \"spec.bogus\""`,
	},
	{
		name: "custom, strict", send: "PUT " + widgetsPath + "/w?fieldValidation=Strict", code: 400,
		body: strings.Replace(strings.Replace(aWidget, "new", "w", 1), `"name"`, `"bogus":1,"name"`, 1),
		message: `Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field ` +
			`"metadata.bogus"`,
	},
	{
		name: "patch, warned", send: "PATCH " + setsPath + "/web",
		header: "Content-Type: application/merge-patch+json", code: 200,
		body: `{"spec":{"bogus":1}}`, answer: `Warning: 299 - "unknown field \"spec.bogus\""`,
	},
	{
		name: "strategic patch, warned", send: "PATCH " + setsPath + "/web",
		header: "Content-Type: application/strategic-merge-patch+json", code: 200,
		body: `{"spec":{"bogus":1}}`, answer: `Warning: 299 - "unknown field \"spec.bogus\""`,
	},
	{
		name: "strategic patch, strict", send: "PATCH " + setsPath + "/web?fieldValidation=Strict", code: 422,
		header: "Content-Type: application/strategic-merge-patch+json", body: `{"spec":{"bogus":1}}`,
		message: ` "" is invalid: patch: Invalid value: "map[spec:map[bogus:1]]": strict decoding error: unknown ` +
			`field "spec.bogus"`,
	},
	{
		name: "JSON patch, strict", send: "PATCH " + widgetsPath + "/w?fieldValidation=Strict", code: 422,
		header:  "Content-Type: application/json-patch+json",
		body:    `[{"op":"add","path":"/spec/bogus","value":1,"why":"not"}]`,
		message: ` "" is invalid: patch: Invalid value: ...`,
	},
	{
		name: "patch that is no JSON", send: "PATCH " + mapsPath + "/a",
		header: "Content-Type: application/merge-patch+json", body: `{`, code: 400,
		message: "error decoding patch: unexpected end of JSON input",
	},
	{
		name: "too large to put", send: "PUT " + mapsPath + "/a",
		body: tooLarge, code: 413,
		message: "Request entity too large: limit is 3145728",
	},
	{
		name: "too large to patch", send: "PATCH " + mapsPath + "/a",
		header: "Content-Type: application/merge-patch+json", body: tooLarge, code: 413,
		message: "Request entity too large: limit is 3145728",
	},
	{
		name: "too large to delete", send: "DELETE " + mapsPath + "/a",
		body: tooLarge, code: 413,
		message: "Request entity too large: limit is 3145728",
	},
	{
		name: "delete with no JSON", send: "DELETE " + mapsPath + "/a", body: "{", code: 400,
		message: "couldn't get version/kind; json parse error: unexpected end of JSON input",
	},
	{
		name: "delete with another body", send: "DELETE " + mapsPath + "/a", body: aMap, code: 400,
		message: `no kind "ConfigMap" is registered for version "v1" in scheme ` +
			`"pkg/apis/meta/internalversion/scheme/register.go:27"`,
	},
}

var tooLarge = `{"data":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`

// parameters are the answers about parameters.
var parameters = []exchange{
	{
		name: "label selector", send: "GET " + mapsPath + "?labelSelector=a%3D%3D%3Db", code: 400,
		message: "unable to parse requirement: ...",
	},
	{
		name: "field selector", send: "GET " + mapsPath + "?fieldSelector=a", code: 400,
		message: "invalid selector: 'a'; can't understand 'a'",
	},
	{
		name: "limit", send: "GET " + mapsPath + "?limit=abc", code: 400,
		message: `strconv.ParseInt: parsing "abc": invalid syntax`,
	},
	{
		name: "timeout", send: "GET " + mapsPath + "?timeout=abc", code: 400,
		message: `invalid timeout specified in the request URL - time: invalid duration "abc"`,
	},
	{
		name: "match without revision", send: "GET " + mapsPath + "?resourceVersionMatch=Exact", code: 422,
		message: `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch ` +
			`is forbidden unless resourceVersion is provided`,
	},
	{
		name: "initial events of a list", send: "GET " + mapsPath + "?sendInitialEvents=true", code: 422,
		message: `ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is ` +
			`forbidden for list`,
	},
	{
		name: "initial events without match", send: "GET " + mapsPath + "?watch=1&sendInitialEvents=true", code: 422,
		message: `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents ` +
			`requires setting resourceVersionMatch to NotOlderThan`,
	},
	{
		name: "watch by an unknown field",
		send: "GET " + setsPath + "?watch=1&fieldSelector=spec.serviceName%3Dx", code: 400,
		message: `"spec.serviceName" is not a known field selector: only "metadata.name", "metadata.namespace"`,
	},
	{
		name: "dry run", send: "POST " + mapsPath + "?dryRun=Some", body: aMap, code: 422,
		message: `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported ` +
			`values: "All"`,
	},
	{
		name: "field validation", send: "PUT " + mapsPath + "/a?fieldValidation=Some", body: aMap, code: 422,
		message: `UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Some": supported ` +
			`values: "", "Ignore", "Strict", "Warn"`,
	},
	{
		name: "force", send: "PATCH " + mapsPath + "/a?force=true",
		header: "Content-Type: application/merge-patch+json", body: "{}", code: 422,
		message: `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`,
	},
	{
		name: "export", send: "GET " + mapsPath + "/a?export=true", code: 400,
		message: "the export parameter, deprecated since v1.14, is no longer supported",
	},
	{
		name: "propagation", send: "DELETE " + mapsPath + "/a?propagationPolicy=Some", code: 422,
		message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some": ` +
			`supported values: "Foreground", "Background", "Orphan", "nil"`,
	},
	{name: "propagation of a delete", send: "DELETE " + setsPath + "/web?propagationPolicy=Foreground", code: 200},
	{
		name: "revision to come", send: "GET " + mapsPath + "/a?resourceVersion=999999999", code: 504,
		message: "Timeout: Too large resource version: 999999999, current: ...", answer: "Retry-After: 1",
	},
	{
		name: "initial events of the old watch path",
		send: "GET /api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1", code: 200,
	},
}

// TestRules checks what is refused, and how, before a request reaches the server.
func TestRules(t *testing.T) {
	t.Parallel()
	for group, all := range map[string][]exchange{"routes": routes, "media": media, "bodies": bodies, "parameters": parameters} {
		for _, e := range all {
			t.Run(group+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { e.check(t, handler.New(furnished(t))) })
			})
		}
	}
}

// furnished returns a backend that holds a few objects.
func furnished(t testing.TB) *handler.Local {
	t.Helper()
	backend := newLocal(t)
	w := widget("w", 1)
	w.SetNamespace("default")
	set := statefulSet("web")
	set.Namespace = "default"
	backend.Use(func(s *apiserver.Server) {
		if err := s.LoadAll([]apiserver.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}, set, w,
		}); err != nil {
			t.Fatal(err)
		}
	})
	return backend
}

func (e exchange) check(t *testing.T, h *handler.Handler) {
	t.Helper()
	method, path, _ := strings.Cut(e.send, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(e.body))
	for line := range strings.Lines(e.header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	response, err := h.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != e.code {
		t.Fatalf("code %d, want %d: %s", response.StatusCode, e.code, body)
	}
	if name, want, ok := strings.Cut(e.answer, ": "); ok && response.Header.Get(name) != want {
		t.Errorf("%s is %q, want %q", name, response.Header.Get(name), want)
	}
	switch {
	case e.plain:
		if got := strings.TrimSpace(string(body)); got != e.message {
			t.Errorf("answered %q, want %q", got, e.message)
		}
	case e.message != "":
		checkStatus(t, e, body)
	}
}

func checkStatus(t *testing.T, e exchange, body []byte) {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || int(status.Code) != e.code || status.Status != metav1.StatusFailure {
		t.Errorf("not a whole Status: %s", body)
	}
	begin, open := strings.CutSuffix(e.message, "...")
	if open && !strings.HasPrefix(status.Message, begin) || !open && status.Message != e.message {
		t.Errorf("message:\n have %s\n want %s", status.Message, e.message)
	}
}

// TestUsers checks who is let in.
func TestUsers(t *testing.T) {
	h := handler.New(furnished(t))
	h.User = func(r *http.Request) (handler.User, bool) {
		if r.Header.Get("Authorization") != "" {
			return handler.User{}, false
		}
		return handler.Impersonated(r)
	}
	h.Authorizer = handler.AuthorizerFunc(func(a handler.Attributes) (bool, string) {
		return a.User.Name == handler.Admin.Name || a.Verb == "update" && a.Resource == "leases", "it is late"
	})
	const lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
	for _, e := range []exchange{
		{
			name: "nobody", send: "GET " + mapsPath, header: "Authorization: Bearer x", code: 401,
			message: "Unauthorized",
		},
		{
			name: "get", send: "GET " + mapsPath + "/a", header: "Impersonate-User: me", code: 403,
			message: `configmaps "a" is forbidden: User "me" cannot get resource "configmaps" in API group "" in the ` +
				`namespace "default": it is late`,
		},
		{
			name: "list all", send: "GET /apis/apps/v1/statefulsets", header: "Impersonate-User: me", code: 403,
			message: `statefulsets.apps is forbidden: User "me" cannot list resource "statefulsets" in API group ` +
				`"apps" at the cluster scope: it is late`,
		},
		{
			name: "watch one", send: "GET " + mapsPath + "?watch=1&fieldSelector=metadata.name%3Da",
			header: "Impersonate-User: me", code: 403,
			message: `configmaps "a" is forbidden: User "me" cannot watch resource "configmaps" in API group "" in ` +
				`the namespace "default": it is late`,
		},
		{
			name: "delete all", send: "DELETE " + mapsPath, header: "Impersonate-User: me", code: 403,
			message: `configmaps is forbidden: User "me" cannot deletecollection resource "configmaps" in API group ` +
				`"" in the namespace "default": it is late`,
		},
		{
			name: "no resource", send: "GET /version", header: "Impersonate-User: me", code: 403,
			message: `forbidden: User "me" cannot get path "/version": it is late`,
		},
		{
			name: "before anything else", send: "GET /api/v1/bogus", header: "Impersonate-User: <me>", code: 403,
			message: `bogus is forbidden: User "&lt;me&gt;" cannot list resource "bogus" in API group "" at the ` +
				`cluster scope: it is late`,
		},
		{
			name: "an update that would create", send: "PUT " + lease, header: "Impersonate-User: me", code: 403,
			body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`,
			message: `leases.coordination.k8s.io "l" is forbidden: User "me" cannot create resource "leases" in API ` +
				`group "coordination.k8s.io" in the namespace "default": it is late`,
		},
	} {
		t.Run(e.name, func(t *testing.T) { e.check(t, h) })
	}
}
