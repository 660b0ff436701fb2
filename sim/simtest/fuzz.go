package simtest

import (
	"slices"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Fuzz lets `go test -fuzz` choose the course of runs: which conflicting steps of the default order are turned round,
// which faults strike, which requests come late, and which choices are made. Without -fuzz the seeds and the inputs
// under testdata/fuzz are run, as of any fuzz test. A failing input fails with the report of the run, and a line that
// runs it again.
func Fuzz(f *testing.F, subject Subject, opts ...Option) {
	f.Helper()
	w := NewWorld(f, subject, opts...)
	if course, ok := w.Replayed(); ok {
		w.Check(f, course)
		if !f.Failed() {
			f.Skip("nothing was broken on the course that was to be replayed")
		}
		return
	}
	for _, seed := range w.seeds() {
		f.Add(seed)
	}
	name := f.Name()
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Helper()
		w.Check(input{t, name}, w.decode(data))
	})
}

// input is the test of one input, which goes by the name of the fuzz test: the line that runs its course again needs no
// input.
type input struct {
	*testing.T
	name string
}

// Name implements TB.
func (i input) Name() string { return i.name }

// The kinds of departures, as the first byte of four says them.
const (
	kindReorder = iota
	kindFault
	kindLatency
	kindChoice
	kinds
)

// maxDepartures bounds the departures of a course: what comes after them in an input is left out. A bug that needs more
// than that is out of reach in any case, and short inputs are what mutation is good at.
const maxDepartures = 6

// seeds returns inputs to begin with: the default order, and one departure of each kind. They are for mutation to begin
// with; what single departures break, a sweep tells.
func (w *World) seeds() [][]byte {
	seeds := [][]byte{{}}
	for kind := range byte(kinds) {
		if input := []byte{kind, 0xff, 0xff, 1}; w.decode(input).Size() > 0 {
			seeds = append(seeds, input)
		}
	}
	return seeds
}

// decode returns the course that bytes stand for. Four stand for each departure: its kind, the index of what it is
// about, in two bytes, and an amount. Any input is a course, and a byte changed mostly changes one departure.
func (w *World) decode(data []byte) Course {
	var c Course
	faults, atMost := w.Faults()
	for ; len(data) >= 4 && c.Size() < maxDepartures; data = data[4:] {
		index, amount := int(data[1])|int(data[2])<<8, int(data[3])
		switch data[0] % kinds {
		case kindReorder:
			c.addReorder(w.reorders, index)
		case kindFault:
			if len(c.Schedule.Faults) < atMost {
				c.addFault(faults, index)
			}
		case kindLatency:
			c.addLatency(w, index, amount)
		case kindChoice:
			if w.points > 0 {
				c.addChoice(Choice{At: index % w.points, Take: 1 + amount%8})
			}
		}
	}
	return c
}

func (c *Course) addReorder(all []schedule.Constraint, index int) {
	if len(all) == 0 {
		return
	}
	if reorder := all[index%len(all)]; !slices.Contains(c.Schedule.Constraints, reorder) {
		c.Schedule.Constraints = append(c.Schedule.Constraints, reorder)
	}
}

func (c *Course) addFault(all []schedule.Fault, index int) {
	if len(all) == 0 {
		return
	}
	fault := all[index%len(all)]
	if !slices.ContainsFunc(c.Schedule.Faults, func(f schedule.Fault) bool { return f.At == fault.At }) {
		c.Schedule.Faults = append(c.Schedule.Faults, fault)
	}
}

// addLatency makes a request late by a millisecond doubled as often as the amount says, within the bound.
func (c *Course) addLatency(w *World, index, amount int) {
	names, bound := w.Requests()
	if len(names) == 0 {
		return
	}
	at := names[index%len(names)]
	doublings := 1
	for time.Millisecond<<doublings <= bound {
		doublings++
	}
	if !slices.ContainsFunc(c.Schedule.Latencies, func(l schedule.Latency) bool { return l.At == at }) {
		c.Schedule.Latencies = append(c.Schedule.Latencies, schedule.Latency{At: at, For: time.Millisecond << (amount % doublings)})
	}
}

// addChoice adds a choice in the order of the points. The first at a point counts.
func (c *Course) addChoice(choice Choice) {
	i, taken := slices.BinarySearchFunc(c.Choices, choice.At, func(have Choice, at int) int { return have.At - at })
	if !taken {
		c.Choices = slices.Insert(c.Choices, i, choice)
	}
}
