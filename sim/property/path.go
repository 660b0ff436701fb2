package property

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// path is one chain of fields and keys that a rule reads: "sts.spec.replicas". It starts at a name the activation
// resolves, or at the elements of a list that a macro of the rule iterates over.
type path struct {
	root  string
	of    *path // the list whose elements the path starts at; root is not set then
	steps []step
}

// step goes from a value to a field or entry of it, or to an element of a list.
type step struct {
	key  ref.Val // a string or an int
	text string  // how it is printed: ".spec" or `["a/b"]`
}

// reads notes which variables a checked rule reads, and by which paths.
func (c *compiler) reads(checked *cel.Ast, r *rule) {
	w := &pathWalker{rule: r}
	for i := range c.set.variables {
		w.names = append(w.names, c.set.variables[i].Name)
	}
	if r.Match != nil {
		w.extra = []string{requestName, responseName}
	}
	w.walk(checked.NativeRep().Expr())
	slices.Sort(r.reads)
	for _, v := range r.reads {
		r.names = append(r.names, w.names[v])
	}
	r.names = append(r.names, w.extra...)
}

// pathWalker collects paths from a rule's syntax tree, in the order of the text.
type pathWalker struct {
	rule  *rule
	names []string // of the variables
	extra []string // names that are no variables: the request, the response
	// scopes are the iteration variables of the macros around the current place, innermost last. One that does not
	// iterate over the elements of a list read from the cluster has a nil path.
	scopes []scope
}

type scope struct {
	name string
	list *path
}

func (w *pathWalker) walk(e ast.Expr) {
	if p, operands := w.chain(e); p != nil {
		w.add(*p)
		for _, operand := range operands {
			w.walk(operand)
		}
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			w.walk(call.Target())
		}
		for _, arg := range call.Args() {
			w.walk(arg)
		}
	case ast.ListKind:
		for _, elem := range e.AsList().Elements() {
			w.walk(elem)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walk(entry.AsMapEntry().Key())
			w.walk(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		w.comprehension(e.AsComprehension())
	}
}

// comprehension walks an expanded macro. Its accumulator hides variables of the same name, as CEL's scopes do.
func (w *pathWalker) comprehension(c ast.ComprehensionExpr) {
	w.walk(c.IterRange())
	w.walk(c.AccuInit())
	depth := len(w.scopes)
	element := scope{name: c.IterVar(), list: w.source(c.IterRange())}
	if c.HasIterVar2() {
		w.scopes = append(w.scopes, scope{name: c.IterVar()}) // the index
		element.name = c.IterVar2()
	}
	w.scopes = append(w.scopes, element, scope{name: c.AccuVar()})
	w.walk(c.LoopCondition())
	w.walk(c.LoopStep())
	w.scopes = append(w.scopes[:depth], scope{name: c.AccuVar()})
	w.walk(c.Result())
	w.scopes = w.scopes[:depth]
}

// source returns the path to the list that a macro iterates over: a chain, with a default for its absence, filtered.
func (w *pathWalker) source(e ast.Expr) *path {
	for {
		switch {
		case e.Kind() == ast.ComprehensionKind:
			e = e.AsComprehension().IterRange()
			continue
		case e.Kind() == ast.CallKind && slices.Contains([]string{"orValue", "value"}, e.AsCall().FunctionName()):
			e = e.AsCall().Target()
			continue
		}
		p, _ := w.chain(e)
		return p
	}
}

// chain returns the path that an expression reads, and the expressions that index it where it ends because they are
// not constant. It is nil if the expression does not start at a name.
func (w *pathWalker) chain(e ast.Expr) (*path, []ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		return w.ident(e.AsIdent()), nil
	case ast.SelectKind:
		sel := e.AsSelect()
		return w.extend(sel.Operand(), fieldStep(sel.FieldName()), nil)
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.OptSelect:
			return w.extend(call.Args()[0], literalStep(call.Args()[1], fieldStep), call.Args()[1])
		case operators.Index, operators.OptIndex:
			return w.extend(call.Args()[0], literalStep(call.Args()[1], keyStep), call.Args()[1])
		}
	}
	return nil, nil
}

// extend returns the path of the operand with one step more. A nil step, an index that is not constant, ends the path;
// so does whatever follows it.
func (w *pathWalker) extend(operand ast.Expr, next *step, index ast.Expr) (*path, []ast.Expr) {
	p, operands := w.chain(operand)
	switch {
	case p == nil:
		return nil, nil
	case len(operands) > 0 || next == nil:
		if next == nil {
			operands = append(operands, index)
		}
		return p, operands
	default:
		p.steps = append(slices.Clone(p.steps), *next)
		return p, nil
	}
}

func (w *pathWalker) ident(name string) *path {
	for _, s := range slices.Backward(w.scopes) {
		if s.name == name {
			if s.list == nil {
				return nil
			}
			return &path{of: s.list}
		}
	}
	if i := slices.Index(w.names, name); i >= 0 {
		if !slices.Contains(w.rule.reads, i) {
			w.rule.reads = append(w.rule.reads, i)
		}
		return &path{root: name}
	}
	if slices.Contains(w.extra, name) {
		return &path{root: name}
	}
	return nil
}

