package reactors

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Finalizer is the actor that keeps an object in a LateDelete.
const Finalizer = "finalizer"

// LateDeleteFinalizer is what it keeps the object by.
const LateDeleteFinalizer = "stalemate.dev/late-delete"

var lateDeleteRows = map[schedule.FaultType]*row{
	schedule.LateDelete: {
		doc:      "a finalizer of somebody else keeps a deleted object for a while",
		defaults: schedule.Params{For: 30 * time.Second},
		make:     func(f schedule.Fault) sim.Reactor { return &lateDelete{keep: f.For} },
	},
}

// lateDelete puts a finalizer on an object that is about to be deleted, and takes it away later, as the controllers of volumes
// and load balancers do. It leaves alone what is gone, or is being deleted already: a server takes no new finalizer there
// (k8s.io/apimachinery/pkg/api/validation ValidateObjectMetaUpdate, v1.36). A delete with a resourceVersion as its
// precondition is refused, as the finalizer came after what its actor read; the next one finds the object kept. A dry run deletes
// nothing.
type lateDelete struct {
	idle
	keep time.Duration
}

// Before implements [sim.Reactor].
func (l *lateDelete) Before(d *sim.Door) {
	r := d.Request()
	obj := d.Get(r.Kind, r.Namespace, r.Name)
	if r.DryRun || obj == nil || obj.GetDeletionTimestamp() != nil || slices.Contains(obj.GetFinalizers(), LateDeleteFinalizer) {
		return
	}
	kept := d.Do(Finalizer, metadataPatch(r, map[string]any{"finalizers": append(slices.Clone(obj.GetFinalizers()), LateDeleteFinalizer)}))
	if kept.Err != nil {
		return
	}
	uid := obj.GetUID()
	about := *r
	d.Later(Finalizer, l.keep, func() *apiserver.Request {
		obj := d.Get(about.Kind, about.Namespace, about.Name)
		if obj == nil || obj.GetUID() != uid || !slices.Contains(obj.GetFinalizers(), LateDeleteFinalizer) {
			return nil
		}
		left := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == LateDeleteFinalizer })
		return metadataPatch(&about, map[string]any{"finalizers": left})
	})
}
