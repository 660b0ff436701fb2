package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIndexPlaces(t *testing.T) {
	const text = `# comment
a:
- {b: "x y", c: 1}
-   d: |
      foo
    e: >-
      bar
      baz
f: &x {g: 1}
h: *x
i:
  <<: *x
  "q": 'a'
j:
k/l.m: 1
---
second: true
`
	source, problems := parseSource("test.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		doc          int
		path         string
		name, value  place
		nearestToKey bool
	}{
		{path: "a", name: place{2, 1}, value: place{3, 1}},
		{path: "a[0].b", name: place{3, 4}, value: place{3, 7}},
		{path: "a[1]", name: place{4, 5}, value: place{4, 5}},
		{path: "a[1].d", name: place{4, 5}, value: place{4, 8}},
		{path: "f.g", name: place{9, 8}, value: place{9, 11}},
		{path: "h", name: place{10, 1}, value: place{9, 7}},
		{path: "i.g", name: place{9, 8}, value: place{9, 11}},
		{path: "i.q", name: place{13, 3}, value: place{13, 8}},
		{path: "j", name: place{14, 1}, value: place{14, 1}},
		{path: "k/l.m", name: place{15, 1}, value: place{15, 8}},
		{path: "a[1].missing.deeper", name: place{4, 5}, value: place{4, 5}},
		{path: "missing", name: place{2, 1}, value: place{2, 1}},
		{doc: 1, path: "second", name: place{17, 1}, value: place{17, 9}},
	} {
		index := source.docs[test.doc].index()
		if got := index.nearest(test.path, true); got != test.name {
			t.Errorf("name of %s at %v, want %v", test.path, got, test.name)
		}
		if got := index.nearest(test.path, false); got != test.value {
			t.Errorf("value of %s at %v, want %v", test.path, got, test.value)
		}
	}
}

// TestIndexWithin looks for the same characters of a CEL rule in every style that YAML has for strings.
func TestIndexWithin(t *testing.T) {
	const rule = `a == "x" && b.c`
	for name, text := range map[string]string{
		"plain":         `rule: a == "x" && b.c`,
		"plain, folded": "rule: a ==\n  \"x\" &&\n  b.c",
		"single quotes": `rule: 'a == "x" && b.c'`,
		"double quotes": `rule: "a == \"x\" && b.c"`,
		"literal":       "rule: |-\n    a == \"x\" && b.c\n",
		"folded":        "rule: >-\n  a ==\n  \"x\" &&\n  b.c\n",
		"anchor":        `rule: &anchor a == "x" && b.c`,
		"flow":          `{rule: 'a == "x" && b.c', other: 1}`,
		"JSON":          `{"rule": "a == \"x\" && b.c"}`,
	} {
		t.Run(name, func(t *testing.T) {
			source, problems := parseSource("test.yaml", []byte(text))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			doc := source.docs[0]
			if got := doc.value.(map[string]any)["rule"]; got != rule {
				t.Fatalf("the rule is %q", got)
			}
			for _, want := range []string{"a ==", "== ", "x", "&&", "b.c", "c"} {
				at := doc.index().within("rule", rule, strings.Index(rule, want))
				line := source.lines[at.line-1]
				if rest := line[at.column-1:]; !strings.HasPrefix(rest, strings.TrimSpace(want)) && !strings.HasPrefix(rest, want[:1]) {
					t.Errorf("%q found at %v, which is %q", want, at, rest)
				}
			}
			if at := doc.index().within("rule", rule, len(rule)); at.line == 0 {
				t.Error("the end of the rule has no place")
			}
		})
	}
}

func TestParseSourceDocuments(t *testing.T) {
	for _, test := range []struct {
		text string
		want []int // lines before the documents
	}{
		{"", nil},
		{"# only a comment\n", nil},
		{"---\n---\n", nil},
		{"a: 1\n", []int{0}},
		{"---\na: 1\n---\n# nothing\n---\nb: 1\n", []int{0, 4}},
		{"a: 1\r\n---\r\nb: 1\r\n", []int{0, 1}},
		{"\ufeffa: 1\n", []int{0}},
		{"a: |\n  ---\n  text\n--- # comment\nb: 1\n", []int{0, 3}},
	} {
		source, problems := parseSource("test.yaml", []byte(test.text))
		if len(problems) > 0 {
			t.Errorf("%q: %v", test.text, problems)
		}
		var got []int
		for _, doc := range source.docs {
			got = append(got, doc.first)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: documents begin after lines (-want +got):\n%s", test.text, diff)
		}
	}
}

// TestParseSourceHostile has input that was made to break parsers: it must be refused, soon and without a panic.
func TestParseSourceHostile(t *testing.T) {
	var bomb, chain strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	chain.WriteString("a0: &a0 {}\n")
	for i := 1; i < 2000; i++ {
		fmt.Fprintf(&chain, "a%d: &a%d {x: *a%d}\n", i, i, i-1)
	}
	const many = 200_000
	for name, text := range map[string]string{
		"brackets":      strings.Repeat("[", many),
		"braces":        strings.Repeat("{a: ", many),
		"dashes":        strings.Repeat("- ", many),
		"questions":     strings.Repeat("? ", many),
		"indentation":   nestedLines(1500),
		"bomb":          bomb.String(),
		"chain":         chain.String(),
		"cycle":         "a: &a {b: *a}\n",
		"unknown alias": "a: *b\n",
		"open quote":    "a: \"" + strings.Repeat("x", many),
		"tab":           "a:\n\tb: 1\n",
		"duplicate":     "a: 1\na: 2\n",
		"zero byte":     "a: \x00\n",
		"not UTF-8":     "a: \xff\xfe\n",
		"long key":      "? " + strings.Repeat("x", many) + "\n: 1\na: 1\na: 1\n",
		"directive":     "%YAML 9.9\n---\na: 1\na: 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			source, problems := parseSource("test.yaml", []byte(text))
			if len(problems) == 0 {
				t.Fatalf("accepted, with %d documents", len(source.docs))
			}
			for _, problem := range problems {
				if len(problem.String()) > 2000 {
					t.Errorf("a diagnostic of %d bytes", len(problem.String()))
				}
			}
			t.Log(problems[0])
		})
	}
}