// add notes a path, unless it is a whole element of a list that was noted as such.
func (w *pathWalker) add(p path) {
	if p.of != nil && len(p.steps) == 0 {
		return
	}
	w.rule.paths = append(w.rule.paths, p)
}

func fieldStep(name string) *step {
	printed := name
	if unescaped, ok := apiservercel.Unescape(name); ok {
		printed = unescaped
	}
	return &step{key: types.String(name), text: "." + printed}
}

func keyStep(key string) *step {
	return &step{key: types.String(key), text: "[" + strconv.Quote(key) + "]"}
}

// literalStep returns the step that a constant makes, nil for anything else.
func literalStep(e ast.Expr, ofString func(string) *step) *step {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	switch key := e.AsLiteral().(type) {
	case types.String:
		return ofString(string(key))
	case types.Int:
		return &step{key: key, text: "[" + strconv.FormatInt(int64(key), 10) + "]"}
	default:
		return nil
	}
}

// maxElements bounds how many elements of a list are printed.
const maxElements = 10

// place is where a path leads in one state of the cluster. The value is nil if nothing is there.
type place struct {
	text  string
	value ref.Val
}

// places follows the path. It leads to several places if it starts at the elements of a list.
func (p *path) places(state *activation) []place {
	var places []place
	if p.of == nil {
		places = []place{{text: p.root, value: state.lookup(p.root)}}
	} else {
		for _, list := range p.of.places(state) {
			places = append(places, elements(list)...)
		}
	}
	for i := range places {
		for _, step := range p.steps {
			places[i].text += step.text
			places[i].value = step.from(places[i].value)
		}
	}
	return places
}

func elements(list place) []place {
	lister, ok := list.value.(traits.Lister)
	if !ok {
		return nil
	}
	size := int(lister.Size().(types.Int))
	places := make([]place, min(size, maxElements))
	for i := range places {
		places[i] = place{text: list.text + "[" + strconv.Itoa(i) + "]", value: lister.Get(types.Int(i))}
	}
	return places
}

// from takes the step, and returns nil where it leads nowhere.
func (s *step) from(v ref.Val) ref.Val {
	switch x := v.(type) {
	case traits.Mapper:
		if found, ok := x.Find(s.key); ok {
			v = found
		} else {
			v = nil
		}
	case traits.Indexer:
		v = x.Get(s.key)
	default:
		v = nil
	}
	if v == types.NullValue || types.IsError(v) {
		return nil
	}
	return v
}

// values returns what the rule reads in a state, in the order of its text and without repeats.
func (r *rule) values(state *activation) []Value {
	var values []Value
	for i := range r.paths {
		for _, p := range r.paths[i].places(state) {
			if !slices.ContainsFunc(values, func(v Value) bool { return v.Path == p.text }) {
				values = append(values, Value{Path: p.text, Value: shorten(render(p.value))})
			}
		}
	}
	return values
}

// maxRendered bounds the length of a printed value, in characters.
const maxRendered = 160

func shorten(text string) string {
	runes := []rune(text)
	if len(runes) <= maxRendered {
		return text
	}
	return string(runes[:maxRendered]) + "…"
}

// render prints a value as CEL would write it, a whole object as its kind and name, and nothing as absent.
func render(v ref.Val) string {
	switch x := v.(type) {
	case nil, types.Null:
		return "absent"
	case types.String:
		return strconv.Quote(string(x))
	case types.Bytes:
		return "b" + strconv.Quote(string(x))
	case types.Timestamp:
		return x.UTC().Format("2006-01-02T15:04:05.999999999Z")
	case types.Duration:
		return x.Duration.String()
	case *object:
		return renderRecord(&x.record)
	case *mapping:
		return renderRecord(&x.record)
	case traits.Lister:
		return renderList(x)
	default:
		return renderScalar(x)
	}
}

func renderScalar(v ref.Val) string {
	if text, ok := v.ConvertToType(types.StringType).(types.String); ok {
		return string(text)
	}
	return v.Type().TypeName()
}

func renderRecord(r *record) string {
	if r.shape.title != "" {
		return r.shape.title + " " + r.objectName()
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, key := range r.keys() {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > 4*maxRendered { // it will be shortened anyhow
			break
		}
		v, _ := r.find(key)
		b.WriteString(strconv.Quote(key) + ": " + render(v))
	}
	b.WriteByte('}')
	return b.String()
}

// objectName returns the namespace and name of a whole object.
func (r *record) objectName() string {
	metadata, _ := r.find("metadata")
	name := step{key: types.String("name")}
	namespace := step{key: types.String("namespace")}
	printed := ""
	if ns, ok := namespace.from(metadata).(types.String); ok && ns != "" {
		printed = string(ns) + "/"
	}
	if n, ok := name.from(metadata).(types.String); ok {
		printed += string(n)
	}
	return printed
}

func renderList(list traits.Lister) string {
	size := int(list.Size().(types.Int))
	texts := make([]string, min(size, maxElements))
	for i := range texts {
		texts[i] = render(list.Get(types.Int(i)))
	}
	if size > maxElements {
		texts = append(texts, "and "+strconv.Itoa(size-maxElements)+" more")
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
