package reports

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// The elements of a JUnit report, as far as Jenkins' junit-10.xsd and the readers of GitLab, GitHub actions and others agree on
// them.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Time     string       `xml:"time,attr,omitempty"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr,omitempty"`
		File       string          `xml:"file,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Output     junitText       `xml:"system-out"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitProblem `xml:"skipped"`
	}
	junitProblem struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Body    string `xml:",cdata"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
)

const (
	// conclusive is the test case that says whether an exploration came to a verdict at all.
	conclusive = "comes to a verdict"
	// noPanic is the test case that no reconciler panics.
	noPanic = "no panic in Reconcile"
)

// JUnit writes explorations and replays as a JUnit report: a test suite for each, with a test case for each property and each
// detector, one that no reconciler panics, and one that a verdict was come to at all. What is broken is a failure, with what decides
// and the command line that shows it again; a property that was never exercised is skipped; an invalid rule, a nondeterministic
// operator, a run into a limit, a stale schedule and a file that is wrong are errors. The suite's output says what was covered.
//
// Equal documents give equal bytes: there is no time stamp in it.
func JUnit(w io.Writer, documents []Document) error {
	all := junitSuites{Name: "stalemate"}
	elapsed := time.Duration(0)
	for _, d := range documents {
		suite := newJUnitSuite(d)
		all.Suites = append(all.Suites, suite)
		all.Tests, all.Failures, all.Errors = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Errors+suite.Errors
		elapsed += d.Result.Elapsed
	}
	all.Time = seconds(elapsed)
	content, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("JUnit report cannot be written: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, content); err != nil {
		return fmt.Errorf("JUnit report cannot be written: %w", err)
	}
	return nil
}

// seconds writes a real time as JUnit does; it is empty if the time is not known.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}

func newJUnitSuite(d Document) junitSuite {
	r := d.Exploration()
	suite := junitSuite{Name: xmlText(d.Name()), Time: seconds(r.Elapsed), File: xmlText(r.Path), Cases: junitCases(d, r)}
	suite.Properties = []junitProperty{{"command", xmlText(r.Command)}, {"seed", strconv.FormatInt(r.Seed, 10)}}
	if r.Hash != 0 {
		suite.Properties = append(suite.Properties, junitProperty{"history hash", fmt.Sprintf(hashFormat, r.Hash)})
	}
	t := newText(r, Options{Replay: commandOf})
	switch {
	case d.Problem != "":
		t.failed(d)
	case d.Replay != nil:
		t.replayTitle(*d.Replay)
		t.closing()
	default:
		t.title()
		t.closing()
	}
	suite.Output.Text = xmlText("\n" + t.String())
	suite.Tests = len(suite.Cases)
	for _, c := range suite.Cases {
		switch {
		case c.Failure != nil:
			suite.Failures++
		case c.Error != nil:
			suite.Errors++
		case c.Skipped != nil:
			suite.Skipped++
		}
	}
	return suite
}

// junitCases returns the test cases of a document, whose exploration is given.
func junitCases(d Document, r *history.Result) []junitCase {
	class := xmlText(newText(r, Options{}).subject())
	verdict := junitCase{Name: conclusive, Class: class}
	if words := d.inconclusiveWords(); words != "" && d.Verdict() != InvalidProperty {
		verdict.Error = &junitProblem{Type: string(d.Verdict()), Message: xmlText(words), Body: xmlText("\n" + r.Command + "\n")}
	}
	cases := []junitCase{verdict}
	if d.Problem != "" {
		return cases
	}
	broken := brokenOf(r)
	for _, p := range propertiesOf(r) {
		c := junitCase{Name: xmlText(p.Property.Name), Class: class}
		i := slices.IndexFunc(broken, func(b brokenProperty) bool { return b.name == p.Property.Name })
		switch {
		case p.Invalid > 0:
			words := "\n" + p.Property.Rule + "\n" + placeText(place(r, p.Property)) + "\n"
			c.Error = &junitProblem{Type: string(InvalidProperty), Message: xmlText(p.Error), Body: xmlText(words)}
		case i >= 0:
			c.Failure = junitFailure(r, &broken[i])
		case p.Broken > 0 && p.Property.Type != property.Sometimes:
			c.Failure = &junitProblem{Type: string(p.Property.Type), Message: xmlText(propertyWords(p)), Body: xmlText("\n" + r.Command + "\n")}
		case !exercised(p):
			c.Skipped = &junitProblem{Message: "never exercised: it says nothing"}
		}
		cases = append(cases, c)
	}
	last := junitCase{Name: noPanic, Class: class}
	if i := slices.IndexFunc(broken, func(b brokenProperty) bool { return b.verdict == nil }); i >= 0 {
		last.Failure = junitFailure(r, &broken[i])
	}
	return append(cases, last)
}

// propertiesOf returns the properties of an exploration with how they fared. Before the end that is known only from what was found.
func propertiesOf(r *history.Result) []history.PropertyCoverage {
	if len(r.Coverage.Properties) > 0 || len(r.Findings) == 0 {
		return r.Coverage.Properties
	}
	var all []history.PropertyCoverage
	for _, v := range r.Findings[0].Run.Verdicts {
		all = append(all, covered(v))
	}
	return all
}

// junitFailure tells what is broken, as the first finding that shows it does, and names the others.
func junitFailure(r *history.Result, b *brokenProperty) *junitProblem {
	t := newText(r, Options{Replay: func(f *history.Finding) string { return replayWith(r, f) }})
	f := &r.Findings[b.findings[0]]
	t.linef("")
	problem := &junitProblem{Type: panicName, Message: xmlText(b.message())}
	if b.verdict == nil {
		t.linef("%s", f.Run.Panic)
	} else {
		problem.Type = string(b.verdict.Property.Type)
		t.field("rule", plain, b.verdict.Property.Rule)
		if values := valueLines(b.verdict.Values); len(values) > 0 {
			t.field("it read", plain, strings.Join(values, "\n"))
		}
		t.field("broken", plain, whenBroken(*b.verdict, f.Run))
		t.field("written", plain, placeText(place(r, b.verdict.Property)))
	}
	t.source(f)
	t.heading("WHAT DECIDES")
	t.deciding(f, t.decisions(f))
	if more := b.findings[1:]; len(more) > 0 {
		t.heading("FURTHER FINDINGS")
		for _, i := range more {
			t.further(&r.Findings[i])
		}
	}
	problem.Body = xmlText(t.String())
	return problem
}

// xmlText replaces what must not stand in XML, as a log line or a panic may have it.
func xmlText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return r
		case r < ' ' || r == 0xfffe || r == 0xffff:
			return utf8.RuneError
		default:
			return r
		}
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}
