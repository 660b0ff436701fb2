package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// faults keeps what may go wrong in a run: who stands at the API server's door, which faults are to strike, and when all of it
// is over.
type faults struct {
	own      []*armed // the scenario's own reactors, which see everything
	planned  []*plannedFault
	rules    []*ruleState
	injector Injector
	spent    int           // of the budget over all rules; those that are planned are spent from the begin
	heal     time.Duration // from then on no fault strikes
	webhooks bool          // some fault strikes at calls of webhooks

	// decided are the events that have come up, with the reactors that are for these alone.
	decided map[schedule.Event][]*armed
	held    []*armed // those that hold requests back, or did
}

// plannedFault is a fault of the run's plan.
type plannedFault struct {
	schedule.Fault
	result  int
	counter schedule.Counter // of its selector
	found   bool             // its event has come up
}

// selects reports whether the fault is for an event that has come up.
func (p *plannedFault) selects(event schedule.Event, o *openings) bool {
	switch {
	case p.found || !p.Type.Strikes(event) || p.Select != nil && !o.admit(&p.Fault):
		return false
	case p.Select == nil:
		p.found = p.At == event
	default: // without an occurrence, the first
		p.found = p.counter.Match(event)
	}
	return p.found
}

// mayStrike reports whether the fault is for an event of this name, whatever its occurrence.
func (p *plannedFault) mayStrike(base schedule.Event) bool {
	if p.Select != nil {
		return p.Select.Matches(base)
	}
	base.Occurrence = p.At.Occurrence
	return base == p.At
}

// ruleState is a rule in a run.
type ruleState struct {
	*FaultRule
	counter          schedule.Counter
	eligible, struck int
	spent            int // of its budget
	// results has what its faults did at each site, and sites where: the index of the first result of a site, which has one for each
	// of the rule's faults.
	results []history.SiteResult
	sites   map[schedule.Event]int
}

// siteOf returns the site of an event, see [history.SiteResult].
func siteOf(event schedule.Event) schedule.Event {
	event.Incarnation, event.Key, event.Occurrence = 0, "", 0
	return event
}

// at returns what the rule's faults did at the site of an event, in the order of its faults.
func (r *ruleState) at(event schedule.Event) []history.SiteResult {
	site := siteOf(event)
	first, known := r.sites[site]
	if !known {
		if r.sites == nil {
			r.sites = map[schedule.Event]int{}
		}
		first = len(r.results)
		r.sites[site] = first
		for _, f := range r.Faults {
			r.results = append(r.results, history.SiteResult{Rule: r.Name, Type: f.Type, Site: site})
		}
	}
	return r.results[first : first+len(r.Faults)]
}

// first returns the index of the rule's first fault of a type.
func (r *ruleState) first(t schedule.FaultType) int {
	return slices.IndexFunc(r.Faults, func(f schedule.Fault) bool { return f.Type == t })
}

// count counts an event at which these faults can strike, once for each type.
func (r *ruleState) count(event schedule.Event, able []schedule.Fault) {
	r.eligible++
	results := r.at(event)
	for i, fault := range able {
		sameType := func(f schedule.Fault) bool { return f.Type == fault.Type }
		if !slices.ContainsFunc(able[:i], sameType) {
			results[r.first(fault.Type)].Eligible++
		}
	}
}

// selects counts an event that has come up, and returns the faults of the rule that can strike there.
func (r *ruleState) selects(event schedule.Event, o *openings) []schedule.Fault {
	var able []schedule.Fault
	for _, fault := range r.Faults {
		if fault.Type.Strikes(event) && o.admit(&fault) {
			fault.At, fault.Select = event, nil
			able = append(able, fault)
		}
	}
	if len(able) == 0 || !r.counter.Match(event) {
		return nil
	}
	r.count(event, able)
	return able
}

// armed is a reactor that is to act at one event: that of a fault, or one of the scenario's own.
type armed struct {
	reactor Reactor
	own     bool // it is the scenario's, and no fault
	fault   schedule.Fault
	rule    *ruleState // nil if no rule has the fault
	// injected says that a strategy wants the fault, and not the plan.
	injected bool
	result   int // the index in history.Faults, -1 before it has one
	struck   bool
	// since and until are when it began to hold the request back, and until when it does; zero if it does not.
	since, until time.Duration
	over         bool // the event has happened
}

