package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Replayed is a replay as it is to be told.
type Replayed struct {
	*history.Replay
	// File is that of the schedule.
	File string
	// Times is how often it was replayed; the first of the replays is told.
	Times int
	// Exact is set if the replay followed the schedule's trace.
	Exact bool
	// Whole tells the timeline and the objects, too.
	Whole bool
	// Names lists all events of the run by their names.
	Names bool
}

// JudgeReplay says how a replay came out. Of the result it needs Diverged: the replays of one schedule that differ.
func JudgeReplay(r *history.Result, p Replayed) Verdict {
	invalid := func(v property.Verdict) bool { return v.Status == property.Invalid }
	switch limited := p.Run.Outcome == history.Livelock || p.Run.Outcome == history.Inconclusive; {
	case slices.ContainsFunc(p.Run.Verdicts, invalid):
		return InvalidProperty
	case r.Diverged != "":
		return Nondeterministic
	case p.Run.Failed():
		return Broken
	case p.Stale():
		return Stale
	case limited:
		return Inconclusive
	default:
		return Passed
	}
}

// Replay writes the report of a replay for a person to read. The result holds the names and variables of the scenario, the
// command line of the replay, and if replays of the schedule differed, where they did.
func Replay(w io.Writer, r *history.Result, p Replayed, o Options) error {
	t := newText(r, o)
	t.replayTitle(p)
	f := &history.Finding{Strategy: p.Schedule.Origin.Strategy, Seed: p.Schedule.Origin.Seed, Run: p.Run, Schedule: p.Schedule}
	decisions := t.decisions(f)
	if p.Run.Failed() {
		t.linef("")
		t.broken(p.Run)
	}
	if p.Matched > 0 || p.Run.Failed() {
		t.heading(map[bool]string{true: "WHAT DECIDES", false: "WHAT CAME ABOUT"}[p.Run.Failed()])
		t.deciding(f, decisions)
	}
	if p.Whole {
		t.timeline(p.Run, decisions)
		for _, m := range moments(p.Run) {
			t.objects(p.Run, m)
		}
	}
	if p.Names {
		t.events("EVENTS, BY THEIR NAMES", p.Run)
	}
	t.heading("REPLAY IT AGAIN")
	t.linef("  %s", r.Command)
	return t.flush(w)
}

// replayTitle says how a replay came out, and what it is compared with.
func (t *text) replayTitle(p Replayed) {
	verdict := JudgeReplay(t.result, p)
	mark, s := replayMark(verdict, p)
	t.linef("%s  %s", t.in(s, mark), t.in(bold, t.subject()))
	t.text("  ", plain, replayWords(verdict, p))
	switch verdict {
	case Nondeterministic:
		t.field("differs at", plain, t.result.Diverged)
	case InvalidProperty:
		for _, v := range p.Run.Verdicts {
			if v.Status == property.Invalid {
				t.field("property", bold, v.Property.Name)
				t.field("error", red, v.Error)
			}
		}
	default:
	}
	t.linef("")
	t.field("schedule", plain, p.File)
	t.field("expects", plain, expectation(p.Schedule.Expect))
	t.matched(p)
	t.field("history", plain, hashWords(p))
	if p.Times > 1 && t.result.Diverged == "" {
		t.field("replays", plain, fmt.Sprintf("%d, all alike", p.Times))
	}
	if p.Exact {
		t.field("trace", plain, traceWords(p))
	}
	if p.Schedule.Origin != (schedule.Origin{}) {
		t.field("found by", plain, originWords(p.Schedule.Origin))
		t.field("shrunk", plain, Shrunk(p.Schedule))
	}
	for _, line := range slices.Concat(deniedWords(p.Run.Denied), t.troubles(p.Run)) {
		t.text("  ! ", yellow, line)
	}
}

// replayMark returns the word that a report of a replay begins with.
func replayMark(v Verdict, p Replayed) (string, style) {
	switch {
	case v == InvalidProperty:
		return "! INVALID PROPERTY", alarm
	case v == Nondeterministic:
		return "! NONDETERMINISTIC", alarm
	case v == Stale:
		return "? STALE", yellow
	case v == Inconclusive:
		return "? INCONCLUSIVE", yellow
	case v == Broken && toHold(p):
		return "✗ BROKEN", alarm
	case v == Broken && p.Outcome == history.ReproducedDifferently:
		return "✗ REPRODUCED DIFFERENTLY", alarm
	case v == Broken:
		return "✗ REPRODUCED", alarm
	case toHold(p):
		return "✓ HOLDS", green
	default:
		return "✓ NOT REPRODUCED", green
	}
}

