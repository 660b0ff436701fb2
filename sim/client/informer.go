package client

import (
	"cmp"
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

// defaultResync is the resync period of controller-runtime's informers (pkg/cache/cache.go, defaultSyncPeriod), minimumResync
// the shortest there is (k8s.io/client-go/tools/cache/shared_informer.go, minimumResyncPeriod).
const (
	defaultResync = 10 * time.Hour
	minimumResync = time.Second
)

// AddEventHandler implements cache.Informer. Once the manager has started it returns when the handler has handled the
// initial list.
func (i *informerHandle) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informerHandle) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informerHandle) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	ordered := !addsInAnyOrder(handler)
	return i.add(handler, "source "+strconv.Itoa(i.number), options.ResyncPeriod, func(d cache.Delta) {
		if !ordered {
			i.adds.begin()
			defer i.adds.end()
		}
		i.dispatch(handler, d)
	})
}

// add adds an event handler, of which only the function is called, under a name.
func (i *informerHandle) add(
	handler any, name string, resync *time.Duration, handle func(cache.Delta),
) (*registration, error) {
	r := &registration{
		entry: i.entry, name: name, done: make(chan struct{}), handle: handle,
		ctx: i.env.As(context.Background(), i.controller),
	}
	if form := formName(i.entry.form); form != "" {
		r.name += " of " + form
	}
	if i.entry.several {
		r.name += " in " + cmp.Or(i.entry.namespace, "other namespaces")
	}
	r.base = i.controller + "/" + r.name // controllers add theirs side by side, and are told apart by their own names
	i.mu.Lock()
	alike := 1
	for _, other := range i.entry.handlers {
		if other.base == r.base {
			alike++
		}
	}
	if alike > 1 {
		r.name += " handler " + strconv.Itoa(alike)
	}
	if i.entry.removed {
		i.mu.Unlock()
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", handler)
	}
	i.entry.handlers = append(i.entry.handlers, r)
	running := i.entry.informer != nil
	r.resync = i.entry.resyncOf(resync, running)
	i.mu.Unlock()
	if running {
		return r, i.register(r)
	}
	return r, nil
}

// resyncOf returns how often a handler is to be told of everything, zero for never. The default period is taken for never, as a
// resync masks lost events; a shorter one can no longer be had when the informer runs.
func (e *informerEntry) resyncOf(asked *time.Duration, running bool) time.Duration {
	period, explicit := defaultResync, e.config.SyncPeriod != nil
	if explicit {
		period = *e.config.SyncPeriod
	}
	switch {
	case asked == nil && !explicit, period <= 0:
		return 0
	case asked == nil:
		return max(period, minimumResync)
	case *asked <= 0:
		return 0
	case running && *asked <= period && !explicit:
		return 0
	case explicit && *asked > period: // an informer looks once a period of its own which of its handlers are due
		return (*asked + period - 1) / period * period
	case running:
		return max(*asked, period)
	default:
		return max(*asked, minimumResync)
	}
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

// dispatch calls an event handler with the cache's own objects, in the form the program reads.
func (i *informerHandle) dispatch(handler toolscache.ResourceEventHandler, d cache.Delta) {
	must := func(held any, err error) any {
		if err != nil {
			i.env.Fail(err)
		}
		return held
	}
	obj := must(i.hold(i.entry, d.Object))
	switch d.Type {
	case apiserver.Added:
		handler.OnAdd(obj, d.Initial)
	case apiserver.Modified:
		if d.Old == d.Object && !d.Resync { // a new list brings another copy of what has not changed
			handler.OnUpdate(obj, must(i.decode(i.entry, d.Object)))
		} else {
			handler.OnUpdate(must(i.hold(i.entry, d.Old)), obj)
		}
	case apiserver.Deleted:
		if d.Unknown {
			key := toolscache.NewObjectName(d.Key().Namespace, d.Key().Name)
			handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: obj})
		} else {
			handler.OnDelete(obj)
		}
	}
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
	base    string // what several handlers of one source have in common
	ctx     context.Context
	handle  func(cache.Delta)
	done    chan struct{}     // closed when the handler has handled the initial list
	resync  time.Duration     // zero for never
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
