package scenarios_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

const unknownScenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: unknown}
spec:
  given: [{path: objects.yaml}]
  controllers: [{name: operator, reconciler: none}]
  script:
  - create: {path: created.yaml}
  - patch: {kind: Monitor, name: m, merge: {spec: {on: true}}}
  properties:
  - name: always
    type: Always
    rule: "true"
`

// TestUnknownKinds gives and creates objects of kinds of which there is no definition: they follow the rules of custom resources,
// and the verdict names them.
func TestUnknownKinds(t *testing.T) {
	registry := &scenarios.Registry{}
	registry.Add("none", scenarios.Reconciler{Doc: "nothing", Program: func(scenarios.ProgramOptions) sim.Program { return idle{} }})
	load := func(given, created string) (*scenarios.Scenario, error) {
		return scenarios.LoadFS(fstest.MapFS{
			"unknown.yaml": {Data: []byte(unknownScenario)},
			"objects.yaml": {Data: []byte(given)}, "created.yaml": {Data: []byte(created)},
		}, "unknown.yaml", scenarios.Options{Registry: registry})
	}
	const monitor = "{apiVersion: watching.example.org/v1, kind: Monitor, metadata: {name: m}, spec: {anything: goes}}"
	const probe = "{apiVersion: watching.example.org/v1, kind: Probe, metadata: {name: p}}"
	s, err := load(monitor, probe)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := world.Run(sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Monitor.watching.example.org is not a known kind", "Probe.watching.example.org is not a known kind"} {
		if !slices.ContainsFunc(h.Gaps, func(gap string) bool { return strings.HasPrefix(gap, kind) }) {
			t.Errorf("the gaps do not say that %s: %q", kind, h.Gaps)
		}
	}

	slips := []struct{ object, want string }{
		{"{apiVersion: apps/v1, kind: StatefullSet, metadata: {name: m}}", `no such kind, did you mean "StatefulSet"?`},
		{"{apiVersion: watching.example.org/v1, kind: StatefullSet, metadata: {name: m}}", `did you mean "StatefulSet"?`},
		{"{apiVersion: app/v1, kind: StatefulSet, metadata: {name: m}}", "StatefulSet is known as apiVersion apps/v1, not app/v1"},
		{"{apiVersion: networking.k8s.oi/v1, kind: Router, metadata: {name: m}}", "add its CustomResourceDefinition"},
		{"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: m}}",
			"a built-in kind that this version does not model"},
		{"{apiVersion: plain/v1, kind: Router, metadata: {name: m}}", "add its CustomResourceDefinition"},
	}
	for _, slip := range slips {
		if _, err := load(slip.object, probe); err == nil || !strings.Contains(err.Error(), slip.want) {
			t.Errorf("%s: error is %v, want %s", slip.object, err, slip.want)
		}
	}
}

// idle is a program that does nothing.
type idle struct{}

// Start implements sim.Program.
func (idle) Start(ctx context.Context, _ *sim.Env) error {
	<-ctx.Done()
	return nil
}
