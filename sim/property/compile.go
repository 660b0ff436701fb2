package property

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Error is one thing wrong with a variable or a definition, and where.
type Error struct {
	// List is "variables" or "properties"; Index is the position in it, from 0.
	List  string
	Index int
	// Field is the field at fault: of a variable name, kind, namespace or labels; of a property name, type, rule, within,
	// match, match.kind, match.verbs or match.occurrence.
	Field string
	// Line and Column, from 1, place an error in the text of a rule; the column counts characters. They are 0 where
	// the error is about the field as a whole.
	Line, Column int
	Message      string
}

// Error returns the error on one line: "properties[2].rule:1:12: undefined field 'replica'".
func (e Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s[%d].%s: %s", e.List, e.Index, e.Field, e.Message)
	}
	return fmt.Sprintf("%s[%d].%s:%d:%d: %s", e.List, e.Index, e.Field, e.Line, e.Column, e.Message)
}

// The values of [Error.List].
const (
	listVariables  = "variables"
	listProperties = "properties"
)

// Names that rules with a match may use besides the variables.
const (
	requestName  = "request"
	responseName = "response"
)

// Compile checks variables and definitions against the kinds and returns the set of them. It finds all errors at once;
// if there is one, the set is nil.
func Compile(kinds Kinds, variables []Variable, definitions []Definition) (*Set, []Error) {
	c := &compiler{
		kinds:   kinds,
		base:    environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv(),
		shapes:  newShapes(),
		roots:   map[string]*shape{},
		actions: map[string]*cel.Env{},
		set:     &Set{},
	}
	for i, v := range variables {
		c.variable(i, v)
	}
	if err := c.declare(); err != nil {
		c.fail(listVariables, 0, "name", "the variables cannot be declared in CEL: %v", err)
		return nil, c.errors
	}
	names := map[string]int{}
	for i, d := range definitions {
		c.name(names, i, d.Name)
		c.definition(i, d)
	}
	if len(c.errors) > 0 {
		return nil, c.errors
	}
	c.set.index()
	return c.set, nil
}

type compiler struct {
	kinds  Kinds
	base   *cel.Env
	shapes *shapes
	roots  map[string]*shape // of kinds, by name
	// state is the environment of rules over the state; actions, by the kind that is matched, of rules over requests.
	state   *cel.Env
	actions map[string]*cel.Env
	options []cel.EnvOption // declare the variables
	set     *Set
	errors  []Error
}

func (c *compiler) fail(list string, index int, field, format string, args ...any) {
	c.errors = append(c.errors, Error{List: list, Index: index, Field: field, Message: fmt.Sprintf(format, args...)})
}

// root returns the shape of a kind's objects.
func (c *compiler) root(name string) (*shape, Kind, bool) {
	kind, ok := c.kinds.Lookup(name)
	if !ok {
		return nil, Kind{}, false
	}
	if c.roots[name] == nil {
		c.roots[name] = c.shapes.root(name, kind)
	}
	return c.roots[name], kind, true
}

