package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Schedule is a schedule that was loaded and checked, with its scenario. It is read only.
type Schedule struct {
	// Name as its metadata has it.
	Name string
	// Path of its file as it was loaded.
	Path string
	// Manifest is what the file says.
	Manifest *ScheduleManifest
	// Scenario is the one it is a schedule of: if that has a matrix, the entry that the schedule chooses.
	Scenario *Scenario
	// Spec is what must happen, for sim.PlanOf.
	Spec *schedule.Schedule
	// Reconcilers take the place of the scenario's, by the names of controllers.
	Reconcilers map[string]string

	doc        *document
	properties *property.Set
}

// KindOf returns the kind of a scenario or schedule file, [KindScenario] or [KindSchedule], to choose between [Load] and
// [LoadSchedule]. What is no such file is an [*Error]; more is not checked.
func KindOf(name string) (string, error) {
	t, file, err := openTree(name)
	if err != nil {
		return "", err
	}
	defer t.close()
	var problems []Diagnostic
	for _, kind := range []string{KindSchedule, KindScenario} {
		doc, wrong := openDocument(t, file, kind)
		if doc != nil {
			return kind, nil
		}
		problems = wrong
	}
	return "", newError(name, problems)
}

// LoadSchedule reads a schedule file, the scenario it names, and all files that refers to, as [Load] does.
func LoadSchedule(name string, opts Options) (*Schedule, error) {
	t, file, err := openTree(name)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return loadSchedule(t, file, opts)
}

// LoadScheduleFS is like [LoadSchedule], with files from fsys instead of the disk; all of it counts as the repository.
func LoadScheduleFS(fsys fs.FS, name string, opts Options) (*Schedule, error) {
	return loadSchedule(treeOf(fsys, name), name, opts)
}

// scheduleLoader reads one schedule and collects what is wrong with it.
type scheduleLoader struct {
	*loader
	manifest *ScheduleManifest
}

func loadSchedule(t *tree, name string, opts Options) (*Schedule, error) {
	display := t.display(name)
	doc, diagnostics := openDocument(t, name, KindSchedule)
	if doc == nil {
		return nil, newError(display, diagnostics)
	}
	l := &scheduleLoader{loader: newLoader(t), manifest: &ScheduleManifest{}}
	l.doc, l.diagnostics = doc, diagnostics
	var problems []Diagnostic
	problems, l.reported = strictDecode(doc, doc.value, "", l.manifest)
	l.add(problems...)
	s := &Schedule{
		Name: l.manifest.Metadata.Name, Path: display, Manifest: l.manifest, doc: doc,
		Reconcilers: maps.Clone(l.manifest.Spec.Reconcilers),
	}
	if s.Scenario = l.loadScenario(opts); s.Scenario != nil {
		l.kinds = s.Scenario.kinds
		var errs field.ErrorList
		s.Spec, errs = convertSchedule(l.manifest, s.Scenario, opts.Registry)
		l.report(errs)
		s.Spec.Trace = l.trace()
		of := s.Scenario
		s.properties = l.compile(
			ruleLists{variables: l.manifest.Spec.Variables, properties: l.manifest.Spec.Properties},
			ruleLists{of.Manifest.Spec.Variables, of.Manifest.Spec.Properties, of.places()})
	}
	if err := newError(display, l.diagnostics); err != nil {
		return nil, err
	}
	return s, nil
}

// loadScenario loads the scenario, and chooses the entry that the schedule is for.
func (l *scheduleLoader) loadScenario(opts Options) *Scenario {
	const at = "spec.scenario.path"
	reference := l.manifest.Spec.Scenario.Path
	fail := func(format string, args ...any) *Scenario {
		if !l.reported[at] && !l.reported["spec.scenario"] && !l.reported["spec"] {
			l.add(l.doc.at(at, at+": "+fmt.Sprintf(format, args...)))
		}
		return nil
	}
	if reference == "" {
		return fail("required value: the file of the scenario, relative to this one")
	}
	t, names, err := l.resolveScenario(reference)
	if err != nil {
		return fail("%q: %v", reference, err)
	}
	defer t.close()
	if len(names) != 1 {
		return fail("%q: a directory: name the file of one scenario", reference)
	}
	scenario, err := load(t.at(names[0]), names[0], opts)
	if broken, ok := errors.AsType[*Error](err); ok {
		l.add(broken.Diagnostics...)
		return fail("%q: something is wrong with the scenario itself", reference)
	}
	entry, err := scenario.Select(l.manifest.Spec.Matrix)
	if err != nil {
		l.add(l.doc.at("spec.matrix", "spec.matrix: "+err.Error()))
		return nil
	}
	return entry
}

