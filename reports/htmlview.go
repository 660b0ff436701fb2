package reports

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// htmlView is what the template of the HTML report lays out: all that is known without a script.
type htmlView struct {
	Policy       string
	Style        template.CSS
	Script, Data template.JS

	Scenario, Subject string
	Mark, Verdict     string // the sign of the verdict and its word
	Tone, Words       string
	Blame             []htmlField
	Warnings          []string
	// Runs are the findings that are told in full, or the default order where there is none.
	Runs     []htmlRun
	Further  []htmlFurther
	Coverage []htmlField
	Limits   []htmlLimit
	Command  string
}

// htmlField is a name with its values.
type htmlField struct {
	Name, Tone string
	Values     []string
}

// htmlRun is a run that is told in full.
type htmlRun struct {
	ID, Number, Title string
	Broken            []htmlBroken
	Panic             string
	Origin            []htmlField
	Deciding          []string
	Decided           bool // something particular decides
	Elements          []htmlField
	Context           []string
	Troubles          []string
	Replay            string
	Legend            string
	Moments           []htmlMoment
}

// htmlBroken is a property that a run broke.
type htmlBroken struct {
	Message, Name string
	Fields        []htmlField
}

// htmlMoment is what had become of the objects that broken rules are about, by some time.
type htmlMoment struct {
	Title   string
	Objects []htmlObject
}

// htmlObject is how an object changed from the start to a moment.
type htmlObject struct {
	Name, Variable, Fate string
	Lines                []htmlLine
}

// htmlLine is a line of a diff.
type htmlLine struct{ Tone, Text string }

// htmlFurther is a finding that is told in short.
type htmlFurther struct {
	Title, FoundBy string
	Deciding       []string
	Replay         string
}

// htmlLimit is something that the verdict does not cover.
type htmlLimit struct {
	Words string
	List  []string
}

// tones are the style classes of a page for the styles of a text.
var tones = map[style]string{
	red: "bad", alarm: "bad", green: "good", success: "good", yellow: "warn", dim: "dim", bold: "strong",
}

// newHTMLView makes the view of a result, and the data of its timelines.
func newHTMLView(r *history.Result, o HTMLOptions) (*htmlView, *pageData) {
	t := newText(r, Options{Replay: o.Replay})
	head := t.headline()
	mark, verdict, _ := strings.Cut(head.mark, " ")
	v := &htmlView{
		Scenario: r.Scenario, Subject: t.subject(), Mark: mark, Verdict: verdict, Tone: tones[head.style], Words: head.words,
		Blame: htmlFields(t.blame()), Warnings: t.warnings(), Coverage: htmlFields(t.coverage()), Command: r.Command,
	}
	for _, l := range t.limits() {
		v.Limits = append(v.Limits, htmlLimit{l.words, l.list})
	}
	data := newPageData()
	full := o.Findings
	if full <= 0 {
		full = defaultHTMLFindings
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if i < full {
			number := fmt.Sprintf("Finding %d of %d", i+1, len(r.Findings))
			v.addRun(t, data, f, number, brokenNames(f))
			continue
		}
		further := htmlFurther{Title: brokenNames(f), FoundBy: t.foundBy(f), Replay: t.command(f)}
		further.Deciding = t.decidingWords(f, t.decisions(f))
		v.Further = append(v.Further, further)
	}
	if len(r.Findings) == 0 && r.Default != nil {
		v.addRun(t, data, &history.Finding{Run: r.Default}, "", "The run in the default order")
	}
	data.Strings = data.strings.all
	return v, data
}

// addRun adds a run that is told in full.
func (v *htmlView) addRun(t *text, data *pageData, f *history.Finding, number, title string) {
	h := f.Run
	decisions := t.decisions(f)
	run := htmlRun{
		ID: fmt.Sprintf("run-%d", len(v.Runs)+1), Number: number, Title: title, Panic: h.Panic,
		Troubles: t.troubles(h), Legend: t.whoIsWho(actorsOf(h)),
	}
	if h.Failed() {
		run.Decided, run.Deciding, run.Elements = len(decisions) > 0, t.decidingWords(f, decisions), htmlFields(elements(f))
		run.Context, run.Origin, run.Replay = t.context(f), htmlFields(t.origin(f)), t.command(f)
	} else {
		decisions = nil
	}
	for _, verdict := range h.Broken() {
		run.Broken = append(run.Broken, htmlBroken{messageOf(verdict), verdict.Property.Name, htmlFields(brokenFields(verdict, h))})
	}
	for _, m := range moments(h) {
		if objects := htmlObjects(objectsOf(h, t.result.Variables, strings.Join(m.rules, "\n"), m.at)); len(objects) > 0 {
			run.Moments = append(run.Moments, htmlMoment{m.title(strings.Clone), objects})
		}
	}
	v.Runs = append(v.Runs, run)
	data.add(t, h, decisions)
}

// actorsOf names the actors of a run in the order they first act.
func actorsOf(h *history.History) []string {
	var names []string
	seen := map[string]bool{}
	for i := range h.Records {
		if actor := h.Records[i].Event.Actor; !seen[actor] {
			seen[actor] = true
			names = append(names, actor)
		}
	}
	return names
}

// htmlFields lays out fields: one without a name continues that before.
func htmlFields(fields []field) []htmlField {
	var all []htmlField
	for _, f := range fields {
		values := strings.Split(f.value, "\n")
		if last := len(all) - 1; f.name == "" && last >= 0 {
			all[last].Values = append(all[last].Values, values...)
			continue
		}
		all = append(all, htmlField{strings.TrimSpace(f.name), tones[f.style], values})
	}
	return all
}

// htmlObjects lays out what had become of objects.
func htmlObjects(changes []objectChange) []htmlObject {
	var objects []htmlObject
	for _, c := range changes {
		object := htmlObject{Name: c.name, Variable: c.variable, Fate: c.fate()}
		for _, line := range objectDiff(c) {
			if line != "" {
				object.Lines = append(object.Lines, htmlLine{diffTones[line[0]], line})
			}
		}
		objects = append(objects, object)
	}
	return objects
}

// diffTones are the style classes of the lines of a diff, by their first characters.
var diffTones = map[byte]string{'-': "gone", '+': "come", '@': "dim"}
