package racer

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// claim is how a controller decides which of the objects it finds in its cache are its owner's: it adopts orphans that match,
// and releases what no longer does (pkg/controller/controller_ref_manager.go, v1.36.3). It is a step machine within a sync.
type claim[T apiserver.Object] struct {
	owner   apiserver.Object // as the cache had it when the sync began
	ownerAt target
	gvk     schema.GroupVersionKind // the owner's
	kind    *apiserver.Kind         // what is claimed
	matches func(obj T) bool
	// finalizer, unless it is empty, comes with the adoption, and goes with the release.
	finalizer string
	own       *consistency // is told of what was written; may be nil

	candidates []T
	next       int      // the candidate at hand
	calling    call     // what the claim waits for the answer to
	mayAdopt   adoption // found out before the first adoption
	claimed    []T
	errs       []error
}

// adoption is what a live read of the owner said about adopting orphans.
type adoption struct {
	checked bool
	err     error
}

// run returns true with an action to take, or false when every candidate was looked at.
func (c *claim[T]) run(resp *apiserver.Response) (sim.Action, bool) {
	if c.calling != callNone {
		c.answered(resp)
	}
	for ; c.next < len(c.candidates); c.next++ {
		obj := c.candidates[c.next]
		at := target{kind: c.kind, namespace: obj.GetNamespace(), name: obj.GetName(), manager: c.ownerAt.manager}
		switch c.judge(obj) {
		case claimOwn:
			c.claimed = append(c.claimed, obj)
		case claimRelease:
			return c.ask(callRelease, at.patch(types.StrategicMergePatchType, c.releasePatch(obj)))
		case claimAdopt:
			if !c.mayAdopt.checked {
				return c.ask(callRecheck, c.ownerAt.get())
			}
			if c.mayAdopt.err == nil {
				return c.ask(callAdopt, at.patch(types.StrategicMergePatchType, c.adoptPatch(obj)))
			}
			c.errs = append(c.errs, fmt.Errorf("can't adopt %s %s/%s (%s): %w",
				c.kind.Kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), c.mayAdopt.err))
		case claimIgnore:
		}
	}
	return sim.Action{}, false
}

// err returns what went wrong. A sync ends with it before it does anything else, but not before every candidate was looked at.
func (c *claim[T]) err() error { return utilerrors.NewAggregate(c.errs) }

func (c *claim[T]) ask(what call, request *apiserver.Request) (sim.Action, bool) {
	c.calling = what
	return sim.Call(request), true
}

func (c *claim[T]) adoptPatch(obj T) []byte {
	patch := newAdoptPatch(obj.GetUID(), *metav1.NewControllerRef(c.owner, c.gvk))
	if c.finalizer != "" {
		patch.Metadata.Finalizers = []string{c.finalizer}
	}
	return patch.encode()
}

func (c *claim[T]) releasePatch(obj T) []byte {
	patch := newReleasePatch(obj.GetUID(), c.owner.GetUID())
	if c.finalizer != "" {
		patch.Metadata.DroppedFinalizers = []string{c.finalizer}
	}
	return patch.encode()
}

// answered takes the answer to a call about the candidate at hand.
func (c *claim[T]) answered(resp *apiserver.Response) {
	err := failure(resp)
	calling := c.calling
	c.calling = callNone
	switch calling {
	case callRecheck:
		c.mayAdopt = adoption{checked: true, err: recheck(c.owner, c.gvk.Kind, resp)}
		return // and look at the same candidate again
	case callRelease:
		// Gone, or no longer ours: there is nothing left to release.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			c.errs = append(c.errs, err)
		}
	case callAdopt:
		switch {
		case err == nil:
			if c.own != nil {
				c.own.wroteOwned(c.kind, resp)
			}
			c.claimed = append(c.claimed, c.candidates[c.next])
		case !apierrors.IsNotFound(err):
			c.errs = append(c.errs, err)
		}
	default: // the other calls are not about claims
	}
	c.next++
}

// claimVerdict is what to do about a candidate.
type claimVerdict uint8

const (
	claimIgnore claimVerdict = iota
	claimOwn
	claimAdopt
	claimRelease
)

func (c *claim[T]) judge(obj T) claimVerdict {
	matches, deleting := c.matches(obj), c.owner.GetDeletionTimestamp() != nil
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID != c.owner.GetUID():
		return claimIgnore
	case ref != nil && matches:
		return claimOwn
	case ref != nil && !deleting:
		return claimRelease
	case ref == nil && matches && !deleting && obj.GetDeletionTimestamp() == nil:
		return claimAdopt
	default:
		return claimIgnore
	}
}

// recheck judges a live read of an owner before anything is adopted for it.
func recheck(owner apiserver.Object, kind string, resp *apiserver.Response) error {
	if err := failure(resp); err != nil {
		return err
	}
	live := resp.Object
	if live.GetUID() != owner.GetUID() {
		return fmt.Errorf("original %s %s/%s is gone: got uid %s, wanted %s",
			kind, owner.GetNamespace(), owner.GetName(), live.GetUID(), owner.GetUID())
	}
	if at := live.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("%s %s/%s has just been deleted at %s", kind, owner.GetNamespace(), owner.GetName(), at)
	}
	return nil
}
