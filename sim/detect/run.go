package detect

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// Run is what a detector judges: a run that has ended.
type Run struct {
	History *history.History
	// Server is the API server as the run left it.
	Server *apiserver.Server
	// Baseline is where runs without faults come to; nil if that is not known.
	Baseline *Baseline
}

// Found is what a detector found.
type Found struct {
	// At is the virtual time at which it was decided.
	At time.Duration
	// Values say what was found, in the form of the values that a rule reads: "object" and "StatefulSet default/web". They are
	// the same wherever the finding is the same: no counts, times or revisions.
	Values []property.Value
	// Note says more, that may differ from run to run: how often, how fast.
	Note string
}

// live returns an object as it was after a revision; nil if there was none.
func (r *Run) live(kind *apiserver.Kind, namespace, name string, revision int64) apiserver.Object {
	log := r.Server.Log(kind)
	end, _ := slices.BinarySearchFunc(log, revision+1, func(e apiserver.Event, at int64) int { return int(e.Revision - at) })
	for i := end - 1; i >= 0; i-- {
		if obj := log[i].Object; obj.GetName() == name && obj.GetNamespace() == namespace {
			if log[i].Type == apiserver.Deleted {
				return nil
			}
			return obj
		}
	}
	return nil
}

// terminal reports whether the run came to rest.
func (r *Run) terminal() bool { return r.History.Outcome == history.Terminal }
