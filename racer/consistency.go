package racer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// consistency refuses syncs whose caches do not hold the controller's own creates and updates yet
// (pkg/controller/util/consistency, v1.36.3; the feature gates StaleControllerConsistencyStatefulSet and
// StaleControllerConsistencyReplicaSet, on by default since 1.36). Deletes are not tracked.
type consistency struct {
	views   []*cache.View
	written map[types.NamespacedName]*ownWrites
}

// ownWrites are the revisions of the newest own writes on behalf of one owner, by the kind written.
type ownWrites struct {
	uid       types.UID
	revisions map[*apiserver.Kind]int64
}

// newConsistency returns the check for writes to the kinds of the views.
func newConsistency(views ...*cache.View) *consistency {
	return &consistency{views: views, written: map[types.NamespacedName]*ownWrites{}}
}

func (c *consistency) ensureReady(owner types.NamespacedName) error {
	own := c.written[owner]
	if own == nil {
		return nil
	}
	for _, view := range c.views {
		if read, written := view.Revision(), own.revisions[view.Kind()]; read < written {
			return fmt.Errorf("read version: %d is not as new as written version: %d for group resource %s",
				read, written, view.Kind().GroupResource())
		}
	}
	return nil
}

// wrote notes the revision of an own write. The writes for a predecessor of the owner's name are forgotten.
func (c *consistency) wrote(owner metav1.Object, kind *apiserver.Kind, revision int64) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}
	own := c.written[key]
	if own == nil || own.uid != owner.GetUID() {
		own = &ownWrites{uid: owner.GetUID(), revisions: map[*apiserver.Kind]int64{}}
		c.written[key] = own
	}
	own.revisions[kind] = max(own.revisions[kind], revision)
}

// forget forgets the writes for an owner that is gone.
func (c *consistency) forget(owner types.NamespacedName) { delete(c.written, owner) }
