package racer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// traceNamespace is where the scripts are played.
const traceNamespace = "trace"

// trace is what the real controllers did to a script.
type trace struct {
	Script []traceStep  `json:"script"`
	Final  []traceState `json:"final"`
}

type traceStep struct {
	Create     *appsv1.StatefulSet `json:"create"`
	RetryWhile metav1.StatusReason `json:"retryWhile"`
	Patch      *tracePatch         `json:"patch"`
	Delete     *traceDelete        `json:"delete"`
	Settle     bool                `json:"settle"`
	Kubelet    *bool               `json:"kubelet"`
}

type tracePatch struct {
	Kind, Name string
	Merge      json.RawMessage
}

type traceDelete struct {
	Kind, Name        string
	PropagationPolicy metav1.DeletionPropagation
}

// named returns the name of what is deleted. Where a script deletes its namespace, that is ours.
func (d *traceDelete) named() string {
	if d.Kind == "Namespace" {
		return traceNamespace
	}
	return d.Name
}

type traceState struct {
	Kind   string         `json:"kind"`
	Name   string         `json:"name"`
	Fields map[string]any `json:"fields"`
}

// TestTraces plays the scripts of recordings of real control planes, and compares what is left at the end. On a real
// cluster that did not differ from run to run; so no order of steps here may change it.
func TestTraces(t *testing.T) {
	for _, version := range []apiserver.Version{apiserver.V136, apiserver.V137} {
		files, err := filepath.Glob("testdata/traces-" + string(version) + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no traces for %s: %v", version, err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(string(version)+"/"+name, func(t *testing.T) {
				recorded := readTrace(t, file)
				for seed := range uint64(6) {
					d := newDriver(t, version)
					if seed > 0 {
						d.random = rand.New(rand.NewPCG(seed, 0))
					}
					d.play(recorded.Script)
					if diff := cmp.Diff(recorded.Final, d.final()); diff != "" {
						t.Fatalf("seed %d: final state (-recorded +simulated):\n%s", seed, diff)
					}
				}
			})
		}
	}
}

func readTrace(t *testing.T, file string) *trace {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded trace
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	return &recorded
}

// play runs a script against the controllers that ran when it was recorded.
func (d *driver) play(script []traceStep) {
	d.t.Helper()
	d.namespace = traceNamespace
	d.must(d.target("Namespace", traceNamespace).create(newNamespace(traceNamespace)))
	d.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{Version: d.server.Kinds().Version()}))
	d.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))
	d.start("namespaces", NewNamespaceController(NamespaceControllerOptions{}))
	kubelet := d.start("kubelet", NewKubelet(KubeletOptions{Binds: true}))
	for _, step := range script {
		switch {
		case step.Create != nil:
			for {
				set := step.Create.DeepCopy()
				set.Namespace = d.namespace
				err := failure(d.do("test", d.target("StatefulSet", set.Name).create(set)))
				if err == nil {
					break
				}
				if step.RetryWhile == "" || apierrors.ReasonForError(err) != step.RetryWhile {
					d.t.Fatalf("create: %v", err)
				}
				d.run(1)
			}
		case step.Patch != nil:
			d.patch(step.Patch.Kind, step.Patch.Name, string(step.Patch.Merge))
		case step.Delete != nil:
			d.delete(step.Delete.Kind, step.Delete.named(), step.Delete.PropagationPolicy)
		case step.Kubelet != nil && !*step.Kubelet:
			d.stop(kubelet)
		case step.Settle:
			d.settle()
		}
	}
	d.settle()
}

// final returns what is left.
func (d *driver) final() []traceState {
	log := func(kind string) []apiserver.Event { return d.server.Log(d.kind(kind)) }
	list := func(kind string) []apiserver.Object { return d.server.List(d.kind(kind), d.namespace) }
	return finalState(log, list)
}

// finalState returns what is left, with the names made stable: an object has a number among those of its name, and a
// revision has one in the order of their appearance.
func finalState(log func(kind string) []apiserver.Event, list func(kind string) []apiserver.Object) []traceState {
	ids, revisions := map[string]string{}, map[string]string{"": ""}
	for _, kind := range []string{"StatefulSet", "ControllerRevision", "Pod"} {
		count := map[string]int{}
		for _, event := range log(kind) {
			name := event.Object.GetName()
			if event.Type != apiserver.Added {
				continue
			}
			if kind == "ControllerRevision" && revisions[name] == "" {
				revisions[name] = fmt.Sprintf("rev%d", len(revisions))
			}
			if kind == "ControllerRevision" {
				name = revisions[name]
			}
			count[name]++
			ids[string(event.Object.GetUID())] = fmt.Sprintf("%s/%s#%d", kind, name, count[name])
		}
	}
	states := []traceState{}
	for _, kind := range []string{"StatefulSet", "Pod", "ControllerRevision"} {
		for _, obj := range list(kind) {
			state := traceState{Kind: kind, Name: obj.GetName(), Fields: stateFields(obj, ids, revisions)}
			if kind == "ControllerRevision" {
				state.Name = revisions[state.Name]
			}
			states = append(states, state)
		}
	}
	sortRevisions(states)
	return states
}

// sortRevisions puts the revisions, which come last, in the order of their appearance.
func sortRevisions(states []traceState) {
	for i := range states {
		for j := i + 1; j < len(states); j++ {
			if states[i].Kind == "ControllerRevision" && states[i].Name > states[j].Name {
				states[i], states[j] = states[j], states[i]
			}
		}
	}
}

func stateFields(obj apiserver.Object, ids, revisions map[string]string) map[string]any {
	fields := map[string]any{"id": ids[string(obj.GetUID())]}
	if generation := obj.GetGeneration(); generation > 0 {
		fields["generation"] = float64(generation)
	}
	if obj.GetDeletionTimestamp() != nil {
		fields["terminating"] = true
	}
	if ref := metav1.GetControllerOf(obj); ref != nil {
		fields["owner"] = fmt.Sprintf("%s controller=true block=%t", ids[string(ref.UID)], *ref.BlockOwnerDeletion)
	}
	switch o := obj.(type) {
	case *appsv1.StatefulSet:
		s := o.Status
		fields["spec.replicas"] = float64(*o.Spec.Replicas)
		fields["status"] = fmt.Sprintf(
			"observed=%d replicas=%d ready=%d avail=%d current=%d updated=%d currentRev=%s updateRev=%s",
			s.ObservedGeneration, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas,
			revisions[s.CurrentRevision], revisions[s.UpdateRevision])
	case *corev1.Pod:
		fields["phase"] = string(o.Status.Phase)
		fields["rev"] = revisions[podRevision(o)]
		if o.Spec.NodeName != "" {
			fields["bound"] = true
		}
		if ready := podCondition(o, corev1.PodReady); ready != nil {
			fields["ready"] = string(ready.Status)
		}
	case *appsv1.ControllerRevision:
		fields["rev"], fields["revision"] = revisions[o.Name], float64(o.Revision)
	}
	return fields
}

// TestSameOrderSameCalls plays a script twice in the same order, for each of several orders.
func TestSameOrderSameCalls(t *testing.T) {
	recorded := readTrace(t, "testdata/traces-1.36/delete-foreground-held.json")
	for seed := range uint64(5) {
		var runs [2][]string
		for i := range runs {
			d := newDriver(t, apiserver.V136)
			d.random = rand.New(rand.NewPCG(seed, 0))
			d.play(recorded.Script)
			runs[i] = append(d.calls, d.logs...)
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			t.Fatalf("seed %d: two runs differ:\n%s", seed, diff)
		}
	}
}
