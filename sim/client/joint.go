package client

import (
	"errors"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// jointInformer stands for the informers of several namespaces, in their order; multiNamespaceInformer of
// sigs.k8s.io/controller-runtime/pkg/cache/multi_namespace_cache.go.
type jointInformer struct{ parts []*informerHandle }

var _ ctrlcache.Informer = &jointInformer{}

// AddEventHandler implements cache.Informer.
func (j *jointInformer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return j.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (j *jointInformer) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return j.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (j *jointInformer) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	joint := &jointRegistration{}
	for _, part := range j.parts {
		registration, err := part.AddEventHandlerWithOptions(handler, options)
		if err != nil {
			return nil, err
		}
		joint.parts = append(joint.parts, registration)
		joint.synced = append(joint.synced, registration.HasSyncedChecker())
	}
	joint.done = allDone(j.parts[0], joint.synced)
	return joint, nil
}

// RemoveEventHandler implements cache.Informer.
func (j *jointInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	joint, ok := handle.(*jointRegistration)
	if !ok {
		return errors.New("registration is not a registration returned by multiNamespaceInformer")
	}
	for i, part := range j.parts {
		if err := part.RemoveEventHandler(joint.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// AddIndexers implements cache.Informer.
func (j *jointInformer) AddIndexers(indexers toolscache.Indexers) error {
	for _, part := range j.parts {
		if err := part.AddIndexers(indexers); err != nil {
			return err
		}
	}
	return nil
}

// HasSynced implements cache.Informer.
func (j *jointInformer) HasSynced() bool {
	for _, part := range j.parts {
		if !part.HasSynced() {
			return false
		}
	}
	return true
}

// HasSyncedChecker implements cache.Informer.
func (j *jointInformer) HasSyncedChecker() toolscache.DoneChecker {
	var checkers []toolscache.DoneChecker
	for _, part := range j.parts {
		checkers = append(checkers, part.HasSyncedChecker())
	}
	return &jointRegistration{synced: checkers, done: allDone(j.parts[0], checkers)}
}

// IsStopped implements cache.Informer.
func (j *jointInformer) IsStopped() bool {
	for _, part := range j.parts {
		if !part.IsStopped() {
			return false
		}
	}
	return true
}

// jointRegistration is one event handler of the informers of several namespaces.
type jointRegistration struct {
	parts  []toolscache.ResourceEventHandlerRegistration
	synced []toolscache.DoneChecker
	done   <-chan struct{}
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (j *jointRegistration) HasSynced() bool {
	for _, part := range j.parts {
		if !part.HasSynced() {
			return false
		}
	}
	return true
}

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (j *jointRegistration) HasSyncedChecker() toolscache.DoneChecker { return j }

// Name implements cache.DoneChecker.
func (j *jointRegistration) Name() string { return jointName(j.synced) }

// Done implements cache.DoneChecker.
func (j *jointRegistration) Done() <-chan struct{} { return j.done }

func jointName(checkers []toolscache.DoneChecker) string {
	var names []string
	for _, c := range checkers {
		names = append(names, c.Name())
	}
	return strings.Join(names, ", ")
}

// allDone returns a channel that is closed when all are done.
func allDone(h *informerHandle, checkers []toolscache.DoneChecker) <-chan struct{} {
	done := make(chan struct{})
	h.env.Go(func() {
		defer close(done)
		for _, c := range checkers {
			if !await(h.life, c.Done()) {
				return
			}
		}
	})
	return done
}
