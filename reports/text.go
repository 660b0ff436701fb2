package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Options say how a text report looks. The zero value is right for a file.
type Options struct {
	// Width is the number of columns that words and timelines are laid out for; 120 if zero. Names and commands are
	// never broken and may run over it.
	Width int
	// Color uses ANSI colours.
	Color bool
	// Findings is the number of findings that are told, the others getting one line; 3 if zero. One that breaks nothing
	// that another before it does not is told in short: what differs, and what decides.
	Findings int
	// Names lists all events of the default order by their names.
	Names bool
	// Replay, if set, returns the command line that replays a finding; empty if there is none.
	Replay func(*history.Finding) string
}

// HandDrawn is the strategy of findings whose orders and faults a test chose itself: by rapid, by fuzzing, or by hand. They have
// neither a seed nor a number, and are shrunk by who chose them.
const HandDrawn = "order drawn by the test"

const (
	defaultWidth    = 120
	defaultFindings = 3
)

// Text writes the report of a result for a person to read.
func Text(w io.Writer, r *history.Result, o Options) error {
	t := newText(r, o)
	t.title()
	full := min(len(r.Findings), t.findings)
	for i := range full {
		if first := t.toldBefore(i); first >= 0 {
			t.brief(i, first)
			continue
		}
		t.finding(i)
	}
	if rest := r.Findings[full:]; len(rest) > 0 {
		t.heading("FURTHER FINDINGS")
		for i := range rest {
			t.further(&rest[i])
		}
	}
	if o.Names && r.Default != nil {
		t.events("EVENTS OF THE DEFAULT ORDER, BY THEIR NAMES", r.Default)
	}
	t.closing()
	return t.flush(w)
}

// Finding writes the report of one finding of a result, by its index, for a file of its own.
func Finding(w io.Writer, r *history.Result, i int, o Options) error {
	t := newText(r, o)
	t.title()
	t.finding(i)
	t.closing()
	return t.flush(w)
}

// text is a text report in the making.
type text struct {
	page
	result   *history.Result
	actors   actors
	tested   []string
	findings int
	// command returns the command line that replays a finding; empty if there is none.
	command func(*history.Finding) string
}

// Deciding returns what decides the i-th finding of a result, as its report says it under that heading: a paragraph for each order
// and each fault.
func Deciding(r *history.Result, i int) []string {
	f := &r.Findings[i]
	t := newText(r, Options{})
	return t.decidingWords(f, t.decisions(f))
}

func newText(r *history.Result, o Options) *text {
	t := &text{result: r, actors: newActors(r), tested: underTest(r), findings: o.Findings, command: o.Replay}
	t.width, t.color = o.Width, o.Color
	if t.width <= 0 {
		t.width = defaultWidth
	}
	if t.findings <= 0 {
		t.findings = defaultFindings
	}
	if t.command == nil {
		t.command = func(*history.Finding) string { return "" }
	}
	return t
}

func (t *text) flush(w io.Writer) error {
	if _, err := t.WriteTo(w); err != nil {
		return fmt.Errorf("report of %s: %w", t.result.Scenario, err)
	}
	return nil
}

// subject names what was run: "recreate with operator=clickhouse/buggy".
func (t *text) subject() string {
	if len(t.result.Reconcilers) == 0 {
		return t.result.Scenario
	}
	return t.result.Scenario + " with " + strings.Join(t.result.Reconcilers, ", ")
}

// title writes the line that says how it came out, and what it means in a sentence.
func (t *text) title() {
	if h := t.headline(); h.mark != "" {
		t.linef("%s  %s", t.in(h.style, h.mark), t.in(bold, t.subject()))
		t.text("  ", plain, h.words)
	}
	t.fields(t.blame())
	for _, line := range t.warnings() {
		t.text("  ! ", yellow, line)
	}
}

// headline is how a result came out: in a word, and in a sentence.
type headline struct {
	mark  string
	style style
	words string
}

// headline says how the result came out; only a replay is stale, so that it has none.
func (t *text) headline() headline {
	r := t.result
	executions := count(r.Coverage.Executions, "execution")
	switch Judge(r) {
	case Broken:
		return headline{"✗ BROKEN", alarm, fmt.Sprintf("%s in %s.", count(len(r.Findings), "finding"), t.inTime(executions))}
	case Passed:
		return headline{"✓ PASSED", success, fmt.Sprintf("No property was broken in %s.", t.inTime(executions))}
	case Inconclusive:
		return headline{"? INCONCLUSIVE", yellow, t.inconclusive()}
	case InvalidProperty:
		return headline{"! INVALID PROPERTY", alarm,
			"Evaluating a rule failed. This is neither a pass nor a finding: mend the rule and run again."}
	case Nondeterministic:
		return headline{"! NONDETERMINISTIC", alarm,
			"One schedule, executed twice, gave two histories: the operator under test depends on something that the " +
				"simulation does not control, such as the wall clock, global randomness, or the order of a map."}
	default:
		return headline{}
	}
}

