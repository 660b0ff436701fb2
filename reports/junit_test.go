package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// documents are explorations and replays of every kind, in a fixed order.
func documents() []Document {
	var all []Document
	for _, make := range sortedValues(results) {
		all = append(all, Document{Result: make()})
	}
	for _, replay := range sortedValues(replays) {
		r, p := replay.make()
		r.Command = "stalemate replay " + p.File
		all = append(all, Document{Result: r, Replay: &p})
	}
	return append(all, failed())
}

// failed is the document of a scenario that is wrong.
func failed() Document {
	r := &history.Result{Header: history.Header{Scenario: "wrong.yaml", Path: "wrong.yaml"}}
	return Document{Result: r, Problem: "wrong.yaml:7:3: spec.racers[0].type: unknown type Kublet\n  did you mean Kubelet?"}
}

func sortedValues[T any](of map[string]T) []T {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	var values []T
	for _, name := range names {
		values = append(values, of[name])
	}
	return values
}

func junit(t *testing.T, documents ...Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := JUnit(&b, documents); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestJUnitGolden(t *testing.T) {
	stale, p := replays["stale"].make()
	golden(t, "junit.xml", junit(t, Document{Result: found()}, Document{Result: overwritten()}, Document{Result: vacuous()},
		Document{Result: invalid()}, Document{Result: diverged()}, Document{Result: stale, Replay: &p}, failed()))
}

// element is what Jenkins' junit-10.xsd, against which its xUnit plugin validates reports, says of an element.
type element struct {
	required, optional, children []string
	text                         bool
}

var problemElement = element{optional: []string{"type", "message"}, text: true}

var junitElements = map[string]element{
	"testsuites": {optional: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
	"testsuite": {
		required: []string{"name", "tests", "failures", "errors"},
		optional: []string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"},
	},
	"properties": {children: []string{"property"}},
	"property":   {required: []string{"name", "value"}},
	"testcase": {
		required: []string{"name"}, optional: []string{"time", "classname", "group"},
		children: []string{"skipped", "error", "failure", "system-out", "system-err"},
	},
	"failure": problemElement, "error": problemElement, "skipped": problemElement,
	"system-out": {text: true}, "system-err": {text: true},
}

// junitTime is the form of a time in seconds.
var junitTime = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?$`)

// checkJUnit checks a report by those rules.
func checkJUnit(report io.Reader) error {
	decoder := xml.NewDecoder(report)
	var open []string
	var problems []error
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return errors.Join(problems...)
		}
		if err != nil {
			return err
		}
		fail := func(format string, args ...any) {
			line, _ := decoder.InputPos()
			problems = append(problems, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
		}
		switch token := token.(type) {
		case xml.StartElement:
			rules, known := junitElements[token.Name.Local]
			parents := junitElements[strings.Join(open[max(len(open)-1, 0):], "")]
			if !known || len(open) > 0 && !slices.Contains(parents.children, token.Name.Local) ||
				len(open) == 0 && !strings.HasPrefix(token.Name.Local, "testsuite") {
				fail("%s within %s", token.Name.Local, open)
			}
			var names []string
			for _, a := range token.Attr {
				names = append(names, a.Name.Local)
				if !slices.Contains(slices.Concat(rules.required, rules.optional), a.Name.Local) {
					fail("%s has no %s", token.Name.Local, a.Name.Local)
				}
				if a.Name.Local == "time" && !junitTime.MatchString(a.Value) {
					fail("time %s", a.Value)
				}
			}
			for _, name := range rules.required {
				if !slices.Contains(names, name) {
					fail("%s without %s", token.Name.Local, name)
				}
			}
			open = append(open, token.Name.Local)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && !junitElements[open[len(open)-1]].text && strings.TrimSpace(string(token)) != "" {
				fail("text in %s", open[len(open)-1])
			}
		}
	}
}

// TestJUnitRules checks reports of all kinds by the rules of the schema, and the rules by reports that break them.
func TestJUnitRules(t *testing.T) {
	for _, d := range documents() {
		if err := checkJUnit(strings.NewReader(junit(t, d))); err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
	}
	if err := checkJUnit(strings.NewReader(junit(t, documents()...))); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		`<testsuites><testcase name="a"/></testsuites>`, `<testsuites><testsuite name="a" tests="1" failures="0"/></testsuites>`,
		`<testsuites time="1s"/>`, `<testsuites>text</testsuites>`, `<property name="a" value="b"/>`, `<testsuites line="1"/>`,
		`<testsuites><testsuite name="a" tests="1" failures="0" errors="0"><testcase name="b"><stack/></testcase></testsuite></testsuites>`,
	} {
		if err := checkJUnit(strings.NewReader(wrong)); err == nil {
			t.Errorf("%s is taken for a report", wrong)
		}
	}
}

// TestJUnitSchema validates reports with xmllint by the schema that the variable JUNIT_XSD names, such as junit-10.xsd of Jenkins'
// xUnit plugin, which is no part of this repository.
func TestJUnitSchema(t *testing.T) {
	schema := os.Getenv("JUNIT_XSD")
	xmllint, err := exec.LookPath("xmllint")
	if schema == "" || err != nil {
		t.Skip("validates only where xmllint is installed and JUNIT_XSD names a schema")
	}
	command := exec.CommandContext(t.Context(), xmllint, "--noout", "--schema", schema, "-")
	command.Stdin = strings.NewReader(junit(t, documents()...))
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// TestJUnitCases checks what becomes of what.
func TestJUnitCases(t *testing.T) {
	stale, p := replays["stale"].make()
	misjudged, q := replays["misjudged"].make()
	for _, test := range []struct {
		document Document
		want     string // of the cases, in their order: passed, failed, error, skipped
	}{
		{Document{Result: found()}, "pffpp"},
		{Document{Result: passed()}, "ppppp"},
		{Document{Result: vacuous()}, "pppsp"},
		{Document{Result: inconclusive()}, "esssp"},
		{Document{Result: invalid()}, "pefpp"},
		{Document{Result: diverged()}, "epppp"},
		{Document{Result: overwritten()}, "pffpf"},
		{Document{Result: stale, Replay: &p}, "epp"},
		{Document{Result: misjudged, Replay: &q}, "pep"},
		{failed(), "e"},
	} {
		got := ""
		for _, c := range junitCases(test.document, test.document.Exploration()) {
			switch {
			case c.Failure != nil:
				got += "f"
			case c.Error != nil:
				got += "e"
			case c.Skipped != nil:
				got += "s"
			default:
				got += "p"
			}
		}
		if got != test.want {
			t.Errorf("%s: the cases came out %s, want %s", test.document.Name(), got, test.want)
		}
	}
}

// TestJUnitText checks that no report is broken by what operators and users write.
func TestJUnitText(t *testing.T) {
	r := found()
	r.Findings[0].Run.Verdicts[0].Property = &property.Definition{
		Name: `<a & "b">`, Type: property.Terminal, Rule: "]]> \x00\x1b[31m \xff", Message: "two\nlines & ]]>"}
	r.Coverage.Properties[0].Property = r.Findings[0].Run.Verdicts[0].Property
	report := junit(t, Document{Result: r})
	if err := checkJUnit(strings.NewReader(report)); err != nil {
		t.Errorf("%v in\n%s", err, report)
	}
	var read junitSuites
	if err := xml.Unmarshal([]byte(report), &read); err != nil {
		t.Fatal(err)
	}
	c := read.Suites[0].Cases[1]
	if c.Name != `<a & "b">` || c.Failure.Message != "two\nlines & ]]>" || !strings.Contains(c.Failure.Body, "]]> \uFFFD\uFFFD[31m \uFFFD") {
		t.Errorf("read back, it is %+v, %+v", c, c.Failure)
	}
}

func TestJUnitReportsWriteErrors(t *testing.T) {
	if err := JUnit(brokenWriter{}, documents()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("JUnit to a broken writer: %v", err)
	}
}