// variable checks and adds a variable. One with an error is added as dyn, so that rules which use it do not fail, too.
func (c *compiler) variable(i int, v Variable) {
	if !c.variableName(i, v.Name) {
		return
	}
	b := binding{Variable: v, shape: dynShape, selector: labels.Everything()}
	root, kind, ok := c.root(v.Kind)
	switch {
	case v.Kind == "":
		c.fail(listVariables, i, "kind", "variable %q binds no kind", v.Name)
	case !ok:
		c.fail(listVariables, i, "kind", "unknown kind %q", v.Kind)
	default:
		b.shape, b.goType = root, kind.Type
	}
	if !v.isList() && len(v.Labels) > 0 {
		c.fail(listVariables, i, "labels", "variable %q binds one object by its name; labels are for lists", v.Name)
	} else if selector, err := labels.ValidatedSelectorFromSet(v.Labels); err != nil {
		c.fail(listVariables, i, "labels", "%v", err)
	} else if len(v.Labels) > 0 {
		b.selector = selector
	}
	c.set.variables = append(c.set.variables, b)
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// variableName checks that rules can use the name: that CEL reads it as an identifier, and as none of its own.
func (c *compiler) variableName(i int, name string) bool {
	parsed, issues := c.base.Parse(name)
	isKeyword := issues.Err() != nil || parsed.NativeRep().Expr().Kind() != ast.IdentKind
	_, isType := c.base.CELTypeProvider().FindIdent(name)
	switch {
	case name == "":
		c.fail(listVariables, i, "name", "a variable needs a name")
	case !identifier.MatchString(name):
		c.fail(listVariables, i, "name", "%q cannot be used in rules: a name holds letters, digits and underscores and "+
			"starts with no digit", name)
	case isKeyword || isType || name == requestName || name == responseName:
		c.fail(listVariables, i, "name", "%q is a reserved word of rules", name)
	case slices.ContainsFunc(c.set.variables, func(b binding) bool { return b.Name == name }):
		c.fail(listVariables, i, "name", "duplicate name %q", name)
	default:
		return true
	}
	return false
}

// declare makes the environment for rules over the state.
func (c *compiler) declare() error {
	for i := range c.set.variables {
		b := &c.set.variables[i]
		t := b.shape.typ
		if b.isList() {
			t = cel.ListType(t)
		}
		c.options = append(c.options, cel.Variable(b.Name, t))
	}
	var err error
	c.state, err = c.base.Extend(append([]cel.EnvOption{common.ResolverEnvOption(c.shapes)}, c.options...)...)
	return err
}

// name checks that a property has a name that no other has.
func (c *compiler) name(names map[string]int, i int, name string) {
	first, taken := names[name]
	switch {
	case strings.TrimSpace(name) == "":
		c.fail(listProperties, i, "name", "a property needs a name")
	case taken:
		c.fail(listProperties, i, "name", "duplicate name %q, first used by properties[%d]", name, first)
	default:
		names[name] = i
	}
}

func (c *compiler) definition(i int, d Definition) {
	if !slices.Contains(propertyTypes, d.Type) {
		c.fail(listProperties, i, "type", "unknown type %q, %s", d.Type, chooseType(d.Type))
		return
	}
	c.within(i, d)
	c.match(i, d)
	if strings.TrimSpace(d.Rule) == "" {
		c.fail(listProperties, i, "rule", "a property needs a rule")
		return
	}
	env, err := c.environment(d.Match)
	if err != nil {
		c.fail(listProperties, i, "rule", "%v", err)
		return
	}
	r := rule{Definition: d}
	if d.Match != nil {
		r.body, r.bodyType = c.body(d.Match)
	}
	if !c.program(i, env, &r) {
		return
	}
	if r.Message == "" {
		r.Message = r.Rule
	}
	c.set.rules = append(c.set.rules, r)
}

var propertyTypes = []Type{Always, Terminal, Eventually, Sometimes, Request}

// Types returns the types that properties may have.
func Types() []Type { return slices.Clone(propertyTypes) }

// chooseType says which type of property may have been meant, and which there are.
func chooseType(unknown Type) string {
	names := make([]string, len(propertyTypes))
	for i, t := range propertyTypes {
		names[i] = string(t)
	}
	choose := "use one of " + strings.Join(names, ", ")
	if name := closest(string(unknown), names); name != "" {
		return fmt.Sprintf("did you mean %q? %s", name, choose)
	}
	return choose
}

func (c *compiler) within(i int, d Definition) {
	switch {
	case d.Type != Eventually && d.Within != 0:
		c.fail(listProperties, i, "within", "type %s takes no within; it is for Eventually", d.Type)
	case d.Type == Eventually && d.Within == 0:
		c.fail(listProperties, i, "within", "type Eventually needs a within; what must only hold in the end is Terminal")
	case d.Within < 0:
		c.fail(listProperties, i, "within", "%s is negative", d.Within.Round(time.Millisecond))
	}
}

func (c *compiler) match(i int, d Definition) {
	takesMatch := d.Type == Request || d.Type == Sometimes
	switch {
	case d.Match == nil && d.Type == Request:
		c.fail(listProperties, i, "match", "type Request needs a match")
		return
	case d.Match == nil:
		return
	case !takesMatch:
		c.fail(listProperties, i, "match", "type %s takes no match; it is for Request and Sometimes", d.Type)
		return
	}
	if d.Match.Kind != "" {
		if _, _, ok := c.root(d.Match.Kind); !ok {
			c.fail(listProperties, i, "match.kind", "unknown kind %q", d.Match.Kind)
		}
	}
	for _, verb := range d.Match.Verbs {
		if !verb.IsRequest() {
			c.fail(listProperties, i, "match.verbs", "%q is no request to the API server", verb)
		}
	}
	if d.Match.Occurrence < 0 {
		c.fail(listProperties, i, "match.occurrence", "%d is negative; occurrences count from 1", d.Match.Occurrence)
	}
}

// environment returns the environment of rules with a match, or of those without.
func (c *compiler) environment(match *schedule.Selector) (*cel.Env, error) {
	if match == nil {
		return c.state, nil
	}
	if env := c.actions[match.Kind]; env != nil {
		return env, nil
	}
	body, _ := c.body(match)
	request := c.shapes.ofRequest(match.Kind, body)
	response := c.shapes.ofGo(reflect.TypeFor[responseFields]())
	env, err := c.base.Extend(append([]cel.EnvOption{
		common.ResolverEnvOption(c.shapes),
		cel.Variable(requestName, request.typ),
		cel.Variable(responseName, response.typ),
	}, c.options...)...)
	c.actions[match.Kind] = env
	return env, err
}

// body returns the shape of the bodies of the requests that are matched, and their Go type, nil if unstructured.
func (c *compiler) body(match *schedule.Selector) (*shape, reflect.Type) {
	if root, kind, ok := c.root(match.Kind); ok {
		return root, kind.Type
	}
	return dynShape, nil
}

// program checks the rule and plans its evaluation.
func (c *compiler) program(i int, env *cel.Env, r *rule) bool {
	c.shapes.missed = map[string]*shape{}
	checked, issues := env.Compile(r.Rule)
	if issues.Err() != nil {
		c.issues(i, issues)
		return false
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) {
		hint := ""
		if t.IsExactType(cel.DynType) {
			hint = ": compare it, or convert it with bool()"
		}
		c.errors = append(c.errors, Error{List: listProperties, Index: i, Field: "rule", Line: 1, Column: 1,
			Message: fmt.Sprintf("a rule must be a bool, this is of type %s%s", cel.FormatCELType(t), hint)})
		return false
	}
	program, err := env.Program(checked)
	if err != nil {
		c.fail(listProperties, i, "rule", "%v", err)
		return false
	}
	r.program = program
	c.reads(checked, r)
	return true
}

var (
	undefinedField = regexp.MustCompile(`^undefined field '(.+)'$`)
	undeclaredName = regexp.MustCompile(`^undeclared reference to '(.+)'( \(in container ''\))$`)
)

// issues adds CEL's errors, which are in the order of the text.
func (c *compiler) issues(i int, issues *cel.Issues) {
	errors := slices.Clone(issues.Errors())
	slices.SortStableFunc(errors, func(a, b *cel.Error) int {
		return cmp.Or(
			cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	for _, e := range errors {
		c.errors = append(c.errors, Error{List: listProperties, Index: i, Field: "rule",
			Line: max(1, e.Location.Line()), Column: max(1, e.Location.Column()+1), Message: c.explain(e.Message)})
	}
}

// explain adds to an error of CEL what may have been meant.
func (c *compiler) explain(message string) string {
	if m := undefinedField.FindStringSubmatch(message); m != nil && c.shapes.missed[m[1]] != nil {
		on := c.shapes.missed[m[1]]
		message += " in " + on.typ.TypeName()
		if name := closest(m[1], on.names); name != "" {
			message += fmt.Sprintf(", did you mean '%s'?", name)
		}
		return message
	}
	m := undeclaredName.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	message = strings.TrimSuffix(message, m[2])
	if m[1] == requestName || m[1] == responseName {
		return message + ": only rules with a match have it"
	}
	var names []string
	for _, b := range c.set.variables {
		names = append(names, b.Name)
	}
	// The names of variables are short: what differs in more than a third of a name is another name.
	if name := closest(m[1], names); name != "" && editDistance(m[1], name) <= max(1, len(name)/3) {
		return message + fmt.Sprintf(", did you mean '%s'?", name)
	}
	return message
}