// blame names what must be mended before anything can be said: the rules that cannot be evaluated, or where histories differed.
func (t *text) blame() []field {
	switch Judge(t.result) {
	case InvalidProperty:
		return invalidProperties(t.result)
	case Nondeterministic:
		return []field{{"differs at", plain, t.result.Diverged}}
	default:
		return nil
	}
}

// warnings say what was wrong with the run in the default order, whatever the verdict: a reader must not miss that the
// scenario did not do what its author meant.
func (t *text) warnings() []string {
	denied := deniedWords(deniedIn(t.result))
	d := t.result.Default
	if d == nil {
		return denied
	}
	lines := doubts(d)
	for _, problem := range d.Problems {
		lines = append(lines, "The script went wrong: "+problem)
	}
	for _, what := range d.Unfinished {
		lines = append(lines, "Not finished at the end of the default order: "+what)
	}
	if more := len(lines) - maxListed; more > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", more))
	}
	return append(denied, lines...)
}

// inTime says how much real time something took, if that is known.
func (t *text) inTime(something string) string {
	if t.result.Elapsed == 0 {
		return something
	}
	return something + ", " + span(t.result.Elapsed)
}

// inconclusive says why nothing can be said.
func (t *text) inconclusive() string {
	if t.result.Coverage.Executions == 0 {
		return "Nothing was executed, so nothing can be said."
	}
	executions := count(t.result.Coverage.Executions, "execution")
	if t.result.Coverage.Inconclusive < t.result.Coverage.Executions {
		return fmt.Sprintf("No property was broken in %s, but that says little, for the default order, which the others depart from, "+
			"did not get anywhere:", t.inTime(executions))
	}
	all := "All " + executions
	if t.result.Coverage.Executions == 1 {
		all = "The only execution"
	}
	return fmt.Sprintf("%s ran into a limit before the cluster was quiet, so nothing can be said about its terminal states. "+
		"Raise the limits of the scenario, or find out what keeps the cluster busy.", all)
}

// invalidProperties are the rules that could not be evaluated.
func invalidProperties(r *history.Result) []field {
	var fields []field
	for _, p := range r.Coverage.Properties {
		if p.Invalid > 0 {
			fields = append(fields, field{"property", bold, p.Property.Name}, field{"rule", plain, p.Property.Rule},
				field{"error", red, p.Error})
		}
	}
	return fields
}

// finding tells one finding.
func (t *text) finding(i int) {
	f := &t.result.Findings[i]
	h := f.Run
	decisions := t.decisions(f)
	t.heading(fmt.Sprintf("FINDING %d OF %d: %s", i+1, len(t.result.Findings), brokenNames(f)))
	t.broken(h)
	t.linef("")
	t.source(f)

	t.heading("WHAT DECIDES")
	t.deciding(f, decisions)
	t.timeline(h, decisions)
	for _, line := range t.troubles(h) {
		t.text("  ", yellow, line)
	}
	for _, m := range moments(h) {
		t.objects(h, m)
	}
}

// source says how a finding came to be, and how to see it again.
func (t *text) source(f *history.Finding) {
	t.fields(t.origin(f))
	t.replay(f)
}

// origin says how a finding came to be.
func (t *text) origin(f *history.Finding) []field {
	fields := []field{{"found by", plain, t.foundBy(f)}}
	if f.Schedule != nil && f.Strategy != HandDrawn {
		fields = append(fields, field{"shrunk", plain, Shrunk(f.Schedule)})
	}
	return fields
}

// replay writes the command line that replays a finding, if there is one. It is not broken, so that it can be copied.
func (t *text) replay(f *history.Finding) {
	if command := t.command(f); command != "" {
		t.linef("  %-*s%s", fieldWidth, "replay", command)
	}
}

// timeline tells a run step by step, with marks at what decides.
func (t *text) timeline(h *history.History, decisions []decision) {
	t.heading("TIMELINE")
	var marked []int
	for _, decision := range decisions {
		marked = append(marked, decision.records...)
	}
	line := newTimeline(h, t.tested, marked)
	t.legend(line)
	line.print(&t.page)
}

