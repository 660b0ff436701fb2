package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/live/assets"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// plan is a schedule as it is played against a real server.
type plan struct {
	holds   []*hold
	strikes []*strike
	skip    []int
	// ours are the racers that are played by our step machines, though there are real ones: the schedule names steps in them.
	ours map[string]bool
	// quiet is how long nothing must happen for the cluster to be at rest.
	quiet time.Duration
}

// least is the shortest span without a commit after which a cluster is taken to be at rest.
const least = 10 * time.Second

// planOf translates a schedule, given what it comes to in the simulation. What cannot be played is said in words.
func planOf(config *sim.Config, s *schedule.Schedule, simulated *history.History) (*plan, []string) {
	p := &plan{skip: s.Skip, ours: map[string]bool{}, quiet: quietSpan(config, simulated)}
	if !assets.HasManager() {
		for i := range config.Racers {
			p.ours[config.Racers[i].Name] = true
		}
	}
	why := unplayable(config, s)
	for _, c := range simulated.Constraints {
		for _, event := range []schedule.Event{c.Event, c.Waits} {
			p.within(config, event)
			why = append(why, unplayableEvent(event)...)
		}
	}
	complete := config.CompletePlan(sim.PlanOf(s))
	for _, late := range complete.Latencies {
		p.within(config, late.At)
		why = append(why, unplayableEvent(late.At)...)
		p.holds = append(p.holds, &hold{event: late.At, late: late.For})
	}
	for _, c := range simulated.Constraints {
		p.holds = append(p.holds, &hold{
			event: c.Event, waits: pattern{event: c.Waits, loose: p.isReal(config, c.Waits.Actor)}, needs: needs(simulated, c.Constraint),
			bound: config.Limits.HoldBound(),
		})
	}
	for i, f := range complete.Faults {
		if f.Select != nil { // the simulation has found its place
			f.At, f.Select = simulated.Faults[i].At, nil
		}
		p.within(config, f.At)
		if because := playable(f); because != "" {
			why = append(why, fmt.Sprintf("fault %s: %s", f, because))
		}
		p.strikes = append(p.strikes, newStrike(f))
	}
	return p, why
}

// unplayable says what of a scenario and a schedule as a whole only a simulation can bring about.
func unplayable(config *sim.Config, s *schedule.Schedule) []string {
	var why []string
	for _, o := range s.Orders {
		why = append(why, fmt.Sprintf("the order in which %s lists %s: a real cache has one of its own", o.At.Actor, o.At.Object()))
	}
	if len(config.Webhooks) > 0 || len(config.Reactors) > 0 {
		why = append(why, "the scenario has webhooks or reactors that are Go code in the simulated server")
	}
	for _, p := range config.Processes {
		if p.Access != nil {
			why = append(why, fmt.Sprintf("process %s has roles, and its real client is an administrator's", p.Name))
		}
	}
	return why
}

// unplayableEvent says why a step can be neither held nor waited for.
func unplayableEvent(event schedule.Event) []string {
	switch event.Verb {
	case schedule.Handle:
		return []string{fmt.Sprintf("%s: a real informer's handlers run as soon as it is told", event)}
	case schedule.Wake, schedule.Await, schedule.Advance:
		return []string{fmt.Sprintf("%s: it is a step of virtual time", event)}
	default:
		return nil
	}
}

// within has a racer played by ours if a step is one within it, where no gate can stand if it is real.
func (p *plan) within(config *sim.Config, event schedule.Event) {
	if event.Verb.IsRequest() {
		return
	}
	for i := range config.Racers {
		if r := &config.Racers[i]; r.Name == event.Actor && len(r.Real) > 0 {
			p.ours[r.Name] = true
		}
	}
}

// isReal reports whether an actor is played by kube-controller-manager.
func (p *plan) isReal(config *sim.Config, actor string) bool {
	return !p.ours[actor] && slices.ContainsFunc(config.Racers, func(r sim.RacerConfig) bool {
		return r.Name == actor && len(r.Real) > 0
	})
}

