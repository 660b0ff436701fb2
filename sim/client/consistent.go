package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// consistentClient is a manager's client whose reads wait until the cache has seen the client's own writes: consistentClient of
// sigs.k8s.io/controller-runtime/pkg/client/consistency.go, v0.25.2, with its limits. It waits by form: a typed read does not wait
// for what was written through metadata only. Objects that are written unstructured count as typed there, so that reads of
// unstructured objects wait for applies alone. What a cache never sees, as an object that its selector does not choose, is waited
// for until another event comes, or the context ends.
type consistentClient struct {
	*cachingClient
	cache *cacheHandle

	mu       sync.Mutex
	trackers map[trackerKey]*tracker
}

var _ client.Client = &consistentClient{}

type trackerKey struct {
	kind *apiserver.Kind
	form form
}

// form is what the objects of a read or write look like.
type form uint8

const (
	typedForm form = iota
	unstructuredForm
	metadataForm
)

// readForm is what a read goes by; writeForm what a write does, see consistentClient.
func readForm(obj runtime.Object) form {
	if isUnstructured(obj) {
		return unstructuredForm
	}
	return writeForm(obj)
}

func writeForm(obj runtime.Object) form {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataForm
	default:
		return typedForm
	}
}

func newConsistentClient(inner *cachingClient, cache *cacheHandle) *consistentClient {
	return &consistentClient{cachingClient: inner, cache: cache, trackers: map[trackerKey]*tracker{}}
}

// tracker compares what was written of a kind in one form with what the cache has seen.
type tracker struct {
	cache *cacheHandle
	kind  *apiserver.Kind

	mu          sync.Mutex
	registered  bool          // the tracker is among the informer's handlers
	registering chan struct{} // closed when somebody has tried to register it; nil if nobody does
	observed    int64         // the highest revision the handler was told of
	minimum     map[types.NamespacedName]int64
	deletes     map[types.NamespacedName]map[types.UID]bool
	writes      []*ownWrite // under way
}

// ownWrite is a write under way.
type ownWrite struct {
	key  types.NamespacedName
	done bool // guarded by the tracker's mu
}

func (c *consistentClient) tracker(kind *apiserver.Kind, form form) *tracker {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := trackerKey{kind, form}
	t := c.trackers[key]
	if t == nil {
		t = &tracker{
			cache: c.cache, kind: kind,
			minimum: map[types.NamespacedName]int64{}, deletes: map[types.NamespacedName]map[types.UID]bool{},
		}
		c.trackers[key] = t
	}
	return t
}

// register makes sure that the tracker is told of the events of the informer for an object of the model's form.
func (t *tracker) register(ctx context.Context, model client.Object) error {
	for {
		t.mu.Lock()
		if t.registered {
			t.mu.Unlock()
			return nil
		}
		attempt := t.registering
		if attempt == nil {
			break
		}
		t.mu.Unlock()
		if !await(ctx, attempt) {
			return fmt.Errorf("failed waiting for consistency handler to sync: %w", ctx.Err())
		}
	}
	attempt := make(chan struct{})
	t.registering = attempt
	t.mu.Unlock()
	err := t.addHandlers(ctx, model)
	t.mu.Lock()
	t.registered, t.registering = err == nil, nil
	t.mu.Unlock()
	close(attempt)
	return err
}

// never is the resync period of handlers that want none.
var never time.Duration

func (t *tracker) addHandlers(ctx context.Context, model client.Object) error {
	entries, started := t.cache.all(t.kind, model)
	for _, entry := range entries {
		if started {
			if err := entry.synced(ctx); err != nil {
				return fmt.Errorf("failed to get informer for GVK %s: %w", t.kind.GroupVersionKind, err)
			}
		}
		handle := &informerHandle{cacheHandle: t.cache, entry: entry}
		registration, err := handle.add(t, "read-your-writes", &never, t.observe)
		if err != nil {
			return fmt.Errorf("failed to register consistency handler on informer for GVK %s: %w", t.kind.GroupVersionKind, err)
		}
		if !await(ctx, registration.done) {
			return fmt.Errorf("failed to register consistency handler on informer for GVK %s: "+
				"failed waiting for consistency handler to sync: %w", t.kind.GroupVersionKind, ctx.Err())
		}
	}
	return nil
}

// observe takes note of an event.
func (t *tracker) observe(d cache.Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if revision, err := strconv.ParseInt(d.Object.GetResourceVersion(), 10, 64); err == nil {
		t.observed = max(t.observed, revision)
	}
	if d.Type == apiserver.Deleted {
		t.dropDelete(d.Key(), d.Object.GetUID())
	}
}

// dropDelete stops waiting for a deletion. The caller holds mu.
func (t *tracker) dropDelete(key types.NamespacedName, uid types.UID) {
	delete(t.deletes[key], uid)
	if len(t.deletes[key]) == 0 {
		delete(t.deletes, key)
	}
}