// replayWords say in a sentence what the outcome of a replay means.
func replayWords(v Verdict, p Replayed) string {
	names := brokenNames(&history.Finding{Run: p.Run})
	switch holds := toHold(p); {
	case v == InvalidProperty:
		return "Evaluating a rule failed. This is neither a pass nor a finding: mend the rule and replay again."
	case v == Nondeterministic:
		return "The schedule, replayed more than once, gave histories that differ: the operator under test depends on something that " +
			"the simulation does not control, such as the wall clock, global randomness, or the order of a map."
	case v == Stale:
		return "Nothing was broken, but part of the schedule found no event, so this says nothing: it is no pass."
	case v == Inconclusive:
		return fmt.Sprintf("The run ended early, so nothing can be said: %s.", p.Run.Reason)
	case v == Broken && holds:
		return fmt.Sprintf("The schedule expects that all properties hold, and %s.", brokenWords(names))
	case v == Broken && p.Outcome == history.ReproducedDifferently:
		return fmt.Sprintf("Something is broken, but not what was recorded: %s.", brokenWords(names))
	case v == Broken:
		return fmt.Sprintf("The run fails as it was recorded: %s.", brokenWords(names))
	case holds:
		return "All properties hold, as the schedule expects."
	case p.Matched < p.Elements:
		return "Part of the schedule found no event, which it says to ignore, and nothing was broken."
	case p.Schedule.Expect.Outcome == schedule.Violated:
		return "The schedule came about, and nothing was broken: what was recorded seems to be fixed."
	default:
		return "The schedule came about, and nothing was broken."
	}
}

// toHold reports whether a schedule is a test that all properties hold, as one is that expects nothing else.
func toHold(p Replayed) bool {
	return p.Schedule.Expect.Outcome == schedule.Holds || p.Schedule.Expect == (schedule.Expectation{})
}

// brokenWords says that what is named is broken.
func brokenWords(names string) string { return "it breaks " + names }

// expectation says what a run under a schedule is to come to.
func expectation(e schedule.Expectation) string {
	if e == (schedule.Expectation{}) {
		return string(schedule.Holds) + ", as it says nothing else"
	}
	outcome := cmp.Or(e.Outcome, schedule.Violated) // it tells what is broken
	if e.Property == "" {
		return string(outcome)
	}
	return fmt.Sprintf("%s, %s", outcome, e.Property)
}

// matched says how many elements of the schedule found their events, and which did not.
func (t *text) matched(p Replayed) {
	s := plain
	if p.Matched < p.Elements {
		s = yellow
	}
	words := fmt.Sprintf("%s, %d of %d matched", outcomeWord(p), p.Matched, p.Elements)
	switch {
	case p.Elements == 0 && p.Exact:
		words = outcomeWord(p) + "; the schedule has no elements, only its trace"
	case p.Elements == 0:
		words = outcomeWord(p) + "; the schedule has no elements, it is the default order"
	}
	t.field("outcome", s, words)
	if len(p.Unmatched) == 0 {
		return
	}
	whys := whyUnmatched(p.Replay)
	for i, element := range p.Unmatched {
		t.field(map[bool]string{true: "unmatched"}[i == 0], yellow, element)
		if whys != nil {
			t.field("", plain, whys[i])
		}
	}
	advice := "What does not come up is gone, or goes by another name, see `stalemate replay --names`. If that is the fix, let " +
		"the schedule say whenUnmatched: Ignore, or delete it; if not, explore the scenario again and pin what it finds."
	if p.Schedule.WhenUnmatched == schedule.Ignore {
		advice = "The schedule says whenUnmatched: Ignore, so this does not count."
	}
	t.field("", dim, advice)
}

// outcomeWord names the outcome of a replay: of a bug that is on record, or of a test that all properties hold.
func outcomeWord(p Replayed) string {
	switch {
	case !toHold(p):
		return string(p.Outcome)
	case p.Run.Failed():
		return "broken"
	default:
		return "nothing is broken"
	}
}

// hashWords compares the hash of a replay's history with the recorded one.
func hashWords(p Replayed) string {
	words := fmt.Sprintf("hash %016x", p.Run.Hash)
	switch {
	case p.SameHash:
		words += ", as recorded"
	case p.Schedule.Expect.Hash != 0:
		words += fmt.Sprintf(", differs: %016x is recorded", p.Schedule.Expect.Hash)
	case p.Schedule.Expect.Outcome == schedule.Violated:
		words += ", none is recorded"
	default: // a test that all properties hold is about any run
	}
	return words
}

// traceWords say how far a replay followed its trace.
func traceWords(p Replayed) string {
	return cmp.Or(p.Diverged, "followed to the last step")
}

// originWords say where a schedule comes from.
func originWords(o schedule.Origin) string {
	words := cmp.Or(o.Strategy, "hand")
	if o.Seed != 0 && drawsSeed(o.Strategy) {
		words += fmt.Sprintf(", seed %d", o.Seed)
	}
	return words
}
