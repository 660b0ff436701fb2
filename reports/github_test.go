package reports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// placed is what an exploration found of which the properties know where they are written.
func placed() *history.Result {
	r := found()
	at := func(p property.Definition, line int) *property.Definition {
		p.Position = property.Position{File: r.Path, Line: line, Column: 7}
		return &p
	}
	run := r.Findings[0].Run
	for i := range run.Verdicts {
		run.Verdicts[i].Property = at(*run.Verdicts[i].Property, 40+3*i)
		r.Coverage.Properties[i].Property = run.Verdicts[i].Property
	}
	r.Coverage.Properties[2].Held = 0 // never exercised
	r.Findings[0].Command = "stalemate replay findings/recreate.yaml"
	return r
}

func githubDocuments() []Document {
	stale, p := replays["stale"].make()
	return []Document{{Result: placed()}, {Result: overwritten()}, {Result: passed()}, {Result: invalid()}, {Result: diverged()},
		{Result: stale, Replay: &p}, failed()}
}

func TestAnnotationsGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Annotations(&b, githubDocuments(), func(file string) string { return "operators/" + file }); err != nil {
		t.Fatal(err)
	}
	golden(t, "annotations.txt", b.String())
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "::error ") && !strings.HasPrefix(line, "::warning ") && !strings.HasPrefix(line, "::notice ") {
			t.Errorf("no workflow command: %q", line)
		}
	}
}

func TestAnnotationsAreEscaped(t *testing.T) {
	a := annotation{"error", property.Position{File: "a,b:c.yaml", Line: 3, Column: 1}, "100%: a, b", []string{"50%\r\nof: it, all", "more"}}
	want := "::error file=a%2Cb%3Ac.yaml,line=3,col=1,title=100%25%3A a%2C b::50%25%0D%0Aof: it, all%0A%0Amore"
	if got := a.command(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAnnotationsEnd checks that no more are written than GitHub shows.
func TestAnnotationsEnd(t *testing.T) {
	var documents []Document
	for range 20 {
		documents = append(documents, Document{Result: placed()})
	}
	var b bytes.Buffer
	if err := Annotations(&b, documents, nil); err != nil {
		t.Fatal(err)
	}
	for level, want := range map[string]int{"::error": 10, "::warning": 0, "::notice": 10} {
		if got := strings.Count(b.String(), level+" "); got != want {
			t.Errorf("%d of %s, want %d", got, level, want)
		}
	}
}

func stepSummary(t *testing.T, documents []Document, limit int) string {
	t.Helper()
	var b bytes.Buffer
	if err := StepSummary(&b, documents, limit); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestStepSummaryGolden(t *testing.T) {
	golden(t, "summary.md", stepSummary(t, githubDocuments(), SummaryLimit))
}

// TestStepSummaryLimit checks that no summary is longer than it may be, and what is left out first.
func TestStepSummaryLimit(t *testing.T) {
	var documents []Document
	for i := range 300 {
		r := placed()
		r.Scenario, r.Findings[0].Run.Panic = fmt.Sprintf("scenario-%d", i), strings.Repeat("x", 3000)
		r.Findings[0].Run.Outcome = history.Panicked
		documents = append(documents, Document{Result: r})
	}
	for _, limit := range []int{SummaryLimit, 300_000, 100_000, 10_000} {
		got := stepSummary(t, documents, limit)
		if len(got) > limit {
			t.Errorf("%d bytes, and %d is the limit", len(got), limit)
		}
		reports, headings := strings.Count(got, "<details>"), strings.Count(got, "\n### ")
		rows, left := strings.Count(got, "\n| ❌"), strings.Contains(got, "There is no room here for")
		wrongOrder := reports > 0 && headings < 300 || headings > 0 && rows < 300
		if left == (headings == 300) || wrongOrder || headings < 300 && limit == SummaryLimit {
			t.Errorf("within %d bytes are %d rows, %d findings, %d reports; less than all: %t", limit, rows, headings, reports, left)
		}
	}
	if got := stepSummary(t, documents, 50); len(got) > 200 || !strings.Contains(got, "There is no room here for 600 parts more") {
		t.Errorf("with hardly any room, it is %q", got)
	}
}

func TestMarkdown(t *testing.T) {
	want := "a\\|b &lt;c&gt; \\`d\\` \\*e\\* \\_f\\_ \\$g\\$ \\@h &amp; \\\\"
	if got := markdown("a|b\n <c> `d` *e* _f_ $g$ @h & \\"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fenced("", "a ```` b"); !strings.HasPrefix(got, "`````\n") {
		t.Errorf("the fence is too short: %s", got)
	}
}

func TestGitHubReportsWriteErrors(t *testing.T) {
	if err := Annotations(brokenWriter{}, githubDocuments(), nil); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Annotations to a broken writer: %v", err)
	}
	if err := StepSummary(brokenWriter{}, githubDocuments(), SummaryLimit); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("StepSummary to a broken writer: %v", err)
	}
}
