package scenarios

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/sim"
)

// Reconciler is what a name in a scenario's `controllers` stands for: a program, and how to make it.
type Reconciler struct {
	// Doc says in one line what it is; `stalemate list` prints it.
	Doc string
	// AddToScheme adds the Go types that the program uses beyond those of client-go's scheme. It may be nil.
	AddToScheme func(*runtime.Scheme) error
	// Program makes the program. It is called once per scenario that is put together; the program is then started once per
	// run and process.
	Program func(ProgramOptions) sim.Program
}

// ProgramOptions are what a scenario says about how a program runs.
type ProgramOptions struct {
	// Scheme holds the types of client-go's scheme, and those of every reconciler in the scenario.
	Scheme *runtime.Scheme
	// Reads says where the reconciler's client reads from; empty leaves it to the program.
	Reads Reads
}

// LiveReads returns whether the client reads from the API server, given what the program does if the scenario does not say.
func (o ProgramOptions) LiveReads(otherwise bool) bool {
	if o.Reads == "" {
		return otherwise
	}
	return o.Reads == ReadsLive
}

// Registry says what the names of reconcilers in scenarios stand for. The zero value is an empty registry. It is filled
// before it is used, and only read from then on.
type Registry struct {
	reconcilers map[string]Reconciler
	variants    []Variant
}

// Variant is a way to run a scenario that `stalemate fuzz` explores besides the one that its file states.
type Variant struct {
	// Scenario is the scenario's file, or the last elements of its path: "clickhouse/recreate.yaml".
	Scenario string
	// Reconcilers take the place of the scenario's, by the names of controllers.
	Reconcilers map[string]string
	// Breaks are the properties and detectors that the variant is known to break, and "panic". Such a variant is a canary: if one of
	// them is not found broken, the exploration is not to be trusted. If there are none, it is to break nothing.
	Breaks []string
	// Runs is the number of runs by seed that it takes to find them; zero if the sweeps do.
	Runs int
	// Doc says in one line what the variant is.
	Doc string
}

// AddVariant registers a variant.
func (r *Registry) AddVariant(v Variant) { r.variants = append(r.variants, v) }

// AllVariants returns the variants of all scenarios, in the order in which they were registered.
func (r *Registry) AllVariants() []Variant { return slices.Clone(r.variants) }

// Variants returns the variants of a scenario's file, in the order in which they were registered.
func (r *Registry) Variants(file string) []Variant {
	whole := "/" + filepath.ToSlash(filepath.Clean(file))
	return slices.DeleteFunc(slices.Clone(r.variants), func(v Variant) bool {
		return !strings.HasSuffix(whole, "/"+strings.TrimPrefix(path.Clean(v.Scenario), "/"))
	})
}

// Add registers a reconciler under a name, "operator/variant" by convention. It panics if the name is taken or empty, or if
// there is no program: mistakes of the program that registers.
func (r *Registry) Add(name string, reconciler Reconciler) {
	if name == "" || strings.ContainsAny(name, " \t\n=") {
		panic(fmt.Sprintf("scenarios: the name of reconciler %q is empty, or has spaces or an equals sign", name))
	}
	if reconciler.Program == nil {
		panic(fmt.Sprintf("scenarios: reconciler %q has no program", name))
	}
	if _, ok := r.reconcilers[name]; ok {
		panic(fmt.Sprintf("scenarios: reconciler %q is registered twice", name))
	}
	if r.reconcilers == nil {
		r.reconcilers = map[string]Reconciler{}
	}
	r.reconcilers[name] = reconciler
}

// Names returns the names of the reconcilers, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.reconcilers)) }

// Get returns the reconciler of that name.
func (r *Registry) Get(name string) (Reconciler, bool) {
	reconciler, ok := r.reconcilers[name]
	return reconciler, ok
}

// unknown says that there is no reconciler of that name, and which there are.
func (r *Registry) unknown(name string) string {
	const ask = ": is this the command that registers your reconcilers?"
	names := r.Names()
	if close := near(name, names); len(close) > 0 {
		return "no such reconciler; there is " + quoted(close)
	}
	if len(names) == 0 {
		return "no such reconciler: none is registered" + ask
	}
	return "no such reconciler; there is " + quoted(names) + ask
}
