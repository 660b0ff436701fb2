package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// informers are a process's informers. There is one for each kind and form in which the program holds its objects: typed,
// unstructured and metadata-only objects of one kind come from informers of their own, as in controller-runtime; and where the
// cache is restricted to namespaces, one for each of these. Those that are asked for before the manager starts get their initial
// list when it does, in the order they were asked for.
type informers struct {
	env       *sim.Env
	codec     *codec
	adds      *addBuffer
	coverages *coverages
	begun     chan struct{}   // closed when the manager has started what was asked for before
	life      context.Context // ends with the process

	mu      sync.Mutex
	started bool
	covers  map[informerKey]*cover
	order   []*informerEntry // in which they were asked for
	missing []error          // what was asked for that the server does not have
	handles int
}

type informerKey struct {
	kind *apiserver.Kind
	form reflect.Type
}

// cover is what covers a kind in one form.
type cover struct {
	coverage
	entries []*informerEntry // one a scope, nil as long as nobody has asked for it
}

// informerEntry is an informer that has been asked for.
type informerEntry struct {
	informerKey
	scope
	several  bool          // it is one of several namespaces'
	ready    chan struct{} // closed when it has its initial list, or an error
	informer *sim.Informer // nil before it has started
	err      error
	removed  bool
	indexes  map[string]*index
	handlers []*registration
	// held are the cache's own objects, by what the server stores, as far as anybody got hold of them.
	held map[apiserver.Object]any
}

