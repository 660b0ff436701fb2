package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// struck returns the faults of a run that struck.
func struck(h *history.History) []history.FaultResult {
	missed := func(f history.FaultResult) bool { return !f.Struck }
	return slices.DeleteFunc(slices.Clone(h.Faults), missed)
}

// fault tells of a fault that struck.
func (d *decider) fault(f *history.FaultResult) decision {
	how := f.Fault
	how.At = without(how.At, d.namespace)
	if f.Record < 0 || f.Record >= len(d.run.Records) {
		return decision{words: faultWords(how)}
	}
	r := &d.run.Records[f.Record]
	records := []int{f.Record}
	if start := startAfter(d.run, f.At); start >= 0 && (f.Type == schedule.Crash || f.Type == schedule.Upgrade) {
		records = append(records, start)
		how.For = cmp.Or(f.For, d.run.Records[start].At-r.At)
	}
	how.For = cmp.Or(how.For, r.Held)
	words := faultWords(how)
	if r.Held > 0 && f.Point != schedule.AfterCommit {
		words += d.meanwhile(f.Record, r.At-r.Held)
	}
	if r.Retry {
		words += " client-go tried again by itself."
	}
	return decision{words: words, records: records}
}

// startAfter returns the index of the record with which a process starts again after the incarnation of an event, or -1.
func startAfter(h *history.History, e schedule.Event) int {
	return slices.IndexFunc(h.Records, func(r history.Record) bool {
		return r.Event.Verb == schedule.Start && r.Event.Actor == e.Actor && r.Event.Incarnation == e.Incarnation+1
	})
}

// faultWords tells in a sentence what a fault that struck did.
func faultWords(f schedule.Fault) string {
	e := f.At
	object := e.Object()
	switch f.Type {
	case schedule.Conflict, schedule.LostResponse, schedule.AppliedTwice:
		return writeFaultWords(f)
	case schedule.Delay:
		if f.Point == schedule.AfterCommit {
			return fmt.Sprintf("The answer to %s came back %s.", whose(e), by(f.For, "late"))
		}
		return fmt.Sprintf("%s reached the server %s.", whose(e), by(f.For, "late"))
	case schedule.Wedge:
		return fmt.Sprintf("%s did not happen, until the faults healed.", whose(e))
	case schedule.CacheLag:
		return fmt.Sprintf("The cache of %s lagged %s on %s: it was told late of this event, and of all after it.",
			doer(e), by(f.For, "behind"), object)
	case schedule.WatchDrop:
		return fmt.Sprintf("The watch of %s ended at %s, and went on %s from where it was: nothing was lost, but all was late.",
			doer(e), object, by(f.For, "later"))
	case schedule.Relist:
		return fmt.Sprintf("The watch of %s ended at %s, and could not go on from where it was (410 Gone): %s the cache listed "+
			"again, and saw what had happened in between as one change.", doer(e), object, by(f.For, "later"))
	case schedule.Crash, schedule.Upgrade:
		return deathWords(f)
	case schedule.LateDelete:
		return fmt.Sprintf("%s went %s than %s asked for: a finalizer of somebody else kept it.", object, by(f.For, "later"), doer(e))
	default:
		return fmt.Sprintf("%s was answered %s, and was not carried out.", whose(e), errorOf(f.Type))
	}
}

// by says how far late, later or behind something is, as far as that is known.
func by(d time.Duration, how string) string {
	if d <= 0 {
		return how
	}
	return span(d) + " " + how
}

// writeFaultWords tells of a fault that only a write can meet.
func writeFaultWords(f schedule.Fault) string {
	switch {
	case f.Type == schedule.Conflict && f.Means == schedule.CompetingWrite:
		return fmt.Sprintf("Somebody else wrote %s just before %s: %s.", f.At.Object(), whose(f.At), errorOf(f.Type))
	case f.Type == schedule.Conflict:
		return fmt.Sprintf("%s was answered %s, as if somebody else had written first.", whose(f.At), errorOf(f.Type))
	case f.Type == schedule.AppliedTwice:
		return fmt.Sprintf("%s was carried out, but answered with an error that client-go tries again after: it was sent twice.",
			whose(f.At))
	case f.Means == schedule.RequestTimeout:
		return fmt.Sprintf("%s was carried out, but answered 504 Timeout: %s cannot know that it was.", whose(f.At), doer(f.At))
	default:
		return fmt.Sprintf("The connection broke after %s was carried out: %s never saw the answer.", whose(f.At), doer(f.At))
	}
}