// TestIndexHostile has input that is YAML, if only just, but that the parser behind the index may not like: it must still name
// some place, soon and without a panic.
func TestIndexHostile(t *testing.T) {
	const many = 200_000
	for name, text := range map[string]string{
		"tags":    strings.Repeat("!a ", many),
		"header":  "a: >2-\n  text\n",
		"comment": "a: 1\n" + strings.Repeat("# comment\n", many/10),
		"merge":   "x: &x {y: 1}\na: {<<: *x, z: 2}\n",
		"keys":    "? a\n: 1\n? [b, c]\n: 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			source, problems := parseSource("test.yaml", []byte(text))
			for _, doc := range source.docs {
				problems = append(problems, doc.at("a", "asked for"))
			}
			if len(problems) == 0 || problems[0].Line < 1 || problems[0].Snippet == "" {
				t.Errorf("got %v, want a place", problems)
			}
		})
	}
}

// TestParseSourceFallback has YAML that only the reader of values refuses, not the parser behind the index.
func TestParseSourceFallback(t *testing.T) {
	_, problems := parseSource("test.yaml", []byte("a: 1\n---\nb: 1\n  \nc:\n  d: !!float x\n"))
	want := []Diagnostic{{
		File: "test.yaml", Line: 2, Column: 1, // it does not say where in the document
		Message: "invalid YAML: cannot decode !!str `x` as a !!float",
		Snippet: "  1 | a: 1\n> 2 | ---\n    | ^",
	}}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParseSourceMerge has a key that replaces a merged one, which is no duplicate.
func TestParseSourceMerge(t *testing.T) {
	source, problems := parseSource("test.yaml", []byte("a: &a {e: 1, f: 2}\nb:\n  <<: *a\n  f: 3\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := map[string]any{"e": json.Number("1"), "f": json.Number("3")}
	if diff := cmp.Diff(want, source.docs[0].value.(map[string]any)["b"]); diff != "" {
		t.Errorf("b (-want +got):\n%s", diff)
	}
	if at := source.docs[0].index().nearest("b.f", false); at != (place{4, 6}) {
		t.Errorf("b.f at %v", at)
	}
}

// TestStrictManyErrors has more mistakes than anybody wants to read, all in one line.
func TestStrictManyErrors(t *testing.T) {
	var text strings.Builder
	text.WriteString("{")
	for i := range 20_000 {
		fmt.Fprintf(&text, "x%d: 1, ", i)
	}
	text.WriteString("}")
	source, problems := parseSource("test.yaml", []byte(text.String()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	problems, _ = strictDecode(source.docs[0], source.docs[0].value, "", &Manifest{})
	if len(problems) != maxProblems {
		t.Errorf("%d diagnostics, want %d", len(problems), maxProblems)
	}
	err := newError("test.yaml", problems)
	if last := err.Error(); !strings.HasSuffix(last, "\nand 50 more errors") || len(last) > 50_000 {
		t.Errorf("printed in %d bytes", len(last))
	}
}

// nestedLines nests mappings, one line each.
func nestedLines(depth int) string {
	var b bytes.Buffer
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestSnippet(t *testing.T) {
	lines := []string{"first", "second:", "\tthird: \"ä\" x", strings.Repeat("long ", 100)}
	for _, test := range []struct {
		line, column int
		want         string
	}{
		{1, 2, "> 1 | first\n    |  ^"},
		{3, 13, "  1 | first\n  2 | second:\n> 3 | \tthird: \"ä\" x\n    | \t           ^"},
		{0, 1, ""},
		{5, 1, ""},
	} {
		if diff := cmp.Diff(test.want, snippet(lines, test.line, test.column)); diff != "" {
			t.Errorf("snippet(%d, %d) (-want +got):\n%s", test.line, test.column, diff)
		}
	}
	long := strings.Split(snippet(lines, 4, 401), "\n")
	text, caret := []rune(long[2]), []rune(long[3])
	if len(text) > snippetWidth+10 || text[len(caret)-1] != 'l' {
		t.Errorf("the caret does not point at column 401, which is an l:\n%s", strings.Join(long, "\n"))
	}
}

func TestNear(t *testing.T) {
	known := []string{"GarbageCollector", "Kubelet", "Scheduler", "StatefulSetController"}
	for word, want := range map[string][]string{
		"kubelet":               {"Kubelet"},
		"Kublet":                {"Kubelet"},
		"Kuebelt":               {"Kubelet"},
		"StatefulsetControler":  {"StatefulSetController"},
		"Cook":                  {},
		"":                      {},
		strings.Repeat("x", 99): {},
	} {
		if diff := cmp.Diff(want, near(word, known)); diff != "" {
			t.Errorf("near(%q) (-want +got):\n%s", word, diff)
		}
	}
}