// prepareFaults makes what may go wrong in the run. Settling runs have no faults.
func (e *engine) prepareFaults() error {
	config, plan := e.config, e.plan
	injector, _ := plan.Strategy.(Injector)
	if e.settling || len(config.Reactors) == 0 && len(plan.Faults) == 0 && len(config.Faults.Rules) == 0 {
		return nil
	}
	f := &faults{injector: injector, spent: len(plan.Faults), heal: Forever, decided: map[schedule.Event][]*armed{}}
	for _, newReactor := range config.Reactors {
		f.own = append(f.own, &armed{reactor: newReactor(), own: true})
	}
	for i := range config.Faults.Rules {
		rule := &config.Faults.Rules[i]
		f.rules = append(f.rules, &ruleState{FaultRule: rule, counter: schedule.Counter{Selector: rule.Match}})
		f.webhooks = f.webhooks || slices.ContainsFunc(rule.Faults, func(fault schedule.Fault) bool { return fault.NeedsWebhook() })
	}
	e.faults = f
	if config.NewReactor == nil && (len(plan.Faults) > 0 || len(f.rules) > 0 && injector != nil) {
		return errors.New("Config.NewReactor is nil, but there are faults to strike: set it to reactors.New")
	}
	for i, fault := range plan.Faults {
		if _, err := config.NewReactor(fault); err != nil { // also where the fault will not find its event
			return fmt.Errorf("fault %s: %w", fault, err)
		}
		p := &plannedFault{Fault: fault, result: i}
		if fault.Select != nil {
			p.counter.Selector = *fault.Select
		}
		f.planned = append(f.planned, p)
		f.webhooks = f.webhooks || fault.NeedsWebhook()
		e.history.Faults = append(e.history.Faults, history.FaultResult{Fault: fault, Record: -1})
	}
	return nil
}

// beginFaults says that the script has begun: only from here on anything goes wrong.
func (e *engine) beginFaults() {
	if e.faults != nil && e.config.Faults.HealAfter > 0 {
		e.faults.heal = later(e.clock, e.config.Faults.HealAfter)
	}
}

// healed reports whether no fault strikes any more.
func (e *engine) healed() bool { return e.clock >= e.faults.heal }

// lasts says that something which a fault began lasts for a span of time from now on. It returns when it is over: when the
// faults heal at the latest, and [Forever] if never.
func (e *engine) lasts(d time.Duration) time.Duration {
	end := later(e.clock, max(d, 0))
	if e.faults != nil {
		end = min(end, max(e.faults.heal, e.clock))
	}
	e.disturbed(end)
	return end
}

// later returns a time that is so much later, but not later than [Forever].
func later(at, by time.Duration) time.Duration {
	if by > Forever-at {
		return Forever
	}
	return at + by
}

// ownReactors returns the scenario's own reactors as far as they act by now.
func (e *engine) ownReactors() []*armed {
	if e.faults == nil || !e.scripted {
		return nil
	}
	return e.faults.own
}

// faultsAt returns the reactors that are for the event which a step will be: those of the faults that strike there, and of
// the scenario's own those that hold requests or act on deliveries. It is decided when the event first comes up, once for
// each occurrence; a poll that repeats an event is none.
func (e *engine) faultsAt(s stepper) []*armed { return e.faultsAfter(s, 0) }

// faultsAfter is faultsAt for the n-th event of its name after the one that the step will be.
func (e *engine) faultsAfter(s stepper, n int) []*armed {
	if e.faults == nil || !e.scripted || !e.concerned(*s.base()) {
		return nil
	}
	event := *s.base()
	if state := e.events[event]; state != nil {
		event.Occurrence = state.count
		if e.repeats(s, state) {
			if n == 0 {
				return nil
			}
			n--
		}
	}
	event.Occurrence += 1 + n
	list, known := e.faults.decided[event]
	if !known {
		list = e.decide(event, e.openingsOf(s))
		e.faults.decided[event] = list
	}
	return list
}

