package recorded

import (
	"context"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// Simulated is our server behind HTTP, with all that a real one does by default.
type Simulated struct {
	http.RoundTripper
	backend *handler.Local
}

// NewSimulated returns a server that is empty.
func NewSimulated(kinds *apiserver.Kinds, clock apiserver.Clock) *Simulated {
	server := apiserver.NewServer(kinds, clock)
	server.ProtectClaims()
	server.ProtectVolumes()
	server.TaintNodes()
	backend := handler.NewLocal(server)
	h := handler.New(backend)
	h.Authorizer = noRoles()
	return &Simulated{RoundTripper: h, backend: backend}
}

// noRoles are the rights of the users of the recordings: but for the administrator nobody has a role of their own.
var noRoles = sync.OnceValue(func() *rbac.Policy {
	policy, err := rbac.New()
	if err != nil {
		panic(err) // of no roles at all
	}
	return policy
})

// Prepare implements [Server].
func (s *Simulated) Prepare(_ context.Context, c *Case) (err error) {
	s.backend.Use(func(server *apiserver.Server) {
		err = server.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace()}})
		if strings.HasSuffix(c.Name, "-etcd") {
			server.WithoutWatchCache()
		}
		if c.ReadsManagedFields() {
			server.TrackManagedFields()
		}
	})
	return err
}

// Expire implements [Server]: life goes on elsewhere, and history is compacted.
func (s *Simulated) Expire(context.Context, *Case) (err error) {
	s.backend.Use(func(server *apiserver.Server) {
		err = server.Load(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: metav1.NamespaceSystem}})
		server.Compact(server.Revision())
	})
	return err
}

// TrackManagedFields makes the server keep managedFields from now on, as it does for a case that reads them.
func (s *Simulated) TrackManagedFields() { s.backend.Use((*apiserver.Server).TrackManagedFields) }
