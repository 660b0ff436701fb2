package explore

import (
	"context"
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Candidates returns what the sweep tries on a run in default order, one at a time, the most decisive first: the constraints
// that turn round two conflicting steps, and the faults of the scenario's rules, each with its event.
func Candidates(h *history.History, config *sim.Config) (constraints []schedule.Constraint, faults []schedule.Fault) {
	for _, c := range reorders(h, config.Limits.HoldBound()) {
		constraints = append(constraints, c.Constraint)
	}
	for _, s := range faultSites(h, &config.Faults) {
		faults = append(faults, s.fault)
	}
	return constraints, faults
}

// site is a fault of a rule at an event of a run.
type site struct {
	fault  schedule.Fault
	rule   *sim.FaultRule
	record int // of the event
}

// faultSweep executes every fault of the scenario at every event of the default run that its rule matches, one at a time.
func (x *explorer) faultSweep(ctx context.Context) error {
	sites := faultSites(x.result.Default, x.faults)
	if len(x.faults.Rules) == 0 {
		return nil
	}
	account := x.begin(FaultSweep, fmt.Sprintf("every fault of %s at each of the %s of the default run that it matches, one at a time, "+
		"at constant latency", count(len(x.faults.Rules), "rule"), count(countEvents(sites), "event")))
	account.Candidates = len(sites)
	for _, s := range sites {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.spent() {
			return nil
		}
		plan := sim.Plan{Seed: x.options.Seed, Faults: []schedule.Fault{s.fault}}
		h, err := x.execute(ctx, plan, len(sites))
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		// Until the fault strikes, the run is the default run.
		same := s.record
		if !h.Faults[0].Struck {
			same++
			account.Unmatched++
		}
		if err := divergence(x.result.Default, h, same); err != nil {
			return err
		}
		x.reveal(plan, s.rule.Name, h)
	}
	account.Complete = true
	return nil
}

// faultSites returns the faults that can strike in a run after its script began, and before the faults heal, each at its
// event: at writes first, as those are usually the most decisive, and else in the order of the run.
func faultSites(h *history.History, faults *sim.Faults) []site {
	var sites []site
	known := map[schedule.Fault]bool{}
	counters := make([]schedule.Counter, len(faults.Rules))
	for i := range counters {
		counters[i].Selector = faults.Rules[i].Match
	}
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		r := &h.Records[i]
		if faults.HealAfter > 0 && r.At-h.Records[h.ScriptBegins].At >= faults.HealAfter {
			break
		}
		for n := range counters {
			rule := &faults.Rules[n]
			able := slices.DeleteFunc(slices.Clone(rule.Faults), func(f schedule.Fault) bool {
				return !f.Type.Strikes(r.Event) || !r.Admits(&f, h.Webhooks)
			})
			if len(able) == 0 || !counters[n].Match(r.Event) {
				continue
			}
			for _, f := range able {
				f.At = r.Event
				if !known[f] { // another rule may have it, too
					known[f] = true
					sites = append(sites, site{f, rule, i})
				}
			}
		}
	}
	slices.SortStableFunc(sites, func(a, b site) int { return weighSite(a) - weighSite(b) })
	return sites
}

func weighSite(s site) int {
	if s.fault.At.Verb.IsWrite() {
		return 0
	}
	return 1
}

// countEvents counts the events of sites.
func countEvents(sites []site) int {
	events := map[schedule.Event]bool{}
	for _, s := range sites {
		events[s.fault.At] = true
	}
	return len(events)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// revealed keeps the calls of operators that some swept run made and no run before it, with the faults that may strike there
// and what it takes to get there.
type revealed struct {
	known map[schedule.Event]bool
	plans []sim.Plan
	calls int
	// barred says that there were second faults of a rule which may strike only once.
	barred bool
}

// reveal takes note of calls that a swept run made first. A run that failed reveals none: what breaks after that is hidden by
// it. A fault is added to one that was swept only if the scenario lets that many strike in a run.
func (x *explorer) reveal(plan sim.Plan, rule string, h *history.History) {
	none := x.options.Revealed < 0 || len(x.faults.Rules) == 0
	if none || len(plan.Faults) >= max(1, x.faults.Max) || h.Failed() {
		return
	}
	if x.revealed.known == nil {
		x.revealed.known = map[schedule.Event]bool{}
		x.revealed.add(x.result.Default)
	}
	fresh := x.revealed.add(h)
	if len(fresh) == 0 {
		return
	}
	x.revealed.calls += len(fresh)
	for _, s := range faultSites(h, x.faults) {
		if !fresh[s.fault.At] {
			continue
		}
		if s.rule.Name == rule && s.rule.Max == 1 {
			x.revealed.barred = true
			continue
		}
		both := plan
		both.Faults = append(slices.Clone(plan.Faults), s.fault)
		x.revealed.plans = append(x.revealed.plans, both)
	}
}

// add returns the calls of a run that are new.
func (v *revealed) add(h *history.History) map[schedule.Event]bool {
	var fresh map[schedule.Event]bool
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		r := &h.Records[i]
		if !r.OfProcess() || !r.Event.Verb.IsRequest() || v.known[r.Event] {
			continue
		}
		if fresh == nil {
			fresh = map[schedule.Event]bool{}
		}
		fresh[r.Event], v.known[r.Event] = true, true
	}
	return fresh
}

// revealedSweep executes every fault at the calls that only a swept run makes, together with what was swept in that run.
func (x *explorer) revealedSweep(ctx context.Context) error {
	plans := x.revealed.plans
	if len(plans) == 0 {
		return nil
	}
	most := x.options.Revealed
	if most == 0 {
		most = DefaultRevealed
	}
	scope := fmt.Sprintf("every fault at the %s of operators that only a swept run made which broke nothing, together with what "+
		"was swept in the first such run", count(x.revealed.calls, "call"))
	if x.revealed.barred {
		scope += ", but for a second fault of a rule that may strike only once"
	}
	if len(plans) > most {
		scope += fmt.Sprintf("; the first %d", most)
	}
	account := x.begin(RevealedSweep, scope)
	account.Candidates = len(plans)
	plans = plans[:min(most, len(plans))]
	for _, plan := range plans {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.spent() {
			return nil
		}
		h, err := x.execute(ctx, plan, len(plans))
		if err != nil {
			return err
		}
		if h != nil && !h.Faults[len(h.Faults)-1].Struck {
			account.Unmatched++
		}
	}
	account.Complete = len(plans) == account.Candidates
	return nil
}
