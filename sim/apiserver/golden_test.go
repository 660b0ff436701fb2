package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// outOfScope names the recorded cases that are not played, each with its reason. A case of the list that would pass makes
// the test fail, so that the list only holds what is really missing.
var outOfScope = map[string]string{
	"apply-conflict-sts-two-managers": noApply,
	"apply-conflict-with-updater":     noApply,
	"apply-create":                    noApply,
	"apply-create-with-uid":           noApply,
	"apply-drops-field":               noApply,
	"apply-force":                     noApply,
	"apply-managed-fields-set":        noApply,
	"apply-no-field-manager":          noApply,
	"apply-no-op":                     noApply,
	"apply-stale-rv":                  noApply,

	"create-bad-json":           "the text of a request is decoded by the HTTP way in",
	"create-unknown-field-warn": "Warning headers need the text of the request, which only the HTTP way in has",
	"request-too-large":         "request sizes belong to the HTTP way in",
	"unsupported-media-type":    "media types belong to the HTTP way in",
	"watch-bad-rv":              "the parameters of a watch are parsed by the HTTP way in",
	"unknown-resource":          "paths are routed by the HTTP way in",
	"watch-list-stream":         "bookmarks belong to the HTTP way in",
	"watch-too-old-etcd":        "a server without a watch cache",

	"forbidden-update-status":   "RBAC is not modelled",
	"update-cr-validation-rule": "validation rules in CEL are not modelled",
}

const noApply = "server-side apply is not modelled"

// compacted names the cases in which history was compacted before the request.
var compacted = map[string]bool{
	"list-continue-expired": true, "list-exact-compacted": true, "list-exact-compacted-etcd": true, "watch-too-old": true,
	"watch-too-old-etcd": true,
}

type goldenCase struct {
	Name    string
	Setup   []goldenStep
	Request goldenRequest
	Answer  goldenResponse `json:"response"`
	After   []goldenStep
}

type goldenStep struct {
	Request goldenRequest
	Answer  goldenResponse `json:"response"`
}

type goldenRequest struct {
	Verb, Path, ContentType, User string
	Body                          json.RawMessage
	RawBody                       string
}

type goldenResponse struct {
	Code    int
	Headers map[string]string
	Body    any
	Events  []any
}

// TestGolden plays what was recorded from real API servers.
func TestGolden(t *testing.T) {
	for _, version := range []Version{V136, V137} {
		t.Run(string(version), func(t *testing.T) {
			files, err := filepath.Glob("testdata/api-" + string(version) + "/*.json")
			if err != nil || len(files) == 0 {
				t.Fatalf("no recordings: %v", err)
			}
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				t.Run(name, func(t *testing.T) {
					err := playFile(file, version)
					reason := outOfScope[name]
					switch {
					case reason == "" && err != nil:
						t.Error(err)
					case reason != "" && err == nil:
						t.Errorf("passes, though outOfScope says that %s: take it from the list", reason)
					}
				})
			}
		})
	}
}

// TestOutOfScope checks that every case of the list was recorded.
func TestOutOfScope(t *testing.T) {
	for name := range outOfScope {
		if _, err := os.Stat("testdata/api-1.36/" + name + ".json"); err != nil {
			t.Errorf("outOfScope names a case that was not recorded: %v", err)
		}
	}
}

func playFile(file string, version Version) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c goldenCase
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	p := &player{server: NewServer(goldenKinds(version), fixedClock), bound: map[string]string{}}
	if err := p.server.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "g-" + c.Name}}); err != nil {
		return err
	}
	for i, step := range c.Setup {
		if err := p.play(step.Request, step.Answer); err != nil {
			return fmt.Errorf("setup %d: %w", i, err)
		}
	}
	if compacted[c.Name] {
		p.server.Compact(p.server.Revision())
	}
	if err := p.play(c.Request, c.Answer); err != nil {
		return err
	}
	for i, step := range c.After {
		if err := p.play(step.Request, step.Answer); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return p.checkRanks()
}

func fixedClock() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// player plays one case. It binds each placeholder to the value it first meets in its place.
type player struct {
	server *Server
	bound  map[string]string
}

var placeholder = regexp.MustCompile(`\$(UID\d+|RV\d+|TIME|RVNOW|CONTINUE|N)`)

// fill puts the bound values into a request.
func (p *player) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if name == "$TIME" {
			return "2030-01-01T00:00:00Z"
		}
		return p.bound[name]
	})
}