// resolveScenario returns the files that the path of the scenario stands for, and the tree they are in. A schedule that lies in
// no repository, such as one written to a folder for temporary files, may name a scenario anywhere.
func (l *scheduleLoader) resolveScenario(reference string) (*tree, []string, error) {
	names, err := l.tree.resolve(reference)
	if !errors.Is(err, errOutside) || l.tree.elsewhere == nil {
		same := *l.tree
		same.close = func() {} // whoever opened it closes it
		return &same, names, err
	}
	other, name, err := l.tree.elsewhere(reference)
	return other, []string{name}, err
}

// trace returns the trace, nil if there is none.
func (l *scheduleLoader) trace() *schedule.Trace {
	if l.manifest.Spec.Trace == "" {
		return nil
	}
	trace, err := decodeTrace(l.manifest.Spec.Trace)
	if err != nil {
		l.add(l.doc.at("spec.trace", "spec.trace: "+err.Error()))
	}
	return trace
}

// scheduleConverter checks what a manifest means, and converts it on the way.
type scheduleConverter struct {
	// The validator knows the actors of the scenario, and the variables and properties that the schedule adds.
	*validator
	manifest *ScheduleManifest
	scenario *Scenario
}

// convertSchedule returns a schedule as the engine has it, without its trace, and everything that is wrong with it beyond its
// form. Rules are checked elsewhere.
func convertSchedule(m *ScheduleManifest, scenario *Scenario, registry *Registry) (*schedule.Schedule, field.ErrorList) {
	spec := m.Spec
	merged := scenario.Manifest.Spec
	merged.Variables, merged.Properties = spec.Variables, spec.Properties
	c := &scheduleConverter{&validator{spec: &merged, kinds: scenario.kinds, registry: registry}, m, scenario}
	c.subdomain(m.Metadata.Name, field.NewPath("metadata", "name"))
	path := field.NewPath("spec")
	c.overrides(path.Child("reconcilers"))
	converted := &schedule.Schedule{
		WhenUnmatched: schedule.WhenUnmatched(spec.WhenUnmatched),
		Origin:        schedule.Origin(spec.Origin),
	}
	for i := range spec.Order {
		converted.Constraints = append(converted.Constraints, c.order(&spec.Order[i], path.Child("order").Index(i)))
	}
	for i := range spec.Faults {
		converted.Faults = append(converted.Faults, c.scheduled(&spec.Faults[i], path.Child("faults").Index(i)))
	}
	for i, latency := range spec.Latencies {
		converted.Latencies = append(converted.Latencies, c.latency(latency, path.Child("latencies").Index(i)))
	}
	for i, permutation := range spec.Permutations {
		converted.Orders = append(converted.Orders, c.permutation(permutation, path.Child("permutations").Index(i)))
	}
	converted.Skip = c.skip(path.Child("skip"))
	if spec.WhenUnmatched != "" {
		oneOf(c.validator, spec.WhenUnmatched, []WhenUnmatched{UnmatchedStale, UnmatchedIgnore}, path.Child("whenUnmatched"))
	}
	c.variables(path.Child("variables"))
	c.properties(path.Child("properties"))
	converted.Expect = c.expectation(path.Child("expect"))
	return converted, c.errs
}

// overrides checks the reconcilers that take the place of the scenario's.
func (c *scheduleConverter) overrides(path *field.Path) {
	var names []string
	for _, controller := range c.spec.Controllers {
		names = append(names, controller.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.manifest.Spec.Reconcilers)) {
		if !slices.Contains(names, name) {
			c.add(field.Invalid(path.Key(name), name, "no such controller; there is "+quoted(names)))
			continue
		}
		c.reconciler(c.manifest.Spec.Reconcilers[name], path.Key(name))
	}
}

