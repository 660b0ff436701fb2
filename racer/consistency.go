package racer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// consistency refuses syncs whose caches do not hold the controller's own creates and updates yet
// (pkg/controller/util/consistency, v1.36.3; the feature gates StaleControllerConsistencyStatefulSet, -ReplicaSet and -Job, on
// by default since 1.36). Deletes are not tracked.
type consistency struct {
	views   []*cache.View
	written map[string]*ownWrites // by the key of the owner
}

// ownWrites are the revisions of the newest own writes on behalf of one owner, by the kind written.
type ownWrites struct {
	uid       types.UID
	revisions map[*apiserver.Kind]int64
}

// newConsistency returns the check for writes to the kinds of the views.
func newConsistency(views ...*cache.View) *consistency {
	return &consistency{views: views, written: map[string]*ownWrites{}}
}

// ensureReady fails while a cache is older than an own write on behalf of the owner.
func (c *consistency) ensureReady(owner string) error {
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
	delete(c.written, owner)
	return nil
}

// wrote notes the revision of an own write on behalf of an owner.
func (c *consistency) wrote(owner metav1.Object, kind *apiserver.Kind, revision int64) {
	c.wroteFor(keyOf(owner), owner.GetUID(), kind, revision)
}

// wroteOwned notes an own write to an object on behalf of its controller; one that has none is nobody's.
func (c *consistency) wroteOwned(kind *apiserver.Kind, resp *apiserver.Response) {
	if ref := metav1.GetControllerOfNoCopy(resp.Object); ref != nil {
		c.wroteFor(key(resp.Object.GetNamespace(), ref.Name), ref.UID, kind, resp.Revision)
	}
}

// wroteFor forgets the writes for a predecessor of the owner's name.
func (c *consistency) wroteFor(owner string, uid types.UID, kind *apiserver.Kind, revision int64) {
	own := c.written[owner]
	if own == nil || own.uid != uid {
		own = &ownWrites{uid: uid, revisions: map[*apiserver.Kind]int64{}}
		c.written[owner] = own
	}
	own.revisions[kind] = max(own.revisions[kind], revision)
}

// forget forgets the writes for a name whose owner is gone.
func (c *consistency) forget(owner string) { delete(c.written, owner) }

// forgetOwner forgets the writes for an owner, but not those for a successor of its name.
func (c *consistency) forgetOwner(owner metav1.Object) {
	if own := c.written[keyOf(owner)]; own != nil && own.uid == owner.GetUID() {
		c.forget(keyOf(owner))
	}
}