// faultsAtAll returns the reactors for requests that are made together, as nothing tells them apart: what strikes at one of
// them strikes at all, or it would be chance whose it is. It puts them back if they are to be held.
func (e *engine) faultsAtAll(ops []*op) (at []*armed, held bool) {
	if e.faults == nil || ops[0].call == nil {
		return nil, false
	}
	until := time.Duration(0)
	for i := range ops {
		for _, a := range e.standing(e.faultsAfter(ops[0], i)) {
			at = append(at, a)
			until = max(until, a.until)
		}
	}
	if until <= e.clock {
		return at, false
	}
	for _, o := range ops {
		o.notBefore = until
		e.ops = append(e.ops, o)
	}
	return nil, true
}

// standing returns those whose event has not happened yet.
func (e *engine) standing(at []*armed) []*armed {
	var standing []*armed
	for _, a := range at {
		if !a.over {
			standing = append(standing, a)
		}
	}
	return standing
}

// happenedAt says that the event has happened which reactors were for. What a strategy injected and did not strike after all
// goes back into the budgets.
func (e *engine) happenedAt(at []*armed) {
	for _, a := range at {
		a.over = true
		if a.injected && !a.struck {
			e.faults.spent--
			a.rule.spent--
		}
	}
}

// concerned reports whether anything may be for an event of this name, whatever its occurrence.
func (e *engine) concerned(base schedule.Event) bool {
	f := e.faults
	return slices.ContainsFunc(f.own, func(a *armed) bool { return a.chooses(base) }) ||
		slices.ContainsFunc(f.planned, func(p *plannedFault) bool { return p.mayStrike(base) }) ||
		slices.ContainsFunc(f.rules, func(r *ruleState) bool { return r.Match.Matches(base) })
}

// openings are what some faults need of a request.
type openings struct {
	locked        bool     // it carries a lock
	called, known []string // the webhooks that it will be sent to, as far as that can be told, and those that there are
}

func (o *openings) admit(f *schedule.Fault) bool {
	return (!f.NeedsLock() || o.locked) && (!f.NeedsWebhook() || f.FindsWebhook(o.called, o.known))
}

// openingsOf looks at a step for what faults of the run need.
func (e *engine) openingsOf(s stepper) *openings {
	c, ok := s.(carrier)
	if !ok || c.inFlight().call == nil {
		return &openings{}
	}
	call := c.inFlight().call
	o := &openings{locked: call.Lock() != ""}
	if e.faults.webhooks && call.Verb.IsWrite() {
		o.called, o.known = e.server.WebhooksFor(call), e.server.Webhooks()
	}
	return o
}

// decide says what is to happen at an event that has come up.
func (e *engine) decide(event schedule.Event, o *openings) []*armed {
	f := e.faults
	var list []*armed
	arm := func(a *armed) {
		if e.arm(a, event) {
			list = append(list, a)
		}
	}
	for _, a := range f.own {
		if a.chooses(event) {
			arm(&armed{reactor: a.reactor, own: true})
		}
	}
	if e.healed() {
		return list
	}
	able := make([][]schedule.Fault, len(f.rules))
	for i, r := range f.rules {
		able[i] = r.selects(event, o)
	}
	for _, p := range f.planned {
		if p.selects(event, o) {
			fault := p.Fault
			fault.At = event
			a := &armed{fault: fault, result: p.result, rule: f.ruleOf(fault, able)}
			if a.rule != nil {
				a.rule.spent++
			}
			arm(a)
		}
	}
	for i, r := range f.rules {
		if f.injector == nil || len(able[i]) == 0 || !e.affords(r) {
			continue
		}
		if fault, strikes := f.injector.Inject(r.FaultRule, event, able[i]); strikes {
			fault.At, fault.Select = event, nil
			e.faults.spent++
			r.spent++
			arm(&armed{fault: fault, injected: true, result: -1, rule: r})
		}
	}
	return list
}

