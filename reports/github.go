package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/property"
)

// maxAnnotations is how many annotations of one level GitHub shows for a step.
const maxAnnotations = 10

// annotation is one message of GitHub Actions at a place of a file.
type annotation struct {
	level string // error, warning or notice
	at    property.Position
	title string
	words []string // paragraphs
}

// Annotations writes workflow commands of GitHub Actions, which show what is broken at the lines of the scenarios' properties: an
// error for each broken property, invalid rule, nondeterministic operator and wrong file, a warning for what came to no verdict,
// and a notice for each property that was never exercised. Of each level, only as many as GitHub shows.
//
// File, if set, turns the path of a scenario into one that is relative to the root of the repository, as GitHub wants it.
func Annotations(w io.Writer, documents []Document, file func(string) string) error {
	written := map[string]int{}
	for _, d := range documents {
		for _, a := range annotationsOf(d) {
			if written[a.level]++; written[a.level] > maxAnnotations {
				continue
			}
			if file != nil {
				a.at.File = file(a.at.File)
			}
			if _, err := fmt.Fprintln(w, a.command()); err != nil {
				return fmt.Errorf("annotations cannot be written: %w", err)
			}
		}
	}
	return nil
}

// command writes an annotation as a workflow command.
func (a *annotation) command() string {
	var properties []string
	set := func(name, value string) { properties = append(properties, name+"="+escapeProperty(value)) }
	if a.at.File != "" {
		set("file", a.at.File)
	}
	if a.at.Line > 0 {
		set("line", fmt.Sprint(a.at.Line))
		set("col", fmt.Sprint(a.at.Column))
	}
	set("title", a.title)
	return fmt.Sprintf("::%s %s::%s", a.level, strings.Join(properties, ","), escapeData(strings.Join(a.words, "\n\n")))
}

// escapeData escapes the message of a workflow command, which is one line, as actions/toolkit does (core/src/command.ts).
func escapeData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// escapeProperty escapes the value of a property of a workflow command.
func escapeProperty(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(text)
}

// annotationsOf returns the annotations of a document.
func annotationsOf(d Document) []annotation {
	r := d.Exploration()
	var all []annotation
	if words := d.inconclusiveWords(); words != "" && d.Verdict() != InvalidProperty {
		level := "warning"
		if d.Verdict() == Nondeterministic || d.Verdict() == Failed {
			level = "error"
		}
		at, title := property.Position{File: r.Path}, d.Name()+": "+string(d.Verdict())
		all = append(all, annotation{level, at, title, []string{words, r.Command}})
	}
	for _, b := range brokenOf(r) {
		f := &r.Findings[b.findings[0]]
		at := property.Position{File: r.Path}
		if b.verdict != nil {
			at = place(r, b.verdict.Property)
		}
		words := append([]string{b.message()}, Deciding(r, b.findings[0])...)
		if more := len(b.findings) - 1; more > 0 {
			words = append(words, fmt.Sprintf("%s more.", count(more, "finding")))
		}
		all = append(all, annotation{"error", at, d.Name() + ": " + b.name, append(words, replayWith(r, f))})
	}
	for _, p := range r.Coverage.Properties {
		at, name := place(r, p.Property), d.Name()+": "+p.Property.Name
		switch {
		case p.Invalid > 0:
			all = append(all, annotation{"error", at, name + " is invalid", []string{p.Error, p.Property.Rule}})
		case !exercised(p) && p.Property.Type != property.Detector:
			all = append(all, annotation{"notice", at, name + " was never exercised", []string{"It says nothing."}})
		}
	}
	return all
}

// SummaryLimit is how large a summary may be that a step of GitHub Actions writes, in bytes.
const SummaryLimit = 1 << 20