// order converts an item of the order, which is one of two unions.
func (c *scheduleConverter) order(item *OrderItem, path *field.Path) schedule.Constraint {
	if item.Times < 0 {
		c.add(field.Invalid(path.Child("times"), item.Times, "must not be negative; leave it out for 1"))
	}
	byEvents, byRead := item.Hold != nil || item.Until != nil, item.Between != nil || item.Let != nil
	switch {
	case !byEvents && !byRead:
		c.add(field.Required(path, "an item is either hold with until, or between with let"))
		return schedule.Constraint{}
	case byEvents && byRead:
		c.add(field.Invalid(path, item.kind(), "an item is either hold with until, or between with let"))
		return schedule.Constraint{}
	case byRead:
		return c.between(item, path)
	case item.Hold == nil:
		c.add(field.Required(path.Child("hold"), "the event that waits"))
		return schedule.Constraint{}
	case item.Until == nil:
		c.add(field.Required(path.Child("until"), "the event that it waits for"))
		return schedule.Constraint{}
	case (item.Hold.Selector == nil) != (item.Until.Selector == nil):
		c.add(field.Invalid(path, item.kind(), "hold and until are both names of events, or both selectors"))
		return schedule.Constraint{}
	case item.Hold.Selector == nil:
		if item.Times > 1 {
			c.add(field.Forbidden(path.Child("times"), "a name is that of one event: select several"))
		}
		return schedule.Constraint{
			Event: c.event(item.Hold.Name, path.Child("hold")), Waits: c.event(item.Until.Name, path.Child("until"))}
	}
	return schedule.Constraint{Order: &schedule.Order{
		Hold:  c.eventSelector(item.Hold.Selector, path.Child("hold")),
		Until: c.eventSelector(item.Until.Selector, path.Child("until")),
		Times: item.Times,
	}}
}

// kind names the fields of the union that are set.
func (item *OrderItem) kind() string {
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"hold", item.Hold != nil}, {"until", item.Until != nil}, {"between", item.Between != nil}, {"let", item.Let != nil},
	} {
		if f.set {
			set = append(set, f.name)
		}
	}
	return strings.Join(set, ", ")
}

// What the verbs of a between may be: reads, and writes that can carry a revision.
var (
	firstVerbs = []string{
		string(schedule.CachedGet), string(schedule.CachedList), string(schedule.Get), string(schedule.List),
	}
	thenVerbs = []string{string(schedule.Delete), string(schedule.Patch), string(schedule.Update)}
)

// between converts an item of the order that says what comes between a read and a write.
func (c *scheduleConverter) between(item *OrderItem, path *field.Path) schedule.Constraint {
	if item.Between == nil || item.Let == nil {
		missing, hint := "let", "say what is let in between"
		if item.Between == nil {
			missing, hint = "between", "say what it is let in between"
		}
		c.add(field.Required(path.Child(missing), hint))
		return schedule.Constraint{}
	}
	b, at := item.Between, path.Child("between")
	hold := Selector{
		Actor: b.Actor, Incarnation: b.Incarnation, Controller: b.Controller, Key: b.Key, Kind: b.Kind,
		Namespace: b.Namespace, Name: b.Name, Subresource: b.Subresource, Occurrence: b.Occurrence,
	}
	c.required(b.Actor, "whose read and write", at.Child("actor"))
	oneOf(c.validator, b.First, firstVerbs, at.Child("first"))
	oneOf(c.validator, b.Then, thenVerbs, at.Child("then"))
	c.selector(hold, requestVerbs, at)
	hold.Verb = b.Then
	return schedule.Constraint{Order: &schedule.Order{
		Hold:  hold.selector(),
		From:  schedule.Verb(b.First),
		Until: c.eventSelector(item.Let, path.Child("let")),
		Times: item.Times,
	}}
}

// eventVerbs are the verbs of all events.
var eventVerbs = append([]string{
	string(schedule.Await), string(schedule.CachedGet), string(schedule.CachedList), string(schedule.Deliver),
	string(schedule.Dequeue), string(schedule.Handle), string(schedule.Start), string(schedule.Sync), string(schedule.Timer),
	string(schedule.Wake),
}, requestVerbs...)

