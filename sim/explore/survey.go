package explore

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Survey is what the default run tells the strategies that choose by a seed: how many choices there are, which of them
// matter, and how often faults could strike.
type Survey struct {
	// choices are those between several steps, calls the requests that came up.
	choices, calls tally
	// contested are the steps of the default run that conflict with another one, without their occurrences.
	contested map[schedule.Event]bool
	// eligible counts the events at which the faults of a rule could have struck, by the rule's name.
	eligible map[string]int
	faults   *sim.Faults
}

// tally counts steps of the default run, and those of them that are contested.
type tally struct{ all, contested int }

// NewSurvey runs a scenario in its default order.
func NewSurvey(world *sim.World) (*Survey, error) {
	watcher := &watcher{}
	h, err := world.Run(sim.Plan{Strategy: watcher})
	if err != nil {
		return nil, err
	}
	return newSurvey(world, h, watcher), nil
}

func newSurvey(world *sim.World, standard *history.History, w *watcher) *Survey {
	config := world.Config()
	s := &Survey{contested: map[schedule.Event]bool{}, eligible: map[string]int{}, faults: &config.Faults}
	for _, c := range reorders(standard, config.Limits.HoldBound()) {
		s.contested[c.Event.Base()], s.contested[c.Waits.Base()] = true, true
	}
	s.choices, s.calls = s.count(w.chosen), s.count(w.calls)
	for _, rule := range standard.Rules {
		s.eligible[rule.Name] += rule.Eligible
	}
	return s
}

func (s *Survey) count(events []schedule.Event) tally {
	t := tally{all: len(events)}
	for _, event := range events {
		if s.contested[event] {
			t.contested++
		}
	}
	return t
}

// watcher takes the default order, and keeps what it chose, and the calls that came up.
type watcher struct{ chosen, calls []schedule.Event }

// Choose implements sim.Strategy.
func (w *watcher) Choose(enabled []sim.Choice) int {
	w.chosen = append(w.chosen, enabled[0].Event.Base())
	return 0
}

// Delay implements sim.Strategy.
func (w *watcher) Delay(event schedule.Event) time.Duration {
	w.calls = append(w.calls, event.Base())
	return 0
}

// Permute implements sim.Strategy.
func (w *watcher) Permute(schedule.Event, int) []int { return nil }
