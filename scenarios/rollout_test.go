package scenarios_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

const rolloutScenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: rollout}
spec:
  given: [{path: objects.yaml}]
  controllers: [{name: bystander, reconciler: copier/fixed}]
  racers:
  - {name: kcm, type: DeploymentController}
  - {name: gc, type: GarbageCollector}
  - {name: kubelet, type: Kubelet}
  script:
  - patch: {kind: Deployment, name: web, merge: {spec: {template: {metadata: {annotations: {version: "2"}}}}}}
  variables:
  - {name: web, object: {kind: Deployment, name: web}}
  - {name: pods, list: {kind: Pod, labels: {app: web}}}
  - {name: sets, list: {kind: ReplicaSet}}
  properties:
  - name: rolled-out
    type: Terminal
    rule: >-
      web.status.updatedReplicas == 2 && web.status.availableReplicas == 2 &&
      pods.size() == 2 && pods.all(p, p.metadata.annotations["version"] == "2")
  - name: never-too-many
    type: Always
    rule: sets.map(s, s.spec.replicas).sum() <= 3
`

const rolloutObjects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {version: "1"}}
    spec: {containers: [{name: c, image: busybox}]}
`

// TestRollout checks that a DeploymentController makes a Deployment go by itself, and with a ReplicaSetController besides, in the
// default order and in random ones.
func TestRollout(t *testing.T) {
	var registry scenarios.Registry
	registerCopier(&registry)
	both := strings.Replace(rolloutScenario, "  - {name: gc,", "  - {name: sets, type: ReplicaSetController}\n  - {name: gc,", 1)
	for name, text := range map[string]string{"alone": rolloutScenario, "with ReplicaSetController": both} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"rollout.yaml": {Data: []byte(text)}, "objects.yaml": {Data: []byte(rolloutObjects)}}
			scenario, err := scenarios.LoadFS(files, "rollout.yaml", scenarios.Options{Registry: &registry})
			if err != nil {
				t.Fatal(err)
			}
			config, err := scenario.Config(&registry, nil)
			if err != nil {
				t.Fatal(err)
			}
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range int64(20) {
				run, again := runSeed(t, world, seed), runSeed(t, world, seed)
				if run.Hash != again.Hash {
					t.Fatalf("seed %d: two runs differ", seed)
				}
				if run.Outcome != history.Terminal || run.Failed() {
					t.Fatalf("seed %d: %s, broken: %v", seed, run.Outcome, run.Broken())
				}
			}
		})
	}
}

// runSeed runs the default order for the seed 0, and a random one for any other.
func runSeed(t *testing.T, world *sim.World, seed int64) *history.History {
	t.Helper()
	plan := sim.Plan{}
	if seed > 0 {
		plan = sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)}
	}
	run, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return run
}