// further tells one finding in a line, with what decides and how to replay it.
func (t *text) further(f *history.Finding) {
	t.text("  ", plain, brokenNames(f)+", "+t.foundBy(f))
	for _, decision := range t.decisions(f) {
		t.text("    ", dim, decision.words)
	}
	if command := t.command(f); command != "" {
		t.linef("    %s", command)
	}
}

// decisions returns what decided the run of a finding.
func (t *text) decisions(f *history.Finding) []decision {
	d := decider{run: f.Run, actors: t.actors, tested: t.tested, schedule: f.Schedule, namespace: onlyNamespace(f.Run)}
	if t.result.Default != f.Run {
		d.defaults = t.result.Default
	}
	return d.decisions()
}

// toldBefore returns the index of the first finding that breaks all that the i-th does, if it comes before; -1 otherwise.
// The two are taken for one bug.
func (t *text) toldBefore(i int) int {
	for first := range i {
		told := t.result.Findings[first].Run
		missing := func(v property.Verdict) bool { return brokenIn(told, v.Property) == nil }
		run := t.result.Findings[i].Run
		if run.Outcome != history.Panicked && !slices.ContainsFunc(run.Broken(), missing) {
			return first
		}
	}
	return -1
}

// brokenIn returns the verdict on a property that a run broke, nil if it did not.
func brokenIn(h *history.History, p *property.Definition) *property.Verdict {
	broken := h.Broken()
	if i := slices.IndexFunc(broken, func(v property.Verdict) bool { return v.Property.Name == p.Name }); i >= 0 {
		return &broken[i]
	}
	return nil
}

// brief tells one finding by what differs from another of the same properties, and what decides.
func (t *text) brief(i, first int) {
	f := &t.result.Findings[i]
	told := t.result.Findings[first].Run
	t.heading(fmt.Sprintf("FINDING %d OF %d: %s", i+1, len(t.result.Findings), brokenNames(f)))
	how := "Breaks what finding %d breaks, in another way."
	if len(f.Run.Broken()) < len(told.Broken()) {
		how = "Breaks some of what finding %d breaks, in another way."
	}
	t.text("  ", plain, fmt.Sprintf(how, first+1))
	for _, v := range f.Run.Broken() {
		before := brokenIn(told, v.Property)
		same := func(value property.Value) bool { return slices.Contains(before.Values, value) }
		values := valueLines(slices.DeleteFunc(slices.Clone(v.Values), same))
		if len(values) > 0 {
			t.field("property", bold, v.Property.Name)
			t.field("it read", plain, strings.Join(values, "\n"))
		}
	}
	for _, v := range told.Broken() {
		if brokenIn(f.Run, v.Property) == nil {
			t.field("not broken", plain, v.Property.Name)
		}
	}
	t.source(f)
	t.linef("")
	t.linef("  %s", t.in(bold, "WHAT DECIDES"))
	t.deciding(f, t.decisions(f))
	t.text("  ", dim, "The file of this finding, if it was written to one, has its timeline and its objects.")
}

// brokenNames names what a finding breaks.
func brokenNames(f *history.Finding) string {
	var names []string
	for _, v := range f.Run.Broken() {
		names = append(names, v.Property.Name)
	}
	if f.Run.Outcome == history.Panicked {
		names = append(names, "panic in Reconcile")
	}
	return strings.Join(names, ", ")
}

// broken writes the properties that are broken, in words and in values.
func (t *text) broken(h *history.History) {
	for i, v := range h.Broken() {
		if i > 0 {
			t.linef("")
		}
		if message := messageOf(v); message != "" {
			t.text("  ", alarm, message)
		}
		t.fields(brokenFields(v, h))
	}
	if h.Outcome == history.Panicked {
		t.text("  ", alarm, "Reconcile panicked.")
		for line := range strings.Lines(h.Panic) {
			t.linef("    %s", strings.TrimRight(line, "\n"))
		}
	}
}

// messageOf returns what it means that a property is broken, if its author says more than its rule.
func messageOf(v property.Verdict) string {
	if v.Property.Message == v.Property.Rule {
		return ""
	}
	return v.Property.Message
}

// brokenFields say what is broken, what was read, and when.
func brokenFields(v property.Verdict, h *history.History) []field {
	subject, rule, read := "property", "rule", "it read"
	name := fmt.Sprintf("%s (%s)", v.Property.Name, v.Property.Type)
	if v.Property.Type == property.Detector {
		subject, rule, read, name = "detector", "looks for", "it saw", v.Property.Name
	}
	fields := []field{{subject, bold, name}, {rule, plain, v.Property.Rule}}
	if values := valueLines(v.Values); len(values) > 0 {
		fields = append(fields, field{read, plain, strings.Join(values, "\n")})
	}
	return append(fields, field{"broken", plain, whenBroken(v, h)})
}

