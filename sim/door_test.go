package sim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// lost is the error of a connection that broke, as net/http returns it.
func lost(verb string, err error) error {
	return &url.Error{Op: verb, URL: "https://10.96.0.1:443/api/v1/namespaces/default/configmaps", Err: err}
}

// call is one call of a program, and what it came to.
type call struct {
	response *apiserver.Response
	err      error
	took     time.Duration
}

// retryTest is a call at whose door a reactor stands, and what comes of it.
type retryTest struct {
	name  string
	verb  schedule.Verb
	do    func(*sim.Door)
	times int // how often the reactor acts
	after bool
	tries int
	took  time.Duration
	code  int    // of the answer, zero for an error that is none
	text  string // in the error
}

// always is more often than any call is made.
const always = 99

func answer(err *apierrors.StatusError) func(*sim.Door) {
	return func(d *sim.Door) { d.Answer(&apiserver.Response{Err: err}) }
}

func broken(err error) func(*sim.Door) { return func(d *sim.Door) { d.Break(err) } }

var retryTests = []retryTest{
	{"429", schedule.Update, answer(apierrors.NewTooManyRequests("slow down", 1)), 3, false, 4, 3 * time.Second, 200, ""},
	{"429 for longer", schedule.Get, answer(apierrors.NewTooManyRequests("slow down", 7)), 1, false, 2, 7 * time.Second, 200, ""},
	{"429 without Retry-After", schedule.Get, answer(apierrors.NewTooManyRequests("slow down", 0)), 1, false, 1, 0, 429, "slow"},
	{"503", schedule.Delete, answer(unavailable(1)), 1, false, 2, time.Second, 200, ""},
	{"503 without Retry-After", schedule.Delete, answer(unavailable(0)), 1, false, 1, 0, 503, "overloaded"},
	{"500", schedule.Create, answer(apierrors.NewServerTimeout(corev1.Resource("configmaps"), "create", 2)), 1, false, 2,
		2 * time.Second, 409, "already exists"},
	{"409 with Retry-After", schedule.Update, answer(conflict(1)), 1, false, 1, 0, 409, "changed"},
	{"for ever", schedule.Get, answer(unavailable(1)), always, false, 11, 10 * time.Second, 503, "overloaded"},
	{"503 after the call", schedule.Create, answer(unavailable(1)), 1, true, 2, time.Second, 409, "already exists"},
	{"EOF of a GET", schedule.Get, broken(lost("Get", io.EOF)), 1, false, 2, time.Second, 200, ""},
	{"reset of a GET", schedule.List, broken(lost("Get", syscall.ECONNRESET)), 2, true, 3, 2 * time.Second, 200, ""},
	{"lost HTTP/2 connection of a GET", schedule.Get, broken(lost("Get", errors.New("http2: client connection lost"))), 1, false, 2,
		time.Second, 200, ""},
	{"refused", schedule.Get, broken(lost("Get", syscall.ECONNREFUSED)), 1, false, 1, 0, 0, "connection refused"},
	{"EOF of a POST", schedule.Create, broken(lost("Post", io.EOF)), 1, false, 1, 0, 0, ": EOF"},
	{"EOF of a PUT, after", schedule.Update, broken(lost("Put", io.EOF)), 1, true, 1, 0, 0, ": EOF"},
	{"EOF for ever", schedule.Get, broken(lost("Get", io.EOF)), always, false, 11, 10 * time.Second, 0, ": EOF"},
	{"at the client", schedule.Update, func(d *sim.Door) {
		d.AnswerClient(&apiserver.Response{Err: unavailable(1)})
	}, 1, false, 1, 0, 503, "overloaded"},
	{"transport in place of the client", schedule.Update, func(d *sim.Door) {
		d.AnswerClient(&apiserver.Response{Err: unavailable(1)})
		d.Answer(&apiserver.Response{Err: unavailable(1)})
	}, 1, false, 2, time.Second, 200, ""},
}

