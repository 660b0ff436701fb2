package reports

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// panicName is what a panic in a reconciler is called where a property's name would stand.
const panicName = "panic in Reconcile"

// broken is one property that an exploration broke, or a panic, with the findings that show it.
type brokenProperty struct {
	// name is the property's, panicName for a panic.
	name string
	// verdict is that of the first finding, nil for a panic.
	verdict *property.Verdict
	// findings are the indices of those that show it, in their order.
	findings []int
}

// message says in a sentence what it means.
func (b *brokenProperty) message() string {
	if b.verdict == nil {
		return "Reconcile panicked."
	}
	return cmp.Or(b.verdict.Property.Message, b.verdict.Property.Rule)
}

// brokenOf lists what an exploration broke, in the order in which the findings have it.
func brokenOf(r *history.Result) []brokenProperty {
	var all []brokenProperty
	add := func(name string, verdict *property.Verdict, finding int) {
		i := slices.IndexFunc(all, func(b brokenProperty) bool { return b.name == name })
		if i < 0 {
			i, all = len(all), append(all, brokenProperty{name: name, verdict: verdict})
		}
		all[i].findings = append(all[i].findings, finding)
	}
	for i := range r.Findings {
		run := r.Findings[i].Run
		for _, v := range run.Broken() {
			add(v.Property.Name, &v, i)
		}
		if run.Outcome == history.Panicked {
			add(panicName, nil, i)
		}
	}
	return all
}

// place returns where a property is written, as far as that is known: the scenario's file at least.
func place(r *history.Result, p *property.Definition) property.Position {
	if p != nil && p.Position.File != "" {
		return p.Position
	}
	return property.Position{File: r.Path}
}

// placeText writes a place as compilers do.
func placeText(p property.Position) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// replayWith returns the command line that shows a finding again: its own, or that of the exploration.
func replayWith(r *history.Result, f *history.Finding) string { return cmp.Or(f.Command, r.Command) }

// inconclusiveWords say of a verdict that is neither a pass nor a finding why, in a sentence; they are empty for the others.
func (d Document) inconclusiveWords() string {
	switch v := d.Verdict(); {
	case v == Failed:
		return d.Problem
	case v == Nondeterministic:
		return "The operator under test is nondeterministic: one schedule, executed twice, gave two histories. " + d.Result.Diverged
	case v == InvalidProperty:
		return "Evaluating a rule failed. This is neither a pass nor a finding: mend the rule and run again."
	case d.Replay != nil && (v == Stale || v == Inconclusive):
		return replayWords(v, *d.Replay)
	case v == Inconclusive:
		return newText(d.Result, Options{}).inconclusive()
	default:
		return ""
	}
}
