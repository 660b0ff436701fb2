package handler

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// call is one request for a resource.
type call struct {
	*Handler
	endpoint
	r        *http.Request
	target   target
	access   *rbac.Access // of who sends it
	warnings []string
}

// serveResource answers a request for a resource.
func (h *Handler) serveResource(r *http.Request, t target, access *rbac.Access) (*answer, error) {
	e, err := h.route(r, t)
	if e.kind == nil {
		return nil, err
	}
	c := &call{Handler: h, endpoint: e, r: r, target: t, access: access}
	if text := e.kind.Deprecation(); text != "" {
		c.warnings = append(c.warnings, text)
	}
	var a *answer
	if err == nil {
		a, err = c.run()
	}
	if err != nil {
		a, err = refuse(r, err)
	}
	if a != nil {
		addWarnings(a.header, c.warnings)
	}
	return a, err
}

func (c *call) run() (*answer, error) {
	if c.target.name == "" && (c.item || c.verb == "update") && c.verb != "patch" { // a patch looks at its type first
		return nil, badRequest("name must be provided")
	}
	switch c.verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	default:
		return c.deleteCollection()
	}
}

// request returns the request that the backend is to execute.
func (c *call) request(verb schedule.Verb) *apiserver.Request {
	return &apiserver.Request{
		Verb: verb, Kind: c.kind, Namespace: c.target.namespace, Name: c.target.name, Subresource: c.subresource,
		UserAgent: c.r.UserAgent(), Access: c.access,
	}
}

// form negotiates how the client wants to be answered.
func (c *call) form() (representation, error) {
	form, ok := codecs().negotiate(c.r, offer{metadata: true, custom: c.kind.Custom()})
	if !ok {
		return form, nothingAcceptable(codecs().names(false))
	}
	return form, nil
}

// maxBody is how many bytes a body may have: MaxRequestBodyBytes of pkg/server/config.go.
const maxBody = 3 << 20

// body reads the body of the request; limitedReadBody of pkg/endpoints/handlers/rest.go.
func (c *call) body() ([]byte, error) {
	if c.r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBody:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return body, nil
}

// parameters reads the parameters of the request into options.
func (c *call) parameters(options runtime.Object) error {
	err := metascheme.ParameterCodec.DecodeParameters(c.r.URL.Query(), metav1.SchemeGroupVersion, options)
	if err != nil {
		return badRequest("%v", err)
	}
	return nil
}

// execute sends a request to the backend and answers with its response.
func (c *call) execute(req *apiserver.Request, form representation) (*answer, error) {
	response, err := c.backend.Do(c.r.Context(), req)
	if err != nil {
		return nil, ended(c.r, err)
	}
	c.warnings = append(c.warnings, response.Warnings...)
	switch {
	case response.Err != nil && response.Code < http.StatusBadRequest: // a success that tells of a failure
		return show(form, response.Code, statusOf(response.Err))
	case response.Err != nil:
		return nil, response.Err
	}
	result, err := result(req, response)
	if err != nil {
		return nil, err
	}
	return show(form, response.Code, result)
}

// show answers with an object.
func show(form representation, code int, obj runtime.Object) (*answer, error) {
	obj, err := shown(obj, form.as)
	if err != nil {
		return nil, err
	}
	body, err := encode(form.encoder(), obj)
	if err != nil {
		return nil, err
	}
	return &answer{code: code, header: http.Header{"Content-Type": {form.MediaType}}, body: body}, nil
}

// result returns the object that a response is.
func result(req *apiserver.Request, response *apiserver.Response) (runtime.Object, error) {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	switch {
	case req.Verb == schedule.List || req.Verb == schedule.DeleteCollection:
		return codecs().listOf(req.Kind, response.Items, metav1.ListMeta{
			ResourceVersion: strconv.FormatInt(response.Revision, 10),
			Continue:        response.Continue, RemainingItemCount: response.Remaining,
		})
	case response.Object != nil:
		return response.Object, nil
	case req.Verb == schedule.Delete && req.Subresource == "":
		status.Details = &metav1.StatusDetails{
			Name: req.Name, Group: req.Kind.Group, Kind: req.Kind.Resource, UID: response.Before.GetUID(),
		}
	default: // a binding, an eviction
		status.Code = int32(response.Code)
	}
	return status, nil
}

// fieldValidation returns what the client wants done about unknown fields.
func fieldValidation(directive string) string {
	if directive == "" {
		return metav1.FieldValidationWarn
	}
	return directive
}

// decode reads the object that the request sends.
func (c *call) decode(info runtime.SerializerInfo, body []byte, directive string) (apiserver.Object, error) {
	directive = fieldValidation(directive)
	strict := directive != metav1.FieldValidationIgnore
	custom := c.kind.Custom() && c.endpoint.body == c.kind.GroupVersionKind
	decoded, unknown, err := codecs().decode(info, body, c.endpoint.body, strict, custom)
	if err != nil {
		return nil, err
	}
	obj := decoded.(apiserver.Object) // every kind that a body can have has metadata
	if custom {
		if _, _, err := objectmeta.GetObjectMeta(obj.(*unstructured.Unstructured).Object, false); err != nil {
			return obj, nil // it will be refused for that, without a word about anything else
		}
		if strict && c.kind.PruneUnknown != nil && obj.GetObjectKind().GroupVersionKind() == c.kind.GroupVersionKind {
			for _, path := range c.kind.PruneUnknown(obj) {
				unknown = append(unknown, fmt.Errorf("unknown field %q", path))
			}
		}
	}
	switch {
	case len(unknown) == 0:
	case directive == metav1.FieldValidationStrict:
		return nil, badRequest("%s in version %q cannot be handled as a %s: %v", c.endpoint.body.Kind, c.endpoint.body.Version,
			c.endpoint.body.Kind, runtime.NewStrictDecodingError(unknown))
	default:
		for _, err := range unknown {
			c.warnings = append(c.warnings, yamlWarnings(err.Error())...)
		}
	}
	return obj, nil
}

// yamlWarnings splits what a strict YAML decoder says into its lines; parseYAMLWarnings of pkg/endpoints/handlers/rest.go.
func yamlWarnings(text string) []string {
	const short = "yaml: unmarshal errors:\n"
	rest, found := strings.CutPrefix(text, short)
	if !found {
		rest, found = strings.CutPrefix(text, "error converting YAML to JSON: "+short)
	}
	if !found {
		return []string{text}
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// The most that is sent of warnings, in runes: pkg/endpoints/filters/warning.go.
const (
	maxWarnings = 4 << 10
	maxWarning  = 256 // of each, if all together are too long
)

// addWarnings adds a Warning header for each of the texts. What is too long is cut.
func addWarnings(header http.Header, texts []string) {
	texts = unique(texts)
	limit := -1
	if utf8.RuneCountInString(strings.Join(texts, "")) > maxWarnings {
		limit = maxWarning
	}
	written := 0
	for _, text := range texts {
		runes := []rune(text)
		if limit >= 0 && len(runes) > limit {
			runes = runes[:limit]
		}
		value, err := utilnet.NewWarningHeader(299, "", string(runes))
		if err != nil || len(runes) == 0 || limit >= 0 && written >= maxWarnings {
			continue
		}
		written += len(runes)
		header.Add("Warning", value)
	}
}
