package reactors

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Rival is the actor whose write competes in a Conflict by [schedule.CompetingWrite].
const Rival = "rival"

// RivalAnnotation is what the rival writes, with the name of the request that it got ahead of.
const RivalAnnotation = "stalemate.dev/rival"

// newConflict makes the reactor of a Conflict.
//
// An injected one refuses a write that carries a lock: a resourceVersion in an update, in the body of a patch, or as the
// precondition of a delete. Any other it leaves alone: a real server never answers that with 409, but makes it anew on what is
// stored until it fits (k8s.io/apiserver/pkg/storage/etcd3/store.go GuaranteedUpdate, v1.36). A UID is no lock of this kind:
// it conflicts with another object of the same name, and none is there.
//
// With a competing write it is for the server to find the conflict: a write without a lock goes through, over a change that
// its actor has not seen, and that is the fault then.
func newConflict(f schedule.Fault) sim.Reactor {
	if f.Means == schedule.CompetingWrite {
		return competingWrite{}
	}
	return &injectedConflict{refuse{fault: f, build: (*target).conflict}}
}

// injectedConflict refuses a write that carries a lock.
type injectedConflict struct{ refuse }

// Before implements [sim.Reactor].
func (c *injectedConflict) Before(d *sim.Door) {
	if d.Request().Lock() != "" {
		c.refuse.Before(d)
	}
}

// competingWrite annotates the object just before the request, if it is there.
type competingWrite struct{ idle }

// Before implements [sim.Reactor].
func (competingWrite) Before(d *sim.Door) {
	r := d.Request()
	if d.Get(r.Kind, r.Namespace, r.Name) == nil {
		return
	}
	d.Do(Rival, metadataPatch(r, map[string]any{"annotations": map[string]string{RivalAnnotation: d.Event().String()}}))
}

// metadataPatch returns a merge patch of the metadata of the object that a request is about.
func metadataPatch(r *apiserver.Request, metadata map[string]any) *apiserver.Request {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings can be encoded
	}
	return &apiserver.Request{
		Verb: schedule.Patch, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name,
		PatchType: types.MergePatchType, PatchData: data,
	}
}

// conflict is OptimisticLockErrorMsg of k8s.io/apiserver/pkg/registry/generic/registry/store.go. The precondition of a delete
// has another text, with the kind for the resource (pkg/registry/rest/delete.go BeforeDelete); what is stored is then said to
// be one revision further.
func (t *target) conflict(schedule.Fault) *apierrors.StatusError {
	if t.verb != schedule.Delete {
		return apierrors.NewConflict(t.groupResource(), t.name, errors.New(
			"the object has been modified; please apply your changes to the latest version and try again"))
	}
	stored := t.lock
	if revision, err := strconv.ParseUint(t.lock, 10, 64); err == nil {
		stored = strconv.FormatUint(revision+1, 10)
	}
	return apierrors.NewConflict(schema.GroupResource{Group: t.group.Group, Resource: t.kind}, t.name, fmt.Errorf(
		"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", t.lock, stored))
}
