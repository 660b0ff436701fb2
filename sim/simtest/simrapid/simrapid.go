// Package simrapid draws the orders and faults of runs with rapid (pgregory.net/rapid), which shrinks what breaks a
// property to the few departures from the default order that it takes, and keeps it in a fail file under testdata/rapid
// that is run first the next time.
//
//	func TestRecreate(t *testing.T) {
//		world := simtest.NewWorld(t, simtest.Scenario("recreate.yaml"), simtest.Registry(registry))
//		rapid.Check(t, simrapid.Property(world))
//	}
//
// All is drawn before a run begins: a run has a bubble of its own, and rapid's draws do not work inside of one. For the
// same reason rapid.Check must not be called within synctest.Test. Under Ginkgo, use GinkgoT().
package simrapid

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// Property returns the property that nothing is broken on any course that [Courses] draws.
func Property(w *simtest.World) func(*rapid.T) {
	courses := Courses(w)
	return func(t *rapid.T) {
		t.Helper()
		Check(t, w, courses.Draw(t, "course"))
	}
}

// Check runs the scenario on a course, and fails the property if that breaks something. The text of the failure is the
// same for every course that shows the same bug, and no other, as rapid shrinks only as long as that stays the same.
func Check(t *rapid.T, w *simtest.World, c simtest.Course) {
	t.Helper()
	switch failure, err := w.Try(t, c); {
	case err != nil:
		t.Fatalf("%v", err)
	case failure != nil:
		t.Errorf("%s", failure.Summary)
		t.Logf("\n%s", failure.Report)
	}
}

// The most departures of each kind that are drawn for one run.
const (
	maxReorders  = 3
	maxLatencies = 2
	maxChoices   = 4
)

// Courses draws courses: conflicting steps of the default order to turn round, faults of the scenario's rules, requests
// that come late, and choices among enabled steps. The simplest one, which rapid shrinks towards, is the default order.
// With -sim.replay there is only the one to be replayed.
func Courses(w *simtest.World) *rapid.Generator[simtest.Course] {
	if replayed, ok := w.Replayed(); ok {
		return rapid.Just(replayed)
	}
	faults, maxFaults := w.Faults()
	reorders, strikes := several(w.Reorders(), maxReorders), several(faults, maxFaults)
	late, moves := latencies(w), choices(w)
	return rapid.Custom(func(t *rapid.T) simtest.Course {
		return simtest.Course{
			Schedule: schedule.Schedule{
				Constraints: reorders.Draw(t, "reorders"),
				Faults:      strikes.Draw(t, "faults"),
				Latencies:   late.Draw(t, "latencies"),
			},
			Choices: moves.Draw(t, "choices"),
		}
	})
}

// several draws up to n different items of a list. Those in front are drawn more often.
func several[T any](all []T, n int) *rapid.Generator[[]T] {
	if len(all) == 0 {
		return rapid.Just[[]T](nil)
	}
	indices := rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), 0, min(n, len(all)), rapid.ID[int])
	return rapid.Map(indices, func(chosen []int) []T {
		items := make([]T, len(chosen))
		for i, index := range chosen {
			items[i] = all[index]
		}
		return items
	})
}

// latencies draws requests that come late: by a millisecond doubled some times, within the bound.
func latencies(w *simtest.World) *rapid.Generator[[]schedule.Latency] {
	names, bound := w.Requests()
	if len(names) == 0 {
		return rapid.Just[[]schedule.Latency](nil)
	}
	doublings := 0
	for time.Millisecond<<(doublings+1) <= bound {
		doublings++
	}
	one := rapid.Custom(func(t *rapid.T) schedule.Latency {
		return schedule.Latency{
			At:  names[rapid.IntRange(0, len(names)-1).Draw(t, "request")],
			For: time.Millisecond << rapid.IntRange(0, doublings).Draw(t, "doublings"),
		}
	})
	return rapid.SliceOfNDistinct(one, 0, maxLatencies, func(l schedule.Latency) schedule.Event { return l.At })
}

// choices draws choices at different points.
func choices(w *simtest.World) *rapid.Generator[[]simtest.Choice] {
	if w.Choices() == 0 {
		return rapid.Just[[]simtest.Choice](nil)
	}
	one := rapid.Custom(func(t *rapid.T) simtest.Choice {
		return simtest.Choice{
			At:   rapid.IntRange(0, w.Choices()-1).Draw(t, "at"),
			Take: rapid.IntRange(1, 4).Draw(t, "take"),
		}
	})
	drawn := rapid.SliceOfNDistinct(one, 0, maxChoices, func(c simtest.Choice) int { return c.At })
	return rapid.Map(drawn, func(chosen []simtest.Choice) []simtest.Choice {
		sorted := slices.Clone(chosen)
		slices.SortFunc(sorted, func(a, b simtest.Choice) int { return a.At - b.At })
		return sorted
	})
}