// valueLines writes values that a rule read, one a line.
func valueLines(values []property.Value) []string {
	var lines []string
	for _, value := range values {
		lines = append(lines, value.Path+" = "+value.Value)
	}
	return lines
}

// foundBy says which execution found it, when, and how often it came again.
func (t *text) foundBy(f *history.Finding) string {
	words := fmt.Sprintf("%s, execution %d of %d", f.Strategy, f.Execution, t.result.Coverage.Executions)
	if f.Elapsed > 0 {
		words += ", after " + span(f.Elapsed)
	}
	if f.Strategy == HandDrawn {
		return f.Strategy
	}
	if drawsSeed(f.Strategy) {
		words += fmt.Sprintf(", seed %d", f.Seed)
	}
	if f.Also > 0 {
		words += fmt.Sprintf("; %s came to the same", count(f.Also, "later execution"))
	}
	return words
}

// drawsSeed reports whether a strategy draws from its seed. The default order, sweeps and replays draw nothing.
func drawsSeed(strategy string) bool {
	return strategy != "default order" && strategy != "committed schedules" && !strings.Contains(strategy, "sweep")
}

// Shrunk says in words how small a schedule is, and what that took: "1-minimal: each of the 2 elements is needed (shrunk from 57
// in 31 executions)".
func Shrunk(s *schedule.Schedule) string {
	size, origin := s.Size(), s.Origin
	words := "not tried: " + count(size, "element")
	switch {
	case origin.Minimal && size == 1:
		words = "1-minimal: the one element is needed"
	case origin.Minimal && size == 0:
		words = "1-minimal: the default order alone does it"
	case origin.Minimal:
		words = fmt.Sprintf("1-minimal: each of the %d elements is needed", size)
	case origin.Executions > 0:
		words = fmt.Sprintf("not 1-minimal: %s left that may not all be needed", count(size, "element"))
	}
	switch executions := count(origin.Executions, "execution"); {
	case origin.Executions > 0 && origin.Size > size:
		words += fmt.Sprintf(" (shrunk from %d in %s)", origin.Size, executions)
	case origin.Executions > 0:
		words += fmt.Sprintf(" (%s to see that)", executions)
	}
	if len(s.Skip) > 0 {
		var steps []string
		for _, i := range s.Skip {
			steps = append(steps, fmt.Sprint(i+1))
		}
		words += fmt.Sprintf("; %s of the script not needed: %s", plural(len(steps), "step"), strings.Join(steps, ", "))
	}
	return words
}

// deciding says which order, and which faults, made the difference.
func (t *text) deciding(f *history.Finding, decisions []decision) {
	words := t.decidingWords(f, decisions)
	switch {
	case len(decisions) == 0:
		t.text("  ", plain, words[0])
	case len(decisions) == 1:
		t.text("  ", bold, words[0])
	default:
		for i := range words {
			t.text(fmt.Sprintf("  %d. ", i+1), bold, words[i])
		}
	}
	for _, e := range elements(f) {
		t.text(fmt.Sprintf("    %-*s", elementWidth, e.name), e.style, e.value)
	}
	for _, words := range t.context(f) {
		t.text("  ", plain, words)
	}
}

// elementWidth is the width of the names of a schedule's elements.
const elementWidth = 12

// elements are the constraints, faults, latencies and orders of a finding's run, by the names that schedules have for them, with
// what became of each.
func elements(f *history.Finding) []field {
	var all []field
	for _, c := range f.Run.Constraints {
		switch {
		case c.Matched:
			all = append(all, field{"constraint", dim, c.String()})
		case c.Held:
			all = append(all, field{"held in vain  ", dim, c.String()})
		}
	}
	for _, fault := range f.Run.Faults {
		switch {
		case !fault.Struck:
			all = append(all, field{"did not strike  ", dim, fault.String()})
		case fault.Rule != "":
			all = append(all, field{"fault", dim, fault.String() + " (rule " + fault.Rule + ")"})
		default:
			all = append(all, field{"fault", dim, fault.String()})
		}
	}
	if f.Schedule == nil {
		return all
	}
	for _, l := range f.Schedule.Latencies {
		all = append(all, field{"latency", dim, latencyLine(l)})
	}
	for _, p := range f.Schedule.Orders {
		all = append(all, field{"order", dim, permutationLine(p)})
	}
	return all
}

// context says in sentences who gave the answers of a finding's run, and how the scenario ends without any steering.
func (t *text) context(f *history.Finding) []string {
	return append(t.answers(f.Run), t.defaultOrder(f)...)
}

