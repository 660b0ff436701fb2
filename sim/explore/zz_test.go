package explore

import (
	"fmt"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim"
)

func TestZZ(t *testing.T) {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	s, err := scenarios.Load("../../scenarios/clickhouse/recreate.yaml", scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := w.Run(sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range h.Records {
		t.Log(fmt.Sprintf("%3d %12s t%d c%d %s %d %s x%d rv%d", i, r.At, r.Thread, r.Cause, r.Event, r.Code, r.Reason, r.Repeats, r.Committed))
	}
	for i, c := range reorders(h, config.Limits.HoldBound()) {
		t.Log(i, c)
	}
}