// TestRetries checks which answers client-go makes a call again after, how often, and how long it waits.
func TestRetries(t *testing.T) {
	for _, test := range retryTests {
		t.Run(test.name, func(t *testing.T) {
			var got call
			config := programConfig(func(ctx context.Context, env *sim.Env) error {
				begin := time.Now()
				got.response, got.err = env.Do(ctx, request(env, test.verb, "a"))
				got.took = time.Since(begin)
				return nil
			}, configMap("a"))
			config.Reactors = []func() sim.Reactor{func() sim.Reactor {
				calls := 0
				act := func(d *sim.Door) {
					if calls++; calls <= test.times {
						test.do(d)
					}
				}
				if test.after {
					return hooks{after: act}
				}
				return hooks{before: act}
			}}
			h := run(t, config, sim.Plan{})
			checkCall(t, got, test.code, test.text)
			if !about(got.took, test.took) {
				t.Errorf("the call took %s, want %s", got.took, test.took)
			}
			tries := requests(h)
			if len(tries) != test.tries {
				t.Errorf("there were %d tries, want %d: %q", len(tries), test.tries, trail(h))
			}
			for i, r := range tries {
				if r.Retry != (i < len(tries)-1) || r.Event.Occurrence != i+1 {
					t.Errorf("try %d is %+v", i+1, r)
				}
			}
		})
	}
}

// requests returns the records of requests.
func requests(h *history.History) []history.Record {
	return slices.DeleteFunc(slices.Clone(h.Records), func(r history.Record) bool { return !r.Event.Verb.IsRequest() })
}

func checkCall(t *testing.T, got call, code int, text string) {
	t.Helper()
	var status apierrors.APIStatus
	switch {
	case code == 0:
		if got.response != nil || got.err == nil || errors.As(got.err, &status) || !strings.Contains(got.err.Error(), text) {
			t.Errorf("the call came to %+v, %v; want a plain error with %q", got.response, got.err, text)
		}
	case got.err != nil || got.response.Code != code:
		t.Errorf("the call came to %+v, %v; want %d", got.response, got.err, code)
	case code < http.StatusBadRequest && got.response.Err != nil,
		code >= http.StatusBadRequest && !strings.Contains(got.response.Err.Error(), text):
		t.Errorf("the answer's error is %v, want one with %q", got.response.Err, text)
	}
}

// TestGenuineRetryAfter checks that client-go heeds a Retry-After of our server, too: a list at a revision which comes to
// pass only while it waits.
func TestGenuineRetryAfter(t *testing.T) {
	var got call
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		begin := time.Now()
		list := request(env, schedule.List, "")
		list.ResourceVersion, list.ResourceVersionMatch = "6", metav1.ResourceVersionMatchNotOlderThan
		got.response, got.err = env.Do(ctx, list)
		got.took = time.Since(begin)
		return nil
	})
	config.Racers = []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
		return &caller{at: 1500 * time.Millisecond, verbs: []schedule.Verb{schedule.Create, schedule.Update, schedule.Delete}}
	}}}
	h := run(t, config, sim.Plan{})
	if got.err != nil || got.response.Code != http.StatusOK || !about(got.took, 2*time.Second) {
		t.Errorf("the call came to %+v, %v after %s; want 200 after 2s: %q", got.response, got.err, got.took, trail(h))
	}
}

// caller is a racer that makes calls for the ConfigMap "a", one after the other in one pass.
type caller struct {
	at    time.Duration
	verbs []schedule.Verb

	kind      *apiserver.Kind
	log       func(string)
	responses []*apiserver.Response
}

func (c *caller) Start(env sim.RacerEnv) {
	c.kind, c.log = env.Kind("ConfigMap"), env.Log
	env.Queue("passes", 1, func(string) sim.Task { return c }).AddAfter("pass", c.at)
}

