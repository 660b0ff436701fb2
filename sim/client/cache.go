package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// informers are a process's informers. There is one for each kind and form in which the program holds its objects: typed,
// unstructured and metadata-only objects of one kind come from informers of their own, as in controller-runtime.
type informers struct {
	env   *sim.Env
	codec *codec

	mu      sync.Mutex
	entries map[informerKey]*informerEntry
	indexes map[informerKey]map[string]client.IndexerFunc
	handles int
}

type informerKey struct {
	kind *apiserver.Kind
	form reflect.Type
}

// informerEntry is an informer that has been asked for; ready is closed when it has its initial list.
type informerEntry struct {
	ready    chan struct{}
	informer *sim.Informer
	err      error
	model    client.Object
}

func newInformers(env *sim.Env, codec *codec) *informers {
	return &informers{
		env: env, codec: codec,
		entries: map[informerKey]*informerEntry{},
		indexes: map[informerKey]map[string]client.IndexerFunc{},
	}
}

// get returns the informer for the form of the model, and starts it if it is asked for for the first time.
func (i *informers) get(ctx context.Context, kind *apiserver.Kind, model client.Object) (*informerEntry, error) {
	key := informerKey{kind, reflect.TypeOf(model)}
	i.mu.Lock()
	entry, ok := i.entries[key]
	if !ok {
		entry = &informerEntry{ready: make(chan struct{}), model: model}
		i.entries[key] = entry
	}
	i.mu.Unlock()
	if !ok {
		i.start(entry, key)
	}
	select {
	case <-entry.ready:
		return entry, entry.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (i *informers) start(entry *informerEntry, key informerKey) {
	defer close(entry.ready)
	entry.informer, entry.err = i.env.Informer(context.Background(), key.kind, formName(key.form), cache.Selector{})
	if entry.err != nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, extract := range i.indexes[key] {
		entry.informer.View().AddIndex(name, i.indexer(key, extract))
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

// indexer adapts a program's index function to stored objects.
func (i *informers) indexer(key informerKey, extract client.IndexerFunc) cache.Indexer {
	model := reflect.New(key.form.Elem()).Interface().(client.Object)
	return func(stored apiserver.Object) []string {
		obj, err := i.codec.newCopy(key.kind, stored, model, true)
		if err != nil {
			return nil
		}
		return extract(obj)
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

// Get implements cache.Cache; pkg/cache/internal/cache_reader.go.
func (h *cacheHandle) Get(ctx context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	kind, err := h.codec.kindOf(out)
	if err != nil {
		return err
	}
	entry, err := h.get(ctx, kind, out)
	if err != nil {
		return err
	}
	key.Namespace = scoped(kind, key.Namespace)
	var stored apiserver.Object
	err = h.env.Read(ctx, entry.informer, key.Namespace, key.Name, func() {
		stored = entry.informer.View().Get(key.Namespace, key.Name)
	})
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
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	kind, err := h.codec.kindOf(out)
	if err != nil {
		return err
	}
	model, err := h.codec.itemModel(kind, out)
	if err != nil {
		return err
	}
	entry, err := h.get(ctx, kind, model)
	if err != nil {
		return err
	}
	var stored []apiserver.Object
	var indexErr error
	err = h.env.Read(ctx, entry.informer, options.Namespace, "", func() {
		stored, indexErr = listView(entry.informer.View(), kind, options)
	})
	if err := errors.Join(err, indexErr); err != nil {
		return err
	}
	if err := h.codec.copyList(kind, stored, out, true); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported")
	return nil
}

// listView lists a view as a cache does: by an index for field selectors, in no guaranteed order, cut off at the limit.
func listView(view *cache.View, kind *apiserver.Kind, options *client.ListOptions) ([]apiserver.Object, error) {
	namespace := scoped(kind, options.Namespace)
	candidates := view.List(namespace)
	if options.FieldSelector != nil {
		var err error
		if candidates, err = byIndexes(view, namespace, options.FieldSelector); err != nil {
			return nil, err
		}
	}
	var chosen []apiserver.Object
	for _, obj := range candidates {
		if options.Limit > 0 && int64(len(chosen)) >= options.Limit {
			break
		}
		if kind.Matches(obj, options.LabelSelector, nil) {
			chosen = append(chosen, obj)
		}
	}
	return chosen, nil
}

// byIndexes finds the objects that all requirements of a field selector choose.
func byIndexes(view *cache.View, namespace string, selector fields.Selector) ([]apiserver.Object, error) {
	var chosen []apiserver.Object
	for n, requirement := range selector.Requirements() {
		if requirement.Operator != selection.Equals && requirement.Operator != selection.DoubleEquals {
			return nil, errors.New("non-exact field matches are not supported by the cache")
		}
		name := indexName(requirement.Field)
		found, ok := view.ByIndex(name, namespace, requirement.Value)
		switch {
		case !ok:
			return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // client-go's own words
		case n == 0:
			chosen = found
		default:
			chosen = intersect(chosen, found)
		}
	}
	return chosen, nil
}

func indexName(field string) string { return "field:" + field }

func intersect(a, b []apiserver.Object) []apiserver.Object {
	in := make(map[apiserver.Object]bool, len(b))
	for _, obj := range b {
		in[obj] = true
	}
	var both []apiserver.Object
	for _, obj := range a {
		if in[obj] {
			both = append(both, obj)
		}
	}
	return both
}

// GetInformer implements cache.Cache.
func (h *cacheHandle) GetInformer(
	ctx context.Context, obj client.Object, _ ...ctrlcache.InformerGetOption,
) (ctrlcache.Informer, error) {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		return nil, err
	}
	entry, err := h.get(ctx, kind, obj)
	if err != nil {
		return nil, err
	}
	return &informerHandle{handle: h, kind: kind, entry: entry}, nil
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

// RemoveInformer implements cache.Cache. The informer is forgotten: who asks again gets a new one.
func (h *cacheHandle) RemoveInformer(_ context.Context, obj client.Object) error {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.entries, informerKey{kind, reflect.TypeOf(obj)})
	return nil
}

// Start implements cache.Cache. Informers start when they are asked for.
func (h *cacheHandle) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync implements cache.Cache. An informer is returned only when it has synced.
func (h *cacheHandle) WaitForCacheSync(context.Context) bool { return true }

// IndexField implements cache.Cache.
func (h *cacheHandle) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind, err := h.codec.kindOf(obj)
	if err != nil {
		return err
	}
	key := informerKey{kind, reflect.TypeOf(obj)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.indexes[key] == nil {
		h.indexes[key] = map[string]client.IndexerFunc{}
	}
	name := indexName(field)
	if _, ok := h.indexes[key][name]; ok {
		return fmt.Errorf("indexer conflict: map[%s:{}]", name)
	}
	h.indexes[key][name] = extract
	if entry := h.entries[key]; entry != nil && entry.informer != nil {
		entry.informer.View().AddIndex(name, h.indexer(key, extract))
	}
	return nil
}

// informerHandle is an informer, as a source with a number sees it.
type informerHandle struct {
	handle *cacheHandle
	kind   *apiserver.Kind
	entry  *informerEntry
}

var _ ctrlcache.Informer = &informerHandle{}

// AddEventHandler implements cache.Informer. It returns when the handler has handled the initial list.
func (i *informerHandle) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	name := "source " + strconv.Itoa(i.handle.number)
	inner, err := i.entry.informer.AddHandler(context.Background(), name, func(d cache.Delta) { i.dispatch(handler, d) })
	if err != nil {
		return nil, err
	}
	return &registration{inner, name}, nil
}

// dispatch calls an event handler with copies, in the form the program reads.
func (i *informerHandle) dispatch(handler toolscache.ResourceEventHandler, d cache.Delta) {
	convert := func(stored apiserver.Object) client.Object {
		obj, err := i.handle.codec.newCopy(i.kind, stored, i.entry.model, false)
		if err != nil {
			i.handle.env.Fail(err)
		}
		return obj
	}
	switch d.Type {
	case apiserver.Added:
		handler.OnAdd(convert(d.Object), d.Initial)
	case apiserver.Modified:
		handler.OnUpdate(convert(d.Old), convert(d.Object))
	case apiserver.Deleted:
		handler.OnDelete(convert(d.Object))
	}
}

// AddEventHandlerWithResyncPeriod implements cache.Informer. There are no resyncs: they would mask lost events.
func (i *informerHandle) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, _ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informerHandle) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler implements cache.Informer.
func (i *informerHandle) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid handler type %T", handle)
	}
	r.inner.Remove()
	return nil
}

// AddIndexers implements cache.Informer.
func (i *informerHandle) AddIndexers(indexers toolscache.Indexers) error {
	for name, extract := range indexers {
		i.entry.informer.View().AddIndex(name, func(stored apiserver.Object) []string {
			obj, err := i.handle.codec.newCopy(i.kind, stored, i.entry.model, true)
			if err != nil {
				return nil
			}
			values, err := extract(obj)
			if err != nil {
				return nil
			}
			return values
		})
	}
	return nil
}

// HasSynced implements cache.Informer.
func (i *informerHandle) HasSynced() bool { return true }

// HasSyncedChecker implements cache.Informer.
func (i *informerHandle) HasSyncedChecker() toolscache.DoneChecker {
	return synced(formName(reflect.TypeOf(i.entry.model)))
}

// IsStopped implements cache.Informer.
func (i *informerHandle) IsStopped() bool { return false }

// registration is a handler that has handled its initial list.
type registration struct {
	inner *sim.Registration
	name  string
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return synced(r.name) }

// synced is a checker of what is done already.
type synced string

// Name implements cache.DoneChecker.
func (s synced) Name() string { return string(s) }

// Done implements cache.DoneChecker. The channel belongs to the caller's bubble, as one made outside may not be waited
// for inside.
func (s synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
