package reports

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// commentMark begins a line of a comment in YAML.
	commentMark = "# "
	// CommentWidth is the width of a comment's line, without its mark: reports that become comments are laid out for it.
	CommentWidth = defaultWidth - len(commentMark)
)

// Comment turns a report into a comment of YAML, for the head of a file that holds what the report is about. No line is wider
// than 120 columns: what a report does not break, such as a command, is broken here.
func Comment(report string) string {
	var b strings.Builder
	for line := range strings.Lines(report) {
		line = strings.TrimRightFunc(strings.Map(printable, line), unicode.IsSpace)
		for i, part := range breakLine(line, CommentWidth) {
			if i > 0 {
				part = continuation + part
			}
			b.WriteString(strings.TrimRight(commentMark+part, " ") + "\n")
		}
	}
	return b.String()
}

// printable replaces what must not stand in a comment of YAML, or would end it, as a log line or a panic may have it.
func printable(r rune) rune {
	switch {
	case r == '\n' || unicode.IsPrint(r):
		return r
	case r == '\t':
		return ' '
	default:
		return '?'
	}
}

// continuation begins the rest of a line that was broken.
const continuation = "      "

// breakLine breaks a line that is too wide, at spaces where that is possible; the rest leaves room for the continuation.
func breakLine(line string, width int) []string {
	var parts []string
	for utf8.RuneCountInString(line) > width {
		runes := []rune(line)
		at := width
		for at > 0 && runes[at] != ' ' {
			at--
		}
		if strings.TrimSpace(string(runes[:at])) == "" {
			at = width
		}
		parts = append(parts, strings.TrimRight(string(runes[:at]), " "))
		line = strings.TrimLeft(string(runes[at:]), " ")
		if len(parts) == 1 {
			width -= len(continuation)
		}
	}
	return append(parts, line)
}
