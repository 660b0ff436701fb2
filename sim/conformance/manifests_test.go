package conformance

import (
	"net/http"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

// TestManifests has a real API server say what it thinks of the manifests that users are given for their CI: strictly, so that a
// field it does not know is an error.
func TestManifests(t *testing.T) {
	const namespace = "/namespaces/ci/"
	real := start(t, controlplane.Options{})
	if err := real.namespace(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	for _, manifest := range []struct{ file, path string }{
		{"claim.yaml", "/api/v1" + namespace + "persistentvolumeclaims"},
		{"job.yaml", "/apis/batch/v1" + namespace + "jobs"},
	} {
		content, err := os.ReadFile("../../docs/ci/" + manifest.file)
		if err != nil {
			t.Fatal(err)
		}
		body, err := yaml.YAMLToJSONStrict(content)
		if err != nil {
			t.Fatal(err)
		}
		code, answer, err := real.ask(t.Context(), http.MethodPost, manifest.path+"?fieldValidation=Strict", string(body))
		if err != nil || code != http.StatusCreated {
			t.Errorf("%s: %d %s %v", manifest.file, code, answer, err)
		}
	}
}
