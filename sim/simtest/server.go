package simtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Server is a simulated API server with a client, see [ClientBuilder.Server]. It may be used by several goroutines at once.
type Server struct {
	*handler.Local
	kinds  *clientKinds
	direct *client.Direct
	client ctrlclient.WithWatch

	owner, agent string
	everywhere   bool // namespaces are made when they are needed
	bare         bool // managedFields are not shown

	t        TB
	mu       sync.Mutex
	requests []Request
	gaps     map[string]bool
}

// Request is a request that the server has answered.
type Request struct {
	Verb                         schedule.Verb
	Kind                         string // as scenarios name it: "StatefulSet"
	Namespace, Name, Subresource string
	DryRun                       bool
	// Err is what it was answered with, nil on success.
	Err *apierrors.StatusError
}

// String returns the request on one line: "Update StatefulSet/status default/web: 409 Conflict".
func (r Request) String() string {
	text := string(r.Verb) + " " + r.Kind
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	switch key := (types.NamespacedName{Namespace: r.Namespace, Name: r.Name}); {
	case r.Name == "" && r.Namespace != "":
		text += " in " + r.Namespace
	case r.Name != "" && r.Namespace == "":
		text += " " + r.Name
	case r.Name != "":
		text += " " + key.String()
	}
	if r.DryRun {
		text += " (dry run)"
	}
	if r.Err != nil {
		text += fmt.Sprintf(": %d %s", r.Err.ErrStatus.Code, r.Err.ErrStatus.Reason)
	}
	return text
}

// newServer makes what a builder describes.
func newServer(b *ClientBuilder) (*Server, error) {
	table, err := b.definitions.table(b.version)
	if err != nil {
		return nil, err
	}
	server := apiserver.NewServer(table, b.clock)
	if b.managedFields {
		server.TrackManagedFields()
	}
	s := &Server{
		Local: handler.NewLocal(server), t: b.t, gaps: map[string]bool{},
		owner: b.owner, agent: rest.DefaultKubernetesUserAgent(), everywhere: b.everywhere, bare: !b.managedFields,
	}
	s.kinds = newClientKinds(s.Local, table, b.scheme, b.mapper)
	s.direct = client.NewDirect(s, s.kinds, b.scheme, s.gap)
	s.client = s.direct
	if b.intercept != nil {
		s.client = interceptor.NewClient(s.direct, *b.intercept)
	}
	if err := s.kinds.configure(b); err != nil {
		return nil, err
	}
	for _, i := range b.indexes {
		obj, ok := i.obj.(ctrlclient.Object)
		if !ok || isNil(obj) {
			return nil, fmt.Errorf("WithIndex: a %T is no object that a server holds", i.obj)
		}
		if i.extract == nil {
			return nil, fmt.Errorf("WithIndex: there is no function that extracts %q", i.field)
		}
		if err := s.direct.IndexField(context.Background(), obj, i.field, i.extract); err != nil {
			return nil, fmt.Errorf("WithIndex: %w", err)
		}
	}
	return s, s.load(b)
}

// load stores what the server holds from the start.
func (s *Server) load(b *ClientBuilder) error {
	objects, err := b.flatten()
	if err != nil {
		return err
	}
	given := make([]apiserver.Object, 0, len(objects)+len(b.namespaces))
	for _, name := range b.namespaces {
		ns := &corev1.Namespace{}
		ns.Name = name
		given = append(given, ns)
	}
	for _, obj := range objects {
		loaded, err := s.toLoad(obj, b.scheme, objects)
		if err != nil {
			return err
		}
		given = append(given, loaded)
	}
	s.Use(func(server *apiserver.Server) { err = server.LoadAll(given) })
	return err
}

// toLoad returns an object, of those that were given, as the server is to load it.
func (s *Server) toLoad(obj ctrlclient.Object, scheme *runtime.Scheme, given []ctrlclient.Object) (apiserver.Object, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	kind := s.kinds.ByGVK(gvk)
	if kind == nil {
		return nil, fmt.Errorf("%s %q: no server has this kind", gvk.Kind, obj.GetName())
	}
	if obj.GetNamespace() == "" {
		kind = s.kinds.withoutNamespaces(kind, given)
	}
	switch {
	case obj.GetName() == "":
		return nil, fmt.Errorf("a %s that is given has no name", gvk.Kind)
	case kind.Namespaced && obj.GetNamespace() == "":
		return nil, fmt.Errorf("%s %q has no namespace, and no server stores it like that: set one", gvk.Kind, obj.GetName())
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && kind.Graceful == nil:
		return nil, fmt.Errorf("%s %q has a deletionTimestamp but no finalizers, so that it would be gone: add one",
			gvk.Kind, obj.GetName())
	}
	if obj.GetObjectKind().GroupVersionKind() != gvk || !kind.Namespaced && obj.GetNamespace() != "" {
		obj = obj.DeepCopyObject().(ctrlclient.Object)
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if !kind.Namespaced {
			obj.SetNamespace("")
		}
	}
	return obj, nil
}