func (p *player) play(request goldenRequest, want goldenResponse) error {
	if request.User != "" || request.RawBody != "" {
		return fmt.Errorf("%s %s: neither users nor texts that are no JSON can be played", request.Verb, request.Path)
	}
	location, err := url.Parse(p.fill(request.Path))
	if err != nil {
		return err
	}
	req, err := p.request(request, location)
	if err != nil {
		return err
	}
	switch watches := location.Query().Get("watch") != ""; {
	case watches && want.Code != 200:
		return fmt.Errorf("%s: a watch cannot fail here", request.Path)
	case watches:
		return p.match(fmt.Sprintf("%s: events", request.Path), any(want.Events), p.watch(req))
	}
	response := p.server.Do(req)
	if warning := want.Headers["Warning"]; warning != "" && len(response.Warnings) == 0 {
		return fmt.Errorf("%s %s: no warning, want %s", request.Verb, request.Path, warning)
	}
	code, body := render(req, response)
	if code != want.Code {
		return fmt.Errorf("%s %s: code %d, want %d; body %v", request.Verb, request.Path, code, want.Code, body)
	}
	return p.match(request.Verb+" "+request.Path, want.Body, body)
}

// request decodes a recorded request.
func (p *player) request(recorded goldenRequest, location *url.URL) (*Request, error) {
	parts := strings.Split(strings.TrimPrefix(location.Path, "/"), "/")
	gv := schema.GroupVersion{Version: parts[1]}
	rest := parts[2:]
	if parts[0] == "apis" {
		gv, rest = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	}
	req := &Request{}
	if len(rest) > 2 && rest[0] == "namespaces" {
		req.Namespace, rest = rest[1], rest[2:]
	}
	if req.Kind = p.server.Kinds().ByGVR(gv.WithResource(rest[0])); req.Kind == nil {
		return nil, fmt.Errorf("%s: no such kind", location.Path)
	}
	if len(rest) > 1 {
		req.Name = rest[1]
	}
	if len(rest) > 2 {
		req.Subresource = rest[2]
	}
	query := location.Query()
	req.DryRun = query.Get("dryRun") == "All"
	req.ResourceVersion, req.Continue = query.Get("resourceVersion"), query.Get("continue")
	req.ResourceVersionMatch = metav1.ResourceVersionMatch(query.Get("resourceVersionMatch"))
	req.Limit, _ = strconv.ParseInt(query.Get("limit"), 10, 64)
	req.LabelSelector, _ = labels.Parse(query.Get("labelSelector"))
	req.FieldSelector, _ = fields.ParseSelector(query.Get("fieldSelector"))
	return req, p.decodeBody(req, recorded)
}

func (p *player) decodeBody(req *Request, recorded goldenRequest) (err error) {
	body := []byte(p.fill(string(recorded.Body)))
	switch recorded.Verb {
	case "GET":
		req.Verb = schedule.Get
		if req.Name == "" {
			req.Verb = schedule.List
		}
	case "POST", "PUT":
		req.Verb = schedule.Create
		if recorded.Verb == "PUT" {
			req.Verb = schedule.Update
		}
		switch req.Subresource {
		case "binding":
			req.Object = &corev1.Binding{}
			return json.Unmarshal(body, req.Object)
		case "scale":
			req.Object = &autoscalingv1.Scale{}
			return json.Unmarshal(body, req.Object)
		}
		req.Object, err = req.Kind.Decode(body)
	case "PATCH":
		req.Verb, req.PatchType, req.PatchData = schedule.Patch, types.PatchType(recorded.ContentType), body
	case "DELETE":
		req.Verb = schedule.Delete
		if req.Name == "" {
			req.Verb = schedule.DeleteCollection
		}
		if len(body) > 0 {
			err = json.Unmarshal(body, &req.Delete)
		}
	}
	return err
}

// render returns the code and the body a real server would send for a response.
func render(req *Request, response *Response) (int, any) {
	var body any
	switch {
	case response.Err != nil:
		body = statusBody(response.Err.ErrStatus)
	case response.Items != nil:
		items := make([]any, len(response.Items))
		for i, obj := range response.Items {
			item := generic(obj).(map[string]any)
			if !req.Kind.Custom() {
				delete(item, "apiVersion")
				delete(item, "kind")
			}
			items[i] = item
		}
		meta := metav1.ListMeta{
			ResourceVersion: strconv.FormatInt(response.Revision, 10),
			Continue:        response.Continue, RemainingItemCount: response.Remaining,
		}
		apiVersion, kind := req.Kind.ToAPIVersionAndKind()
		body = map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "metadata": generic(meta), "items": items}
	case req.Subresource == "binding":
		body = statusBody(metav1.Status{Status: metav1.StatusSuccess, Code: 201})
	case response.Object == nil:
		body = statusBody(metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
			Name: req.Name, Group: req.Kind.Group, Kind: req.Kind.Resource, UID: response.Before.GetUID(),
		}})
	default:
		body = generic(response.Object)
	}
	return response.Code, body
}

