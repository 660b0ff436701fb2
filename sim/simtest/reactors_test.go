package simtest

import (
	"strings"
	"testing"

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
