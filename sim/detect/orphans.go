package detect

import (
	"strings"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// kept are kinds that outlive what they were made for: to keep the data is a decision, and a namespace or a definition has much
// in it that is not the operator's.
var kept = map[string]bool{
	"PersistentVolumeClaim": true, "PersistentVolume": true, "VolumeSnapshot": true, "Namespace": true,
	"CustomResourceDefinition": true,
}

// keepAnnotation is how Helm says that an object is kept on purpose (https://helm.sh/docs/howto/charts_tips_and_tricks).
const keepAnnotation = "helm.sh/resource-policy"

// findOrphans finds what an operator made for a custom resource that is gone, and that is still there at the end: what has no
// owner, so that the garbage collector leaves it alone, and is named after the resource, so that it is not for others as well.
func findOrphans(r *Run) (*Found, int) {
	if !r.terminal() {
		return nil, 0
	}
	exercised := 0
	for _, h := range []*history.History{r.Settled, r.History} {
		if h == nil {
			continue
		}
		for i := range h.Records {
			record := &h.Records[i]
			if !creates(record) || record.Event.Key == "" || !r.leftBehind(record) {
				continue
			}
			exercised++
			if made := r.madeFor(record); made != "" {
				return &Found{At: r.History.End, Note: "nothing is left that would remove it", Values: []property.Value{
					{Path: "object", Value: objectOf(record).String()}, {Path: "made for", Value: made}}}, exercised
			}
		}
	}
	return nil, exercised
}

// leftBehind reports whether what an operator made is still there, and nobody but the operator would remove it.
func (r *Run) leftBehind(record *history.Record) bool {
	if kept[record.Event.Kind] || r.beats(record.Event.Kind) || len(record.After.GetOwnerReferences()) > 0 {
		return false
	}
	kind := r.Server.Kinds().ByName(record.Event.Kind)
	child := r.Server.Get(kind, record.After.GetNamespace(), record.After.GetName())
	return child != nil && child.GetUID() == record.After.GetUID() && child.GetDeletionTimestamp() == nil &&
		len(child.GetOwnerReferences()) == 0 && child.GetAnnotations()[keepAnnotation] != "keep"
}

// madeFor returns the custom resource of the key of the pass in which an object was made, if there was one then and there is none
// now, and the object is named after it; else nothing.
func (r *Run) madeFor(record *history.Record) string {
	namespace, name, namespaced := strings.Cut(record.Event.Key, "/")
	if !namespaced {
		namespace, name = "", record.Event.Key
	}
	gone := ""
	for _, kind := range r.Server.Kinds().All() {
		if !kind.Custom() || kind.Namespaced != namespaced {
			continue
		}
		if r.Server.Get(kind, namespace, name) != nil {
			return ""
		}
		if resource := r.at(kind, namespace, name, record.Committed); resource != nil && namedAfter(record.After, resource) {
			gone = kind.Name() + " " + record.Event.Key
		}
	}
	return gone
}

// namedAfter reports whether an object says in its name, its labels or its annotations for which resource it is.
func namedAfter(obj, resource apiserver.Object) bool {
	name := resource.GetName()
	for _, values := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for _, value := range values {
			if value == name || value == keyOf(resource) || value == string(resource.GetUID()) {
				return true
			}
		}
	}
	return strings.Contains("-"+strings.ReplaceAll(obj.GetName(), ".", "-")+"-", "-"+strings.ReplaceAll(name, ".", "-")+"-")
}
