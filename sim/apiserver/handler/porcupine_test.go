package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// write is what a client asks for; everything is about the one object of its key.
type write struct {
	client   int
	key      string // "a" and so on are ConfigMaps, "w" and so on Widgets, which have a status subresource
	verb     string // get, create, update, patch, apply, delete, or setStatus
	value    string // to be stored: a number
	revision string // that the write was made from; empty to overwrite
	uid      string // that an update or a delete is meant for; empty for any
}

func (w write) custom() bool { return w.key >= "w" }

// reply is what the client is told.
type reply struct {
	code               int
	uid, value, status string
	revision           int64
	resourceVersion    string
}

// object is the state of one key in the model. The greatest revision that it ever had stays when it is gone.
type object struct {
	exists             bool
	uid, value, status string
	revision           int64
	last               int64
}

// perObject is the model: what a single object, alone in the world, may answer.
var perObject = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(write).key
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init:              func() any { return object{} },
	Step:              func(state, input, output any) (bool, any) { return state.(object).step(input.(write), output.(reply)) },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// step reports whether the object may answer so, and what it is afterwards.
func (o object) step(w write, r reply) (bool, object) {
	stale := w.revision != "" && w.revision != strconv.FormatInt(o.revision, 10)
	other := w.uid != "" && w.uid != o.uid
	switch {
	case w.verb == "create" && o.exists:
		return r.code == http.StatusConflict, o
	case w.verb == "create" || w.verb == "apply" && !o.exists:
		born := object{exists: true, uid: r.uid, value: w.value, revision: r.revision, last: r.revision}
		return r.code == http.StatusCreated && r.shows(born) && r.uid != o.uid && r.revision > o.last, born
	case !o.exists:
		return r.code == http.StatusNotFound, o
	case w.verb == "get":
		return r.code == http.StatusOK && r.shows(o), o
	case other:
		return r.code == http.StatusConflict, o
	case w.custom() && w.revision == "" && (w.verb == "update" || w.verb == "setStatus"):
		return r.code == http.StatusUnprocessableEntity, o // the kind wants a revision
	case stale:
		return r.code == http.StatusConflict, o
	case w.verb == "delete":
		return r.code == http.StatusOK, object{uid: o.uid, last: o.last}
	}
	written := o
	if w.verb == "setStatus" {
		written.status = w.value
	} else {
		written.value = w.value
	}
	// A write that changes nothing gets no revision, but an apply may still change who owns what.
	if same := written == o; !same || w.verb == "apply" && r.revision > o.last {
		written.revision, written.last = r.revision, r.revision
		if r.revision <= o.last {
			return false, o
		}
	}
	return r.code == http.StatusOK && r.shows(written), written
}

// shows reports whether the answer is the object.
func (r reply) shows(o object) bool {
	return r.uid == o.uid && r.value == o.value && r.status == o.status && r.revision == o.revision
}

// TestLinearizable lets clients write to the same few objects at once, over a connection and in process, and checks that each
// object behaves as if they had done so one after another.
func TestLinearizable(t *testing.T) {
	for _, way := range []string{"connection", "round trips"} {
		t.Run(way, func(t *testing.T) {
			h := handler.New(newLocal(t))
			client, host := &http.Client{Transport: h}, "http://server.invalid"
			if way == "connection" {
				server := httptest.NewServer(h)
				t.Cleanup(server.Close)
				client, host = server.Client(), server.URL
			}
			history := compete(t.Context(), client, host, 8, 400)
			checkVerbs(t, history)
			result, info := porcupine.CheckOperationsVerbose(perObject, history, time.Minute)
			if result != porcupine.Ok {
				file := filepath.Join(t.ArtifactDir(), "history.html")
				if err := porcupine.VisualizePath(perObject, info, file); err != nil {
					t.Error(err)
				}
				t.Errorf("not linearizable (%s): see %s", result, file)
			}
		})
	}
}

// checkVerbs checks that a history is worth checking: every verb succeeded, and every write that can be refused was.
func checkVerbs(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	codes := map[string]map[int]int{}
	for _, operation := range history {
		w := operation.Input.(write)
		verb := w.verb
		if w.custom() {
			verb += " of a custom resource"
		}
		if codes[verb] == nil {
			codes[verb] = map[int]int{}
		}
		codes[verb][operation.Output.(reply).code]++
	}
	for verb, seen := range codes {
		if seen[200]+seen[201] == 0 || !strings.HasPrefix(verb, "get") && !strings.HasPrefix(verb, "apply") && seen[409] == 0 {
			t.Errorf("%s: the codes are %v", verb, seen)
		}
	}
}

