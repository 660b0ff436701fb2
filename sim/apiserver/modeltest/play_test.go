package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// subject is the server that is judged.
type subject struct {
	http.RoundTripper
	version apiserver.Version
	use     func(func(*apiserver.Server)) // reaches the server for what HTTP has no request for: its revision, and compaction
}

// game is one sequence of requests, to a server and to the model.
type game struct {
	*generator
	subject  subject
	watchers []*watcher
	trace    []string // of the requests and answers
}

// sequence says which requests are made: the steps of a seed. They are as many as a list has, and the same if others are left out.
type sequence struct {
	seed  uint64
	steps []int
}

// every is the sequence of all steps of a seed, up to a number.
func every(seed uint64, length int) sequence {
	s := sequence{seed: seed}
	for i := range length {
		s.steps = append(s.steps, i)
	}
	return s
}

// lost is what is wrong: the server said what the model did not.
type mismatch struct {
	step  int
	text  string
	trace []string
}

// play makes the requests of a sequence to a new server, and returns the first wrong answer, nil for none.
func play(t *testing.T, s sequence, newSubject func(seed uint64) subject) (wrong *mismatch) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGame(newSubject(s.seed))
		defer g.close()
		for _, step := range s.steps {
			g.random = rand.New(rand.NewPCG(s.seed, uint64(step)))
			time.Sleep(time.Duration(g.n(1500)) * time.Millisecond)
			if err := g.step(); err != nil {
				wrong = &mismatch{step: step, text: err.Error(), trace: g.trace}
				return
			}
		}
	})
	return wrong
}

func newGame(s subject) *game {
	m := &model{
		version: s.version, now: time.Now, kinds: allKinds(s.version), objects: map[key]*entry{}, log: map[*kind][]event{},
		uids: map[string]bool{}, tokens: map[string]token{},
	}
	g := &game{generator: newGenerator(m), subject: s}
	for _, k := range m.kinds {
		if !k.cluster {
			continue
		}
		got, err := g.send(&request{verb: "list", kind: k})
		if err != nil {
			panic(err)
		}
		for _, item := range list(got.body, "items") {
			e := &entry{obj: item.(tree), owners: seeded(item.(tree))}
			m.objects[keyOf(k, e.obj)] = e
			revision, _ := parseRevision(text(e.obj, "metadata", "resourceVersion"))
			m.log[k] = append(m.log[k], event{revision: revision, what: "ADDED", obj: e.obj, owners: e.owners})
		}
		m.revision, _ = parseRevision(text(got.body, "metadata", "resourceVersion"))
	}
	m.first, m.compacted = m.revision, m.revision
	s.use(func(server *apiserver.Server) { server.Compact(m.revision) })
	return g
}

// seeded is who owns what of a namespace that a server begins with.
func seeded(obj tree) ownership {
	return ownership{{manager: "kube-apiserver", way: "Update"}: {
		paths: map[string]bool{"metadata.labels/": true, "metadata.labels.kubernetes.io/metadata.name": true},
		at:    parseTime(text(obj, "metadata", "creationTimestamp")).Unix(),
	}}
}

func (g *game) close() {
	for _, w := range g.watchers {
		w.stop()
	}
	synctest.Wait()
}

// step makes one request, or lets time pass, or begins a watch, and checks what comes of it.
func (g *game) step() error {
	switch n := g.n(200); {
	case n == 0:
		g.compact()
	case n < 4:
		time.Sleep(time.Duration(20+g.n(60)) * time.Second)
	case n < 12:
		if err := g.beginWatch(); err != nil {
			return err
		}
	default:
		if err := g.exchange(g.request()); err != nil {
			return err
		}
	}
	synctest.Wait()
	for _, w := range g.watchers {
		if err := w.check(g.model); err != nil {
			return err
		}
	}
	return nil
}

func (g *game) compact() {
	m := g.model
	m.compacted += int64(g.n(int(m.revision - m.compacted + 1)))
	g.subject.use(func(server *apiserver.Server) { server.Compact(m.compacted) })
	g.trace = append(g.trace, fmt.Sprintf("compact up to %d", m.compacted))
}

