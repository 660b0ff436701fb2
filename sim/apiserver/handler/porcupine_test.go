package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// write is what a client asks for; everything is about the one object of its key.
type write struct {
	key, verb string // "get", "create", "update", "patch" or "delete"
	value     string // to be stored
	revision  string // that an update was made from; empty to overwrite
	uid       string // that an update or a delete is meant for; empty for any
}

// reply is what the client is told.
type reply struct {
	code            int
	uid, value      string
	revision        int64
	resourceVersion string
}

// object is the state of one key in the model. The greatest revision that it ever had stays when it is gone.
type object struct {
	exists     bool
	uid, value string
	revision   int64
	last       int64
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
	written := object{exists: true, uid: r.uid, value: r.value, revision: r.revision, last: r.revision}
	switch {
	case w.verb == "create" && o.exists:
		return r.code == http.StatusConflict, o
	case w.verb == "create":
		return r.code == http.StatusCreated && r.value == w.value && r.uid != o.uid && r.revision > o.last, written
	case !o.exists:
		return r.code == http.StatusNotFound, o
	case w.verb == "get":
		return r.code == http.StatusOK && r.uid == o.uid && r.value == o.value && r.revision == o.revision, o
	case w.verb != "patch" && (other || w.verb == "update" && stale):
		return r.code == http.StatusConflict, o
	case w.verb == "delete":
		return r.code == http.StatusOK, object{uid: o.uid, last: o.last}
	case w.value == o.value: // nothing changes
		return r.code == http.StatusOK && r.revision == o.revision && r.uid == o.uid, o
	default:
		return r.code == http.StatusOK && r.value == w.value && r.uid == o.uid && r.revision > o.last, written
	}
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
				w := choose(random, seen, fmt.Sprintf("%d-%d", id, n))
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
	w := write{key: []string{"a", "b", "c"}[random.IntN(3)], value: value}
	known := seen[w.key]
	w.verb = []string{"get", "get", "create", "update", "update", "update", "patch", "patch", "delete"}[random.IntN(9)]
	if random.IntN(4) == 0 && known.value != "" {
		w.value = known.value // perhaps nothing changes
	}
	if w.verb == "update" && random.IntN(3) > 0 {
		w.revision = known.resourceVersion
	}
	if (w.verb == "update" || w.verb == "delete") && random.IntN(2) == 0 {
		w.uid = known.uid
	}
	return w
}

// send sends a request.
func send(ctx context.Context, client *http.Client, host string, w write) reply {
	path, method, body := host+mapsPath+"/"+w.key, http.MethodGet, ""
	contentType := "application/json"
	object := func() string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":%q,"resourceVersion":%q},"data":{"k":%q}}`,
			w.key, w.uid, w.revision, w.value)
	}
	switch w.verb {
	case "create":
		path, method, body = host+mapsPath, http.MethodPost, object()
	case "update":
		method, body = http.MethodPut, object()
	case "patch":
		method, body, contentType = http.MethodPatch, fmt.Sprintf(`{"data":{"k":%q}}`, w.value), "application/merge-patch+json"
	case "delete":
		method = http.MethodDelete
		if w.uid != "" {
			body = fmt.Sprintf(`{"preconditions":{"uid":%q}}`, w.uid)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := client.Do(r)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var got struct {
		Kind     string
		Metadata struct{ UID, ResourceVersion string }
		Data     struct{ K string }
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		panic(err)
	}
	revision, _ := strconv.ParseInt(got.Metadata.ResourceVersion, 10, 64) // a Status has none
	return reply{
		code: response.StatusCode, uid: got.Metadata.UID, value: got.Data.K, revision: revision,
		resourceVersion: got.Metadata.ResourceVersion,
	}
}