// compete runs clients that each send a number of requests, and returns what happened.
func compete(ctx context.Context, client *http.Client, host string, clients, requests int) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	begin := time.Now()
	for id := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(id), 1))
			seen := map[string]reply{} // what the client knows of each object
			for n := range requests {
				w := choose(random, seen, strconv.Itoa(id*1_000_000+n))
				w.client = id
				call := time.Since(begin)
				r := send(ctx, client, host, w)
				returned := time.Since(begin)
				if r.uid != "" {
					seen[w.key] = r
				}
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: id, Input: w, Call: call.Nanoseconds(), Output: r, Return: returned.Nanoseconds(),
				})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history
}

// choose draws a request. What it is made from may be stale.
func choose(random *rand.Rand, seen map[string]reply, value string) write {
	w := write{key: []string{"a", "b", "w", "x"}[random.IntN(4)], value: value}
	known := seen[w.key]
	verbs := []string{"get", "get", "create", "update", "update", "update", "patch", "patch", "apply", "delete"}
	if w.custom() {
		verbs = append(verbs, "setStatus", "setStatus", "setStatus")
	}
	w.verb = verbs[random.IntN(len(verbs))]
	if random.IntN(4) == 0 && known.value != "" {
		w.value = known.value // perhaps nothing changes
	}
	switch w.verb {
	case "update", "setStatus", "patch", "delete":
		if random.IntN(3) > 0 {
			w.revision = known.resourceVersion
		}
		if w.verb != "patch" && random.IntN(2) == 0 {
			w.uid = known.uid
		}
	}
	return w
}

