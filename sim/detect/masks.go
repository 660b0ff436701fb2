package detect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
)

// State is a state of the cluster, masked: without what may differ between runs that mean the same.
type State struct {
	Hash uint64
	// Objects are the hashes of the objects, by "Kind namespace/name".
	Objects map[string]uint64
}

// Masks masks objects, and remembers what came of it. It may be used by several goroutines at once; the zero value is ready.
type Masks struct {
	mu     sync.Mutex
	hashes map[masking]uint64
}

// masking is an object that was masked. What is masked depends on no more than its canonical content.
type masking struct {
	kind    *apiserver.Kind
	content uint64
}

// maxMaskings bounds what is remembered of objects that never come back.
const maxMaskings = 1 << 16

// StateOf returns the state of a server, masked: see docs/detectors.md for what is left out.
func (m *Masks) StateOf(server *apiserver.Server) *State {
	s := &State{Objects: map[string]uint64{}}
	var whole canon.Hasher
	for _, kind := range server.Kinds().All() {
		if kind.Volatile || kind.Kind == revisions {
			continue
		}
		for _, obj := range server.List(kind, "") {
			name := kind.Name() + " " + keyOf(obj)
			hash := m.hash(kind, obj)
			s.Objects[name] = hash
			whole.String(name)
			whole.Int(int64(hash))
		}
	}
	s.Hash = whole.Sum()
	return s
}

// revisions is the kind of which old objects are kept: how many, and which, depends on who saw what when.
const revisions = "ControllerRevision"

func (m *Masks) hash(kind *apiserver.Kind, obj apiserver.Object) uint64 {
	at := masking{kind, canon.Hash(obj)}
	m.mu.Lock()
	defer m.mu.Unlock()
	hash, known := m.hashes[at]
	if !known {
		if m.hashes == nil || len(m.hashes) >= maxMaskings {
			m.hashes = map[masking]uint64{}
		}
		hash = canon.Hash(masked(obj))
		m.hashes[at] = hash
	}
	return hash
}

// masked returns an object without what may differ between runs that mean the same. Times need no mask: canonical hashes leave
// them out.
func masked(obj apiserver.Object) *unstructured.Unstructured {
	if _, shared := obj.(*unstructured.Unstructured); shared {
		obj = obj.DeepCopyObject().(apiserver.Object)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}} // no object of the server's is of a form that cannot be converted
	}
	for _, section := range []string{"metadata", "status"} {
		if fields, ok := tree[section].(map[string]any); ok {
			maskFields(fields, masks[section])
		}
	}
	blank(tree)
	return &unstructured.Unstructured{Object: tree}
}

// masks are the fields that are left out of an object's metadata, and of its status wherever they are in it.
var masks = map[string][]string{
	"metadata": {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"},
	"status": {"collisionCount", "containerID", "hostIP", "hostIPs", "message", "observedGeneration", "podIP", "podIPs",
		"resourceVersion", "restartCount", "uid"},
}

// maskedAnnotations count changes; the second is what a racer of type Annotator writes.
var maskedAnnotations = []string{"deployment.kubernetes.io/revision", "stalemate.dev/touched"}

// maskFields takes fields out of a section of an object, in place, and puts conditions into the order of their types: which came
// first depends on what happened first. What people write, labels and annotations, stays as it is.
func maskFields(fields map[string]any, names []string) {
	for _, name := range names {
		delete(fields, name)
	}
	for name, field := range fields {
		switch v := field.(type) {
		case map[string]any:
			switch name {
			case "labels":
			case "annotations":
				for _, annotation := range maskedAnnotations {
					delete(v, annotation)
				}
				if len(v) == 0 { // as if there never had been any
					delete(fields, name)
				}
			default:
				maskFields(v, names)
			}
		case []any:
			for _, item := range v {
				if of, ok := item.(map[string]any); ok {
					maskFields(of, names)
				}
			}
			if name == "conditions" {
				slices.SortStableFunc(v, func(a, b any) int { return cmp.Compare(conditionType(a), conditionType(b)) })
			}
		}
	}
}

func conditionType(condition any) string {
	fields, _ := condition.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}

var uidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// blank blanks UIDs in all texts of a tree, in place, and takes out what canonical hashes leave out of typed objects.
func blank(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if name == "resourceVersion" || name == "managedFields" {
				delete(v, name)
			} else {
				v[name] = blank(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = blank(v[i])
		}
	case string:
		if strings.Count(v, "-") >= 4 {
			return uidPattern.ReplaceAllString(v, "uid")
		}
	}
	return value
}
