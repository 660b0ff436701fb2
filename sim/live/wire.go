package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// server is the real API server, as an administrator reaches it.
type server struct {
	client *http.Client
	host   string
}

func newServer(config *rest.Config) (*server, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &server{client: client, host: strings.TrimSuffix(config.Host, "/")}, nil
}

// answer is the answer to a request, read to its end.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// send makes a request with a body of JSON.
func (s *server) send(ctx context.Context, method, path string, query url.Values, body []byte) (*answer, error) {
	return s.sendAs(ctx, method, path, query, body, "application/json", "")
}

func (s *server) sendAs(ctx context.Context, method, path string, query url.Values, body []byte, contentType, agent string) (*answer,
	error,
) {
	r, err := http.NewRequestWithContext(ctx, method, s.host+path+encoded(query), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		r.Header.Set("Content-Type", contentType)
	}
	if agent != "" {
		r.Header.Set("User-Agent", agent)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	return readAnswer(response)
}

func encoded(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

func readAnswer(response *http.Response) (*answer, error) {
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &answer{code: response.StatusCode, header: response.Header, body: body}, nil
}

// stream opens a watch.
func (s *server) stream(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+path+encoded(query), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("watch %s: %s", path, response.Status)
	}
	return response.Body, nil
}

// response returns what goes back to a client.
func (a *answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}

// refuse returns the answer that an error is sent as.
func refuse(err *apierrors.StatusError) *answer {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, marshalErr := json.Marshal(&status)
	if marshalErr != nil { // it is a struct of strings and numbers
		panic(marshalErr)
	}
	a := &answer{code: int(status.Code), header: http.Header{"Content-Type": {"application/json"}}, body: body}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		a.header.Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
	}
	return a
}

// pathOf returns the path of a resource, of an object, or of a subresource of it.
func pathOf(kind *apiserver.Kind, namespace, name, subresource string) string {
	parts := []string{"/api", kind.Version}
	if kind.Group != "" {
		parts = []string{"/apis", kind.Group, kind.Version}
	}
	if kind.Namespaced && namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, kind.Resource)
	for _, part := range []string{name, subresource} {
		if part != "" {
			parts = append(parts, url.PathEscape(part))
		}
	}
	return strings.Join(parts, "/")
}

// call is a request on the wire, as far as the gate understands it.
type call struct {
	*apiserver.Request
	watch bool
	body  []byte
}

// read returns what a request on the wire asks for, nil if it is not about a resource that the scenario knows.
func read(kinds *apiserver.Kinds, r *http.Request, body []byte) *call {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var at schema.GroupVersionResource
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		at.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		at.Group, at.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil
	}
	c := &call{Request: &apiserver.Request{UserAgent: r.UserAgent()}, body: body}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	at.Resource = parts[0]
	if c.Kind = kinds.ByGVR(at); c.Kind == nil {
		return nil
	}
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Subresource = strings.Join(parts[2:], "/")
	}
	query := r.URL.Query()
	c.DryRun, c.FieldManager = query.Has("dryRun"), query.Get("fieldManager")
	c.ResourceVersion = query.Get("resourceVersion")
	c.watch = r.Method == http.MethodGet && (query.Get("watch") == "true" || query.Get("watch") == "1")
	c.fill(r, body)
	return c
}

// fill reads verb and body.
func (c *call) fill(r *http.Request, body []byte) {
	switch r.Method {
	case http.MethodGet:
		c.Verb = schedule.Get
		if c.Name == "" {
			c.Verb = schedule.List
		}
	case http.MethodPost, http.MethodPut:
		c.Verb = schedule.Create
		if r.Method == http.MethodPut {
			c.Verb = schedule.Update
		}
		if c.Subresource == "" || c.Subresource == "status" {
			if obj, err := c.Kind.Decode(body); err == nil { // else it is the server's to refuse
				c.Object = obj
			}
		}
		if c.Object != nil && c.Name == "" {
			c.Name = c.Object.GetName()
		}
	case http.MethodPatch:
		c.Verb = schedule.Patch
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		c.PatchType, c.PatchData = types.PatchType(kind), body
	case http.MethodDelete:
		c.Verb = schedule.Delete
		if c.Name == "" {
			c.Verb = schedule.DeleteCollection
		}
		_ = json.Unmarshal(body, &c.Delete) // without a body there are no options
	}
}

// responseTo returns what an answer says.
func responseTo(r *apiserver.Request, a *answer) *apiserver.Response {
	response := &apiserver.Response{Code: a.code}
	if a.code >= http.StatusBadRequest {
		var status metav1.Status
		if json.Unmarshal(a.body, &status) != nil || status.Code == 0 {
			status = metav1.Status{Status: metav1.StatusFailure, Code: int32(a.code), Message: string(a.body)}
		}
		response.Err = &apierrors.StatusError{ErrStatus: status}
		return response
	}
	if r.Verb == schedule.List {
		var list struct {
			Metadata metav1.ListMeta
			Items    []json.RawMessage
		}
		if json.Unmarshal(a.body, &list) == nil {
			response.Revision, response.Continue = number(list.Metadata.ResourceVersion), list.Metadata.Continue
			for _, item := range list.Items {
				if obj, err := r.Kind.Decode(item); err == nil {
					response.Items = append(response.Items, obj)
				}
			}
		}
		return response
	}
	var said metav1.TypeMeta
	if json.Unmarshal(a.body, &said) == nil && said.Kind != "Status" && (r.Subresource == "" || r.Subresource == "status") {
		if obj, err := r.Kind.Decode(a.body); err == nil {
			response.Object, response.Revision = obj, revisionOf(obj)
		}
	}
	return response
}
