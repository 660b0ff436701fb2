package racer

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// ownersPatch is a strategic merge patch of ownerReferences; the UID makes it miss a successor of the same name.
type ownersPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		OwnerReferences []any     `json:"ownerReferences"`
		// Finalizers are added, and DroppedFinalizers taken off.
		Finalizers        []string `json:"finalizers,omitempty"`
		DroppedFinalizers []string `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

// droppedOwner takes an owner reference out of the list by its merge key.
type droppedOwner struct {
	Patch string    `json:"$patch"`
	UID   types.UID `json:"uid"`
}

func (p *ownersPatch) encode() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of strings always encodes
	}
	return data
}

// adoptPatch adds a controller reference to the object with the given UID.
func adoptPatch(uid types.UID, owner metav1.OwnerReference) []byte {
	return newAdoptPatch(uid, owner).encode()
}

func newAdoptPatch(uid types.UID, owner metav1.OwnerReference) *ownersPatch {
	patch := &ownersPatch{}
	patch.Metadata.UID = uid
	patch.Metadata.OwnerReferences = []any{owner}
	return patch
}

// releasePatch takes owners off the object with the given UID.
func releasePatch(uid types.UID, owners ...types.UID) []byte {
	return newReleasePatch(uid, owners...).encode()
}

func newReleasePatch(uid types.UID, owners ...types.UID) *ownersPatch {
	patch := &ownersPatch{}
	patch.Metadata.UID = uid
	for _, owner := range owners {
		patch.Metadata.OwnerReferences = append(patch.Metadata.OwnerReferences, droppedOwner{Patch: "delete", UID: owner})
	}
	return patch
}

// unblockPatch stops the references of an object from blocking the deletion of its owners.
func unblockPatch(uid types.UID, owners []metav1.OwnerReference) []byte {
	var patch ownersPatch
	patch.Metadata.UID = uid
	for _, owner := range owners {
		if blocks(&owner) {
			patch.Metadata.OwnerReferences = append(patch.Metadata.OwnerReferences, unblocked(owner))
		}
	}
	return patch.encode()
}

// unblocked returns a copy of a reference that does not block its owner's deletion.
func unblocked(ref metav1.OwnerReference) metav1.OwnerReference {
	no := false
	ref.BlockOwnerDeletion = &no
	return ref
}

func blocks(ref *metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// without returns the references to all but the given owners.
func without(refs []metav1.OwnerReference, owners []types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})
}

// sameRef reports whether two references, which may be nil, are to the same controller.
func sameRef(a, b *metav1.OwnerReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion
}

// controllerIn returns the cached object that a controller reference, which may be nil, points to; the zero value if there is none
// of that kind, name and UID. As upstream, it does not look at the reference's API group.
func controllerIn[T apiserver.Object](view *cache.View, namespace string, ref *metav1.OwnerReference) (owner T) {
	if ref == nil || ref.Kind != view.Kind().Kind {
		return owner
	}
	if obj, ok := view.Get(namespace, ref.Name).(T); ok && obj.GetUID() == ref.UID {
		return obj
	}
	return owner
}

// mayAdopt returns the cached objects whose selector an orphan matches: one of them may adopt it. As in the listers of client-go
// (listers/apps/v1, v0.36), an orphan without labels matches none, and a selector of everything selects nothing.
func mayAdopt[T apiserver.Object](view *cache.View, orphan metav1.Object, selectorOf func(T) *metav1.LabelSelector) []T {
	if len(orphan.GetLabels()) == 0 {
		return nil
	}
	var owners []T
	for _, obj := range view.List(orphan.GetNamespace()) {
		owner := obj.(T)
		selector, err := metav1.LabelSelectorAsSelector(selectorOf(owner))
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels())) {
			owners = append(owners, owner)
		}
	}
	return owners
}
