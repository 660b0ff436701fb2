package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
	"github.com/stalemate-dev/stalemate/sim/live/assets"
	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

// server is a real API server.
type server struct {
	http.RoundTripper
	host string
}

// start starts a real API server that has the custom resources of some files, or skips the test.
func start(t testing.TB, options controlplane.Options, definitions ...string) *server {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), options)
	if errors.Is(err, assets.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if len(definitions) > 0 {
		if _, err := envtest.InstallCRDs(plane.Config, envtest.CRDInstallOptions{Paths: definitions}); err != nil {
			t.Fatal(err)
		}
	}
	transport, err := rest.TransportFor(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{RoundTripper: transport, host: strings.TrimSuffix(plane.Config.Host, "/")}
}

// RoundTrip sends a request. A request that names no user agent goes without one, so that no manager of fields comes of it.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("User-Agent") == "" {
		r.Header["User-Agent"] = []string{""}
	}
	return s.RoundTripper.RoundTrip(r)
}

// Prepare implements [recorded.Server].
func (s *server) Prepare(ctx context.Context, c *recorded.Case) error {
	return s.namespace(ctx, c.Namespace())
}

// namespace creates a namespace.
func (s *server) namespace(ctx context.Context, name string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	code, answer, err := s.ask(ctx, http.MethodPost, "/api/v1/namespaces", body)
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("creating the namespace %s: %d %s", name, code, answer)
	}
	return err
}

// ask sends a request of the tests' own.
func (s *server) ask(ctx context.Context, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.host+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Expire implements [recorded.Server]: life goes on elsewhere. A server that is told to compact often does so by itself then.
func (s *server) Expire(ctx context.Context, c *recorded.Case) error {
	code, answer, err := s.ask(ctx, http.MethodPost, "/api/v1/namespaces/"+c.Namespace()+"/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"elsewhere"}}`)
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("creating a secret in %s: %d %s", c.Namespace(), code, answer)
	}
	return err
}
