package scenarios

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
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
	// Manifest is what the file says.
	Manifest *Manifest

	doc        *document
	kinds      *apiserver.Kinds
	given      []apiserver.Object
	racers     []sim.RacerConfig
	properties *property.Set
}

// Load reads a scenario file and all files it refers to. These must lie in the repository that holds the scenario, which is
// the nearest folder above it with .git or go.mod in it, or else its own folder; symbolic links are resolved first.
//
// What is wrong with the files is an [*Error], with everything that is wrong in it. There are no other errors but those of
// the operating system.
func Load(name string, opts Options) (*Scenario, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, newError(name, []Diagnostic{{File: name, Message: readError(err).Error()}})
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	root, err := os.OpenRoot(repository(resolved))
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	defer func() { _ = root.Close() }()
	relative, err := filepath.Rel(root.Name(), resolved)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	relative = filepath.ToSlash(relative)
	display := func(file string) string {
		if file == relative {
			return name
		}
		fromScenario, err := filepath.Rel(filepath.Dir(relative), file)
		if err != nil {
			return file
		}
		return filepath.Join(filepath.Dir(name), fromScenario)
	}
	return load(&tree{fsys: root.FS(), folder: path.Dir(relative), display: display}, relative, opts)
}

// LoadFS is like [Load], with files from fsys instead of the disk; all of it counts as the repository.
func LoadFS(fsys fs.FS, name string, opts Options) (*Scenario, error) {
	display := func(file string) string { return file }
	return load(&tree{fsys: fsys, folder: path.Dir(name), display: display}, name, opts)
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
	l := newLoader(t)
	display := t.display(name)
	if !l.open(name) {
		return nil, newError(display, l.diagnostics)
	}
	s := &Scenario{Name: l.manifest.Metadata.Name, Path: display, Manifest: l.manifest, doc: l.doc}
	l.kinds = l.loadKinds()
	l.validate(opts.Registry)
	if l.kinds != nil {
		s.kinds = l.kinds
		s.given = l.loadGiven()
		script := l.loadScript()
		s.properties = l.compile()
		if len(l.diagnostics) == 0 {
			s.racers = l.racers(script)
		}
	}
	if err := newError(display, l.diagnostics); err != nil {
		return nil, err
	}
	return s, nil
}

// open reads the scenario file and decodes it. It reports whether there is a manifest whose meaning can be checked.
func (l *loader) open(name string) bool {
	display := l.tree.display(name)
	whole := func(message string) bool {
		l.add(Diagnostic{File: display, Message: message})
		return false
	}
	data, err := l.tree.read(name)
	if err != nil {
		return whole(err.Error())
	}
	source, problems := parseSource(display, data)
	l.add(problems...)
	if len(source.docs) == 0 && len(problems) > 0 {
		return false
	}
	if len(source.docs) == 0 {
		return whole(fmt.Sprintf("empty: a scenario begins with apiVersion: %s and kind: %s", APIVersion, KindScenario))
	}
	if len(source.docs) > 1 {
		second := source.docs[1]
		l.add(second.at("", "a second document: a scenario is a file of its own, and its objects are named in spec.given"))
		return false
	}
	l.doc = source.docs[0]
	if !l.header() {
		return false
	}
	var problem []Diagnostic
	problem, l.reported = strictDecode(l.doc, l.doc.value, "", l.manifest)
	l.add(problem...)
	return true
}

// header checks that the document is a scenario at all: if not, nothing else that can be said about it helps.
func (l *loader) header() bool {
	before := len(l.diagnostics)
	fields, ok := l.doc.value.(map[string]any)
	if !ok {
		l.add(l.doc.at("", "expected a mapping with apiVersion, kind, metadata and spec, found "+describe(l.doc.value)))
		return false
	}
	if version := fields["apiVersion"]; version != APIVersion {
		l.add(l.doc.at("apiVersion", fmt.Sprintf("apiVersion: expected %s, found %s", APIVersion, describe(version))))
	}
	switch kind := fields["kind"]; kind {
	case KindScenario:
	case KindSchedule:
		l.add(l.doc.at("kind", "kind: a Schedule cannot be run yet: run the scenario it names in spec.scenario"))
	default:
		l.add(l.doc.at("kind", fmt.Sprintf("kind: expected %s, found %s", KindScenario, describe(kind))))
	}
	return len(l.diagnostics) == before
}

// validate checks what the manifest means. Where a field could not be decoded, that it is missing is no news.
func (l *loader) validate(registry *Registry) {
	errs := validate(l.manifest, l.kinds, registry)
	errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return l.reported[err.Field] })
	l.add(fieldDiagnostics(l.doc, "", errs)...)
	for _, err := range errs {
		l.reported[err.Field] = true
	}
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
