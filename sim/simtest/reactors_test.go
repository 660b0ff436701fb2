package simtest

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// frozen refuses all that the operator writes to StatefulSets.
type frozen struct{}

func (frozen) Before(d *sim.Door) {
	if e := d.Event(); e.Actor == "operator" && e.Kind == "StatefulSet" && e.Verb.IsWrite() {
		d.Answer(&apiserver.Response{Err: apierrors.NewForbidden(appsv1.Resource("statefulsets"), e.Name, nil)})
	}
}

func (frozen) After(*sim.Door) {}

func newFrozen() sim.Reactor { return frozen{} }

// refusals counts the answers of [frozen] in a run.
func refusals(h *history.History) int {
	n := 0
	for i := range h.Records {
		if r := &h.Records[i]; r.Code == 403 && r.Event.Verb.IsWrite() && r.Event.Kind == "StatefulSet" {
			n++
		}
	}
	return n
}

// TestWebhooks checks that a webhook of the test is asked about what the operator writes, and that one which makes no sense
// fails the test.
func TestWebhooks(t *testing.T) {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	hook := apiserver.Hook{Validating: true, Handle: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}}
	hook.Name = "policy.example.com"
	options := []Option{Registry(registry), Webhooks(hook)}
	w := NewWorld(t, Scenario("../../scenarios/clickhouse/recreate.yaml"), options...)
	if !slices.ContainsFunc(w.Default().Records, func(r history.Record) bool { return slices.Contains(r.Webhooks, hook.Name) }) {
		t.Error("the webhook is not asked")
	}
	hook.Name = "policy"
	c, err := loadOne(Scenario("../../scenarios/clickhouse/recreate.yaml"), []Option{Registry(registry), Webhooks(hook)})
	if err == nil {
		_, err = newWorld(c)
	}
	if err == nil || !strings.Contains(err.Error(), `webhook "policy": webhooks[0].name`) {
		t.Errorf("error is %v", err)
	}
}

// TestReactors checks that reactors of the test act in the runs of a scenario from a file, and that reports say so.
func TestReactors(t *testing.T) {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	w := NewWorld(t, Scenario("../../scenarios/clickhouse/recreate.yaml"), Registry(registry), Reactors(newFrozen))
	if refusals(w.Default()) == 0 {
		t.Fatal("the reactor did not act")
	}
	f, err := w.Try(t, Course{Schedule: schedule.Schedule{}})
	if err != nil {
		t.Fatal(err)
	}
	if f == nil || !strings.Contains(f.Report, "1 reactor of the test's own") || strings.Contains(f.Report, "No fault was injected") {
		t.Errorf("the report does not tell of the reactor: %+v", f)
	}
	if refusals(theWorld(t).Default()) > 0 {
		t.Error("the reactor acts in another test's runs")
	}
}

// TestReactorsOfConfig checks that a Go value keeps its own reactors, and that its processes are named as reconcilers.
func TestReactorsOfConfig(t *testing.T) {
	own := func() sim.Reactor { return frozen{} }
	config := *theWorld(t).scenario.config
	config.Reactors = []func() sim.Reactor{own}
	cases, err := load(Config(&config), []Option{Reactors(newFrozen)})
	if err != nil {
		t.Fatal(err)
	}
	if header := cases[0].header; header.Reactors != 2 || strings.Join(header.Reconcilers, " ") != "operator" {
		t.Errorf("the header is %+v", header)
	}
	if len(config.Reactors) != 1 {
		t.Error("the test's value was changed")
	}
	if _, err := load(Config(&config), []Option{Reactors(nil)}); err == nil {
		t.Error("a maker that is nil is taken")
	}
}
