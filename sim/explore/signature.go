package explore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Signature tells findings apart: the properties broken, the values their rules read, the outcome of the last failing writes
// of each process, and the faults that those do not show. What one run breaks is one finding.
func Signature(h *history.History) string {
	return strings.Join(append(append(brokenParts(h), lastFailures(h)...), unseenFaults(h)...), "\n")
}

// failure is the signature without faults: what a run has that shrinking must keep.
func failure(h *history.History) string {
	return strings.Join(append(brokenParts(h), lastFailures(h)...), "\n")
}

// sameFailure returns a function that reports whether a run fails as this one does.
func sameFailure(h *history.History) func(*history.History) bool {
	want := failure(h)
	return func(other *history.History) bool { return other.Failed() && failure(other) == want }
}

// brokenWith returns the part of a signature that says what was broken, and with which values.
func brokenWith(h *history.History) string { return strings.Join(brokenParts(h), "\n") }

func brokenParts(h *history.History) []string {
	var parts []string
	if h.Outcome == history.Panicked {
		parts = append(parts, panicSignature(h.Panic))
	}
	if text := property.Signature(h.Verdicts); text != "" {
		parts = append(parts, text)
	}
	return parts
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
		if text := failedWrite(&h.Records[i]); text != "" {
			last[h.Records[i].Event.Actor] = text
		}
	}
	return slices.Sorted(maps.Values(last))
}

// failedWrite describes a process's write whose failure it was told of, and returns nothing for other steps. An answer that
// client-go kept to itself is none of its outcomes, nor is one to a process that has died.
func failedWrite(r *history.Record) string {
	failed := r.Code >= 400 || r.Code == history.NoAnswer
	if !failed || !r.OfProcess() || !r.Event.Verb.IsWrite() || r.Retry || r.Fault == schedule.Crash || r.Fault == schedule.Upgrade {
		return ""
	}
	outcome := strconv.Itoa(r.Code)
	if r.Code == history.NoAnswer {
		outcome = "no answer"
	}
	return fmt.Sprintf("%s %s %s %s", r.Event.Actor, r.Event.Verb, r.Event.Kind, outcome)
}

// unseenFaults returns the faults that struck and that none of the last failing writes shows, sorted: an error by the call that
// it met, as an operator usually does the same about all errors of one call, and others by their types, wherever they struck.
func unseenFaults(h *history.History) []string {
	shown := lastFailures(h)
	var texts []string
	for _, f := range h.Faults {
		if !f.Struck || f.Record >= 0 && slices.Contains(shown, failedWrite(&h.Records[f.Record])) {
			continue
		}
		text := "fault " + string(f.Type)
		if refuses(f.Type) {
			text = fmt.Sprintf("%s %s %s refused", f.At.Actor, f.At.Verb, f.At.Kind)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// refuses reports whether a fault is an error in place of the answer to a request that was not carried out.
func refuses(t schedule.FaultType) bool {
	switch t {
	case schedule.Conflict, schedule.Invalid, schedule.Forbidden, schedule.NotFound, schedule.TooManyRequests,
		schedule.InternalError, schedule.ServerTimeout, schedule.ServiceUnavailable, schedule.Timeout:
		return true
	default:
		return false
	}
}
