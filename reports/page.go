package reports

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// style is an ANSI colour or weight.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	alarm  style = "\x1b[1;31m"

	success = bold + green
)

const reset = "\x1b[0m"

// page collects a report: lines no wider than its width, with styles that vanish where there is no colour.
type page struct {
	bytes.Buffer
	width int
	color bool
}

// in returns the text in a style.
func (p *page) in(s style, text string) string {
	if !p.color || s == plain || text == "" {
		return text
	}
	return string(s) + text + reset
}

// linef writes one line as it is, however wide.
func (p *page) linef(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.WriteString(strings.TrimRight(line, " "))
	p.WriteByte('\n')
}

// heading opens a section.
func (p *page) heading(text string) {
	p.WriteByte('\n')
	p.linef("%s", p.in(bold, text))
}

// text writes words, wrapped. The first line follows the lead, the others are indented as far as the lead is wide.
func (p *page) text(lead string, s style, words string) {
	indent := utf8.RuneCountInString(lead)
	for i, line := range wrap(words, p.width-indent) {
		if i > 0 {
			lead = strings.Repeat(" ", indent)
		}
		p.linef("%s%s", lead, p.in(s, line))
	}
}

// fieldWidth is the width of the names in a list of names and values.
const fieldWidth = 15

// field writes a name and its value.
func (p *page) field(name string, s style, value string) {
	if utf8.RuneCountInString(name) >= fieldWidth {
		p.linef("  %s", name)
		name = ""
	}
	lead := fmt.Sprintf("  %-*s", fieldWidth, name)
	for i, line := range strings.Split(value, "\n") {
		if i > 0 {
			lead = strings.Repeat(" ", fieldWidth+2)
		}
		p.text(lead, s, line)
	}
}

// field is a name and its value, in a style; lines of a value are divided by newlines. One without a name belongs to that before.
type field struct {
	name  string
	style style
	value string
}

// fields writes names and values.
func (p *page) fields(all []field) {
	for _, f := range all {
		p.field(f.name, f.style, f.value)
	}
}

// minWidth is the least width words are wrapped to: below it, lines overflow instead.
const minWidth = 20

// wrap breaks words into lines of at most width characters. A word that is longer has a line of its own, unbroken, so
// that names and commands can be copied. The result is never empty.
func wrap(words string, width int) []string {
	width = max(width, minWidth)
	var lines []string
	var line strings.Builder
	length := 0
	for word := range strings.FieldsSeq(words) {
		n := utf8.RuneCountInString(word)
		if length > 0 && length+1+n > width {
			lines = append(lines, line.String())
			line.Reset()
			length = 0
		}
		if length > 0 {
			line.WriteByte(' ')
			length++
		}
		line.WriteString(word)
		length += n
	}
	return append(lines, line.String())
}

// wrapAll is wrap for a column, which no word may run out of: one that is longer than the width is broken, after a dot or another
// sign that divides names if there is one.
func wrapAll(words string, width int) []string {
	width = max(width, minWidth)
	var parts []string
	for word := range strings.FieldsSeq(words) {
		rest := []rune(word)
		for len(rest) > width {
			end := width
			if at := strings.LastIndexAny(string(rest[1:width]), "./[]:,"); at >= 0 {
				end = 2 + utf8.RuneCountInString(string(rest[1:width])[:at])
			}
			parts = append(parts, string(rest[:end]))
			rest = rest[end:]
		}
		parts = append(parts, string(rest))
	}
	return wrap(strings.Join(parts, " "), width)
}

// shorten cuts a text to at most n characters.
func shorten(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// count writes a number of things: "1 execution", "3 executions".
func count(n int, singular string) string { return fmt.Sprintf("%d %s", n, plural(n, singular)) }

// plural returns the word for a number of things: "execution", "executions".
func plural(n int, singular string) string {
	if n == 1 {
		return singular
	}
	if stem, isY := strings.CutSuffix(singular, "y"); isY {
		return stem + "ies"
	}
	return singular + "s"
}