// eventSelector checks and converts a selector of events.
func (c *scheduleConverter) eventSelector(s *EventSelector, path *field.Path) schedule.Selector {
	c.selector(s.Selector, eventVerbs, path)
	converted := s.selector()
	converted.Return = s.Return
	if isAny(converted) {
		c.add(field.Required(path, "an empty selector chooses the first event of the run: say what it is about"))
	}
	return converted
}

// isAny reports whether a selector chooses every event.
func isAny(s schedule.Selector) bool {
	return s.Actor == "" && s.Controller == "" && s.Key == "" && len(s.Verbs) == 0 && s.Kind == "" && s.Namespace == "" &&
		s.Name == "" && s.Subresource == nil
}

// event checks and converts the exact name of an event.
func (c *scheduleConverter) event(name string, path *field.Path) schedule.Event {
	event := c.anyEvent(name, path)
	if event.Occurrence == 0 && event.Verb != "" {
		c.add(field.Invalid(path, name, `say which one it is: end with " #1" for the first`))
	}
	return event
}

// anyEvent is event for a name that may do without its occurrence.
func (c *scheduleConverter) anyEvent(name string, path *field.Path) schedule.Event {
	if !c.required(name, "the name of an event, as reports print it", path) {
		return schedule.Event{}
	}
	event, err := schedule.ParseEvent(name)
	if err != nil {
		message := strings.TrimPrefix(err.Error(), fmt.Sprintf("event %q: ", name))
		c.add(field.Invalid(path, name, message))
		return schedule.Event{}
	}
	c.actor(event.Actor, path)
	if event.Incarnation == 0 && slices.ContainsFunc(c.spec.Controllers, func(p Controller) bool { return p.Name == event.Actor }) {
		event.Incarnation = 1 // which is not written
	}
	return event
}

// scheduled converts a fault.
func (c *scheduleConverter) scheduled(f *ScheduledFault, path *field.Path) schedule.Fault {
	before := len(c.errs)
	c.fault(f.Type, &f.FaultBlocks, path)
	converted := schedule.Fault{Type: f.Type}
	if len(c.errs) == before {
		all := f.faults(f.Type)
		if converted = all[0]; len(all) > 1 {
			c.add(field.Invalid(path.Child(blockName(f.Type)), f.Type, "it strikes in one way: choose one of the list"))
		}
	}
	at := path.Child("at")
	switch selector := f.At.Selector; {
	case selector != nil:
		selected := c.eventSelector(selector, at)
		converted.Select = &selected
		if len(c.errs) == before {
			c.canStrike(f.Type, selected, selector.Verb != "", at)
		}
	default:
		converted.At = c.event(f.At.Name, at)
		if len(c.errs) == before && !f.Type.Strikes(converted.At) {
			hint := ""
			if f.Type == schedule.Crash || f.Type == schedule.Upgrade {
				hint = ": name a request of a controller"
			}
			c.add(field.Invalid(at, f.At.Name, fmt.Sprintf("a %s never strikes at such an event%s", f.Type, hint)))
		}
	}
	return converted
}

// latency converts a latency.
func (c *scheduleConverter) latency(latency Latency, path *field.Path) schedule.Latency {
	switch d := latency.For.Duration; {
	case d <= 0:
		c.add(field.Invalid(path.Child("for"), d.String(), "must be longer than 0s"))
	case d > longestSpan:
		c.add(tooLong(d, path.Child("for")))
	}
	c.repeat(latency.Repeat, path)
	return schedule.Latency{At: c.event(latency.At, path.Child("at")), Repeat: latency.Repeat, For: latency.For.Duration}
}

func (c *scheduleConverter) repeat(repeat int, path *field.Path) {
	if repeat < 0 {
		c.add(field.Invalid(path.Child("repeat"), repeat, "must not be negative"))
	}
}

