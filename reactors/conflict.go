package reactors

import (
	"encoding/json"

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
// An injected one refuses any write. A real server says so only to one that carries a lock: the resourceVersion of an update,
// the same in the body of a patch, or a precondition of a delete. With a competing write it is for the server to find the
// conflict: a write without a lock goes through, over a change that its actor has not seen, and that is the fault then.
func newConflict(f schedule.Fault) sim.Reactor {
	if f.Means == schedule.CompetingWrite {
		return competingWrite{}
	}
	return &refuse{fault: f, build: (*target).conflict}
}

// competingWrite annotates the object just before the request.
type competingWrite struct{ idle }

// Before implements [sim.Reactor].
func (competingWrite) Before(d *sim.Door) {
	r := d.Request()
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
