package reports

import (
	"fmt"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// deniedIn returns what actors were refused for the lack of a right in all that a result tells of.
func deniedIn(r *history.Result) []history.Denial {
	if len(r.Coverage.Denied) > 0 {
		return r.Coverage.Denied
	}
	var all [][]history.Denial
	if r.Default != nil {
		all = append(all, r.Default.Denied)
	}
	for i := range r.Findings {
		all = append(all, r.Findings[i].Run.Denied)
	}
	return history.MergeDenials(all...)
}

// deniedWords say which rights an operator wanted and does not have, each with the rule that its roles lack.
func deniedWords(denials []history.Denial) []string {
	var lines []string
	for i, d := range denials {
		if i == maxListed {
			return append(lines, fmt.Sprintf("and %d more rights are missing", len(denials)-i))
		}
		lines = append(lines, fmt.Sprintf("%s: %s refused with 403: its roles lack %s", d.Actor, count(d.Requests, "request"), d.Rule))
	}
	return lines
}
