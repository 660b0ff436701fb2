package scenarios

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// Options say how a scenario is loaded.
type Options struct {
	// Registry makes the names of reconcilers part of what is checked. If nil, only [Scenario.Config] looks at them.
	Registry *Registry
}

// Scenario is a scenario that was loaded and checked. It is read only.
type Scenario struct {
	// Name as its metadata has it.
	Name string
	// Path of its file as it was loaded.
	Path string
	// Entry says which combination of the matrix this is: "policy=Foreground,size=3". It is empty where there is no matrix,
	// and for the scenario that was loaded, whose [Scenario.Entries] are what can be run.
	Entry string
	// Values are those of the matrix in this entry, by their names.
	Values map[string]string
	// Digest is of the content of its file, and of all files that it refers to: it changes when one of them does.
	Digest string
	// Manifest is what the file says, with the values of the matrix in their places; those of the first entry in the scenario
	// that was loaded.
	Manifest *Manifest

	doc        *document
	entries    []*Scenario // nil without a matrix
	kinds      *apiserver.Kinds
	given      []apiserver.Object
	access     []*rbac.Access // of the controllers; nil for one that may do everything
	racers     []sim.RacerConfig
	steps      int // of the script
	properties *property.Set
}

// Steps returns the number of steps of the script, as schedules count them: a create of a file is a step for each of its
// objects.
func (s *Scenario) Steps() int { return s.steps }

// Load reads a scenario file and all files it refers to. These must lie in the repository that holds the scenario, which is
// the nearest folder above it with .git or go.mod in it, or else its own folder; symbolic links are resolved first.
//
// What is wrong with the files is an [*Error], with everything that is wrong in it. There are no other errors but those of
// the operating system.
func Load(name string, opts Options) (*Scenario, error) {
	t, file, err := openTree(name)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return load(t, file, opts)
}

// LoadFS is like [Load], with files from fsys instead of the disk; all of it counts as the repository.
func LoadFS(fsys fs.FS, name string, opts Options) (*Scenario, error) {
	return load(treeOf(fsys, name), name, opts)
}

// loader reads one scenario and collects what is wrong with it.
type loader struct {
	tree        *tree
	doc         *document
	manifest    *Manifest
	kinds       *apiserver.Kinds
	definitions map[schema.GroupVersionKind]*crd.Definition // of the custom resources
	diagnostics []Diagnostic
	// reported are the fields of the scenario file that something is wrong with: what follows from it is not reported.
	reported map[string]bool
}

func newLoader(t *tree) *loader {
	return &loader{tree: t, manifest: &Manifest{}, definitions: map[schema.GroupVersionKind]*crd.Definition{}}
}

func load(t *tree, name string, opts Options) (*Scenario, error) {
	display := t.display(name)
	doc, diagnostics := openDocument(t, name, KindScenario)
	if doc == nil {
		return nil, newError(display, diagnostics)
	}
	combinations, problems := readMatrix(doc)
	diagnostics = append(diagnostics, problems...)
	found := make([][]Diagnostic, len(combinations))
	var entries []*Scenario
	for i, c := range combinations {
		var entry *Scenario
		entry, found[i] = loadEntry(t, doc, c, opts)
		entry.Path = display
		entries = append(entries, entry)
	}
	diagnostics = append(diagnostics, common(combinations, found)...)
	if err := newError(display, diagnostics); err != nil {
		return nil, err
	}
	digest := hex.EncodeToString(t.digest.Sum(nil))
	for _, entry := range entries {
		entry.Digest = digest
	}
	if entries[0].Entry == "" {
		return entries[0], nil
	}
	whole := *entries[0]
	whole.Entry, whole.Values, whole.entries = "", nil, entries
	return &whole, nil
}

// loadEntry reads the scenario that a document stands for with one combination of values.
func loadEntry(t *tree, doc *document, c combination, opts Options) (*Scenario, []Diagnostic) {
	l := newLoader(t)
	l.doc, l.diagnostics = substitute(doc, c)
	if len(l.diagnostics) > 0 { // what the fields say is not known
		return &Scenario{}, l.diagnostics
	}
	var problems []Diagnostic
	problems, l.reported = strictDecode(l.doc, l.doc.value, "", l.manifest)
	l.add(problems...)
	s := &Scenario{
		Name: l.manifest.Metadata.Name, Entry: c.String(), Values: c.texts(), Manifest: l.manifest, doc: l.doc,
	}
	l.kinds = l.loadKinds()
	l.validate(opts.Registry)
	if l.kinds == nil {
		return s, l.diagnostics
	}
	s.kinds = l.kinds
	before := len(l.diagnostics)
	s.given = l.loadGiven()
	s.access = l.loadAccess()
	script := l.loadScript()
	s.steps = len(script)
	if len(l.diagnostics) == before { // all objects are there
		l.checkNodes(s.given, script)
	}
	s.properties = l.compile(ruleLists{variables: l.manifest.Spec.Variables, properties: l.manifest.Spec.Properties}, ruleLists{})
	if len(l.diagnostics) == 0 {
		s.racers = l.racers(script)
	}
	return s, l.diagnostics
}