// exchange makes a request, and compares the answer with what the model says.
func (g *game) exchange(r *request) error {
	m := g.model
	got, err := g.send(r)
	if err != nil {
		return err
	}
	want := m.do(r, got)
	g.trace = append(g.trace, fmt.Sprintf("%s\n   -> %s", r, got))
	if err := want.compare(r, got); err != nil {
		return fmt.Errorf("%s\n   -> %s\n%w", r, got, err)
	}
	revision := int64(0)
	g.subject.use(func(server *apiserver.Server) { revision = server.Revision() })
	if revision != m.revision {
		return fmt.Errorf("%s\n   -> %s\nthe store is at revision %d, want %d", r, got, revision, m.revision)
	}
	g.learn(r, want, got)
	return nil
}

// learn lets the client remember what it saw.
func (g *game) learn(r *request, w want, got answer) {
	seen := &g.memory[r.client]
	if w.object != nil && r.sub != "scale" {
		k := keyOf(r.kind, got.body)
		g.model.adopt(k, got.body)
		obj := got.body
		if r.dryRun() { // nothing says that those who own its fields ever will
			obj = clone(obj)
			set(obj, nil, "metadata", "managedFields")
		}
		g.remember(r.client, k, state{obj, g.model.ownersOf(k, obj)})
		revision, ok := parseRevision(text(got.body, "metadata", "resourceVersion"))
		if ok && revision >= g.model.first && revision <= g.model.revision { // a dry run answers with what was sent
			seen.revisions = append(seen.revisions, revision)
		}
	}
	if !w.list {
		return
	}
	seen.revisions = append(seen.revisions, w.listed)
	for _, item := range list(got.body, "items") {
		obj := clone(item.(tree))
		obj["apiVersion"], obj["kind"] = r.kind.apiVersion(), r.kind.name
		k := keyOf(r.kind, obj)
		g.remember(r.client, k, state{obj, g.model.ownersOf(k, obj)})
	}
	if next := continueOf(got.body); next != "" {
		seen.tokens = append(seen.tokens[max(0, len(seen.tokens)-2):], pageToken{*r, next})
	}
}

// compare reports how an answer differs from what it must be.
func (w want) compare(r *request, got answer) error {
	reason := text(got.body, "reason")
	switch {
	case got.code != w.code:
		return fmt.Errorf("code %d, want %d %s", got.code, w.code, w.reason)
	case got.code >= 400 && w.reason != "*" && reason != w.reason:
		return fmt.Errorf("reason %q, want %q", reason, w.reason)
	case got.code >= 400 && w.message != "" && text(got.body, "message") != w.message:
		return fmt.Errorf("message %q, want %q", text(got.body, "message"), w.message)
	case got.code >= 400 && int(number(got.body, "code")) != got.code:
		return errors.New("the Status has another code")
	case got.code < 400 && w.message != "":
		return errors.New("want " + w.message)
	case w.causes > 0 && len(list(got.body, "details", "causes")) != w.causes:
		return fmt.Errorf("%d causes, want %d", len(list(got.body, "details", "causes")), w.causes)
	case w.object != nil && !same(w.object, got.body):
		return fmt.Errorf("the object differs (-want +got):\n%s", cmp.Diff(shown(w.object), shown(got.body)))
	case w.list:
		return w.compareList(got)
	}
	return nil
}

func (w want) compareList(got answer) error {
	items := list(got.body, "items")
	if len(items) != len(w.items) {
		return fmt.Errorf("%d items, want %d", len(items), len(w.items))
	}
	for i, item := range items {
		if !same(w.items[i], item.(tree)) {
			return fmt.Errorf("item %d differs (-want +got):\n%s", i, cmp.Diff(shown(w.items[i]), shown(item.(tree))))
		}
	}
	if listed := text(got.body, "metadata", "resourceVersion"); listed != strconv.FormatInt(w.listed, 10) {
		return fmt.Errorf("the list is of revision %s, want %d", listed, w.listed)
	}
	if more := continueOf(got.body) != ""; more != (w.more != nil) {
		return fmt.Errorf("the list goes on: %t, want %t", more, w.more != nil)
	}
	left, told := get(got.body, "metadata", "remainingItemCount").(float64)
	if told != (w.left >= 0) || told && int64(left) != w.left {
		return fmt.Errorf("%v items are left, want %d", get(got.body, "metadata", "remainingItemCount"), w.left)
	}
	return nil
}

