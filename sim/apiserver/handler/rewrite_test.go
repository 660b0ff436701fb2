package handler_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// TestWrittenAgain creates an object and then writes it again, as kubectl replace and careless operators do: from its manifest
// without what the server added, and as it was read. Neither may change anything, or such an operator would never come to rest. A few
// kinds are first stored without a default that they are read with, so that this is the second time it is written again.
func TestWrittenAgain(t *testing.T) {
	snapshot := furnishedSnapshot(t)
	for _, s := range sounds {
		if s.method != http.MethodPost {
			continue
		}
		t.Run(s.path, func(t *testing.T) {
			h := handler.New(handler.NewLocal(snapshot.NewServer(time.Now)))
			created := s.exchange(t, h)
			if lacking[s.path] {
				touch := sound{method: http.MethodPatch, path: s.path + "/" + created.name(), contentType: "application/merge-patch+json", body: "{}"}
				touched := touch.exchange(t, h)
				if touched.revision() == created.revision() {
					t.Errorf("is stored with what it is read with")
				}
				created = touched
			}
			item := s
			item.method = http.MethodPut
			item.path += "/" + created.name()
			if reason, ok := notAgain[s.path]; ok {
				if again := item.exchange(t, h); again.Code == 200 {
					t.Errorf("may be written again, though %s", reason)
				}
			} else if again := item.exchange(t, h); again.Code != 200 || again.revision() != created.revision() {
				t.Errorf("from its manifest: %d %s, at revision %s, was at %s", again.Code, again.Message, again.revision(), created.revision())
			}
			item.body = string(created.raw)
			if again := item.exchange(t, h); again.Code != 200 || again.revision() != created.revision() {
				t.Errorf("as it was read: %d %s, at revision %s, was at %s", again.Code, again.Message, again.revision(), created.revision())
			}
		})
	}
}

// lacking are the kinds that are first stored without a default.
var lacking = map[string]bool{
	"/apis/batch/v1/namespaces/default/jobs": true, "/api/v1/namespaces/default/persistentvolumeclaims": true,
}

// notAgain are the kinds whose manifests cannot be written again, with the reason.
var notAgain = map[string]string{
	"/apis/batch/v1/namespaces/default/jobs":                                "its selector is immutable, and was generated",
	"/apis/coordination.k8s.io/v1/namespaces/default/leases":                "it takes no update without a revision",
	"/apis/policy/v1/namespaces/default/poddisruptionbudgets":               "it takes no update without a revision",
	"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "it takes no update without a revision",
	widgetsPath: "it takes no update without a revision",
}

// shown is an answer.
type shown struct {
	raw      []byte
	Code     int
	Message  string
	Metadata struct{ Name, ResourceVersion string }
}

func (s shown) name() string     { return s.Metadata.Name }
func (s shown) revision() string { return s.Metadata.ResourceVersion }

func (s sound) exchange(t *testing.T, h *handler.Handler) shown {
	t.Helper()
	response, err := h.RoundTrip(s.request(t, strings.Replace(s.body, `"resourceVersion":"",`, "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var got shown
	if got.raw, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got.raw, &got); err != nil {
		t.Fatal(err)
	}
	got.Code = response.StatusCode
	return got
}
