package property

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Monitor judges one run. The engine tells it what happens, always with the virtual time since the run began, and in
// the order it happens: Start, then for each request Before, Committed if it was, After, and at the end Terminal if the
// run came to rest. A Monitor must not be used by two goroutines at once.
//
// A rule is evaluated only when a variable it reads may have changed, and each property is decided once: after it was
// broken, invalid or, for Sometimes, seen, its rule is not evaluated any more.
type Monitor struct {
	set    *Set
	reader Reader

	variables []boundVariable
	rules     []progress
	commits   int // counts the calls of Committed
	settled   time.Duration
	broken    bool

	// pending are the rules that matched the request last announced, with the state before it.
	pending      []pendingRule
	pendingEvent schedule.Event
}

// boundVariable is what a variable is bound to now.
type boundVariable struct {
	value   ref.Val
	object  apiserver.Object
	items   []apiserver.Object
	fresh   bool // value is the current one
	changed int  // the number of the commit at which it last changed
}

// progress is how a property is coming out.
type progress struct {
	status      Status // empty until it is decided
	evaluations int
	at          time.Duration
	err         string
	note        string
	counter     schedule.Counter
	state       activation // reused from one evaluation to the next
	// deciding is the state that the rule was last false on, or that it could not be evaluated on.
	deciding *activation
	// holds and since say, for Eventually, whether the rule holds and from when on; held and until, that it did once, from
	// since until then.
	holds bool
	since time.Duration
	held  bool
	until time.Duration
}

type pendingRule struct {
	rule  int
	state activation
}

// activation is one state of the cluster as a rule sees it: it resolves the names that the rule reads.
type activation struct {
	names  []string
	values []ref.Val
}

var _ cel.Activation = (*activation)(nil)

// ResolveName returns what a name stands for.
func (a *activation) ResolveName(name string) (any, bool) {
	v := a.lookup(name)
	return v, v != nil
}

// Parent returns nil: there are no names besides.
func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) lookup(name string) ref.Val {
	if i := slices.Index(a.names, name); i >= 0 && i < len(a.values) {
		return a.values[i]
	}
	return nil
}

func (a *activation) clone() *activation {
	return &activation{names: a.names, values: slices.Clone(a.values)}
}

// NewMonitor returns a monitor for one run over the state that reader reads. The set may be nil: nothing is judged then.
func (s *Set) NewMonitor(reader Reader) *Monitor {
	if s == nil {
		s = &Set{}
	}
	m := &Monitor{
		set:       s,
		reader:    reader,
		variables: make([]boundVariable, len(s.variables)),
		rules:     make([]progress, len(s.rules)),
	}
	for i := range s.rules {
		m.rules[i].state.names = s.rules[i].names
		if s.rules[i].Match != nil {
			m.rules[i].counter.Selector = *s.rules[i].Match
		}
	}
	return m
}

// Start begins the run: it binds the variables, for good those that are frozen at the start, and evaluates what must
// always hold, or come to hold.
func (m *Monitor) Start(now time.Duration) {
	for i := range m.variables {
		m.bind(i)
	}
	for i := range m.set.rules {
		if t := m.set.rules[i].Type; t == Always || t == Eventually {
			m.evaluateState(now, i)
		}
	}
}

// Before announces a request that the server is about to execute. Where a property looks at this request, the state is
// kept for [Monitor.After].
func (m *Monitor) Before(_ time.Duration, event schedule.Event) {
	m.pending = m.pending[:0]
	for _, i := range m.set.matched {
		p := &m.rules[i]
		if p.status != "" || !p.counter.Match(event) {
			continue
		}
		state := activation{names: p.state.names, values: make([]ref.Val, 0, len(p.state.names))}
		state.values = m.current(i, state.values)
		m.pending = append(m.pending, pendingRule{rule: i, state: state})
		m.pendingEvent = event
	}
}

// After evaluates the properties that look at the request which was announced last: its event must be the same. The
// request and the response must not be nil.
func (m *Monitor) After(now time.Duration, event schedule.Event, req *apiserver.Request, resp *apiserver.Response) {
	if len(m.pending) == 0 || m.pendingEvent != event {
		return
	}
	response := responseValue(resp)
	for i := range m.pending {
		p := &m.pending[i]
		p.state.values = append(p.state.values, m.set.rules[p.rule].requestValue(event, req), response)
		m.evaluate(now, p.rule, &p.state)
	}
	m.pending = m.pending[:0]
}

// Aside lets requests be made in the middle of one that was announced: by the webhooks that are asked about it. The state that
// was kept for [Monitor.After] stays.
func (m *Monitor) Aside(f func()) {
	pending, event := m.pending, m.pendingEvent
	m.pending = nil
	f()
	m.pending, m.pendingEvent = pending, event
}

// Committed tells of a commit to a kind, by the name the scenario has for it. It evaluates the rules over the state that
// bind the kind, if what they bind has changed.
func (m *Monitor) Committed(now time.Duration, kind string) {
	m.commits++
	for i := range m.set.variables {
		if v := &m.set.variables[i]; v.Kind == kind && !v.AtStart {
			m.variables[i].fresh = false
		}
	}
	for _, i := range m.set.watchers[kind] {
		if m.rules[i].status == "" && m.changed(i) {
			m.evaluateState(now, i)
		}
	}
}

// changed binds what a rule reads and reports whether the last commit changed any of it.
func (m *Monitor) changed(rule int) bool {
	changed := false
	for _, v := range m.set.rules[rule].reads {
		m.bind(v)
		changed = changed || m.variables[v].changed == m.commits
	}
	return changed
}