func (c *caller) Next(response *apiserver.Response) sim.Action {
	if response != nil {
		c.responses = append(c.responses, response)
		if response.Err != nil {
			c.log(response.Err.Error())
		}
	}
	done := len(c.responses)
	if done == len(c.verbs) {
		return sim.Done()
	}
	r := &apiserver.Request{Verb: c.verbs[done], Kind: c.kind, Namespace: "default", Name: "a"}
	switch r.Verb {
	case schedule.Create:
		r.Object = configMap("a")
	case schedule.Update:
		cm := configMap("a")
		cm.Data = map[string]string{"value": "x"}
		r.Object = cm
	case schedule.Patch:
		r.PatchType, r.PatchData = types.MergePatchType, []byte(`{"data":{"value":"y"}}`)
	}
	return sim.Call(r)
}

// TestRacerRetries checks that a racer's client is client-go, too, and what a racer gets of a connection that breaks.
func TestRacerRetries(t *testing.T) {
	racer := &caller{verbs: []schedule.Verb{schedule.Create, schedule.Update, schedule.Patch, schedule.Get, schedule.Get}}
	config := newConfig(nil)
	config.Processes = nil
	config.Racers = []sim.RacerConfig{{Name: "racer", WithScript: true, New: func() sim.Racer { return racer }}}
	strikes(config, map[schedule.FaultType]func() sim.Reactor{
		schedule.ServiceUnavailable: answering(unavailable(1)),
		schedule.LostResponse: func() sim.Reactor {
			return hooks{after: func(d *sim.Door) { d.Break(lost("Put", io.EOF)) }}
		},
		schedule.Crash: func() sim.Reactor { return hooks{before: func(d *sim.Door) { d.Crash(sim.Restart{}) }} },
		schedule.Delay: func() sim.Reactor {
			return hooks{after: func(d *sim.Door) { d.DelayResponse(time.Minute) }}
		},
	})
	event := func(verb schedule.Verb) schedule.Event {
		return schedule.Event{Actor: "racer", Key: "pass", Verb: verb, Kind: "ConfigMap", Namespace: "default", Name: "a",
			Occurrence: 1}
	}
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{
		fault(schedule.ServiceUnavailable, event(schedule.Create)), fault(schedule.LostResponse, event(schedule.Update)),
		fault(schedule.Crash, event(schedule.Patch)), fault(schedule.Delay, event(schedule.Get)),
	}})
	expectTrail(t, h,
		"Create a #1 503 retry ServiceUnavailable", "Create a #2 201 committed",
		"Update a #1 -1 committed LostResponse",
		"Patch a #1 200 committed",
		"Get a #1 200 Delay", "Get a #1 returns", "Get a #2 200")
	if got := racer.responses[1]; got.Code != history.NoAnswer || apierrors.ReasonForError(got.Err) != metav1.StatusReasonUnknown ||
		!strings.HasSuffix(got.Err.Error(), ": EOF") {
		t.Errorf("the racer sees the broken connection as %+v", got)
	}
	if got := racer.responses[3].Object; got == nil || got.(*corev1.ConfigMap).Data["value"] != "y" {
		t.Errorf("the late answer is %v, want the object", got)
	}
	var at []time.Duration
	for _, r := range requests(h) {
		at = append(at, r.At)
	}
	if !about(at[1]-at[0], time.Second) || !about(at[5]-at[4], time.Minute) {
		t.Errorf("the requests were at %s, want the second 1s after the first, and the late answer after 1m0s", at)
	}
	if h.Faults[2].Struck {
		t.Error("a racer has crashed")
	}
}

// TestContextEndsWhileWaiting checks that a call whose context ends while client-go waits to make it again, or while its
// answer is on its way back, ends with the context's error, and that it is not made again.
func TestContextEndsWhileWaiting(t *testing.T) {
	for name, reactor := range map[string]func() sim.Reactor{
		"retry":         answering(unavailable(30)),
		"late":          func() sim.Reactor { return hooks{after: func(d *sim.Door) { d.DelayResponse(30 * time.Second) }} },
		"late for ever": func() sim.Reactor { return hooks{after: func(d *sim.Door) { d.DelayResponse(sim.Forever) }} },
		"held":          func() sim.Reactor { return holder{hold: 30 * time.Second} },
		"held for ever": func() sim.Reactor { return holder{hold: sim.Forever} },
	} {
		t.Run(name, func(t *testing.T) {
			var got call
			config := programConfig(func(ctx context.Context, env *sim.Env) error {
				begin := time.Now()
				short, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				got.response, got.err = env.Do(short, request(env, schedule.Get, "a"))
				got.took = time.Since(begin)
				return nil
			}, configMap("a"))
			config.Reactors = []func() sim.Reactor{reactor}
			h := run(t, config, sim.Plan{})
			if got.response != nil || !errors.Is(got.err, context.DeadlineExceeded) || !about(got.took, 10*time.Second) {
				t.Errorf("the call came to %+v, %v after %s; want the context's error after 10s", got.response, got.err, got.took)
			}
			if n := len(requests(h)); n > 1 || h.Outcome != history.Terminal {
				t.Errorf("there are %d requests, and the run ended %s", n, h.Outcome)
			}
		})
	}
}

