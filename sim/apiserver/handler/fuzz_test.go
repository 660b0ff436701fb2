package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// FuzzHandler sends malformed requests. Whatever it is sent, the handler answers, with a Status that fits the code; a code of
// 500 or more is one that a real server would give too.
func FuzzHandler(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed.method, seed.path, seed.contentType, seed.accept, seed.body)
	}
	snapshot := furnishedSnapshot(f)
	f.Fuzz(func(t *testing.T, method, path, contentType, accept, body string) {
		location := "http://server.invalid/" + strings.TrimPrefix(path, "/")
		r, err := http.NewRequestWithContext(t.Context(), method, location, strings.NewReader(body))
		if err != nil {
			t.Skip("no HTTP request")
		}
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", accept)
		synctest.Test(t, func(t *testing.T) {
			exchangeAny(t, r, handler.New(handler.NewLocal(snapshot.NewServer(time.Now))))
		})
	})
}

// exchangeAny sends a request, judges the answer and returns its code.
func exchangeAny(t *testing.T, r *http.Request, h *handler.Handler) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // of a watch; more than a read waits for its revision
	defer cancel()
	response, err := h.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if response.StatusCode < 400 || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if response.StatusCode >= 500 && !knownFailure(string(body)) {
			t.Errorf("%d: %s", response.StatusCode, body)
		}
		return response.StatusCode
	}
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("%d with no Status: %v: %s", response.StatusCode, err, body)
	}
	switch {
	case status.Kind != "Status" || status.Status != metav1.StatusFailure || int(status.Code) != response.StatusCode:
		t.Errorf("%d with another Status: %s", response.StatusCode, body)
	case status.Message == "":
		t.Errorf("%d without a word: %s", response.StatusCode, body)
	case response.StatusCode >= 500 && !knownFailure(status.Message):
		t.Errorf("%d: %s", response.StatusCode, body)
	}
	return response.StatusCode
}

// knownFailure reports whether a real server, too, answers with a code of 500 or more: its storage, its patch libraries and
// its reader of paths have errors that it does not tell from its own.
func knownFailure(message string) bool {
	for _, known := range []string{
		"failed to create RequestInfo",
		"resourceVersion: Invalid value",
		"resourceVersion should not be set on objects to be created",
		"strconv.ParseUint: parsing",
		"Too large resource version",
		"This request caused apiserver to panic",
		"request did not complete within requested timeout",
		"target.name: Required value", "target.kind: Unsupported value", // a binding: pkg/registry/core/pod/storage/storage.go
		"failed to create typed patch object", // an apply with fields that the kind does not have
		"to proper version",                   // an apply with a number that does not fit its field
		// strategic merge patches
		"invalid patch", "unable to find", "expected a ", "map: map[", "list of primitives", "cannot restore", "does not contain",
		"merge key", "unrecognized type", "no meta", "$setElementOrder list",
	} {
		if strings.Contains(message, known) {
			return true
		}
	}
	return false
}

// seed is a request to begin with.
type seed struct{ method, path, contentType, accept, body string }

// seeds returns the recorded requests, and those of the rules.
func seeds(f *testing.F) []seed {
	f.Helper()
	files, err := filepath.Glob("../testdata/api-1.36/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	var all []seed
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var c struct {
			Name    string
			Request struct {
				Verb, Path, ContentType string
				Body                    json.RawMessage
			}
		}
		if err := json.Unmarshal(data, &c); err != nil {
			f.Fatal(err)
		}
		path := strings.Replace(c.Request.Path, "g-"+c.Name, "default", 1)
		all = append(all, seed{c.Request.Verb, path, c.Request.ContentType, "application/json", string(c.Request.Body)})
	}
	for _, group := range [][]exchange{routes, media, bodies, parameters} {
		for _, e := range group {
			s := seed{contentType: "application/json", accept: "application/json"}
			s.method, s.path, _ = strings.Cut(e.send, " ")
			if s.body = e.body; len(s.body) > 1<<10 {
				continue
			}
			for line := range strings.Lines(e.header) {
				switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
				case "Content-Type":
					s.contentType = value
				case "Accept":
					s.accept = value
				}
			}
			all = append(all, s)
		}
	}
	return append(all,
		seed{"POST", "/api/v1/namespaces/default/pods/p/binding", "application/json", "", `{"target":{"name":"n"}}`},
		seed{"POST", "/api/v1/namespaces/default/pods/p/eviction", "application/json", "", `{}`},
		seed{"PUT", setsPath + "/web/scale", "application/json", "", `{"metadata":{"name":"web"},"spec":{"replicas":2}}`},
		seed{"GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""},
		seed{"GET", "/api/v1", "", "application/vnd.kubernetes.protobuf", ""},
		seed{"POST", mapsPath, "application/vnd.kubernetes.protobuf", "", "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x07\n\x05\n\x01p\x12\x00"},
	)
}