// Settled says that faults, script and holds are over: from now on the spans of Eventually count. Of several calls the
// last one counts; without any, the spans count from the begin of the run.
func (m *Monitor) Settled(now time.Duration) { m.settled = now }

// Terminal ends a run that came to rest: it evaluates what must hold in the end, and decides what must have come to hold
// and stayed so. If a run ends otherwise, these properties stay [NotExercised].
func (m *Monitor) Terminal(now time.Duration) {
	for i := range m.set.rules {
		switch m.set.rules[i].Type {
		case Terminal:
			m.evaluateState(now, i)
		case Eventually:
			m.close(now, i)
		default: // judged in the course of the run
		}
	}
}

// rounded returns a time as people are told it: what is below a millisecond only keeps steps apart.
func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// close decides an Eventually.
func (m *Monitor) close(now time.Duration, i int) {
	p, within := &m.rules[i], m.set.rules[i].Within
	switch {
	case p.status != "" || p.evaluations == 0:
		return
	case !p.holds:
		p.status, p.at = Broken, now
		p.note = "it never held"
		if p.held {
			p.note = fmt.Sprintf("it held from %s until %s, but not in the end", rounded(p.since), rounded(p.until))
		}
	case p.since > m.settled+within:
		p.status, p.at = Broken, p.since
		p.note = fmt.Sprintf("it holds for good only from %s on, %s after everything had settled at %s; it has %s",
			rounded(p.since), rounded(p.since-m.settled), rounded(m.settled), within)
	default:
		p.status, p.at = Held, p.since
	}
}

// Broken reports whether a property is already known to be broken.
func (m *Monitor) Broken() bool { return m.broken }

// Verdicts returns how the properties came out so far, in the order of their definitions.
func (m *Monitor) Verdicts() []Verdict {
	verdicts := make([]Verdict, len(m.rules))
	for i := range m.rules {
		p, r := &m.rules[i], &m.set.rules[i]
		v := Verdict{
			Property: &r.Definition, Status: p.status, Evaluations: p.evaluations, At: p.at, Error: p.err, Note: p.note,
		}
		switch {
		case v.Status == "" && p.evaluations > 0 && (r.Type == Always || r.Type == Request):
			v.Status = Held
		case v.Status == "":
			v.Status = NotExercised
		case v.Status == Broken || v.Status == Invalid:
			v.Values = r.values(p.deciding)
		}
		verdicts[i] = v
	}
	return verdicts
}

// evaluateState evaluates a rule over the current state.
func (m *Monitor) evaluateState(now time.Duration, i int) {
	state := &m.rules[i].state
	state.values = m.current(i, state.values[:0])
	m.evaluate(now, i, state)
}

// evaluate evaluates a rule, unless its property is decided, and notes what follows.
func (m *Monitor) evaluate(now time.Duration, i int, state *activation) {
	p, r := &m.rules[i], &m.set.rules[i]
	if p.status != "" {
		return
	}
	result, _, err := r.program.Eval(state)
	p.evaluations++
	p.at = now
	if err != nil {
		p.status, p.err, p.deciding = Invalid, explain(err), state.clone()
		return
	}
	holds := result == types.True
	switch {
	case r.Type == Sometimes:
		if holds {
			p.status = Held
		}
	case r.Type == Eventually:
		if holds && !p.holds {
			p.since = now
		}
		if !holds {
			p.deciding = state.clone()
		}
		if p.holds && !holds {
			p.held, p.until = true, now
		}
		p.holds = holds
	case !holds:
		p.status, p.deciding = Broken, state.clone()
		m.broken = true
	case r.Type == Terminal:
		p.status = Held
	}
}

// explain adds to CEL's error on an absent field what to do about it.
func explain(err error) string {
	text := err.Error()
	_, key, ok := strings.Cut(text, "no such key: ")
	if !ok {
		return text
	}
	read := "[?" + strconv.Quote(key) + "]"
	if identifier.MatchString(key) {
		read = ".?" + key
	}
	return fmt.Sprintf("%s: it is absent there; test it with has() or != null, or read it with %s.orValue(…)",
		text, read)
}

// current appends what the variables that a rule reads are bound to.
func (m *Monitor) current(rule int, values []ref.Val) []ref.Val {
	for _, v := range m.set.rules[rule].reads {
		m.bind(v)
		values = append(values, m.variables[v].value)
	}
	return values
}

// bind brings a variable up to date. What it was bound to stays as it is if the objects are the same.
func (m *Monitor) bind(i int) {
	bound, v := &m.variables[i], &m.set.variables[i]
	if bound.fresh {
		return
	}
	bound.fresh = true
	if !v.isList() {
		obj := m.reader.Get(v.Kind, v.Namespace, v.ObjectName)
		if bound.value == nil || obj != bound.object {
			bound.object, bound.value = obj, v.shape.ofStored(obj, v.goType)
			bound.changed = m.commits
		}
		return
	}
	items := m.reader.List(v.Kind, v.Namespace, v.selector)
	if bound.value != nil && slices.Equal(items, bound.items) {
		return
	}
	elems := make([]ref.Val, len(items))
	for i, item := range items {
		elems[i] = v.shape.ofStored(item, v.goType)
	}
	bound.items, bound.value = slices.Clone(items), types.NewRefValList(types.DefaultTypeAdapter, elems)
	bound.changed = m.commits
}