func statusBody(status metav1.Status) any {
	status.APIVersion, status.Kind = "v1", "Status"
	return generic(status)
}

// generic returns the JSON form of a value.
func generic(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		panic(err)
	}
	return decoded
}

// watch returns the events a watch would send by now.
func (p *player) watch(req *Request) any {
	events := []any{}
	send := func(kind string, object any) { events = append(events, map[string]any{"type": kind, "object": object}) }
	if req.ResourceVersion == "" || req.ResourceVersion == "0" {
		for _, obj := range p.server.Do(req).Items {
			send("ADDED", generic(obj))
		}
		return events
	}
	revision, _ := strconv.ParseInt(req.ResourceVersion, 10, 64)
	log, err := p.server.Since(req.Kind, revision)
	if err != nil {
		expired, ok := errors.AsType[*apierrors.StatusError](err)
		if !ok {
			panic(err)
		}
		send("ERROR", statusBody(expired.ErrStatus))
	}
	for _, event := range log {
		if shown, ok := req.Kind.Transition(event, req.Namespace, req.LabelSelector, req.FieldSelector); ok {
			send(shown.Type.String(), generic(shown.Object))
		}
	}
	return events
}

// match compares what was recorded with what came, and binds placeholders.
func (p *player) match(at string, want, have any) error {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		for _, name := range keys(want, have) {
			a, wanted := want[name]
			b, given := have[name]
			if wanted != given {
				return fmt.Errorf("%s.%s: have %v, want %v", at, name, b, a)
			}
			if err := p.match(at+"."+name, a, b); err != nil {
				return err
			}
		}
		return nil
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		for i := range want {
			if err := p.match(fmt.Sprintf("%s[%d]", at, i), want[i], have[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		have, ok := have.(string)
		if !ok || !p.matchText(want, have) {
			return fmt.Errorf("%s:\n have %v\n want %v, with %v", at, have, want, p.bound)
		}
		return nil
	default:
		if !reflect.DeepEqual(want, have) {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		return nil
	}
}

func keys(maps ...map[string]any) []string {
	var names []string
	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// matchText matches a text that may hold placeholders. The diffs that some refusals end with are left out: a real server
// makes them from its internal types, which nobody else has.
func (p *player) matchText(want, have string) bool {
	want, _, _ = strings.Cut(want, "\n@@ ")
	have, _, _ = strings.Cut(have, "\n@@ ")
	var pattern strings.Builder
	var names []string
	last := 0
	for _, at := range placeholder.FindAllStringIndex(want, -1) {
		name := want[at[0]:at[1]]
		pattern.WriteString(regexp.QuoteMeta(want[last:at[0]]))
		last = at[1]
		if value, ok := p.bound[name]; ok && !strings.HasPrefix(name, "$CONTINUE") {
			pattern.WriteString(regexp.QuoteMeta(value))
			continue
		}
		names = append(names, name)
		pattern.WriteString("(.+)")
	}
	pattern.WriteString(regexp.QuoteMeta(want[last:]))
	found := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(have)
	if found == nil {
		return false
	}
	for i, name := range names {
		if name != "$TIME" && name != "$N" && name != "$RVNOW" {
			p.bound[name] = found[i+1]
		}
	}
	return true
}

// checkRanks checks that revisions are in the order of their ranks.
func (p *player) checkRanks() error {
	last := int64(0)
	for rank := 1; ; rank++ {
		text, ok := p.bound["$RV"+strconv.Itoa(rank)]
		if !ok {
			return nil
		}
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil || revision <= last {
			return fmt.Errorf("$RV%d is %s, want more than %d", rank, text, last)
		}
		last = revision
	}
}

// goldenKinds returns the kinds of the recordings. Tests share them and must not add to them.
func goldenKinds(version Version) *Kinds {
	if version == V136 {
		return kinds136()
	}
	return kinds137()
}

var (
	kinds136 = sync.OnceValue(func() *Kinds { return loadKinds(V136) })
	kinds137 = sync.OnceValue(func() *Kinds { return loadKinds(V137) })
)

func loadKinds(version Version) *Kinds {
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		panic(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		panic(err)
	}
	kinds := NewKinds(version)
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		panic(err)
	}
	return kinds
}
