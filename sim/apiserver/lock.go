package apiserver

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Lock returns the resourceVersion that a write insists on, empty if it insists on none: that of an update, that in the body of a
// patch, or that in the precondition of a delete. To a write without one the server never answers with a conflict, but makes it
// anew on what is stored until it fits (k8s.io/apiserver/pkg/storage/etcd3/store.go GuaranteedUpdate, v1.36), unless it has a UID.
func (r *Request) Lock() string {
	revision := ""
	switch p := r.Delete.Preconditions; {
	case r.Verb == schedule.Update && r.Object != nil:
		revision = r.Object.GetResourceVersion()
	case r.Verb == schedule.Patch && r.PatchType == types.JSONPatchType:
		revision = lockOfOperations(r.PatchData)
	case r.Verb == schedule.Patch:
		var body metav1.PartialObjectMetadata
		if json.Unmarshal(r.PatchData, &body) == nil {
			revision = body.ResourceVersion
		}
	case r.Verb == schedule.Delete && p != nil && p.ResourceVersion != nil:
		return *p.ResourceVersion
	}
	if revision == "0" { // as good as none
		return ""
	}
	return revision
}

// lockOfOperations returns the resourceVersion that a JSON patch sets. One that it only tests is no lock: the answer is 422.
func lockOfOperations(patch []byte) string {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(patch, &operations) != nil {
		return ""
	}
	revision := ""
	for _, o := range operations {
		if text, ok := o.Value.(string); ok && o.Path == "/metadata/resourceVersion" && o.Op != "test" {
			revision = text
		}
	}
	return revision
}
