package property

import (
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/labels"
)

// Set is a compiled set of properties with the variables their rules read. It is read only: runs share it. A nil Set is
// an empty one.
type Set struct {
	variables []binding
	rules     []rule
	// watchers are, by kind, the rules that a commit to the kind may make true or false.
	watchers map[string][]int
	// matched are the rules that look at single requests.
	matched []int
}

// binding is a compiled variable.
type binding struct {
	Variable
	shape    *shape       // of one object
	goType   reflect.Type // of one object, nil if stored unstructured
	selector labels.Selector
}

// isList reports whether the variable binds a list.
func (v *Variable) isList() bool { return v.ObjectName == "" }

// rule is a compiled definition.
type rule struct {
	Definition
	program cel.Program
	reads   []int    // the variables that the rule reads, by index
	names   []string // their names; for a rule with a match, request and response follow
	paths   []path   // what the rule reads, in its order
	// body and bodyType tell how to read the body of the requests that a rule with a match looks at.
	body     *shape
	bodyType reflect.Type
}

// Variables returns the variables, in the order they were given in.
func (s *Set) Variables() []Variable {
	if s == nil {
		return nil
	}
	variables := make([]Variable, len(s.variables))
	for i := range s.variables {
		variables[i] = s.variables[i].Variable
	}
	return variables
}

// Definitions returns the definitions, in the order they were given in.
func (s *Set) Definitions() []Definition {
	if s == nil {
		return nil
	}
	definitions := make([]Definition, len(s.rules))
	for i := range s.rules {
		definitions[i] = s.rules[i].Definition
	}
	return definitions
}

// Kinds returns the kinds that the variables bind, sorted and without repeats.
func (s *Set) Kinds() []string {
	if s == nil {
		return nil
	}
	var kinds []string
	for i := range s.variables {
		kinds = append(kinds, s.variables[i].Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// index fills in what the monitors look up.
func (s *Set) index() {
	s.watchers = map[string][]int{}
	for i := range s.rules {
		r := &s.rules[i]
		if r.Match != nil {
			s.matched = append(s.matched, i)
			continue
		}
		if r.Type == Terminal {
			continue
		}
		for _, v := range r.reads {
			variable := &s.variables[v]
			if !variable.AtStart && !slices.Contains(s.watchers[variable.Kind], i) {
				s.watchers[variable.Kind] = append(s.watchers[variable.Kind], i)
			}
		}
	}
}
