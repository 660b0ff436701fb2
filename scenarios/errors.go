package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A mistake that is repeated often enough says nothing new.
const (
	// maxShown bounds how many diagnostics [Error.Error] prints.
	maxShown = 50
	// maxProblems bounds how many diagnostics there are about the form of one document.
	maxProblems = 100
)

// Error is everything that is wrong with a scenario file and the files it refers to: a mistake of the file's author, and
// never of this program. It has at least one diagnostic.
type Error struct {
	// Diagnostics in the order of their place: file, line, column.
	Diagnostics []Diagnostic
}

// Diagnostic is one mistake and its place.
type Diagnostic struct {
	// File as the caller named it; a file that a scenario refers to is named relative to the same folder.
	File string
	// Line and Column count from 1, columns in characters. They are zero if the file as a whole is meant.
	Line, Column int
	// Message says what is wrong, object first, and what to do.
	Message string
	// Snippet shows the line, those before it, and the place within it. It is empty if Line is zero.
	Snippet string
}

// String returns the diagnostic as it is printed: "file:line:col: message", and below it the snippet.
func (d Diagnostic) String() string {
	place := d.File
	if d.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
	}
	if d.Snippet == "" {
		return place + ": " + d.Message
	}
	return place + ": " + d.Message + "\n" + d.Snippet
}

// Error returns all diagnostics, each with its snippet.
func (e *Error) Error() string {
	var b strings.Builder
	for i, d := range e.Diagnostics {
		if i == maxShown {
			fmt.Fprintf(&b, "\nand %d more errors", len(e.Diagnostics)-maxShown)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.String())
	}
	return b.String()
}

// newError sorts the diagnostics by place and drops those that say the same twice. It returns nil if there are none; the
// result is an error and not an *Error, so that it can be compared with nil. The file named first comes first.
func newError(first string, diagnostics []Diagnostic) error {
	if len(diagnostics) == 0 {
		return nil
	}
	rank := func(d Diagnostic) int {
		if d.File == first {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return &Error{Diagnostics: slices.Compact(diagnostics)}
}

// Snippets show this many lines before the one they are about, and cut lines to this width.
const (
	snippetContext = 2
	snippetWidth   = 160
)

// snippet renders the lines that lead up to a place, with a caret below it. Line and column count from 1.
func snippet(lines []string, line, column int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	digits := len(fmt.Sprint(line))
	var b strings.Builder
	for n := max(1, line-snippetContext); n < line; n++ {
		text, _ := window(lines[n-1], 1)
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %*d | %s", digits, n, text), " ") + "\n")
	}
	text, offset := window(lines[line-1], column)
	b.WriteString(strings.TrimRight(fmt.Sprintf("> %*d | %s", digits, line, text), " ") + "\n")
	fmt.Fprintf(&b, "  %*s | %s^", digits, "", padding(text, offset))
	return b.String()
}

// window cuts a line to the width of a snippet, so that the column is within it, and returns how many characters precede
// the column in what is left. A line may have megabytes: only what is shown is looked at.
func window(line string, column int) (text string, offset int) {
	line = strings.TrimRight(line, "\r")
	at := max(column-1, 0)
	start := 0
	if at >= snippetWidth*3/4 && len(line) > runesEnd(line, snippetWidth) {
		start = at - snippetWidth/2
	}
	rest := line[runesEnd(line, start):]
	text = rest[:runesEnd(rest, snippetWidth)]
	offset = min(at-start, utf8.RuneCountInString(text))
	if len(text) < len(rest) {
		text += "…"
	}
	if start > 0 {
		text, offset = "…"+text, offset+1
	}
	return text, offset
}

// runesEnd returns the offset of the byte after the first n characters of a text.
func runesEnd(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// padding is as wide as the first n characters of the text: tabs stay tabs.
func padding(text string, n int) string {
	var b strings.Builder
	for i, r := range []rune(text) {
		if i == n {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