// TestPreviousError checks that the last error of a call names another one before it, as client-go's does.
func TestPreviousError(t *testing.T) {
	var got error
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		_, got = env.Do(ctx, request(env, schedule.Get, "a"))
		return nil
	})
	refused := lost("Get", syscall.ECONNREFUSED)
	config.Reactors = []func() sim.Reactor{func() sim.Reactor {
		first := true
		return hooks{before: func(d *sim.Door) {
			if d.Break(refused); first {
				d.Break(lost("Get", io.EOF))
			}
			first = false
		}}
	}}
	run(t, config, sim.Plan{})
	if !errors.Is(got, refused) || got.Error() != refused.Error()+" - error from a previous attempt: EOF" {
		t.Errorf("the error is %v", got)
	}
}

// TestChain checks the order in which reactors see requests, who of them is asked when one has answered, and that what they
// do to the request they are shown does not matter.
func TestChain(t *testing.T) {
	var seen []string
	note := func(name string, before func(*sim.Door)) func() sim.Reactor {
		return func() sim.Reactor {
			return hooks{
				before: func(d *sim.Door) {
					seen = append(seen, name+" before "+string(d.Event().Verb))
					if before != nil {
						before(d)
					}
				},
				after: func(d *sim.Door) { seen = append(seen, name+" after "+string(d.Event().Verb)) },
			}
		}
	}
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		_, _ = env.Do(ctx, request(env, schedule.Create, "a"))
		_, _ = env.Do(ctx, request(env, schedule.Delete, "a"))
		_, _ = env.Do(ctx, request(env, schedule.Get, "a"))
		return nil
	})
	refuse := func(d *sim.Door) {
		if d.Event().Verb == schedule.Delete {
			d.Answer(&apiserver.Response{Err: apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New("no"))})
		}
		if d.Context() == nil || d.Response() == nil != (d.Event().Verb != schedule.Delete) {
			t.Errorf("at %s there is the context %v, and the answer %v", d.Event(), d.Context(), d.Response())
		}
	}
	config.Reactors = []func() sim.Reactor{note("first", refuse), note("second", nil)}
	strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.LostResponse: func() sim.Reactor {
		return hooks{
			before: func(*sim.Door) { seen = append(seen, "fault before") },
			after:  func(d *sim.Door) { d.Break(io.EOF) },
		}
	}})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.LostResponse, named(schedule.Create, "a", 1))}})
	want := []string{
		"first before Create", "second before Create", "fault before", "first after Create", "second after Create",
		"first before Delete", "first after Delete", "second after Delete",
		"first before Get", "second before Get", "first after Get", "second after Get",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the reactors saw\n\t%s\nwant\n\t%s", strings.Join(seen, "\n\t"), strings.Join(want, "\n\t"))
	}
	expectTrail(t, h, "Create a #1 -1 committed LostResponse", "Delete a #1 403", "Get a #1 200")
}