// openDocument reads the only document of a file that must be of a kind. It returns nil if nothing more can be said about the
// file than the diagnostics do.
func openDocument(t *tree, name, kind string) (*document, []Diagnostic) {
	display := t.display(name)
	whole := func(message string) (*document, []Diagnostic) {
		return nil, []Diagnostic{{File: display, Message: message}}
	}
	data, err := t.read(name)
	if err != nil {
		return whole(err.Error())
	}
	source, problems := parseSource(display, data)
	switch {
	case len(source.docs) == 0 && len(problems) > 0:
		return nil, problems
	case len(source.docs) == 0:
		return whole(fmt.Sprintf("empty: a %s begins with apiVersion: %s and kind: %s", strings.ToLower(kind), APIVersion, kind))
	case len(source.docs) > 1:
		message := "a second document: a %s is a file of its own"
		if kind == KindScenario {
			message += ", and its objects are named in spec.given"
		}
		return nil, append(problems, source.docs[1].at("", fmt.Sprintf(message, strings.ToLower(kind))))
	}
	doc := source.docs[0]
	if wrong := doc.header(kind); len(wrong) > 0 {
		return nil, append(problems, wrong...)
	}
	return doc, problems
}

// otherKinds say of a file that was taken for another kind what it is.
var otherKinds = map[string]string{
	KindScenario: "a Scenario says what may happen; a Schedule, which names it in spec.scenario, what must",
	KindSchedule: "a Schedule says what must happen in a run of the scenario that it names in spec.scenario: replay it",
}

// header checks that the document is of a kind at all: if not, nothing else that can be said about it helps.
func (d *document) header(kind string) []Diagnostic {
	fields, ok := d.value.(map[string]any)
	if !ok {
		return []Diagnostic{d.at("", "expected a mapping with apiVersion, kind, metadata and spec, found "+describe(d.value))}
	}
	var wrong []Diagnostic
	if version := fields["apiVersion"]; version != APIVersion {
		wrong = append(wrong, d.at("apiVersion", fmt.Sprintf("apiVersion: expected %s, found %s", APIVersion, describe(version))))
	}
	if found := fields["kind"]; found != kind {
		message := fmt.Sprintf("kind: expected %s, found %s", kind, describe(found))
		if name, ok := found.(string); ok && otherKinds[name] != "" {
			message += ": " + otherKinds[name]
		}
		wrong = append(wrong, d.at("kind", message))
	}
	return wrong
}

// validate checks what the manifest means.
func (l *loader) validate(registry *Registry) { l.report(validate(l.manifest, l.kinds, registry)) }

// report adds what is wrong with fields. Where a field could not be decoded, or part of it, that it is missing is no news.
func (l *loader) report(errs field.ErrorList) {
	errs = slices.DeleteFunc(errs, func(err *field.Error) bool {
		return err.Type == field.ErrorTypeRequired && l.reportedWithin(err.Field)
	})
	errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return l.reported[err.Field] })
	l.add(fieldDiagnostics(l.doc, "", errs)...)
	for _, err := range errs {
		l.reported[err.Field] = true
	}
}

// reportedWithin reports whether something is wrong with a field of what stands at a path.
func (l *loader) reportedWithin(path string) bool {
	for bad := range l.reported {
		if strings.HasPrefix(bad, path+".") {
			return true
		}
	}
	return false
}

func (l *loader) add(diagnostics ...Diagnostic) {
	l.diagnostics = append(l.diagnostics, diagnostics...)
}

// fieldDiagnostics says what a check of fields found in a document, where fields are named from the one at base. A field that
// must not be there is pointed at by its name, others by their values.
func fieldDiagnostics(doc *document, base string, errs field.ErrorList) []Diagnostic {
	diagnostics := make([]Diagnostic, len(errs))
	for i, err := range errs {
		name := join(base, err.Field)
		at := doc.index().nearest(name, err.Type == field.ErrorTypeForbidden)
		diagnostics[i] = doc.source.at(at.line, at.column, name+": "+lowerFirst(err.ErrorBody()))
	}
	return diagnostics
}

// lowerFirst makes the first letter lower case, as errors begin here.
func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[size:]
}

// readReferences reads the files that a field of the scenario file refers to, and reports where that fails at the field.
func (l *loader) readReferences(reference FileReference, fieldPath string) []*source {
	fieldPath = join(fieldPath, "path")
	if reference.Path == "" {
		return nil // reported as a required field
	}
	fail := func(err error) []*source {
		l.add(l.doc.at(fieldPath, fmt.Sprintf("%s: %q: %v", fieldPath, reference.Path, err)))
		return nil
	}
	names, err := l.tree.resolve(reference.Path)
	if err != nil {
		return fail(err)
	}
	var sources []*source
	for _, name := range names {
		data, err := l.tree.read(name)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", l.tree.display(name), err))
		}
		source, problems := parseSource(l.tree.display(name), data)
		l.add(problems...)
		if len(problems) == 0 && len(source.docs) == 0 {
			return fail(fmt.Errorf("%s: empty: it holds no object", l.tree.display(name)))
		}
		sources = append(sources, source)
	}
	return sources
}

// indexed names the i-th item of a list in the spec.
func indexed(list string, i int) string { return fmt.Sprintf("spec.%s[%d]", list, i) }