// exchange returns how a write is sent.
func (w write) exchange() (method, path, contentType, body string) {
	path, contentType = mapsPath, "application/json"
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s},"data":{"k":%q}}`
	if w.custom() {
		path = widgetsPath
		object = `{"apiVersion":"golden.example.com/v1","kind":"Widget","metadata":{"name":%q%s},"spec":{"size":%s}}`
	}
	item := path + "/" + w.key
	made := ""
	if w.uid != "" {
		made = fmt.Sprintf(`,"uid":%q`, w.uid)
	}
	if w.revision != "" {
		made += fmt.Sprintf(`,"resourceVersion":%q`, w.revision)
	}
	whole := fmt.Sprintf(object, w.key, made, w.value)
	switch w.verb {
	case "create":
		return http.MethodPost, path, contentType, whole
	case "update":
		return http.MethodPut, item, contentType, whole
	case "setStatus":
		return http.MethodPut, item + "/status", contentType,
			strings.Replace(whole, `"spec":{"size"`, `"spec":{"size":1},"status":{"observedGeneration"`, 1)
	case "patch":
		return http.MethodPatch, item, "application/merge-patch+json", whole
	case "apply":
		return http.MethodPatch, item + "?force=true&fieldManager=client-" + strconv.Itoa(w.client), "application/apply-patch+yaml", whole
	case "delete":
		preconditions := metav1.Preconditions{}
		if w.uid != "" {
			preconditions.UID = new(types.UID(w.uid))
		}
		if w.revision != "" {
			preconditions.ResourceVersion = &w.revision
		}
		data, _ := json.Marshal(metav1.DeleteOptions{Preconditions: &preconditions}) // plain fields cannot fail
		return http.MethodDelete, item, contentType, string(data)
	default:
		return http.MethodGet, item, contentType, ""
	}
}

// send sends a request.
func send(ctx context.Context, client *http.Client, host string, w write) reply {
	method, path, contentType, body := w.exchange()
	r, err := http.NewRequestWithContext(ctx, method, host+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := client.Do(r)
	if err != nil {
		panic(err)
	}
	defer func() { _ = response.Body.Close() }()
	var got struct {
		Kind     string
		Metadata struct{ UID, ResourceVersion string }
		Data     struct{ K string }
		Spec     struct{ Size json.Number }
		Status   any // of a Status a text
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		panic(err)
	}
	status := ""
	if fields, ok := got.Status.(map[string]any); ok {
		status = fmt.Sprintf("%.0f", fields["observedGeneration"])
	}
	revision, _ := strconv.ParseInt(got.Metadata.ResourceVersion, 10, 64) // a Status has none
	return reply{
		code: response.StatusCode, uid: got.Metadata.UID, value: got.Data.K + got.Spec.Size.String(), status: status,
		revision: revision, resourceVersion: got.Metadata.ResourceVersion,
	}
}

// faulty is a backend with a planted bug.
type faulty struct {
	*handler.Local
	do func(local *handler.Local, req *apiserver.Request) *apiserver.Response
}

func (f *faulty) Do(_ context.Context, req *apiserver.Request) (*apiserver.Response, error) {
	return f.do(f.Local, req), nil
}

// perform executes a request as it should be.
func perform(local *handler.Local, req *apiserver.Request) *apiserver.Response {
	response, err := local.Do(context.Background(), req)
	if err != nil {
		panic(err)
	}
	return response
}

// planted are bugs to put behind the handler.
var planted = map[string]func(local *handler.Local, req *apiserver.Request) *apiserver.Response{
	"a conflict is dropped": func(local *handler.Local, req *apiserver.Request) *apiserver.Response {
		if req.Verb == schedule.Update && !req.Kind.Custom() {
			req.Object.SetResourceVersion("")
		}
		return perform(local, req)
	},
	"a read is stale":                staleReads(),
	"a patch reads and then writes":  tornPatch,
	"a status write writes the spec": statusWritesAll,
	"a delete forgets its preconditions": func(local *handler.Local, req *apiserver.Request) *apiserver.Response {
		req.Delete.Preconditions = nil
		return perform(local, req)
	},
	"a create finds what exists": func(local *handler.Local, req *apiserver.Request) *apiserver.Response {
		response := perform(local, req)
		if req.Verb == schedule.Create && response.Code == http.StatusConflict {
			response = perform(local, &apiserver.Request{
				Verb: schedule.Get, Kind: req.Kind, Namespace: req.Namespace, Name: req.Object.GetName(),
			})
		}
		return response
	},
}

// staleReads answers some reads with what the one before was answered with.
func staleReads() func(local *handler.Local, req *apiserver.Request) *apiserver.Response {
	var mu sync.Mutex
	last := map[string]*apiserver.Response{}
	return func(local *handler.Local, req *apiserver.Request) *apiserver.Response {
		response := perform(local, req)
		if req.Verb != schedule.Get || response.Err != nil {
			return response
		}
		mu.Lock()
		defer mu.Unlock()
		if before := last[req.Name]; before != nil && before.Revision%3 == 0 {
			response = before
		}
		last[req.Name] = response
		return response
	}
}

// tornPatch makes of a patch a read and a write, between which others may write.
func tornPatch(local *handler.Local, req *apiserver.Request) *apiserver.Response {
	if req.Verb != schedule.Patch || req.PatchType != types.MergePatchType || req.Kind.Custom() {
		return perform(local, req)
	}
	dry := *req
	dry.DryRun = true
	patched := perform(local, &dry)
	if patched.Err != nil {
		return patched
	}
	runtime.Gosched()
	update := *req
	update.Verb, update.Object = schedule.Update, patched.Object.DeepCopyObject().(apiserver.Object)
	update.Object.SetResourceVersion("")
	return perform(local, &update)
}

// statusWritesAll makes of a write of the status one of the object, too.
func statusWritesAll(local *handler.Local, req *apiserver.Request) *apiserver.Response {
	if req.Verb != schedule.Update || req.Subresource != "status" {
		return perform(local, req)
	}
	main := *req
	main.Subresource, main.Object = "", req.Object.DeepCopyObject().(apiserver.Object)
	response := perform(local, &main)
	if response.Err != nil {
		return response
	}
	req.Object.SetResourceVersion(response.Object.GetResourceVersion())
	return perform(local, req)
}

// TestLinearizableCanaries plants bugs behind the handler: the check above must find each of them.
func TestLinearizableCanaries(t *testing.T) {
	for name, do := range planted {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: handler.New(&faulty{Local: newLocal(t), do: do})}
			const tries = 5 // of a race
			for range tries {
				history := compete(t.Context(), client, "http://server.invalid", 8, 200)
				if porcupine.CheckOperationsTimeout(perObject, history, 10*time.Second) == porcupine.Illegal {
					return
				}
			}
			t.Errorf("not found in %d histories", tries)
		})
	}
}
