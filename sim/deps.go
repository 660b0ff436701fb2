package sim

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deps is what a reconciler is built from.
type Deps struct {
	// Client reads from the informers' caches and writes to the server, as a manager's client does; with `reads: Live`
	// it reads from the server too.
	Client client.Client
	// Live reads from and writes to the server.
	Live client.Client
	// APIReader reads from the server, as a manager's API reader does.
	APIReader  client.Reader
	Scheme     *runtime.Scheme
	RESTMapper meta.RESTMapper
	Recorder   record.EventRecorder
	Log        logr.Logger
}
