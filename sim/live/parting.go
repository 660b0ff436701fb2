package live

import (
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Parting is the first write of a program under test that differs from the one in the simulation. Reads, and writes that change
// nothing, are left out: how often they come depends on how fast everybody is.
type Parting struct {
	// Simulated and Real are the two writes with their answers, in words; empty where there is none.
	Simulated, Real string
}

// String returns both sides.
func (p *Parting) String() string {
	side := func(text string) string {
		if text == "" {
			return "no write any more"
		}
		return text
	}
	return fmt.Sprintf("simulated: %s; real: %s", side(p.Simulated), side(p.Real))
}

// deed is a write, as two histories can be compared by it.
type deed struct {
	thread string
	event  schedule.Event
	code   int
	reason string
}

func (d deed) String() string {
	text := fmt.Sprintf("%s → %d", d.event.AsWritten(), d.code)
	if d.reason != "" {
		text += " " + d.reason
	}
	return text
}

// deedOf returns what a step of a program did that counts, and false if it did nothing.
func deedOf(event schedule.Event, code int, reason string, committed bool) (deed, bool) {
	if !event.Verb.IsWrite() || event.Return || !committed && code < 400 && code != noAnswer {
		return deed{}, false
	}
	return deed{thread: event.Actor + "/" + event.Controller + "/" + event.Key, event: event.Base(), code: code, reason: reason}, true
}

// parting compares the writes of the processes under test, of each pass's key for itself.
func parting(config *sim.Config, simulated *history.History, steps []Step) *Parting {
	mine := func(event schedule.Event) bool {
		return slices.ContainsFunc(config.Processes, func(p sim.Process) bool { return p.Name == event.Actor })
	}
	real := map[string][]deed{}
	for _, s := range steps {
		if d, ok := deedOf(s.Event, s.Code, s.Reason, s.Committed != 0); ok && mine(s.Event) {
			real[d.thread] = append(real[d.thread], d)
		}
	}
	begins := simulated.ScriptBegins
	for i := range simulated.Records {
		r := &simulated.Records[i]
		d, ok := deedOf(r.Event, r.Code, r.Reason, r.Committed != 0)
		if kind := config.Kinds.ByName(r.Event.Kind); !ok || i < begins || !mine(r.Event) || kind == nil || kind.Volatile {
			continue
		}
		rest := real[d.thread]
		if len(rest) == 0 {
			return &Parting{Simulated: d.String()}
		}
		if rest[0] != d {
			return &Parting{Simulated: d.String(), Real: rest[0].String()}
		}
		real[d.thread] = rest[1:]
	}
	for _, rest := range real {
		if len(rest) > 0 {
			return &Parting{Real: rest[0].String()}
		}
	}
	return nil
}
