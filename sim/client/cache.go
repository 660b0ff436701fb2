package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// informers are a process's informers. There is one for each kind and form in which the program holds its objects: typed,
// unstructured and metadata-only objects of one kind come from informers of their own, as in controller-runtime. Those
// that are asked for before the manager starts get their initial list when it does, in the order they were asked for.
type informers struct {
	env   *sim.Env
	codec *codec
	adds  *addBuffer
	begun chan struct{} // closed when the manager has started what was asked for before

	mu      sync.Mutex
	started bool
	entries map[informerKey]*informerEntry
	order   []*informerEntry // in which they were asked for
	missing []error          // what was asked for that the server does not have
	handles int
}

type informerKey struct {
	kind *apiserver.Kind
	form reflect.Type
}

// informerEntry is an informer that has been asked for.
type informerEntry struct {
	informerKey
	ready    chan struct{} // closed when it has its initial list, or an error
	informer *sim.Informer // nil before it has started
	err      error
	removed  bool
	indexes  map[string]*index
	handlers []*registration
}

func newInformers(env *sim.Env, codec *codec, adds *addBuffer) *informers {
	return &informers{
		env: env, codec: codec, adds: adds,
		begun: make(chan struct{}), entries: map[informerKey]*informerEntry{},
	}
}

// begin starts the informers that were asked for before the manager was started.
func (i *informers) begin() {
	i.mu.Lock()
	i.started = true
	asked := i.order
	i.mu.Unlock()
	for _, entry := range asked {
		i.start(entry)
	}
	close(i.begun)
}

// entry returns the informer for the form of the model, and starts it if it is asked for for the first time.
func (i *informers) entry(kind *apiserver.Kind, model client.Object) (entry *informerEntry, started bool) {
	key := informerKey{kind, reflect.TypeOf(model)}
	i.mu.Lock()
	entry, ok := i.entries[key]
	if !ok {
		entry = &informerEntry{informerKey: key, ready: make(chan struct{}), indexes: map[string]*index{}}
		i.entries[key] = entry
		i.order = append(i.order, entry)
	}
	started = i.started
	i.mu.Unlock()
	switch {
	case !started || ok:
	case i.env.Restricted(): // it may take for ever, and whoever asks need not wait that long
		i.env.Go(func() { i.start(entry) })
	default:
		i.start(entry)
	}
	return entry, started
}

// start gives an informer its initial list, and lets the handlers that it has already handle it.
func (i *informers) start(entry *informerEntry) {
	defer close(entry.ready)
	entry.err = errors.New("the process has ended") // and this goroutine with it, if the call below does not return
	informer, err := i.env.Informer(context.Background(), entry.kind, formName(entry.form), cache.Selector{})
	entry.err = err
	if err != nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	entry.informer = informer
	for _, r := range entry.handlers {
		i.env.Go(func() { _ = i.register(r) })
	}
}

// register adds a handler to an informer that has started, and waits until it has handled the initial list.
func (i *informers) register(r *registration) error {
	inner, err := r.entry.informer.AddHandler(r.ctx, r.name, r.handle)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r.inner = inner
	if r.removed {
		inner.Remove()
	}
	close(r.done)
	return nil
}

// explain adds to the error of a runnable why an informer could not be had: a controller only says that it has waited for one.
func (i *informers) explain(err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.missing) == 0 {
		return err
	}
	return fmt.Errorf("%w (there is no informer: %w)", err, i.missing[0])
}

// synced waits for the informer's initial list.
func (e *informerEntry) synced(ctx context.Context) error {
	if !await(ctx, e.ready) {
		return apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for %s Informer to sync", e.form), 0)
	}
	return e.err
}