// Client returns the server's client. It is the same each time.
func (s *Server) Client() ctrlclient.WithWatch { return s.client }

// Config returns how anything that is built on client-go reaches the server: a clientset, a dynamic client, informers, a manager. No
// network is used. Of the kinds that neither are built in nor have a definition, those of the scheme are there, and those that the
// client has used.
func (s *Server) Config() *rest.Config {
	s.kinds.learnScheme()
	return handler.New(s).Config()
}

// Requests returns the requests that the server has answered, in order. Watches are not among them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Gaps returns what was asked for that is not modelled, sorted. While it is not empty, a pass means less than it seems. It is
// logged at the end of the test.
func (s *Server) Gaps() []string {
	s.mu.Lock()
	gaps := maps.Clone(s.gaps)
	s.mu.Unlock()
	s.Use(func(server *apiserver.Server) {
		for _, text := range server.Gaps() {
			gaps[text] = true
		}
	})
	return slices.Sorted(maps.Keys(gaps))
}

func (s *Server) gap(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps[text] = true
}

// close ends what the client has begun.
func (s *Server) close() {
	s.direct.Close()
	if gaps := s.Gaps(); len(gaps) > 0 {
		s.t.Logf("simtest: what this test used is not all modelled:\n- %s", strings.Join(gaps, "\n- "))
	}
}

// Kinds implements handler.Backend. The table that it returns does not change; a later one may have more kinds.
func (s *Server) Kinds() *apiserver.Kinds { return s.kinds.table.Load() }

// Do implements handler.Backend.
func (s *Server) Do(ctx context.Context, req *apiserver.Request) (*apiserver.Response, error) {
	req.UserAgent = cmp.Or(req.UserAgent, s.agent)
	if req.Verb == schedule.Create || req.Verb == schedule.Update || req.Verb == schedule.Patch {
		req.FieldManager = cmp.Or(req.FieldManager, s.owner)
	}
	if s.everywhere {
		if err := s.makeNamespace(req); err != nil {
			return nil, err
		}
	}
	done := Request{
		Verb: req.Verb, Kind: req.Kind.Name(), Namespace: req.Namespace, Name: req.Name, Subresource: req.Subresource,
		DryRun: req.DryRun || len(req.Delete.DryRun) > 0,
	}
	response, err := s.Local.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	if done.Name == "" && response.Object != nil {
		done.Name = response.Object.GetName()
	}
	done.Err = response.Err
	s.mu.Lock()
	s.requests = append(s.requests, done)
	s.mu.Unlock()
	if s.bare {
		s.strip(req.Kind, response)
	}
	return response, nil
}

// strip takes the managedFields out of a response.
func (s *Server) strip(kind *apiserver.Kind, response *apiserver.Response) {
	if response.Object != nil {
		response.Object = kind.WithoutManagedFields(response.Object)
	}
	for i, obj := range response.Items {
		response.Items[i] = kind.WithoutManagedFields(obj)
	}
}

// makeNamespace makes the namespace that a request is to create something in.
func (s *Server) makeNamespace(req *apiserver.Request) (err error) {
	if req.Namespace == "" || req.Verb != schedule.Create && req.Verb != schedule.Patch && req.Verb != schedule.Update {
		return nil
	}
	s.Use(func(server *apiserver.Server) {
		kind := server.Kinds().ByGVK(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if server.Get(kind, "", req.Namespace) == nil {
			ns := &corev1.Namespace{}
			ns.Name = req.Namespace
			err = server.Load(ns)
		}
	})
	return err
}

// Watch implements handler.Backend.
func (s *Server) Watch(ctx context.Context, req *apiserver.Request, initial bool) (*handler.Watch, error) {
	w, err := s.Local.Watch(ctx, req, initial)
	if err != nil || !s.bare {
		return w, err
	}
	for i, obj := range w.Objects {
		w.Objects[i] = req.Kind.WithoutManagedFields(obj)
	}
	if w.Events != nil {
		w.Events = bareEvents{w.Events, req.Kind}
	}
	return w, nil
}

// bareEvents are events of objects without managedFields.
type bareEvents struct {
	handler.Events
	kind *apiserver.Kind
}

// Next implements handler.Events.
func (e bareEvents) Next(ctx context.Context) (apiserver.Event, error) {
	event, err := e.Events.Next(ctx)
	if err == nil {
		event.Object = e.kind.WithoutManagedFields(event.Object)
		if event.Prev != nil {
			event.Prev = e.kind.WithoutManagedFields(event.Prev)
		}
	}
	return event, err
}