var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch,
	"apply": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

var patchMedia = map[string]string{
	"merge": "application/merge-patch+json", "json": "application/json-patch+json",
	"strategic": "application/strategic-merge-patch+json",
}

// path is where a request goes.
func (r *request) path() string {
	path := "/api/" + r.kind.version
	if r.kind.group != "" {
		path = "/apis/" + r.kind.group + "/" + r.kind.version
	}
	if r.namespace != "" {
		path += "/namespaces/" + r.namespace
	}
	path += "/" + r.kind.resource
	if r.name != "" && r.verb != "create" {
		path += "/" + r.name
	}
	if r.sub != "" {
		path += "/" + r.sub
	}
	query := url.Values{}
	for name, value := range r.query {
		query.Set(name, value)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func (r *request) mediaType() string {
	switch r.verb {
	case "patch":
		return patchMedia[r.patch]
	case "apply":
		return "application/apply-patch+yaml"
	default:
		return "application/json"
	}
}

// http is the request for a server.
func (r *request) http() (*http.Request, error) {
	body := ""
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = string(data)
	}
	request, err := http.NewRequest(methods[r.verb], "http://server.invalid"+r.path(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", r.mediaType())
	request.Header.Set("User-Agent", agents[r.client]+"/1.0 (model)")
	return request, nil
}

// String shows the request as a person would write it down.
func (r *request) String() string {
	line := agents[r.client] + ": " + methods[r.verb] + " " + r.path()
	if r.verb == "patch" || r.verb == "apply" {
		line += " (" + r.mediaType() + ")"
	}
	if r.body != nil {
		data, _ := json.Marshal(r.body)
		line += " " + string(data)
	}
	return line
}

func (a answer) String() string {
	body := clone(a.body)
	if fields(body, "metadata") != nil {
		set(body, nil, "metadata", "managedFields")
	}
	data, _ := json.Marshal(body)
	return fmt.Sprint(a.code, " ", string(data))
}

// send makes a request to the server.
func (g *game) send(r *request) (answer, error) {
	request, err := r.http()
	if err != nil {
		return answer{}, err
	}
	response, err := g.subject.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{code: response.StatusCode}
	if err := json.Unmarshal(data, &got.body); err != nil {
		return answer{}, fmt.Errorf("%s\n   -> %d %q: %w", r, got.code, data, err)
	}
	return got, nil
}

// shrink leaves out all steps without which a sequence still goes wrong.
func shrink(t *testing.T, s sequence, wrong *mismatch, newSubject func(seed uint64) subject) (sequence, *mismatch) {
	t.Helper()
	cut := func(steps []int) []int { // what comes after the failing step does not matter
		for i, step := range steps {
			if step == wrong.step {
				return steps[:i+1]
			}
		}
		return steps
	}
	s.steps = cut(s.steps)
	for size := (len(s.steps) + 1) / 2; size > 0; {
		smaller := false
		for from := 0; from < len(s.steps); {
			rest := append(append([]int{}, s.steps[:from]...), s.steps[min(from+size, len(s.steps)):]...)
			if found := play(t, sequence{s.seed, rest}, newSubject); found != nil {
				wrong, smaller = found, true
				s.steps = cut(rest)
			} else {
				from += size
			}
		}
		if size == 1 && !smaller {
			break
		}
		if !smaller || size > len(s.steps) {
			size = max(1, min(size, len(s.steps))/2)
		}
	}
	return s, wrong
}

// report says what is wrong, and how to see it again.
func report(s sequence, wrong *mismatch) string {
	steps := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.steps)), ","), "[]")
	return fmt.Sprintf("%s\n\n%s\n\nplay it again with\n  SIM_SEED=%d SIM_STEPS=%s go test -run TestModel ./sim/apiserver/modeltest",
		strings.Join(wrong.trace, "\n"), wrong.text, s.seed, steps)
}
