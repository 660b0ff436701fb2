package scenarios

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// compile compiles the properties, and reports each error at its place in the rule.
func (l *loader) compile() *property.Set {
	spec := l.manifest.Spec
	variables := make([]property.Variable, len(spec.Variables))
	for i, v := range spec.Variables {
		variables[i] = l.variable(v)
	}
	definitions := make([]property.Definition, len(spec.Properties))
	for i, p := range spec.Properties {
		definitions[i] = property.Definition{Name: p.Name, Type: property.Type(p.Type), Rule: p.Rule, Message: p.Message}
		if p.Within != nil {
			definitions[i].Within = p.Within.Duration
		}
		if p.Match != nil {
			match := p.Match.selector()
			definitions[i].Match = &match
		}
	}
	set, errs := property.Compile(property.KindsOf(l.kinds), variables, definitions)
	for _, err := range errs {
		item := indexed(err.List, err.Index)
		name := join(item, l.bindingField(err))
		if l.reported[item] || l.reported[name] || strings.HasPrefix(err.Field, "match.") { // validate has said it
			continue
		}
		message := name + ": " + err.Message
		if err.Line == 0 {
			l.add(l.doc.at(name, message))
			continue
		}
		rule := spec.Properties[err.Index].Rule
		at := l.doc.index().within(name, rule, offset(rule, err.Line, err.Column))
		l.add(l.doc.source.at(at.line, at.column, message))
	}
	return set
}

// bindingField returns the field of an error as the scenario file has it, where variables have their kind and labels in a
// block.
func (l *loader) bindingField(err property.Error) string {
	if err.List == "variables" && err.Field != "name" {
		if l.manifest.Spec.Variables[err.Index].List != nil {
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
