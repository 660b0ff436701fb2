package reports

import (
	"fmt"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// events lists all steps of a run by the names that schedules have for them, with their times and answers.
func (t *text) events(title string, h *history.History) {
	t.heading(title)
	width := len(clock(h.End))
	for i := range h.Records {
		r := &h.Records[i]
		line := fmt.Sprintf("  %*s  %s", width, clock(r.At), r.Event)
		if a := answer(r); a != "" {
			line += " → " + a
		}
		if r.Repeats > 0 {
			line += fmt.Sprintf(", polled %s more", count(r.Repeats, "time"))
		}
		t.linef("%s", line)
	}
}
