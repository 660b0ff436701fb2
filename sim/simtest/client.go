package simtest

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// NewClient returns a client of a simulated API server that holds the objects, for a unit test of anything that takes a
// client.Client. It stands in for controller-runtime's fake client and answers as a kube-apiserver of version 1.36 does:
// with its defaults, its validation, its conflicts and its errors. The scheme is client-go's, to which an operator's types
// are added, or that of [NewClientBuilder].
//
//	c := simtest.NewClient(t, deployment, secret)
//	r := &Reconciler{Client: c}
//
// The objects are stored as they are, with status, finalizers and what else they have, see [ClientBuilder.WithObjects]. The client
// may be used by several goroutines at once, and inside of a synctest bubble. It ends its watches when the test ends. UIDs and
// generated names follow from what they are for, and so are the same in every run of a test; times are those of time.Now.
// What of the test's requests is not modelled is logged when it ends.
func NewClient(t TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	return NewClientBuilder(t).WithObjects(objects...).Build()
}

// ClientBuilder builds a client of a simulated API server. Its methods are those of the builder of controller-runtime's fake
// client, where a real server leaves something to choose, and some more.
type ClientBuilder struct {
	t             TB
	scheme        *runtime.Scheme
	mapper        meta.RESTMapper
	version       apiserver.Version
	objects       []runtime.Object
	definitions   definitions
	status        []client.Object // that have the subresource
	noStatus      []client.Object // that do not
	unchecked     []client.Object
	indexes       []index
	intercept     *interceptor.Funcs
	namespaces    []string
	everywhere    bool // namespaces are made when they are needed
	managedFields bool
	owner         string
	clock         apiserver.Clock
}

// index is an index over a field.
type index struct {
	obj     runtime.Object
	field   string
	extract client.IndexerFunc
}

// NewClientBuilder returns a builder for a client that takes more than objects: what fake.NewClientBuilder() is, with the test.
func NewClientBuilder(t TB) *ClientBuilder {
	return &ClientBuilder{t: t, version: apiserver.V136}
}

// WithScheme sets the scheme, which knows the types that are used. It is client-go's scheme.Scheme if not set, or nil.
func (b *ClientBuilder) WithScheme(scheme *runtime.Scheme) *ClientBuilder {
	b.scheme = scheme
	return b
}

// WithRESTMapper sets the client's REST mapper. It also says which resource a kind without a definition has, and whether it has
// namespaces. If not set, the mapper is that of the kinds that the server knows.
func (b *ClientBuilder) WithRESTMapper(mapper meta.RESTMapper) *ClientBuilder {
	b.mapper = mapper
	return b
}

// WithVersion sets the version of Kubernetes that the server behaves like, apiserver.V136 if not set.
func (b *ClientBuilder) WithVersion(version apiserver.Version) *ClientBuilder {
	b.version = version
	return b
}

// WithObjects adds objects that the server holds from the start. They are stored as they are, unlike those of a Create: status,
// generation, finalizers, UID, creationTimestamp and, of one that finalizers keep, deletionTimestamp stay. What they do not say
// gets its default; the resourceVersion is the server's. They must be valid, and their namespaces are made. An owner reference
// without a uid gets that of the object it names. The objects are copied.
func (b *ClientBuilder) WithObjects(objects ...client.Object) *ClientBuilder {
	for _, obj := range objects {
		b.objects = append(b.objects, obj)
	}
	return b
}

// WithLists adds the items of lists to the objects that the server holds from the start.
func (b *ClientBuilder) WithLists(lists ...client.ObjectList) *ClientBuilder {
	for _, list := range lists {
		b.objects = append(b.objects, list)
	}
	return b
}

// WithRuntimeObjects adds objects, and items of lists, to those that the server holds from the start.
func (b *ClientBuilder) WithRuntimeObjects(objects ...runtime.Object) *ClientBuilder {
	b.objects = append(b.objects, objects...)
	return b
}

// WithCRDs adds custom resources by the definitions in YAML files, by their paths or those of folders relative to the package's
// folder: what envtest's CRDDirectoryPaths are. Objects of such a kind are pruned, defaulted and validated. In a folder the
// files that end in .yaml, .yml and .json count, and of those only the documents that are CustomResourceDefinitions.
func (b *ClientBuilder) WithCRDs(paths ...string) *ClientBuilder {
	b.definitions.paths = append(b.definitions.paths, paths...)
	return b
}

