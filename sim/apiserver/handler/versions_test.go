package handler_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// gauges returns a client of a server that has the custom resource with several versions.
func gauges(t *testing.T) *http.Client {
	t.Helper()
	text, err := os.ReadFile("../testdata/gauges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	kinds := apiserver.NewKinds(apiserver.V136)
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: handler.New(handler.NewLocal(apiserver.NewServer(kinds, time.Now)))}
}

// TestVersions reaches a custom resource with several versions over HTTP.
func TestVersions(t *testing.T) {
	client := gauges(t)
	const v1, beta = "/apis/example.com/v1/namespaces/default/gauges", "/apis/example.com/v1beta1/namespaces/default/gauges"
	const made = `{"apiVersion":"example.com/v1beta1","kind":"Gauge","metadata":{"name":"g"},"spec":{"replicas":2}}`
	const warning = `299 - "example.com/v1beta1 Gauge is deprecated; use example.com/v1 Gauge"`
	tests := []struct {
		name, method, path, contentType, body string
		code                                  int
		answer, warning                       string
	}{
		{"create", "POST", beta, "", made, 201, `"apiVersion":"example.com/v1beta1"`, warning},
		{"in the other version", "GET", v1 + "/g", "", "", 200, `"apiVersion":"example.com/v1"`, ""},
		{"list", "GET", v1, "", "", 200, `"kind":"GaugeList"`, ""},
		{"a body of another version", "POST", v1, "", made, 400, "the API version in the data (example.com/v1beta1) does not match", ""},
		{"a version that is not served", "GET", "/apis/example.com/v1alpha1/namespaces/default/gauges", "", "", 404, "404 page not found", ""},
		{"a subresource of one version only", "PUT", beta + "/g/status", "", made, 404, `gauges.example.com \"g\" not found`, ""},
		{"scale", "GET", v1 + "/g/scale", "", "", 200, `"spec":{"replicas":2}`, ""},
		{"change the scale", "PUT", v1 + "/g/scale", "",
			`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"g"},"spec":{"replicas":3}}`, 200, `"spec":{"replicas":3}`, ""},
		{"a scale that cannot be", "PATCH", v1 + "/g/scale", "application/merge-patch+json", `{"spec":{"replicas":-1}}`, 422,
			`should be a non-negative integer`, ""},
		{"strategic merge patch of a scale", "PATCH", v1 + "/g/scale", "application/strategic-merge-patch+json", `{}`, 415,
			`the body of the request was in an unknown format`, ""},
		{"delete a scale", "DELETE", v1 + "/g/scale", "", "", 405, `MethodNotAllowed`, ""},
		{"the versions", "GET", "/apis/example.com", "", "", 200, `"preferredVersion":{"groupVersion":"example.com/v1"`, ""},
		{"the resources", "GET", "/apis/example.com/v1", "", "", 200, `"categories":["all"]`, ""},
		{"the definition", "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.example.com", "", "", 200,
			`"type":"Established"`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), test.method, "http://server.invalid"+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if test.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if test.contentType != "" {
				r.Header.Set("Content-Type", test.contentType)
			}
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.code || !strings.Contains(string(body), test.answer) {
				t.Errorf("answered with %d: %s", response.StatusCode, body)
			}
			if have := response.Header.Get("Warning"); test.code < 300 && have != test.warning {
				t.Errorf("warned of %q, want %q", have, test.warning)
			}
		})
	}
}