// chooses reports whether a reactor of the scenario's own is to be asked when an event of this name comes up.
func (a *armed) chooses(base schedule.Event) bool {
	if base.Verb == schedule.Deliver {
		_, ok := a.reactor.(Streamer)
		return ok
	}
	_, ok := a.reactor.(Holder)
	return ok && base.Verb.IsRequest()
}

// affords reports whether the budgets have a fault of the rule left.
func (e *engine) affords(r *ruleState) bool {
	return e.faults.spent < max(e.config.Faults.Max, 1) && (r.Max == 0 || r.spent < r.Max)
}

// ruleOf returns the first rule that has the fault among those that can strike, or nil.
func (f *faults) ruleOf(fault schedule.Fault, able [][]schedule.Fault) *ruleState {
	for i, r := range f.rules {
		if slices.ContainsFunc(able[i], func(other schedule.Fault) bool {
			return other.Type == fault.Type && other.Params == fault.Params
		}) {
			return r
		}
	}
	return nil
}

// arm makes the reactor of a fault, and asks it whether it holds the request back. It reports whether the reactor is ready;
// if not, the run has failed.
func (e *engine) arm(a *armed, event schedule.Event) bool {
	if !a.own {
		var err error
		if a.reactor, err = e.config.NewReactor(a.fault); err != nil {
			e.fail(fmt.Errorf("fault %s: %w", a.fault, err))
			return false
		}
	}
	holder, ok := a.reactor.(Holder)
	if !ok || !event.Verb.IsRequest() {
		return true
	}
	if d := holder.Hold(event); d > 0 {
		a.since, a.until = e.clock, e.lasts(d)
		e.faults.held = append(e.faults.held, a)
		if !a.own {
			e.struck(a, -1)
		}
	}
	return true
}

// heldBack reports whether a fault holds a request back.
func (e *engine) heldBack(s stepper) bool {
	return slices.ContainsFunc(e.faultsAt(s), func(a *armed) bool { return a.until > e.clock })
}

// faultDeadline returns when the next request that is held back is let go, [Forever] if none will be.
func (e *engine) faultDeadline() time.Duration {
	first := Forever
	if e.faults == nil {
		return first
	}
	for _, a := range e.faults.held {
		if !a.over && a.until > e.clock {
			first = min(first, a.until)
		}
	}
	return first
}

// struck notes that a fault has struck, in a record or, as yet, in none (-1): a request that is held back.
func (e *engine) struck(a *armed, record int) {
	if record >= 0 && a.until > 0 {
		r := &e.history.Records[record]
		r.Held = max(r.Held, e.clock-a.since)
	}
	if a.own {
		return
	}
	if a.result < 0 {
		a.result = len(e.history.Faults)
		e.history.Faults = append(e.history.Faults, history.FaultResult{Fault: a.fault, Record: -1})
	}
	result := &e.history.Faults[a.result]
	if !a.struck {
		a.struck = true
		result.Struck, result.At = true, a.fault.At
		if a.rule != nil {
			a.rule.struck++
			a.rule.at(a.fault.At)[a.rule.first(a.fault.Type)].Struck++
			result.Rule = a.rule.Name
		}
		e.disturbed(e.clock)
	}
	if record >= 0 && result.Record < 0 {
		result.Record = record
	}
	if record >= 0 && e.history.Records[record].Fault == "" {
		e.history.Records[record].Fault = a.fault.Type
		e.hash.String(string(a.fault.Type))
	}
}

// ruleResults returns what the rules came to.
func (e *engine) ruleResults() []history.RuleResult {
	if e.faults == nil {
		return nil
	}
	var results []history.RuleResult
	for _, r := range e.faults.rules {
		results = append(results, history.RuleResult{Name: r.Name, Eligible: r.eligible, Struck: r.struck})
	}
	return results
}

// siteResults returns what the rules came to at each site, in the order in which they came up first.
func (e *engine) siteResults() []history.SiteResult {
	if e.faults == nil {
		return nil
	}
	var results []history.SiteResult
	for _, r := range e.faults.rules {
		for _, site := range r.results {
			if site.Eligible+site.Struck > 0 {
				results = append(results, site)
			}
		}
	}
	return results
}