// TestIntruders checks requests that a reactor makes in the name of somebody else: before and after the request at whose
// door it stands, and later.
func TestIntruders(t *testing.T) {
	var got, patched call
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		got.response, got.err = env.Do(ctx, request(env, schedule.Get, "a"))
		update := request(env, schedule.Update, "a")
		update.Object = got.response.Object.DeepCopyObject().(apiserver.Object)
		patched.response, patched.err = env.Do(ctx, update)
		return nil
	}, configMap("a"))
	patch := func(d *sim.Door, label string) *apiserver.Request {
		return &apiserver.Request{Verb: schedule.Patch, Kind: d.Request().Kind, Namespace: "default", Name: "a",
			PatchType: types.MergePatchType, PatchData: []byte(`{"metadata":{"labels":{"` + label + `":"x"}}}`)}
	}
	strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.Conflict: func() sim.Reactor {
		return hooks{
			before: func(d *sim.Door) {
				d.Do("rival", patch(d, "before"))
				d.Later("friend", time.Minute, func() *apiserver.Request { return patch(d, "later") })
				d.Later("friend", time.Minute, func() *apiserver.Request { return nil })
				d.Later("friend", sim.Forever, func() *apiserver.Request { panic("for ever is over") })
			},
			after: func(d *sim.Door) {
				d.Do("rival", patch(d, "after"))
				if labels := d.Get(d.Request().Kind, "default", "a").GetLabels(); len(labels) != 2 {
					t.Errorf("the labels are %v", labels)
				}
			},
		}
	}})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.Conflict, named(schedule.Update, "a", 1))}})
	expectTrail(t, h, "Get a #1 200", "Patch a #1 200 committed", "Patch a #2 200 committed", "Update a #1 409 Conflict",
		"Patch a #1 200 committed")
	made := requests(h)
	if made[1].Event.Actor != "rival" || made[4].Event.Actor != "friend" || made[1].Event.Incarnation != 0 {
		t.Errorf("the intruders are %s and %s", made[1].Event, made[4].Event)
	}
	if !about(made[4].At-made[3].At, time.Minute) {
		t.Errorf("the last request is at %s, want a minute after that at %s", made[4].At, made[3].At)
	}
	if f := h.Faults[0]; !f.Struck || h.Records[f.Record].Event != made[3].Event {
		t.Errorf("the fault came to %+v", f)
	}
}

// TestLateResponse checks that an answer on its way back is a step of its own, and lets other steps pass.
func TestLateResponse(t *testing.T) {
	var took time.Duration
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		begin := time.Now()
		response, err := env.Do(ctx, request(env, schedule.Create, "b"))
		if took = time.Since(begin); err != nil || response.Code != http.StatusCreated {
			t.Errorf("the late answer is %+v, %v", response, err)
		}
		return nil
	})
	config.Racers = []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
		return &caller{at: time.Second, verbs: []schedule.Verb{schedule.Create, schedule.Delete}}
	}}}
	strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.Delay: func() sim.Reactor {
		return hooks{after: func(d *sim.Door) { d.DelayResponse(5 * time.Second) }}
	}})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.Delay, named(schedule.Create, "b", 1))}})
	expectTrail(t, h, "Create b #1 201 committed Delay", "Create a #1 201 committed", "Delete a #1 200 committed",
		"Create b #1 returns")
	if !about(took, 5*time.Second) {
		t.Errorf("the call took %s, want 5s", took)
	}
	made := requests(h)
	if back := made[3]; h.Records[back.Cause].Event != made[0].Event || back.Thread != made[0].Thread {
		t.Errorf("the way back is %+v, want it caused by its request", back)
	}
}

// TestRetrySendsTheSame checks that a request which is made again is as it was the first time, whatever the server made of
// the object it was given.
func TestRetrySendsTheSame(t *testing.T) {
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		_, err := env.Do(ctx, request(env, schedule.Create, "a"))
		return err
	})
	strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.AppliedTwice: func() sim.Reactor {
		return hooks{after: func(d *sim.Door) {
			d.Do("rival", &apiserver.Request{Verb: schedule.Delete, Kind: d.Request().Kind, Namespace: "default", Name: "a"})
			d.Answer(&apiserver.Response{Err: unavailable(1)})
		}}
	}})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.AppliedTwice, named(schedule.Create, "a", 1))}})
	expectTrail(t, h, "Create a #1 503 committed retry AppliedTwice", "Delete a #1 200 committed", "Create a #2 201 committed")
}
