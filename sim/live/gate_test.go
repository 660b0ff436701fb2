package live

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// event reads the name of an event.
func event(t *testing.T, text string) schedule.Event {
	t.Helper()
	e, err := schedule.ParseEvent(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// visitOf is a step of the thread that its actor and key name.
func visitOf(t *testing.T, text string) *visit {
	t.Helper()
	e := event(t, text)
	return &visit{event: e.Base(), key: threadKey{actor: e.Actor, key: e.Key}}
}

func noOrder() *follow {
	return newFollow(&sim.Config{Kinds: apiserver.NewKinds(apiserver.V136)}, &history.History{})
}

// take takes a step that nothing holds.
func take(t *testing.T, g *gate, text string, committed int64) {
	t.Helper()
	v := visitOf(t, text)
	if err := g.comeUp(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	g.done(v, Step{Committed: committed}, 0)
}

// TestPollsAreOneEvent checks that reads which find the same in another pass are one event, and in the same pass two.
func TestPollsAreOneEvent(t *testing.T) {
	g := newGate()
	g.arm(nil, nil, noOrder())
	revision := int64(7)
	read := func() {
		v := visitOf(t, "operator(default/a) Get Pod default/p")
		v.sight = func() int64 { return revision }
		if err := g.comeUp(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		g.done(v, Step{}, revision)
	}
	pass := func() { g.began(threadKey{actor: "operator", key: "default/a"}); g.ended() }
	pass()
	read()
	read() // in the same pass: an event of its own
	pass()
	read() // a poll
	revision++
	pass()
	read() // something new
	var counts []int
	for _, s := range g.history() {
		counts = append(counts, s.Event.Occurrence, s.Repeats)
	}
	if got, want := counts, []int{1, 0, 2, 1, 3, 0}; !equal(got, want) {
		t.Errorf("occurrences and repeats are %v, want %v", got, want)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestHold checks that a step is held until what it waits for has happened as often as it must, and no longer than its bound.
func TestHold(t *testing.T) {
	const held, awaited = "operator(default/a) Update Pod default/p #2", "kcm Update StatefulSet/status default/s"
	newHold := func(bound time.Duration) *hold {
		return &hold{event: event(t, held), waits: pattern{event: event(t, "kcm(default/s) Update StatefulSet/status default/s #5"),
			loose: true}, needs: 2, bound: bound}
	}
	t.Run("released", func(t *testing.T) {
		g, h := newGate(), newHold(time.Minute)
		g.arm([]*hold{h}, nil, noOrder())
		take(t, g, awaited, 1) // before the operator's own last step: it does not count
		take(t, g, "operator(default/a) Update Pod default/p", 2)
		take(t, g, awaited, 3) // since: it counts
		passed := make(chan struct{})
		go func() {
			defer close(passed)
			take(t, g, "operator(default/a) Update Pod default/p", 4)
		}()
		select {
		case <-passed:
			t.Fatal("the step was not held")
		case <-time.After(50 * time.Millisecond):
		}
		if _, still := g.quiet(); still {
			t.Error("a cluster in which a step is held is not at rest")
		}
		take(t, g, awaited, 5)
		<-passed
		steps := g.history()
		if last := steps[len(steps)-1]; last.Event.Actor != "operator" || last.Held < 50*time.Millisecond {
			t.Errorf("the last step is %s, held for %s", last.Event, last.Held)
		}
		if !h.met() {
			t.Error("the hold is not taken to have come about")
		}
	})
	t.Run("in vain", func(t *testing.T) {
		g, h := newGate(), newHold(20*time.Millisecond)
		g.arm([]*hold{h}, nil, noOrder())
		take(t, g, "operator(default/a) Update Pod default/p", 1)
		take(t, g, "operator(default/a) Update Pod default/p", 2)
		if h.met() {
			t.Error("a hold that ended by its bound is taken to have come about")
		}
	})
	t.Run("of a call that ends", func(t *testing.T) {
		g := newGate()
		g.arm([]*hold{newHold(time.Minute)}, nil, noOrder())
		take(t, g, "operator(default/a) Update Pod default/p", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := g.comeUp(ctx, visitOf(t, "operator(default/a) Update Pod default/p")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the context's", err)
		}
	})
}

// TestFollow checks that requests follow the simulated order, and that what does not come is not waited for.
func TestFollow(t *testing.T) {
	simulated := &history.History{}
	for i, text := range []string{
		"operator(default/a) Update Pod default/p #1", "kcm(default/s) Update StatefulSet/status default/s #1",
		"operator(default/a) Update Pod default/p #2",
	} {
		simulated.Records = append(simulated.Records, history.Record{Event: event(t, text), Thread: i % 2})
	}
	config := &sim.Config{Kinds: apiserver.NewKinds(apiserver.V136), Processes: []sim.Process{{Name: "operator"}}}
	g := newGate()
	g.arm(nil, nil, newFollow(config, simulated))
	second := make(chan struct{})
	go func() {
		defer close(second)
		take(t, g, "kcm Update StatefulSet/status default/s", 2)
	}()
	time.Sleep(30 * time.Millisecond)
	take(t, g, "operator(default/a) Update Pod default/p", 1)
	<-second
	for i, s := range g.history() {
		if want := simulated.Records[i].Event; s.Event.Verb != want.Verb || s.Event.Actor != want.Actor {
			t.Errorf("step %d is %s, want %s", i+1, s.Event, want)
		}
		if s.Held != 0 {
			t.Errorf("%s counts as held by the schedule", s.Event)
		}
	}

	g = newGate()
	g.arm(nil, nil, newFollow(config, simulated))
	began := time.Now()
	take(t, g, "kcm Update StatefulSet/status default/s", 1) // the operator's update does not come
	if took := time.Since(began); took < moment/2 || took > 10*moment {
		t.Errorf("the request waited %s for what does not come, want about %s", took, moment)
	}
}

// TestNeeds checks how often what a constraint waits for must happen.
func TestNeeds(t *testing.T) {
	h := &history.History{}
	add := func(thread, cause int, text string) schedule.Event {
		h.Records = append(h.Records, history.Record{Event: event(t, text), Thread: thread, Cause: cause})
		return event(t, text)
	}
	add(1, -1, "kcm Update StatefulSet/status default/s #1")
	add(0, -1, "operator Get StatefulSet default/s #1")
	add(1, -1, "kcm Update StatefulSet/status default/s #2")
	third := add(1, -1, "kcm Update StatefulSet/status default/s #3")
	held := add(0, -1, "operator Update StatefulSet default/s #1")
	if n := needs(h, schedule.Constraint{Event: held, Waits: third}); n != 2 {
		t.Errorf("it needs %d, want 2: those since the operator's own last step", n)
	}
	delivered := add(2, 3, "operator Deliver StatefulSet default/s #1")
	if n := needs(h, schedule.Constraint{Event: delivered, Waits: third}); n != 1 {
		t.Errorf("a delivery needs %d, want 1: those since the write that it tells of", n)
	}
	if n := needs(h, schedule.Constraint{Event: event(t, "x Get Pod default/p #1"), Waits: third}); n != 1 {
		t.Errorf("a step that does not come up needs %d, want 1", n)
	}
}

// TestStrikes checks when faults act and what they answer.
func TestStrikes(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	c := &call{Request: &apiserver.Request{Verb: schedule.Update, Kind: kinds.ByName("Pod"), Namespace: "default", Name: "p"}}
	for _, test := range []struct {
		fault      schedule.Fault
		carriedOut bool
		code       int // zero for no answer of its own, noAnswer for a broken connection
		retryAfter string
	}{
		{schedule.Fault{Type: schedule.Conflict}, false, 409, ""},
		{schedule.Fault{Type: schedule.Invalid}, false, 422, ""},
		{schedule.Fault{Type: schedule.Forbidden}, false, 403, ""},
		{schedule.Fault{Type: schedule.ServiceUnavailable}, false, 503, ""},
		{schedule.Fault{Type: schedule.TooManyRequests}, false, 429, "1"},
		{schedule.Fault{Type: schedule.TooManyRequests, Params: schedule.Params{Layer: schedule.Client}}, false, 429, ""},
		{schedule.Fault{Type: schedule.LostResponse}, true, noAnswer, ""},
		{schedule.Fault{Type: schedule.LostResponse, Params: schedule.Params{Means: schedule.RequestTimeout}}, true, 504, ""},
		{schedule.Fault{Type: schedule.AppliedTwice}, true, 500, "2"},
		{schedule.Fault{Type: schedule.Delay, Params: schedule.Params{For: time.Second}}, true, 0, ""},
		{schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.AfterCommit}}, true, 0, ""},
		{schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.BeforeCall}}, false, 0, ""},
	} {
		s := newStrike(test.fault)
		if s.carriedOut() != test.carriedOut {
			t.Errorf("%s: carried out: %v, want %v", s, s.carriedOut(), test.carriedOut)
		}
		got, err := s.answer(c, "operator")
		code, retryAfter := 0, ""
		switch {
		case err != nil:
			code = noAnswer
		case got != nil:
			code, retryAfter = got.code, got.header.Get("Retry-After")
		}
		if code != test.code || retryAfter != test.retryAfter {
			t.Errorf("%s: the answer is %d, retry after %q; want %d, %q", s, code, retryAfter, test.code, test.retryAfter)
		}
	}
	for _, f := range []schedule.FaultType{schedule.Wedge, schedule.LateDelete, schedule.WebhookDenial, schedule.WebhookFailure} {
		if playable(schedule.Fault{Type: f}) == "" {
			t.Errorf("%s is taken for one that can be played", f)
		}
	}
}

// TestParting checks where two histories part.
func TestParting(t *testing.T) {
	config := &sim.Config{Kinds: apiserver.NewKinds(apiserver.V136), Processes: []sim.Process{{Name: "operator"}}}
	simulated := &history.History{}
	for _, text := range []string{
		"operator(default/a) Get Pod default/p #1", "operator(default/a) Update Pod default/p #1", "kcm Delete Pod default/p #1",
		"operator(default/a) Create Event default/e #1", "operator(default/a) Delete Pod default/p #1",
	} {
		simulated.Records = append(simulated.Records, history.Record{Event: event(t, text), Code: 200, Committed: 1})
	}
	step := func(text string, code int, committed int64) Step {
		return Step{Event: event(t, text), Code: code, Committed: committed}
	}
	update, removal := step("operator(default/a) Update Pod default/p #1", 200, 5), step("operator(default/a) Delete Pod default/p #1", 200, 6)
	idle := step("operator(default/a) Update Pod default/p #2", 200, 0)
	for name, test := range map[string]struct {
		steps []Step
		want  string
	}{
		"the same":    {[]Step{update, idle, removal}, ""},
		"one is left": {[]Step{update}, "real: no write any more"},
		"one is more": {[]Step{update, removal, removal}, "simulated: no write any more"},
		"another answer": {[]Step{step("operator(default/a) Update Pod default/p #1", 409, 0), removal},
			"operator(default/a) Update Pod default/p → 409"},
	} {
		got := ""
		if p := parting(config, simulated, test.steps); p != nil {
			got = p.String()
		}
		if got == "" != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: the histories part at %q, want %q", name, got, test.want)
		}
	}
}
