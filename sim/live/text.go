package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// String returns the result as people read it.
func (r *Result) String() string { return r.Text(false) }

// Text returns the result as people read it, with the writes of all actors in the order they were made if it is to be verbose.
func (r *Result) Text(verbose bool) string {
	var b strings.Builder
	mark := map[Outcome]string{Confirmed: "✗ CONFIRMED", NotConfirmed: "✓ NOT CONFIRMED", NotApplicable: "– NOT APPLICABLE"}
	fmt.Fprintf(&b, "%s  %s\n", mark[r.Outcome], r.Name)
	for _, why := range r.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	if len(r.Expected) > 0 {
		fmt.Fprintf(&b, "\n  it is about     %s\n", strings.Join(r.Expected, ", "))
	}
	if r.Outcome == NotApplicable {
		return b.String()
	}
	in := "holds"
	if r.SimulationBroken {
		in = "broken"
	}
	fmt.Fprintf(&b, "  simulation      %s\n", in)
	r.writeVerdicts(&b)
	for _, e := range r.Elements {
		met := "came about"
		if !e.Met {
			met = "did not come about"
		}
		fmt.Fprintf(&b, "  element         %s: %s\n", e.Text, met)
	}
	rest := fmt.Sprintf("at rest after %s, for nothing was committed for %s", rounded(r.Script), r.Quiet)
	if !r.Rested {
		rest = fmt.Sprintf("not at rest after %s: what must hold in the end was not judged", rounded(r.Script))
	}
	fmt.Fprintf(&b, "  end             %s\n", rest)
	for _, line := range r.PlayedBy {
		fmt.Fprintf(&b, "  played by       %s\n", line)
	}
	for _, problem := range slices.Concat(r.Problems, r.Panics) {
		fmt.Fprintf(&b, "  problem         %s\n", problem)
	}
	if r.Parting != nil {
		fmt.Fprintf(&b, "  histories part  %s\n", r.Parting)
	} else {
		fmt.Fprintf(&b, "  histories       the processes under test make the same writes, with the same answers\n")
	}
	r.writeSteps(&b, verbose)
	return b.String()
}

func (r *Result) writeVerdicts(b *strings.Builder) {
	for _, v := range r.Verdicts {
		switch v.Status {
		case property.Broken:
			fmt.Fprintf(b, "  broken          %s at %s\n", v.Property.Name, rounded(v.At))
			for _, value := range v.Values {
				fmt.Fprintf(b, "                    %s = %s\n", value.Path, value.Value)
			}
		case property.Invalid:
			fmt.Fprintf(b, "  invalid         %s: %s\n", v.Property.Name, v.Error)
		case property.NotExercised:
			fmt.Fprintf(b, "  not exercised   %s\n", v.Property.Name)
		case property.Held:
		}
	}
}

// writeSteps writes what happened: all requests if it is to be verbose, or else the writes and what was held or failed.
func (r *Result) writeSteps(b *strings.Builder, verbose bool) {
	b.WriteString("\n")
	for _, s := range r.Steps {
		write := s.Event.Verb.IsWrite() && (s.Committed != 0 || s.Code >= 400)
		told := write || s.Held > 0 || s.Fault != "" || s.Code == noAnswer || s.Event.Verb == schedule.Start
		if !told && (!verbose || !s.Event.Verb.IsRequest()) {
			continue
		}
		fmt.Fprintf(b, "  %10s  %s\n", rounded(s.At), s.line())
	}
}

// lastOf returns the last requests, for an error.
func lastOf(steps []Step) string {
	const most = 20
	var lines []string
	for i := len(steps) - 1; i >= 0 && len(lines) < most; i-- {
		if s := &steps[i]; s.Event.Verb.IsRequest() {
			lines = append(lines, fmt.Sprintf("  %10s  %s %s", rounded(s.At), s.line(), s.Message))
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

func (s *Step) line() string {
	text := s.Event.AsWritten().String()
	switch {
	case s.Code == noAnswer:
		text += " → no answer"
	case s.Code != 0:
		text += fmt.Sprintf(" → %d", s.Code)
	}
	if s.Reason != "" {
		text += " " + s.Reason
	}
	if s.Event.Verb.IsWrite() && s.Committed == 0 && s.Code < 400 && s.Code != noAnswer {
		text += ", no change"
	}
	if s.Repeats > 0 {
		text += fmt.Sprintf(", %d times more", s.Repeats)
	}
	if s.Fault != "" {
		text += ", fault " + string(s.Fault)
	}
	if s.Held > time.Millisecond {
		text += ", held back " + rounded(s.Held).String()
	}
	return text
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