// await waits for a channel to be closed, and reports whether it was before the context ended.
func await(ctx context.Context, done <-chan struct{}) bool {
	if isClosed(done) {
		return true
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// formName tells informers of one kind apart by the form of their objects.
func formName(form reflect.Type) string {
	switch form {
	case reflect.TypeFor[*unstructured.Unstructured]():
		return "unstructured"
	case reflect.TypeFor[*metav1.PartialObjectMetadata]():
		return "metadata"
	default:
		return ""
	}
}

// cacheHandle is the process's cache, under a number. The builder asks the manager for its cache once for each source it
// makes, in order, so that the number says which source a handler belongs to, whatever order their goroutines run in.
type cacheHandle struct {
	*informers
	number int
}

var _ ctrlcache.Cache = &cacheHandle{}

func (i *informers) handle() *cacheHandle {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handles++
	return &cacheHandle{i, i.handles}
}

// reader returns the informer that answers a read of the model's kind and form, when it has its initial list.
func (h *cacheHandle) reader(ctx context.Context, kind *apiserver.Kind, model client.Object) (*informerEntry, error) {
	entry, started := h.entry(kind, model)
	if !started {
		return nil, &ctrlcache.ErrCacheNotStarted{}
	}
	if err := entry.synced(ctx); err != nil {
		return nil, err
	}
	return entry, nil
}

// Get implements cache.Cache; pkg/cache/internal/cache_reader.go.
func (h *cacheHandle) Get(ctx context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	kind, err := h.codec.kindOf(out)
	if err != nil {
		return err
	}
	entry, err := h.reader(ctx, kind, out)
	if err != nil {
		return err
	}
	key.Namespace = scoped(kind, key.Namespace)
	stored, err := h.env.CachedGet(ctx, entry.informer, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	if stored == nil {
		// A cache's NotFound names the kind where a server's names the resource.
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
	}
	return h.codec.copyInto(kind, stored, out, true)
}

// List implements cache.Cache.
func (h *cacheHandle) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	kind, err := h.codec.kindOf(out)
	if err != nil {
		return err
	}
	model, err := h.codec.itemModel(kind, out)
	if err != nil {
		return err
	}
	entry, err := h.reader(ctx, kind, model)
	if err != nil {
		return err
	}
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	namespace := scoped(kind, options.Namespace)
	stored, err := h.env.CachedList(ctx, entry.informer, namespace)
	if err != nil {
		return err
	}
	if stored, err = h.choose(entry, stored, options); err != nil {
		return err
	}
	if err := h.codec.copyList(kind, stored, out, true); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported")
	return nil
}

// GetInformer implements cache.Cache.
func (h *cacheHandle) GetInformer(
	ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption,
) (ctrlcache.Informer, error) {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		h.mu.Lock()
		h.missing = append(h.missing, err)
		h.mu.Unlock()
		return nil, err
	}
	options := ctrlcache.InformerGetOptions{}
	for _, apply := range opts {
		apply(&options)
	}
	entry, started := h.entry(kind, obj)
	if started && (options.BlockUntilSynced == nil || *options.BlockUntilSynced) {
		if err := entry.synced(ctx); err != nil {
			return nil, err
		}
	}
	controller, _ := ctx.Value(controllerContextKey{}).(string)
	return &informerHandle{cacheHandle: h, entry: entry, controller: controller}, nil
}

// GetInformerForKind implements cache.Cache.
func (h *cacheHandle) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...ctrlcache.InformerGetOption,
) (ctrlcache.Informer, error) {
	obj, err := h.codec.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	model, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s: the scheme's %T is no object", gvk, obj)
	}
	return h.GetInformer(ctx, model, opts...)
}

// RemoveInformer implements cache.Cache. Who asks for the informer again gets a new one.
func (h *cacheHandle) RemoveInformer(_ context.Context, obj client.Object) error {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := informerKey{kind, reflect.TypeOf(obj)}
	if entry := h.entries[key]; entry != nil {
		entry.removed = true
		for _, r := range entry.handlers {
			r.remove()
		}
	}
	delete(h.entries, key)
	return nil
}

// Start implements cache.Cache. It is the manager that starts the informers.
func (h *cacheHandle) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync implements cache.Cache.
func (h *cacheHandle) WaitForCacheSync(ctx context.Context) bool {
	if !await(ctx, h.begun) {
		return false
	}
	h.mu.Lock()
	asked := h.order
	h.mu.Unlock()
	for _, entry := range asked {
		if entry.synced(ctx) != nil {
			return false
		}
	}
	return true
}

// IndexField implements cache.Cache.
func (h *cacheHandle) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		return err
	}
	entry, _ := h.entry(kind, obj)
	return h.addIndexes(entry, map[string]client.IndexerFunc{indexName(field): extract}, false)
}
