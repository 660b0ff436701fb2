package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// Signature tells findings apart: the properties broken, the values their rules read, and the outcome of the last
// failing writes of each process. What one run breaks is one finding.
func Signature(h *history.History) string {
	parts := lastFailures(h)
	if broken := brokenWith(h); broken != "" {
		parts = append([]string{broken}, parts...)
	}
	return strings.Join(parts, "\n")
}

// brokenWith returns the part of a signature that says what was broken, and with which values.
func brokenWith(h *history.History) string {
	var parts []string
	if h.Outcome == history.Panicked {
		parts = append(parts, panicSignature(h.Panic))
	}
	if text := property.Signature(h.Verdicts); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

// panicSignature returns the function that panicked: the values in a panic's text, an index or an address, say nothing of
// which bug it is. The text has the value, and the stack as package runtime/debug prints it.
func panicSignature(text string) string {
	_, stack, found := strings.Cut(text, "\npanic(")
	if !found {
		first, _, _ := strings.Cut(text, "\n")
		return "panic " + first
	}
	lines := strings.Split(stack, "\n")
	for i := 2; i < len(lines); i += 2 { // a function, and its position
		if function := lines[i]; !strings.HasPrefix(function, "runtime.") {
			if arguments := strings.LastIndex(function, "("); arguments >= 0 {
				function = function[:arguments]
			}
			return "panic in " + function
		}
	}
	return "panic"
}

// lastFailures returns, for each actor that reconciles, its last write that failed.
func lastFailures(h *history.History) []string {
	last := map[string]string{}
	for i := range h.Records {
		r := &h.Records[i]
		if r.Event.Incarnation > 0 && r.Event.Verb.IsWrite() && r.Code >= 400 {
			last[r.Event.Actor] = fmt.Sprintf("%s %s %s %d", r.Event.Actor, r.Event.Verb, r.Event.Kind, r.Code)
		}
	}
	var texts []string
	for _, text := range last {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}
