package scenarios

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// ruleLists are lists of variables and properties in a file.
type ruleLists struct {
	variables  []Variable
	properties []Property
	// places are those of the properties. A loader knows those of its own file.
	places []property.Position
}

// places returns where the properties of the document are written.
func (l *loader) places(properties []Property) []property.Position {
	places := make([]property.Position, len(properties))
	for i := range properties {
		at := l.doc.index().nearest(indexed("properties", i), false)
		places[i] = property.Position{File: l.doc.source.name, Line: at.line, Column: at.column}
	}
	return places
}

// names returns the names of one of the lists, as errors name it.
func (r ruleLists) names(list string) []string {
	var names []string
	if list == "variables" {
		for _, v := range r.variables {
			names = append(names, v.Name)
		}
		return names
	}
	for _, p := range r.properties {
		names = append(names, p.Name)
	}
	return names
}

// places returns where the properties of the scenario are written.
func (s *Scenario) places() []property.Position {
	definitions := s.properties.Definitions()
	places := make([]property.Position, len(definitions))
	for i := range definitions {
		places[i] = definitions[i].Position
	}
	return places
}

// compile compiles the properties of the document, and reports each error at its place in the rule. They come after inherited
// ones, of another file, in which nothing is wrong with them.
func (l *loader) compile(own, inherited ruleLists) *property.Set {
	all := ruleLists{
		slices.Concat(inherited.variables, own.variables),
		slices.Concat(inherited.properties, own.properties),
		slices.Concat(inherited.places, l.places(own.properties)),
	}
	set, errs := property.Compile(property.KindsOf(l.kinds), l.bindings(all.variables), all.definitions())
	for _, err := range errs {
		index := err.Index - len(inherited.names(err.List))
		item := indexed(err.List, index)
		name := join(item, bindingField(err, all.variables))
		if l.reported[item] || l.reported[name] || strings.HasPrefix(err.Field, "match.") { // validate has said it
			continue
		}
		message := name + ": " + err.Message
		if taken := inherited.names(err.List); err.Field == "name" && slices.Contains(taken, own.names(err.List)[index]) {
			message = name + ": the scenario has this name: choose another"
		}
		if err.Line == 0 {
			l.add(l.doc.at(name, message))
			continue
		}
		rule := all.properties[err.Index].Rule
		at := l.doc.index().within(name, rule, offset(rule, err.Line, err.Column))
		l.add(l.doc.source.at(at.line, at.column, message))
	}
	return set
}

// bindings converts variables.
func (l *loader) bindings(variables []Variable) []property.Variable {
	converted := make([]property.Variable, len(variables))
	for i, v := range variables {
		converted[i] = l.variable(v)
	}
	return converted
}

// definitions converts the properties.
func (r ruleLists) definitions() []property.Definition {
	converted := make([]property.Definition, len(r.properties))
	for i, p := range r.properties {
		converted[i] = property.Definition{
			Name: p.Name, Type: property.Type(p.Type), Rule: p.Rule, Message: p.Message, Position: r.places[i],
		}
		converted[i].Within = duration(p.Within)
		if p.Match != nil {
			match := p.Match.selector()
			converted[i].Match = &match
		}
	}
	return converted
}

// bindingField returns the field of an error as a file has it, where variables have their kind and labels in a block.
func bindingField(err property.Error, variables []Variable) string {
	if err.List == "variables" && err.Field != "name" {
		if variables[err.Index].List != nil {
			return "list." + err.Field
		}
		return "object." + err.Field
	}
	return err.Field
}

// offset returns how many characters precede a line and column, which count from 1.
func offset(text string, line, column int) int {
	n := 0
	for _, r := range text {
		if line <= 1 {
			break
		}
		if r == '\n' {
			line--
		}
		n++
	}
	return n + column - 1
}

// variable converts a variable.
func (l *loader) variable(v Variable) property.Variable {
	variable := property.Variable{Name: v.Name, AtStart: v.At == AtStart}
	switch {
	case v.Object != nil:
		// Without a name it is still an object, so that rules do not fail as well.
		variable.Kind, variable.ObjectName = v.Object.Kind, cmp.Or(v.Object.Name, "unnamed")
		variable.Namespace = l.namespace(v.Object.Kind, v.Object.Namespace)
	case v.List != nil:
		variable.Kind, variable.Namespace, variable.Labels = v.List.Kind, v.List.Namespace, v.List.Labels
	}
	return variable
}

// namespace returns the namespace of an object that may not say it.
func (l *loader) namespace(kind, namespace string) string {
	if row := l.kinds.ByName(kind); row != nil && !row.Namespaced {
		return metav1.NamespaceNone
	}
	if namespace == "" {
		return DefaultNamespace
	}
	return namespace
}

// selector converts a selector.
func (s Selector) selector() schedule.Selector {
	selector := schedule.Selector{
		Actor:       s.Actor,
		Incarnation: s.Incarnation,
		Controller:  s.Controller,
		Key:         s.Key,
		Kind:        s.Kind,
		Namespace:   s.Namespace,
		Name:        s.Name,
		Subresource: s.Subresource,
		Occurrence:  s.Occurrence,
	}
	if s.Verb != "" {
		selector.Verbs = []schedule.Verb{schedule.Verb(s.Verb)}
	}
	for _, verb := range s.Verbs {
		selector.Verbs = append(selector.Verbs, schedule.Verb(verb))
	}
	return selector
}
