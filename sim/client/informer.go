package client

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// informerHandle is an informer, as a source with a number sees it.
type informerHandle struct {
	*cacheHandle
	entry      *informerEntry
	controller string // whose source it is, if one asked
}

var _ ctrlcache.Informer = &informerHandle{}

// AddEventHandler implements cache.Informer. Once the manager has started it returns when the handler has handled the
// initial list.
func (i *informerHandle) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	ordered := !addsInAnyOrder(handler)
	r := &registration{
		entry: i.entry, name: "source " + strconv.Itoa(i.number), done: make(chan struct{}),
		ctx: i.env.As(context.Background(), i.controller),
	}
	r.handle = func(d cache.Delta) {
		if !ordered {
			i.adds.begin()
			defer i.adds.end()
		}
		i.dispatch(handler, d)
	}
	i.mu.Lock()
	i.entry.handlers = append(i.entry.handlers, r)
	running := i.entry.informer != nil
	i.mu.Unlock()
	if running {
		return r, i.register(r)
	}
	return r, nil
}

// addsInAnyOrder reports whether an event handler adds the keys of one event in an order that no run repeats: that of
// handler.EnqueueRequestForOwner, which iterates over a map. The handler lies in a field that is not exported, and is itself
// hidden in a handler.TypedFuncs whose functions are methods of an interface, as handler.WithLowPriorityWhenUnchanged makes
// them of any handler. Nobody else's is taken for one but those that were given to that function, too.
func addsInAnyOrder(handler toolscache.ResourceEventHandler) bool {
	value := reflect.Indirect(reflect.ValueOf(handler))
	if value.Kind() != reflect.Struct {
		return false
	}
	inner := value.FieldByName("handler")
	if !inner.IsValid() || inner.Kind() != reflect.Interface || inner.Elem().Kind() != reflect.Struct {
		return false
	}
	create := inner.Elem().FieldByName("CreateFunc")
	return create.IsValid() && create.Kind() == reflect.Func && !create.IsNil() &&
		strings.HasSuffix(functionName(create), "/handler.TypedEventHandler[...].Create-fm")
}

// dispatch calls an event handler with copies, in the form the program reads.
func (i *informerHandle) dispatch(handler toolscache.ResourceEventHandler, d cache.Delta) {
	convert := func(stored apiserver.Object) client.Object {
		obj, err := i.codec.newCopy(i.entry.kind, stored, i.entry.form, false)
		if err != nil {
			i.env.Fail(err)
		}
		return obj
	}
	switch d.Type {
	case apiserver.Added:
		handler.OnAdd(convert(d.Object), d.Initial)
	case apiserver.Modified:
		handler.OnUpdate(convert(d.Old), convert(d.Object))
	case apiserver.Deleted:
		if obj := convert(d.Object); d.Unknown {
			handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: toolscache.MetaObjectToName(obj).String(), Obj: obj})
		} else {
			handler.OnDelete(obj)
		}
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
	i.mu.Lock()
	defer i.mu.Unlock()
	r.remove()
	return nil
}

// AddIndexers implements cache.Informer.
func (i *informerHandle) AddIndexers(indexers toolscache.Indexers) error {
	functions := map[string]client.IndexerFunc{}
	for name, extract := range indexers {
		functions[name] = func(obj client.Object) []string {
			values, err := extract(obj)
			if err != nil {
				panic(fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w",
					client.ObjectKeyFromObject(obj), name, err)) // as client-go does
			}
			return values
		}
	}
	return i.addIndexes(i.entry, functions, true)
}

// HasSynced implements cache.Informer.
func (i *informerHandle) HasSynced() bool { return isClosed(i.entry.ready) }

// HasSyncedChecker implements cache.Informer.
func (i *informerHandle) HasSyncedChecker() toolscache.DoneChecker {
	return checker{i.entry.form.String(), i.entry.ready}
}

// IsStopped implements cache.Informer.
func (i *informerHandle) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.entry.removed
}

// registration is an event handler of an informer.
type registration struct {
	entry   *informerEntry
	name    string
	ctx     context.Context
	handle  func(cache.Delta)
	done    chan struct{}     // closed when the handler has handled the initial list
	inner   *sim.Registration // nil before that; guarded by informers.mu
	removed bool              // guarded by informers.mu
}

var _ toolscache.ResourceEventHandlerRegistration = &registration{}

// remove takes the handler out. The caller holds informers.mu.
func (r *registration) remove() {
	r.removed = true
	if r.inner != nil {
		r.inner.Remove()
	}
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return isClosed(r.done) }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return checker{r.name, r.done} }

// checker tells whether something has synced.
type checker struct {
	name string
	done chan struct{}
}

// Name implements cache.DoneChecker.
func (c checker) Name() string { return c.name }

// Done implements cache.DoneChecker.
func (c checker) Done() <-chan struct{} { return c.done }
