package history

import (
	"cmp"
	"slices"
	"strings"
)

// Denial is a right that an actor wanted and does not have: by its roles, not by a fault.
type Denial struct {
	// Actor is the process that was refused.
	Actor string
	// Rule is the rule that would allow it, and where it must be granted, as rbac.Attributes.Missing has it.
	Rule string
	// Requests counts those that were refused for the lack of it.
	Requests int
	// Record is the index of the first of them in the history, -1 if it has none.
	Record int
}

// MergeDenials adds denials up: one for each actor and rule, sorted by them. The first record of a rule stays.
func MergeDenials(all ...[]Denial) []Denial {
	var merged []Denial
	for _, denials := range all {
		for _, d := range denials {
			i := slices.IndexFunc(merged, func(m Denial) bool { return m.Actor == d.Actor && m.Rule == d.Rule })
			if i < 0 {
				merged = append(merged, d)
				continue
			}
			merged[i].Requests += d.Requests
		}
	}
	slices.SortFunc(merged, func(a, b Denial) int {
		return cmp.Or(strings.Compare(a.Actor, b.Actor), strings.Compare(a.Rule, b.Rule))
	})
	return merged
}