func newInformers(env *sim.Env, codec *codec, adds *addBuffer) *informers {
	return &informers{
		env: env, codec: codec, adds: adds,
		begun: make(chan struct{}), covers: map[informerKey]*cover{},
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

// cover returns what covers the form of the model. With known, it is nil if nobody has asked for that before.
func (i *informers) cover(kind *apiserver.Kind, model client.Object, known bool) *cover {
	key := informerKey{kind, reflect.TypeOf(model)}
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.covers[key]
	if c == nil && !known {
		c = &cover{coverage: i.coverages.of(kind)}
		c.entries = make([]*informerEntry, len(c.scopes))
		i.covers[key] = c
	}
	return c
}

// entry returns the informer of one of the scopes, and starts it if it is asked for for the first time.
func (i *informers) entry(kind *apiserver.Kind, model client.Object, c *cover, at int) (entry *informerEntry, started bool) {
	i.mu.Lock()
	entry = c.entries[at]
	known := entry != nil
	if !known {
		entry = &informerEntry{
			informerKey: informerKey{kind, reflect.TypeOf(model)}, scope: c.scopes[at], several: c.several,
			ready: make(chan struct{}), indexes: map[string]*index{}, held: map[apiserver.Object]any{},
		}
		c.entries[at] = entry
		i.order = append(i.order, entry)
	}
	started = i.started
	i.mu.Unlock()
	switch {
	case !started || known:
	case i.env.Restricted(): // it may take for ever, and whoever asks need not wait that long
		i.env.Go(func() { i.start(entry) })
	default:
		i.start(entry)
	}
	return entry, started
}

// all returns the informers of all scopes.
func (i *informers) all(kind *apiserver.Kind, model client.Object) (entries []*informerEntry, started bool) {
	c := i.cover(kind, model, false)
	for at := range c.scopes {
		var entry *informerEntry
		entry, started = i.entry(kind, model, c, at)
		entries = append(entries, entry)
	}
	return entries, started
}

// start gives an informer its initial list, and lets the handlers that it has already handle it.
func (i *informers) start(entry *informerEntry) {
	i.mu.Lock()
	removed := entry.removed
	i.mu.Unlock()
	if removed {
		return
	}
	ended := true
	defer func() {
		if ended { // and this goroutine with it: the call below has not returned
			entry.err = errors.New("the process has ended")
			close(entry.ready)
		}
	}()
	selector := cache.Selector{
		Namespace: entry.namespace, Labels: entry.config.LabelSelector, Fields: entry.config.FieldSelector,
	}
	informer, err := i.env.Informer(context.Background(), entry.kind, formName(entry.form), selector)
	ended = false
	if err != nil {
		i.refused(entry, err)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	entry.informer = informer
	for _, r := range entry.handlers {
		i.env.Go(func() { _ = i.register(r) })
	}
	close(entry.ready)
}

// refused deals with an informer whose list the server refuses. A real one tries again and again, and never has its list.
func (i *informers) refused(entry *informerEntry, err error) {
	i.mu.Lock()
	i.missing = append(i.missing, err)
	i.mu.Unlock()
	ctx := context.Background()
	i.env.Log(ctx, history.Log{Level: -1, Message: "Failed to watch", Values: []string{
		"type=" + entry.form.String(), "error=" + err.Error(),
	}})
	if handle := i.coverages.options.DefaultWatchErrorHandler; handle != nil {
		name := "informer of " + entry.kind.Name()
		handle(ctx, toolscache.NewNamedReflector(name, &toolscache.ListWatch{}, nil, nil, 0), err)
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
	} else if r.resync > 0 {
		inner.Resync(r.resync)
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
func (h *cacheHandle) reader(
	ctx context.Context, kind *apiserver.Kind, model client.Object, c *cover, at int,
) (*informerEntry, error) {
	if h.coverages.options.ReaderFailOnMissingInformer && (c == nil || h.unasked(c, at)) {
		return nil, &ctrlcache.ErrResourceNotCached{GVK: kind.GroupVersionKind}
	}
	entry, started := h.entry(kind, model, c, at)
	if started {
		if err := entry.synced(ctx); err != nil {
			return nil, err
		}
		return entry, nil
	}
	return nil, &ctrlcache.ErrCacheNotStarted{}
}

func (i *informers) unasked(c *cover, at int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return c.entries[at] == nil
}

// covering returns what covers the kind, or nil if that is nothing and a read does not change it.
func (h *cacheHandle) covering(kind *apiserver.Kind, model client.Object) *cover {
	return h.cover(kind, model, h.coverages.options.ReaderFailOnMissingInformer)
}

// Get implements cache.Cache; pkg/cache/internal/cache_reader.go and pkg/cache/multi_namespace_cache.go.
func (h *cacheHandle) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	kind, err := h.codec.kindOf(out)
	if err != nil {
		return err
	}
	c, at, ok := h.covering(kind, out), 0, true
	if c != nil {
		at, ok = c.find(key.Namespace)
	}
	if !ok {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	entry, err := h.reader(ctx, kind, out, c, at)
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
	options := (&client.GetOptions{}).ApplyOptions(opts)
	return h.readInto(entry, stored, out, entry.aliases(options.UnsafeDisableDeepCopy))
}

// List implements cache.Cache. Where the cache has several informers of the kind it reads one after the other, in the order of
// their namespaces; a real one has no order for them.
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
	c := h.covering(kind, model)
	from, to := 0, 1
	switch {
	case c == nil || !c.several:
	case options.Continue != "": // is refused before a namespace is looked for
		return errNoContinue
	case options.Namespace == "":
		to = len(c.scopes)
	default:
		at, ok := c.find(options.Namespace)
		if !ok {
			return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", options.Namespace)
		}
		from, to = at, at+1
	}
	items := []runtime.Object{}
	limit := options.Limit
	for at := from; at < to; at++ {
		found, err := h.listScope(ctx, kind, model, c, at, options)
		if err != nil {
			return err
		}
		items = append(items, found...)
		if options.Limit -= int64(len(found)); limit > 0 && options.Limit <= 0 {
			break
		}
	}
	if err := meta.SetList(out, items); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported")
	return nil
}

var errNoContinue = errors.New("continue list option is not supported by the cache")

// listScope lists what one informer has.
func (h *cacheHandle) listScope(
	ctx context.Context, kind *apiserver.Kind, model client.Object, c *cover, at int, options *client.ListOptions,
) ([]runtime.Object, error) {
	entry, err := h.reader(ctx, kind, model, c, at)
	if err != nil {
		return nil, err
	}
	if options.Continue != "" {
		return nil, errNoContinue
	}
	// Objects without a namespace are in none, so that a list in one has none of them: the namespace is no path here.
	stored, err := h.env.CachedList(ctx, entry.informer, options.Namespace)
	if err != nil {
		return nil, err
	}
	if stored, err = h.choose(entry, stored, options); err != nil {
		return nil, err
	}
	items := make([]runtime.Object, len(stored))
	for i, obj := range stored {
		if items[i], err = h.read(entry, obj, entry.aliases(options.UnsafeDisableDeepCopy)); err != nil {
			return nil, err
		}
	}
	return items, nil
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
	entries, started := h.all(kind, obj)
	if started && (options.BlockUntilSynced == nil || *options.BlockUntilSynced) {
		for _, entry := range entries {
			if err := entry.synced(ctx); err != nil {
				return nil, err
			}
		}
	}
	controller, _ := ctx.Value(controllerContextKey{}).(string)
	handles := make([]*informerHandle, len(entries))
	for i, entry := range entries {
		handles[i] = &informerHandle{cacheHandle: h, entry: entry, controller: controller}
	}
	if len(handles) == 1 {
		return handles[0], nil
	}
	return &jointInformer{handles}, nil
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
	c := h.covers[key]
	if c == nil {
		return nil
	}
	for _, entry := range c.entries {
		if entry == nil {
			continue
		}
		entry.removed = true
		for _, r := range entry.handlers {
			r.remove()
		}
		if entry.informer != nil {
			entry.informer.Stop()
		}
	}
	h.order = slices.DeleteFunc(slices.Clone(h.order), func(entry *informerEntry) bool { return entry.removed })
	delete(h.covers, key)
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
	entries, _ := h.all(kind, obj)
	for _, entry := range entries {
		if err := h.addIndexes(entry, map[string]client.IndexerFunc{indexName(field): extract}, false); err != nil {
			return err
		}
	}
	return nil
}
