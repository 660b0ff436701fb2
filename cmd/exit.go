package cmd

import (
	"slices"

	"github.com/stalemate-dev/stalemate/reports"
)

// Exit is an exit code of the command. Where several apply, as with several files, the one that comes first in the order
// of precedence counts: 4, 2, 3, 1, 5, 6, 0.
type Exit int

// The exit codes.
const (
	// ExitPassed means that all properties hold.
	ExitPassed Exit = 0
	// ExitBroken means that a property is broken.
	ExitBroken Exit = 1
	// ExitUsage means that the command line, a scenario or a property must be mended.
	ExitUsage Exit = 2
	// ExitNondeterministic means that the operator under test is nondeterministic.
	ExitNondeterministic Exit = 3
	// ExitInternal means that the command itself failed.
	ExitInternal Exit = 4
	// ExitStale means that a schedule that was replayed does not fit any more.
	ExitStale Exit = 5
	// ExitInconclusive means that every run that counted ran into a limit, or that the command was interrupted before it
	// could say more.
	ExitInconclusive Exit = 6
)

// precedence of the exit codes, the first being the strongest.
var precedence = []Exit{
	ExitInternal, ExitUsage, ExitNondeterministic, ExitBroken, ExitStale, ExitInconclusive, ExitPassed,
}

// stronger returns the exit code that takes precedence.
func stronger(a, b Exit) Exit {
	if slices.Index(precedence, a) < slices.Index(precedence, b) {
		return a
	}
	return b
}

// exitOf returns the exit code for a verdict.
func exitOf(v reports.Verdict) Exit {
	switch v {
	case reports.InvalidProperty:
		return ExitUsage
	case reports.Nondeterministic:
		return ExitNondeterministic
	case reports.Broken:
		return ExitBroken
	case reports.Stale:
		return ExitStale
	case reports.Inconclusive:
		return ExitInconclusive
	case reports.Passed:
		return ExitPassed
	default:
		return ExitInternal
	}
}