// StepSummary writes a summary in Markdown, as GitHub Actions shows it of a step: a table of what was explored and replayed, and
// for each finding what is broken, what decides, the command line that shows it again, and its report, folded. It has at most
// limit bytes, if that is room for its title: reports are left out first, then the last findings.
func StepSummary(w io.Writer, documents []Document, limit int) error {
	parts := summaryTable(documents)
	for _, d := range documents {
		parts = append(parts, summaryOf(d)...)
	}
	used, leftOut := len(leftOutWords)+len("18446744073709551615 findings"), 0
	var kept []summaryPart
	for i, part := range parts {
		if i > 0 && used+len(part.text) > limit {
			leftOut++
			continue
		}
		used += len(part.text)
		kept = append(kept, part)
	}
	var all bytes.Buffer
	for _, part := range kept {
		all.WriteString(part.text)
		if part.report == nil || used > limit {
			continue
		}
		if report := part.report(); used+len(report) <= limit {
			used += len(report)
			all.WriteString(report)
		}
	}
	if leftOut > 0 {
		fmt.Fprintf(&all, leftOutWords, count(leftOut, "part"))
	}
	if _, err := all.WriteTo(w); err != nil {
		return fmt.Errorf("step summary cannot be written: %w", err)
	}
	return nil
}

const leftOutWords = "\nThere is no room here for %s more: the text report has all.\n"

// summaryPart is a part of a summary, with a report that is to follow it if there is room; nil for none.
type summaryPart struct {
	text   string
	report func() string
}

// summaryTable is the title with a table: a row for each document.
func summaryTable(documents []Document) []summaryPart {
	counts := map[Verdict]int{}
	for _, d := range documents {
		counts[d.Verdict()]++
	}
	var words []string
	for _, v := range []Verdict{Failed, InvalidProperty, Nondeterministic, Broken, Stale, Inconclusive, Passed} {
		if counts[v] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	parts := []summaryPart{{text: fmt.Sprintf("## Stalemate: %s\n\n| | Scenario | Executions | Broken |\n|---|---|---:|---|\n",
		strings.Join(words, ", "))}}
	for _, d := range documents {
		r := d.Exploration()
		var names []string
		for _, b := range brokenOf(r) {
			names = append(names, markdown(b.name))
		}
		parts = append(parts, summaryPart{text: fmt.Sprintf("| %s %s | %s | %d | %s |\n", verdictMark[d.Verdict()], d.Verdict(),
			markdown(d.Name()), r.Coverage.Executions, cmp.Or(strings.Join(names, ", "), "-"))})
	}
	return parts
}

// verdictMark are the signs that stand for verdicts in a table.
var verdictMark = map[Verdict]string{
	Failed: "❗", InvalidProperty: "❗", Nondeterministic: "❗", Broken: "❌", Stale: "❔", Inconclusive: "❔", Passed: "✅",
}

// summaryOf tells why a document came to no verdict, and its findings, a part for each.
func summaryOf(d Document) []summaryPart {
	r := d.Exploration()
	var parts []summaryPart
	if words := d.inconclusiveWords(); words != "" {
		parts = append(parts, summaryPart{text: fmt.Sprintf("\n### %s: %s\n\n%s\n\n%s", markdown(d.Name()), d.Verdict(), markdown(words),
			fenced("sh", r.Command))})
	}
	broken := brokenOf(r)
	for i := range r.Findings {
		f := &r.Findings[i]
		var part strings.Builder
		fmt.Fprintf(&part, "\n### %s: %s\n", markdown(d.Name()), markdown(brokenNames(f)))
		for _, b := range broken {
			if slices.Contains(b.findings, i) {
				fmt.Fprintf(&part, "\n%s\n", markdown(b.message()))
			}
		}
		for _, words := range Deciding(r, i) {
			fmt.Fprintf(&part, "\n> %s\n", markdown(words))
		}
		part.WriteString("\n" + fenced("sh", replayWith(r, f)))
		parts = append(parts, summaryPart{part.String(), func() string {
			var report bytes.Buffer
			_ = Finding(&report, r, i, Options{Replay: commandOf}) // a buffer takes all
			return "\n<details><summary>Report</summary>\n\n" + fenced("text", report.String()) + "\n</details>\n"
		}})
	}
	return parts
}

// markdownEscapes escape what has a meaning in Markdown, in a table, in HTML, or for GitHub: math, mentions.
var markdownEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_",
	"[", "\\[", "]", "\\]", "|", "\\|", "~", "\\~", "#", "\\#", "$", "\\$", "@", "\\@")

// markdown writes a text on one line of Markdown.
func markdown(text string) string {
	return markdownEscapes.Replace(strings.Join(strings.Fields(text), " "))
}

// fenced writes a text as a block of code, with a fence that is longer than all in it.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
