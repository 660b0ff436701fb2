package property

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/common"
)

// Resolve implements [common.TypeResolver]: it tells CEL's type checker of the object types.
func (s *shapes) Resolve(name string) (common.ResolvedType, bool) {
	o, ok := s.objects[name]
	if !ok {
		return nil, false
	}
	return resolvedObject{celType: o.typ, shape: o, shapes: s}, true
}

// resolvedObject is an object type as the type checker asks for it.
type resolvedObject struct {
	*celType
	shape  *shape
	shapes *shapes
}

// celType embeds CEL's type under a name that leaves the method Type free.
type celType = cel.Type

var _ common.ResolvedType = resolvedObject{}

// Type returns the type.
func (r resolvedObject) Type() *types.Type { return r.shape.typ }

// Field returns the type of a field.
func (r resolvedObject) Field(name string) (*types.FieldType, bool) {
	f, ok := r.shape.fields[name]
	if !ok {
		if r.shapes.missed != nil {
			r.shapes.missed[name] = r.shape
		}
		return nil, false
	}
	return &types.FieldType{Type: f.shape.typ}, true
}

// FieldNames returns all names that rules may use, sorted.
func (r resolvedObject) FieldNames() ([]string, bool) {
	return slices.Sorted(maps.Keys(r.shape.fields)), true
}

// Val refuses to make an object: rules read objects, they do not make them.
func (r resolvedObject) Val(map[string]ref.Val) ref.Val {
	return types.NewErr("a rule cannot make a %s", r.shape.typ.TypeName())
}

// closest returns the name among names that a typo of it most likely meant, or "" if none is near.
func closest(typo string, names []string) string {
	best, bestDistance := "", max(2, len(typo)/3)+1
	for _, name := range names {
		if d := editDistance(typo, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