// WithStatusSubresource says that custom resources have the subresource status. It is there for tests that come from the fake
// client, where nothing else says so: here, built-ins have the subresources they have, custom resources with a definition
// those that it gives, and the others a status subresource if their type has a status. The test fails where the kind of
// one of the objects has none.
func (b *ClientBuilder) WithStatusSubresource(objects ...client.Object) *ClientBuilder {
	b.status = append(b.status, objects...)
	return b
}

// WithoutStatusSubresource says that custom resources without a definition have no subresource status, though their types have
// a status: an Update writes it like any other field.
func (b *ClientBuilder) WithoutStatusSubresource(objects ...client.Object) *ClientBuilder {
	b.noStatus = append(b.noStatus, objects...)
	return b
}

// WithoutValidation lets objects of these kinds be invalid, which no server does but whose fixtures the fake client let be so. Only
// their metadata is still validated. It is a way station for tests that come from there, and is logged as not modelled.
func (b *ClientBuilder) WithoutValidation(objects ...client.Object) *ClientBuilder {
	b.unchecked = append(b.unchecked, objects...)
	return b
}

// WithIndex lets the client's lists select objects of the kind of obj by a field, as those of a manager's cache do that has the
// index. A field without an index is the server's to judge, which knows metadata.name and few others.
func (b *ClientBuilder) WithIndex(obj runtime.Object, field string, extract client.IndexerFunc) *ClientBuilder {
	b.indexes = append(b.indexes, index{obj, field, extract})
	return b
}

// WithInterceptorFuncs lets functions stand before the client, to answer with an error for instance.
func (b *ClientBuilder) WithInterceptorFuncs(funcs interceptor.Funcs) *ClientBuilder {
	b.intercept = &funcs
	return b
}

// WithNamespaces adds empty namespaces. There are always default, kube-system, kube-public, kube-node-lease, and those of the
// objects.
func (b *ClientBuilder) WithNamespaces(names ...string) *ClientBuilder {
	b.namespaces = append(b.namespaces, names...)
	return b
}

// WithNamespacesOnDemand makes the namespace that something is created in if it is not there. A real server answers with 404.
func (b *ClientBuilder) WithNamespacesOnDemand() *ClientBuilder {
	b.everywhere = true
	return b
}

// WithReturnManagedFields lets the client see metadata.managedFields, as all clients of a real server do. They are worked out on
// every write then, which costs more than all the rest of it.
func (b *ClientBuilder) WithReturnManagedFields() *ClientBuilder {
	b.managedFields = true
	return b
}

// WithFieldOwner sets the field manager of writes that name none. It is the name of the test binary if not set, as it is the
// program's for a real client.
func (b *ClientBuilder) WithFieldOwner(owner string) *ClientBuilder {
	b.owner = owner
	return b
}

// WithClock sets what time it is for the server, time.Now if not set, or nil.
func (b *ClientBuilder) WithClock(now func() time.Time) *ClientBuilder {
	b.clock = now
	return b
}

// Build returns the client. It fails the test if what was given cannot be.
func (b *ClientBuilder) Build() client.WithWatch {
	b.t.Helper()
	return b.Server().Client()
}

// Server returns the server with its client, for tests that look behind it or reach it in another way. It fails the test if what was
// given cannot be.
func (b *ClientBuilder) Server() *Server {
	b.t.Helper()
	if b.scheme == nil {
		b.scheme = clientscheme.Scheme
	}
	if b.clock == nil {
		b.clock = time.Now
	}
	s, err := newServer(b)
	if err != nil {
		b.t.Fatalf("simtest: %v", err)
	}
	b.t.Cleanup(s.close)
	return s
}

// hasStatus reports whether a Go type has a status.
func hasStatus(obj runtime.Object) bool {
	t := reflect.TypeOf(obj).Elem()
	if t.Kind() != reflect.Struct {
		return true // of an object of which nothing is known
	}
	_, ok := t.FieldByName("Status")
	return ok
}

// isNil reports whether there is no object, though a type may be known.
func isNil(obj runtime.Object) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// flatten returns the objects that were given, those of lists one by one.
func (b *ClientBuilder) flatten() ([]client.Object, error) {
	var all []client.Object
	for _, given := range b.objects {
		if isNil(given) {
			return nil, fmt.Errorf("an object that is given is nil (%T): leave it out", given)
		}
		members := []runtime.Object{given}
		if meta.IsListType(given) {
			var err error
			if members, err = meta.ExtractList(given); err != nil {
				return nil, fmt.Errorf("%T: %w", given, err)
			}
		}
		for _, member := range members {
			obj, ok := member.(client.Object)
			if !ok || isNil(member) {
				return nil, fmt.Errorf("a %T is no object that a server holds", member)
			}
			all = append(all, obj)
		}
	}
	return all, nil
}