// needs returns how many events of the name that a constraint waits for the simulation had between the step before the held one
// and its release, see [hold].
func needs(h *history.History, c schedule.Constraint) int {
	held := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == c.Event })
	awaited := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == c.Waits })
	if held < 0 || awaited < 0 || awaited > held {
		return 1
	}
	before := h.Records[held].Cause
	for i := held - 1; i > before; i-- {
		if h.Records[i].Thread == h.Records[held].Thread {
			before = i
		}
	}
	n := 0
	for i := before + 1; i <= awaited; i++ {
		if h.Records[i].Event.Base() == c.Waits.Base() {
			n++
		}
	}
	return max(n, 1)
}

// quietSpan returns a span that is longer than any in which the simulated cluster was silent before it came to rest. Spans that a
// racer ends, or a hold, do not count: they are known to be no rest.
func quietSpan(config *sim.Config, h *history.History) time.Duration {
	racer := func(name string) bool {
		return slices.ContainsFunc(config.Racers, func(r sim.RacerConfig) bool { return r.Name == name })
	}
	longest, last := time.Duration(0), time.Duration(0)
	for i := range h.Records {
		r := &h.Records[i]
		if r.Committed == 0 {
			continue
		}
		if !racer(r.Event.Actor) && r.Held == 0 {
			longest = max(longest, r.At-last)
		}
		last = r.At
	}
	longest = max(longest, pollSpan(config, h))
	return max(least, longest+longest/4+2*time.Second).Round(time.Second)
}

// longestPoll is the longest interval between the polls of an operator that a confirmation waits for.
const longestPoll = time.Minute

// pollSpan returns the longest interval at which a process under test looks again in the simulation, as far as it is worth waiting
// for: what has not changed by then may still do.
func pollSpan(config *sim.Config, h *history.History) time.Duration {
	longest := time.Duration(0)
	for i := range h.Records {
		r := &h.Records[i]
		if r.Repeats == 0 || !slices.ContainsFunc(config.Processes, func(p sim.Process) bool { return p.Name == r.Event.Actor }) {
			continue
		}
		if interval := (r.LastAt - r.At) / time.Duration(r.Repeats); interval <= longestPoll {
			longest = max(longest, interval)
		}
	}
	return longest
}

// expected returns the properties that the finding is about: what the schedule names, or else what the simulation breaks. Those
// that detectors judge are not among them.
func expected(set *property.Set, s *schedule.Schedule, simulated *history.History) []string {
	var names []string
	for _, v := range simulated.Broken() {
		if v.Property.Type != property.Detector {
			names = append(names, v.Property.Name)
		}
	}
	if named := s.Expect.Property; named != "" {
		known := slices.ContainsFunc(set.Definitions(), func(d property.Definition) bool { return d.Name == named })
		if known {
			return []string{named}
		}
	}
	return names
}

// playedBy says who plays what.
func playedBy(config *sim.Config, p *plan, version string) []string {
	lines := []string{fmt.Sprintf("API server: kube-apiserver %s with etcd", version)}
	for i := range config.Processes {
		lines = append(lines, config.Processes[i].Name+": the reconciler on a real manager of controller-runtime")
	}
	for i := range config.Racers {
		r := &config.Racers[i]
		who := "our step machine, on real watches and in real time"
		if p.isReal(config, r.Name) {
			who = "kube-controller-manager (" + strings.Join(r.Real, ", ") + ")"
		}
		lines = append(lines, r.Name+": "+who)
	}
	return lines
}

// missing returns the kinds that properties are about and that the server cannot have.
func missing(kinds *apiserver.Kinds, set *property.Set) []string {
	var why []string
	for _, name := range set.Kinds() {
		if k := kinds.ByName(name); k != nil && k.Custom() && k.Schema == nil {
			why = append(why, fmt.Sprintf("%s has no CustomResourceDefinition in the scenario: name it among its crds", name))
		}
	}
	return why
}