// deathWords tells of a process that died.
func deathWords(f schedule.Fault) string {
	words := fmt.Sprintf("%s crashed before its %s reached the server", f.At.Actor, deed(f.At))
	if f.Point == schedule.AfterCommit {
		words = fmt.Sprintf("%s crashed after its %s was carried out, and before it saw the answer", f.At.Actor, deed(f.At))
	}
	when := by(f.For, "later")
	if f.Type == schedule.Upgrade {
		return fmt.Sprintf("%s, and %s started in its place %s.", words, f.Reconciler, when)
	}
	return fmt.Sprintf("%s, and started again %s with an empty memory.", words, when)
}

// errorOf names the answer that a fault puts in place of the server's.
func errorOf(t schedule.FaultType) string {
	codes := map[schedule.FaultType]int{
		schedule.Conflict: 409, schedule.Invalid: 422, schedule.Forbidden: 403, schedule.NotFound: 404, schedule.TooManyRequests: 429,
		schedule.InternalError: 500, schedule.ServerTimeout: 500, schedule.ServiceUnavailable: 503, schedule.Timeout: 504,
	}
	if code, known := codes[t]; known {
		return fmt.Sprintf("%d %s", code, t)
	}
	return string(t)
}

// whose names what an event does with who does it: "operator's Update of StatefulSet default/web".
func whose(e schedule.Event) string { return doer(e) + "'s " + deed(e) }

// latency tells of a step that came late without a fault.
func (d *decider) latency(l schedule.Latency) decision {
	told := decision{words: fmt.Sprintf("The %s came %s late, as any may.", d.did(l.At), span(l.For))}
	if i := find(d.run, l.At); i >= 0 {
		told.records = []int{i}
		told.words += d.meanwhile(i, d.run.Records[i].At-l.For)
	}
	return told
}

// permutation tells of a list that came in an order that is not that of the keys.
func (d *decider) permutation(p schedule.Permutation) decision {
	return decision{words: fmt.Sprintf("The %s had its objects in another order: %s.", d.did(p.At), positions(p.Order))}
}

// positions writes places in a list as people count them.
func positions(order []int) string {
	var places []string
	for _, i := range order {
		places = append(places, fmt.Sprint(i+1))
	}
	return strings.Join(places, ", ")
}

func latencyLine(l schedule.Latency) string {
	return fmt.Sprintf("%s%s comes %s late", l.At, repeated(l.Repeat), l.For)
}

func permutationLine(p schedule.Permutation) string {
	return fmt.Sprintf("%s%s in the order %s", p.At, repeated(p.Repeat), positions(p.Order))
}

// repeated tells steps apart that go by one name, such as polls, by how often it came up before.
func repeated(before int) string {
	if before == 0 {
		return ""
	}
	return fmt.Sprintf(" (time %d)", before+1)
}

// faultDetail says beneath the step at which a fault struck what the answer does not: whether it was carried out.
func faultDetail(r *history.Record) string {
	words := r.Message
	if r.Committed == 0 || r.Code > 0 && r.Code < 400 {
		return words
	}
	done := "carried out all the same"
	if changes := changeWords(changedFields(r.Before, r.After)); changes != "" {
		done += ": " + changes
	}
	if words == "" {
		return done
	}
	return words + "; " + done
}

// ruleWords say, for each fault rule, how often it struck; those that never did are apart: they tested nothing.
func ruleWords(rules []history.RuleResult) (fired, never []string) {
	for _, r := range rules {
		switch {
		case r.Eligible == 0:
			never = append(never, r.Name+" never fired: no event came up at which it could strike")
		case r.Struck == 0:
			never = append(never, fmt.Sprintf("%s never fired: %s came up, and it struck at none", r.Name, count(r.Eligible, "event")))
		default:
			fired = append(fired, fmt.Sprintf("%s: struck at %d of the %s at which it could", r.Name, r.Struck, count(r.Eligible, "event")))
		}
	}
	return fired, never
}