// permutation converts a permutation.
func (c *scheduleConverter) permutation(p Permutation, path *field.Path) schedule.Permutation {
	event := c.anyEvent(p.At, path.Child("at"))
	if event.Occurrence > 0 {
		c.add(field.Invalid(path.Child("at"), p.At, "leave out its count, and say repeat"))
	}
	c.repeat(p.Repeat, path)
	sorted := slices.Sorted(slices.Values(p.Order))
	for i, item := range sorted {
		if i != item {
			c.add(field.Invalid(path.Child("order"), fmt.Sprint(p.Order), "must hold each number from 0 once"))
			break
		}
	}
	if len(p.Order) == 0 {
		c.add(field.Required(path.Child("order"), "the items in the order they are to have"))
	}
	return schedule.Permutation{At: event, Repeat: p.Repeat, Order: p.Order}
}

// skip converts the steps of the script that are left out, from those that people count.
func (c *scheduleConverter) skip(path *field.Path) []int {
	var steps []int
	for i, step := range c.manifest.Spec.Skip {
		switch at := path.Index(i); {
		case step < 1 || step > c.scenario.steps:
			c.add(field.Invalid(at, step, fmt.Sprintf("the script has %d steps, from 1", c.scenario.steps)))
		case slices.Contains(steps, step-1):
			c.add(field.Duplicate(at, step))
		}
		steps = append(steps, step-1)
	}
	slices.Sort(steps)
	return steps
}

// expectation converts what the run is to come to.
func (c *scheduleConverter) expectation(path *field.Path) schedule.Expectation {
	e := c.manifest.Spec.Expect
	converted := schedule.Expectation{Outcome: schedule.Outcome(e.Outcome), Property: e.Property, Signature: e.Signature}
	if e.Outcome != "" {
		oneOf(c.validator, e.Outcome, []Outcome{OutcomeViolated, OutcomeHolds}, path.Child("outcome"))
	}
	var names []string
	for _, p := range slices.Concat(c.scenario.Manifest.Spec.Properties, c.spec.Properties) {
		names = append(names, p.Name)
	}
	for _, d := range detectors(c.scenario.Manifest.Spec.Detectors).Definitions() {
		names = append(names, d.Name)
	}
	if e.Property != "" && !slices.Contains(names, e.Property) {
		c.add(field.NotSupported(path.Child("property"), e.Property, names))
	}
	if e.Property != "" && e.Outcome == OutcomeHolds {
		c.add(field.Forbidden(path.Child("property"), "nothing is broken where all holds"))
	}
	if e.Hash != "" {
		hash, err := strconv.ParseUint(e.Hash, 16, 64)
		if err != nil || len(e.Hash) != hashDigits {
			c.add(field.Invalid(path.Child("hash"), e.Hash, "must be 16 hexadecimal digits"))
		}
		converted.Hash = hash
	}
	return converted
}

// hashDigits is the number of digits of a hash.
const hashDigits = 16

// Replaced returns the reconcilers that take the place of the scenario's, by the names of controllers: those of the overrides,
// and then those of the schedule.
func (s *Schedule) Replaced(overrides map[string]string) map[string]string {
	reconcilers := map[string]string{}
	maps.Copy(reconcilers, s.Reconcilers)
	maps.Copy(reconcilers, overrides)
	return reconcilers
}

// Config puts the schedule's scenario and its reconcilers together, as [Scenario.Config] does, with the properties that the
// schedule adds. Reconcilers are those of the overrides, then those of the schedule, then those of the scenario. The run that
// the schedule is about is that of the configuration under sim.PlanOf([Schedule.Spec]).
func (s *Schedule) Config(registry *Registry, overrides map[string]string) (*sim.Config, error) {
	config, err := s.Scenario.config(registry, s.Replaced(overrides), s.upgrades())
	if err != nil {
		return nil, err
	}
	config.Properties = s.properties
	return config, nil
}

// upgrades returns the reconcilers that may start in place of others: those of the scenario's rules, and of the faults.
func (s *Schedule) upgrades() []upgrade {
	all := s.Scenario.upgrades()
	for i, fault := range s.Manifest.Spec.Faults {
		if fault.Upgrade == nil {
			continue
		}
		u := upgrade{
			reconciler: fault.Upgrade.Reconciler,
			doc:        s.doc,
			path:       fmt.Sprintf("spec.faults[%d].upgrade.reconciler", i),
			actor:      s.Spec.Faults[i].At.Actor,
		}
		if selector := s.Spec.Faults[i].Select; selector != nil {
			u.actor = selector.Actor
		}
		all = append(all, u)
	}
	return all
}