// begin announces a write. Reads that begin before its end wait for that.
func (t *tracker) begin(key types.NamespacedName) (end func()) {
	w := &ownWrite{key: key}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes = append(t.writes, w)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.done = true
		t.writes = slices.DeleteFunc(t.writes, func(other *ownWrite) bool { return other == w })
	}
}

// wrote takes note of the revision a write was answered with.
func (t *tracker) wrote(key types.NamespacedName, version string) error {
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return fmt.Errorf("failed to parse resource version %s: %w", version, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if revision > t.minimum[key] && revision > t.observed {
		t.minimum[key] = revision
	}
	return nil
}

// ownWrites is what a read waits for.
type ownWrites struct {
	t      *tracker
	key    types.NamespacedName // without a name: of all objects
	writes []*ownWrite          // that were under way when the read began
	ended  bool                 // they have ended, and what follows is what they, and others before, have come to

	minimum int64
	deletes map[types.UID]bool
}

// before returns what a read that begins now waits for.
func (t *tracker) before(key types.NamespacedName) *ownWrites {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &ownWrites{t: t, key: key}
	for _, w := range t.writes {
		if o.concerns(w.key) {
			o.writes = append(o.writes, w)
		}
	}
	return o
}

func (o *ownWrites) concerns(key types.NamespacedName) bool {
	return o.key == (types.NamespacedName{}) || o.key == key
}

// seen reports whether the cache has seen them.
func (o *ownWrites) seen() bool {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.ContainsFunc(o.writes, func(w *ownWrite) bool { return !w.done }) {
		return false
	}
	if !o.ended {
		o.ended = true
		for key, revision := range t.minimum {
			if o.concerns(key) {
				o.minimum = max(o.minimum, revision)
			}
		}
		o.deletes = map[types.UID]bool{}
		for key, uids := range t.deletes {
			if o.concerns(key) {
				maps.Copy(o.deletes, uids)
			}
		}
	}
	if t.observed < o.minimum {
		return false
	}
	for _, pending := range t.deletes {
		for uid := range pending {
			if o.deletes[uid] {
				return false
			}
		}
	}
	return true
}

// missing says what the cache has not seen.
func (o *ownWrites) missing() string {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	switch {
	case !o.ended:
		return "writes of its own are under way"
	case o.t.observed < o.minimum:
		return fmt.Sprintf("its own write made revision %d, and the cache has seen %d", o.minimum, o.t.observed)
	default:
		return fmt.Sprintf("the cache has not seen its own deletion of %v", slices.Sorted(maps.Keys(o.deletes)))
	}
}

// timedOut is the error of a read whose context has ended before the cache had caught up.
func (o *ownWrites) timedOut(err error) error {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	switch {
	case !o.ended:
		return err
	case o.t.observed < o.minimum:
		err = fmt.Errorf("failed waiting to observe resource version %d: %w", o.minimum, err)
	default:
		err = fmt.Errorf("failed waiting to observe deletes for uids %v: %w", slices.Sorted(maps.Keys(o.deletes)), err)
	}
	return fmt.Errorf("failed to wait for cache to catch up: %w", err)
}

// wait waits until the cache has caught up with what the client has written.
func (c *consistentClient) wait(
	ctx context.Context, kind *apiserver.Kind, form form, model client.Object, key types.NamespacedName,
) error {
	t := c.tracker(kind, form)
	own := t.before(key)
	if err := t.register(ctx, model); err != nil {
		return err
	}
	if own.seen() {
		return nil
	}
	if err := c.env.Await(ctx, kind, key.Namespace, key.Name, own.seen, own.missing); err != nil {
		return own.timedOut(err)
	}
	return nil
}

// waives reports whether the options of one call say that it is to be as without consistency.
func waives(options any) bool { return flag(options, "DisableReadYourWritesConsistency") }

// Get implements client.Client.
func (c *consistentClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !waives((&client.GetOptions{}).ApplyOptions(opts)) {
		kind, err := c.codec.kindOf(obj)
		if err != nil {
			return err
		}
		if err := c.wait(ctx, kind, readForm(obj), obj, key); err != nil {
			return err
		}
	}
	return c.cachingClient.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (c *consistentClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !waives((&client.ListOptions{}).ApplyOptions(opts)) {
		kind, err := c.codec.kindOf(list)
		if err != nil {
			return err
		}
		model, err := c.codec.itemModel(kind, list)
		if err != nil {
			return err
		}
		if err := c.wait(ctx, kind, readForm(list), model, types.NamespacedName{}); err != nil {
			return err
		}
	}
	return c.cachingClient.List(ctx, list, opts...)
}

// written makes a write, and takes note of what it was answered with.
func (c *consistentClient) written(ctx context.Context, obj client.Object, waived bool, write func() error) error {
	if waived {
		return write()
	}
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	t := c.tracker(kind, writeForm(obj))
	if err := t.register(ctx, obj); err != nil {
		return err
	}
	defer t.begin(client.ObjectKeyFromObject(obj))()
	if err := write(); err != nil {
		return err
	}
	return t.wrote(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
}

// Create implements client.Client.
func (c *consistentClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.written(ctx, obj, waives((&client.CreateOptions{}).ApplyOptions(opts)), func() error {
		return c.cachingClient.Create(ctx, obj, opts...)
	})
}

// Update implements client.Client.
func (c *consistentClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.written(ctx, obj, waives((&client.UpdateOptions{}).ApplyOptions(opts)), func() error {
		return c.cachingClient.Update(ctx, obj, opts...)
	})
}

// Patch implements client.Client.
func (c *consistentClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.written(ctx, obj, waives((&client.PatchOptions{}).ApplyOptions(opts)), func() error {
		return c.cachingClient.Patch(ctx, obj, patch, opts...)
	})
}

// Apply implements client.Client.
func (c *consistentClient) Apply(ctx context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.applied(ctx, config, waives((&client.ApplyOptions{}).ApplyOptions(opts)), func() error {
		return c.cachingClient.Apply(ctx, config, opts...)
	})
}

// applied makes an apply, and takes note of what it was answered with.
func (c *consistentClient) applied(
	ctx context.Context, config runtime.ApplyConfiguration, waived bool, apply func() error,
) error {
	if waived {
		return apply()
	}
	target, err := targetOf(config)
	if err != nil {
		return err
	}
	kind, err := c.codec.kind(target.GroupVersionKind())
	if err != nil {
		return err
	}
	form, list := typedForm, client.ObjectList(nil)
	if _, ok := config.(runtime.Unstructured); ok {
		form, list = unstructuredForm, &unstructured.UnstructuredList{}
	}
	model, err := c.codec.itemModel(kind, list)
	if err != nil {
		return err
	}
	t := c.tracker(kind, form)
	if err := t.register(ctx, model); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(target)
	defer t.begin(key)()
	if err := apply(); err != nil {
		return err
	}
	if target, err = targetOf(config); err != nil {
		return err
	}
	return t.wrote(key, target.ResourceVersion)
}

// targetOf returns what an apply configuration says of its object's metadata.
func targetOf(config runtime.ApplyConfiguration) (*metav1.PartialObjectMetadata, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	target := &metav1.PartialObjectMetadata{}
	return target, json.Unmarshal(data, target)
}

// Delete implements client.Client.
func (c *consistentClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if waives(options) {
		return c.cachingClient.Delete(ctx, obj, opts...)
	}
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	t := c.tracker(kind, readForm(obj))
	if err := t.register(ctx, obj); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(obj)
	uid, err := c.uidOf(ctx, kind, obj, options)
	if err != nil {
		return err
	}
	defer t.begin(key)()
	t.mu.Lock()
	if t.deletes[key] == nil {
		t.deletes[key] = map[types.UID]bool{}
	}
	t.deletes[key][uid] = true // before the request: the cache may see its event before its answer comes
	t.mu.Unlock()
	answer, err := c.delete(ctx, obj, opts...)
	if err == nil && answer == nil { // it is gone, and the event will say so
		return nil
	}
	t.mu.Lock()
	t.dropDelete(key, uid)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return t.wrote(key, answer.GetResourceVersion())
}

// uidOf finds out which object is to be deleted.
func (c *consistentClient) uidOf(
	ctx context.Context, kind *apiserver.Kind, obj client.Object, options *client.DeleteOptions,
) (types.UID, error) {
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != "" {
		return *p.UID, nil
	}
	if uid := obj.GetUID(); uid != "" {
		return uid, nil
	}
	existing := obj.DeepCopyObject().(client.Object)
	key := client.ObjectKeyFromObject(obj)
	if err := c.cachingClient.Get(ctx, key, existing); err != nil {
		return "", fmt.Errorf("failed to get %s %s to determine its uid: %w", kind.Kind, key, err)
	}
	return existing.GetUID(), nil
}

// DeleteAllOf implements client.Client.
func (c *consistentClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.New("DeleteAllOf is not supported by consistentClient, please use List and Delete instead")
}

// Status implements client.Client.
func (c *consistentClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *consistentClient) SubResource(name string) client.SubResourceClient {
	return &consistentSubresource{SubResourceClient: c.cachingClient.SubResource(name), client: c}
}

// consistentSubresource takes note of the writes to a subresource; reads and creations are as without consistency.
type consistentSubresource struct {
	client.SubResourceClient
	client *consistentClient
}

// Update implements client.SubResourceClient.
func (s *consistentSubresource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	waived := waives((&client.SubResourceUpdateOptions{}).ApplyOptions(opts))
	return s.client.written(ctx, obj, waived, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceClient.
func (s *consistentSubresource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	waived := waives((&client.SubResourcePatchOptions{}).ApplyOptions(opts))
	return s.client.written(ctx, obj, waived, func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.SubResourceClient.
func (s *consistentSubresource) Apply(
	ctx context.Context, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	waived := waives((&client.SubResourceApplyOptions{}).ApplyOpts(opts))
	return s.client.applied(ctx, config, waived, func() error { return s.SubResourceClient.Apply(ctx, config, opts...) })
}