// decidingWords says what decides a finding, a paragraph for each decision, or that there is none.
func (t *text) decidingWords(f *history.Finding, decisions []decision) []string {
	switch {
	case len(decisions) == 0 && (f.Run == t.result.Default || followsDefault(f.Schedule)):
		return []string{"No particular order: the default order alone breaks it."}
	case len(decisions) == 0:
		return []string{"No single order of two writes stands out; the timeline has the order that was run."}
	}
	var words []string
	for _, decision := range decisions {
		words = append(words, decision.words)
	}
	return words
}

// answers says who gave the answers of a run: the server, unless a fault struck, or a reactor of the test's own acted.
func (t *text) answers(h *history.History) []string {
	switch own := t.result.Reactors; {
	case own > 0:
		return []string{fmt.Sprintf("At the API server's door stood %s of the test's own, which may have answered in its place.",
			count(own, "reactor"))}
	case len(struck(h)) == 0:
		return []string{"No fault was injected: every answer is one a healthy API server gives."}
	default:
		return nil
	}
}

// followsDefault reports whether a schedule asks for nothing, so that a run under it takes the default order.
func followsDefault(s *schedule.Schedule) bool { return s != nil && s.Size() == 0 && s.Trace == nil }

// defaultOrder says how the scenario ends without any steering.
func (t *text) defaultOrder(f *history.Finding) []string {
	switch d := t.result.Default; {
	case d == nil || f.Run == d:
		return nil
	case d.Failed():
		return []string{"The default order alone breaks a property too."}
	case len(doubts(d)) > 0:
		return []string{"Under the default order alone nothing is broken, but it did not get anywhere: see above."}
	case d.Outcome == history.Terminal:
		return []string{fmt.Sprintf("Under the default order alone the scenario ends well: every property holds in the "+
			"terminal state, after %s.", count(d.Requests, "request"))}
	default:
		return nil
	}
}

// legend explains the timeline.
func (t *text) legend(line *timeline) {
	words := "Virtual time. ▶ decides, » is a log line."
	if line.namespace != "" {
		words += fmt.Sprintf(" All objects are in namespace %s.", line.namespace)
	}
	if line.leftOut > 0 {
		words += fmt.Sprintf(" Left out: %s of caches, queues and timers, and reads by competitors.", count(line.leftOut, "step"))
	}
	t.text("  ", dim, words)
	if who := t.whoIsWho(line.actors); who != "" {
		t.text("  ", dim, who)
	}
}

// whoIsWho says what the actors are whose names do not say it.
func (t *text) whoIsWho(names []string) string {
	var who []string
	for _, actor := range names {
		if what := t.actors[actor]; what != "" && !strings.EqualFold(what, actor) {
			who = append(who, actor+" is "+what)
		}
	}
	if len(who) == 0 {
		return ""
	}
	return strings.Join(who, ", ") + "."
}

// troubles says what went wrong in a run besides, save for what the title says of the default order already.
func (t *text) troubles(h *history.History) []string {
	said := t.result.Default
	if said == nil {
		said = &history.History{}
	}
	var lines []string
	for _, problem := range h.Problems {
		if !slices.Contains(said.Problems, problem) {
			lines = append(lines, "The script went wrong: "+problem)
		}
	}
	for _, what := range h.Unfinished {
		lines = append(lines, "Not finished at the end: "+what)
	}
	return lines
}

// objects shows what had become, by some moment, of the objects that rules are about.
func (t *text) objects(h *history.History, m moment) {
	changes := objectsOf(h, t.result.Variables, strings.Join(m.rules, "\n"), m.at)
	if len(changes) == 0 {
		return
	}
	t.heading(m.title(strings.ToUpper))
	for _, c := range changes {
		name := t.in(bold, fmt.Sprintf("  %s (%s)", c.name, c.variable))
		if fate := c.fate(); fate != "" {
			name += ": " + fate
		}
		t.linef("%s", name)
		t.diff(objectDiff(c))
	}
}

func (t *text) diff(lines []string) {
	colors := map[byte]style{'-': red, '+': green, '@': dim}
	for _, line := range lines {
		if line != "" {
			t.linef("    %s", t.in(colors[line[0]], line))
		}
	}
}

// exercised reports whether a property had a say in any execution.
func exercised(p history.PropertyCoverage) bool {
	return p.Evaluations > 0 && (p.Property.Type != property.Sometimes || p.Held > 0)
}

// vacuous returns the properties that had no say.
func (t *text) vacuous() []history.PropertyCoverage {
	return slices.DeleteFunc(slices.Clone(t.result.Coverage.Properties), exercised)
}
