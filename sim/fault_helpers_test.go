package sim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// hooks is a reactor made of functions, any of which may be nil.
type hooks struct {
	before, after func(*sim.Door)
}

func (h hooks) Before(d *sim.Door) {
	if h.before != nil {
		h.before(d)
	}
}

func (h hooks) After(d *sim.Door) {
	if h.after != nil {
		h.after(d)
	}
}

// holder is a reactor that holds requests back.
type holder struct {
	hooks
	hold time.Duration
}

func (h holder) Hold(schedule.Event) time.Duration { return h.hold }

// start is a program that is a function.
type start func(ctx context.Context, env *sim.Env) error

func (f start) Start(ctx context.Context, env *sim.Env) error { return f(ctx, env) }

// programConfig is a scenario of one process that runs the function.
func programConfig(f start, given ...apiserver.Object) *sim.Config {
	config := newConfig(nil, given...)
	config.Processes[0].Program = f
	return config
}

// strikes lets faults of a type be what the functions make.
func strikes(config *sim.Config, reactors map[schedule.FaultType]func() sim.Reactor) {
	config.NewReactor = func(f schedule.Fault) (sim.Reactor, error) {
		if newReactor := reactors[f.Type]; newReactor != nil {
			return newReactor(), nil
		}
		return nil, fmt.Errorf("no reactor for %s", f.Type)
	}
}

// answering is a reactor that answers in place of the server.
func answering(err *apierrors.StatusError) func() sim.Reactor {
	return func() sim.Reactor {
		return hooks{before: func(d *sim.Door) { d.Answer(&apiserver.Response{Err: err}) }}
	}
}

// request makes a request for a ConfigMap in the namespace "default".
func request(env *sim.Env, verb schedule.Verb, name string) *apiserver.Request {
	r := &apiserver.Request{Verb: verb, Kind: env.Kinds().ByName("ConfigMap"), Namespace: "default", Name: name}
	switch verb {
	case schedule.Create, schedule.Update:
		cm := configMap(name)
		if verb == schedule.Update {
			cm.Data = map[string]string{"value": "x"}
		}
		r.Object = cm
	case schedule.List:
		r.Name = ""
	}
	return r
}

// named returns the name of a request that the program makes for a ConfigMap.
func named(verb schedule.Verb, name string, occurrence int) schedule.Event {
	return schedule.Event{Actor: "operator", Incarnation: 1, Verb: verb, Kind: "ConfigMap", Namespace: "default", Name: name,
		Occurrence: occurrence}
}

// inPass returns the name of a request that the operator makes in a pass over a ConfigMap, for that ConfigMap.
func inPass(verb schedule.Verb, name string, occurrence int) schedule.Event {
	event := named(verb, name, occurrence)
	event.Key = "default/" + name
	return event
}

func fault(t schedule.FaultType, at schedule.Event) schedule.Fault {
	return schedule.Fault{Type: t, At: at}
}

// withRetryAfter adds a Retry-After to an error.
func withRetryAfter(err *apierrors.StatusError, seconds int32) *apierrors.StatusError {
	if err.ErrStatus.Details == nil {
		err.ErrStatus.Details = &metav1.StatusDetails{}
	}
	err.ErrStatus.Details.RetryAfterSeconds = seconds
	return err
}

func unavailable(seconds int32) *apierrors.StatusError {
	return withRetryAfter(apierrors.NewServiceUnavailable("the server is overloaded"), seconds)
}

func conflict(seconds int32) *apierrors.StatusError {
	return withRetryAfter(apierrors.NewConflict(corev1.Resource("configmaps"), "a", errors.New("changed")), seconds)
}

// trail returns the requests of a history for ConfigMaps on one line each: what was seen of them, and what was done.
func trail(h *history.History) []string {
	var lines []string
	for _, r := range h.Records {
		if !r.Event.Verb.IsRequest() || r.Event.Kind != "ConfigMap" {
			continue
		}
		var b strings.Builder
		if r.Event.Incarnation > 1 {
			fmt.Fprintf(&b, "[%d] ", r.Event.Incarnation)
		}
		fmt.Fprintf(&b, "%s %s #%d", r.Event.Verb, r.Event.Name, r.Event.Occurrence)
		if r.Event.Return {
			lines = append(lines, b.String()+" returns")
			continue
		}
		fmt.Fprintf(&b, " %d", r.Code)
		for _, mark := range []struct {
			set  bool
			text string
		}{{r.Committed != 0, "committed"}, {r.Retry, "retry"}, {r.Fault != "", string(r.Fault)}} {
			if mark.set {
				b.WriteString(" " + mark.text)
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

func expectTrail(t *testing.T, h *history.History, want ...string) {
	t.Helper()
	if got := strings.Join(trail(h), "\n\t"); got != strings.Join(want, "\n\t") {
		t.Errorf("requests are\n\t%s\nwant\n\t%s", got, strings.Join(want, "\n\t"))
	}
}

// about reports whether a time is what is wanted, but for the time that the steps themselves take.
func about(got, want time.Duration) bool { return got >= want && got < want+100*time.Millisecond }

// onProcessors calls f with a number of processors.
func onProcessors(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}
