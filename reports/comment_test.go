package reports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestComment(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("words of a command that is not broken ", 4))
	end := strings.LastIndexByte(words[:119], ' ') // the last space that fits
	for _, c := range []struct{ name, report, want string }{
		{"lines", "TITLE\n\n  indented\n", "# TITLE\n#\n#   indented\n"},
		{"no end", "TITLE", "# TITLE\n"},
		{"wide", words, "# " + words[:end] + "\n#       " + words[end+1:] + "\n"},
		{"one wide word", strings.Repeat("x", 130), "# " + strings.Repeat("x", 118) + "\n#       " + strings.Repeat("x", 12) + "\n"},
		{"control", "a\tb\x1b[31mc\r\nd\u2028e", "# a b?[31mc?\n# d?e\n"},
		{"empty", "", ""},
	} {
		if got := Comment(c.report); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}

// TestCommentOfReports checks that no word of a report gets lost in its comment.
func TestCommentOfReports(t *testing.T) {
	for name, result := range results {
		var report bytes.Buffer
		if err := Text(&report, result(), Options{}); err != nil {
			t.Fatal(err)
		}
		comment := Comment(report.String())
		got := strings.Fields(strings.ReplaceAll("\n"+comment, "\n#", "\n"))
		if want := strings.Fields(report.String()); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: the comment says something else:\n%s", name, comment)
		}
	}
}

// FuzzComment checks that whatever a report says, its comment is one: every line begins with a mark, is narrow, and has
// nothing in it that could end the comment.
func FuzzComment(f *testing.F) {
	f.Add("a\nb")
	f.Add(strings.Repeat("long ", 50))
	f.Add("\r\u0085\u2029\x00" + strings.Repeat("ü", 300))
	f.Fuzz(func(t *testing.T, report string) {
		for line := range strings.Lines(Comment(report)) {
			line, whole := strings.CutSuffix(line, "\n")
			bad := func(r rune) bool { return !unicode.IsPrint(r) }
			if !whole || !strings.HasPrefix(line, "#") || utf8.RuneCountInString(line) > 120 || strings.ContainsFunc(line, bad) {
				t.Errorf("a line of the comment is %q", line)
			}
		}
	})
}

func ExampleComment() {
	fmt.Print(Comment("✗ BROKEN  widget-update\n  1 finding in 3 executions, 2ms.\n"))
	// Output:
	// # ✗ BROKEN  widget-update
	// #   1 finding in 3 executions, 2ms.
}
