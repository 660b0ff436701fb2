package racer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// stableNames gives objects names that do not differ from run to run.
type stableNames struct {
	ids       map[string]string // by UID: "Pod/web-0#2"
	revisions map[string]string // of ControllerRevisions, by name: "rev1" is the first that appeared
	sets      map[string]string // of ReplicaSets, by name: "rs1" is the first that appeared
}

// finalState returns what is left.
func finalState(log func(kind string) []apiserver.Event, list func(kind string) []apiserver.Object) []traceState {
	names := stableNames{map[string]string{}, map[string]string{"": ""}, map[string]string{}}
	for _, kind := range recordedKinds {
		count := map[string]int{}
		for _, event := range log(kind) {
			if event.Type != apiserver.Added {
				continue
			}
			name := names.appeared(kind, event.Object.GetName())
			count[name]++
			names.ids[string(event.Object.GetUID())] = fmt.Sprintf("%s/%s#%d", kind, name, count[name])
		}
	}
	states := []traceState{}
	for _, kind := range recordedKinds {
		var those []traceState
		for _, obj := range list(kind) {
			those = append(those, names.state(kind, obj))
		}
		slices.SortStableFunc(those, func(a, b traceState) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(fmt.Sprint(a.Fields), fmt.Sprint(b.Fields)))
		})
		states = append(states, those...)
	}
	return states
}

// appeared returns the stable name of an object that was created.
func (n *stableNames) appeared(kind, name string) string {
	switch kind {
	case "ControllerRevision":
		if n.revisions[name] == "" {
			n.revisions[name] = fmt.Sprintf("rev%d", len(n.revisions))
		}
		return n.revisions[name]
	case "ReplicaSet":
		if n.sets[name] == "" {
			n.sets[name] = fmt.Sprintf("rs%d", len(n.sets)+1)
		}
		return n.sets[name]
	default:
		return name
	}
}

func (n *stableNames) state(kind string, obj apiserver.Object) traceState {
	state := traceState{Kind: kind, Name: obj.GetName(), Fields: map[string]any{"id": n.ids[string(obj.GetUID())]}}
	fields := state.Fields
	if generation := obj.GetGeneration(); generation > 0 {
		fields["generation"] = float64(generation)
	}
	if obj.GetDeletionTimestamp() != nil {
		fields["terminating"] = true
	}
	ref := metav1.GetControllerOf(obj)
	if ref != nil {
		fields["owner"] = fmt.Sprintf("%s controller=true block=%t", n.ids[string(ref.UID)], blocks(ref))
	}
	switch o := obj.(type) {
	case *appsv1.StatefulSet:
		s := o.Status
		fields["spec.replicas"] = float64(*o.Spec.Replicas)
		fields["status"] = fmt.Sprintf(
			"observed=%d replicas=%d ready=%d avail=%d current=%d updated=%d currentRev=%s updateRev=%s",
			s.ObservedGeneration, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas,
			n.revisions[s.CurrentRevision], n.revisions[s.UpdateRevision])
	case *appsv1.Deployment:
		fields["spec.replicas"] = float64(*o.Spec.Replicas)
		fields["annotations"] = annotationsText(o.Annotations)
		fields["status"] = deploymentText(&o.Status)
	case *appsv1.ReplicaSet:
		state.Name = n.sets[o.Name]
		fields["spec.replicas"] = float64(*o.Spec.Replicas)
		fields["annotations"] = annotationsText(o.Annotations)
		fields["status"] = replicaSetText(&o.Status)
	case *corev1.Pod:
		n.podState(&state, o)
	case *appsv1.ControllerRevision:
		state.Name = n.revisions[o.Name]
		fields["rev"], fields["revision"] = state.Name, float64(o.Revision)
	}
	return state
}

// podState notes the state of a pod. Which of the pods of a ReplicaSet are left is a matter of chance, so they have no names.
func (n *stableNames) podState(state *traceState, pod *corev1.Pod) {
	fields := state.Fields
	fields["phase"] = string(pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		fields["bound"] = true
	}
	if ready := podCondition(pod, corev1.PodReady); ready != nil {
		fields["ready"] = string(ready.Status)
	}
	ref := metav1.GetControllerOf(pod)
	if pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == "" && (ref == nil || ref.Kind != "ReplicaSet") {
		fields["rev"] = n.revisions[podRevision(pod)]
		return
	}
	delete(fields, "id")
	state.Name = "pod"
	if ref != nil {
		state.Name = "pod of " + n.ids[string(ref.UID)]
	}
}

func deploymentText(s *appsv1.DeploymentStatus) string {
	var conditions []string
	for _, c := range s.Conditions {
		conditions = append(conditions, fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(conditions)
	return fmt.Sprintf("observed=%d replicas=%d updated=%d ready=%d avail=%d unavailable=%d terminating=%d%s", s.ObservedGeneration,
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas, valueOf(s.TerminatingReplicas),
		strings.Join(conditions, ""))
}

func replicaSetText(s *appsv1.ReplicaSetStatus) string {
	text := fmt.Sprintf("observed=%d replicas=%d labeled=%d ready=%d avail=%d terminating=%d", s.ObservedGeneration, s.Replicas,
		s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, valueOf(s.TerminatingReplicas))
	for _, c := range s.Conditions {
		text += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
	}
	return text
}

func valueOf(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func annotationsText(annotations map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		parts = append(parts, strings.TrimPrefix(key, "deployment.kubernetes.io/")+"="+annotations[key])
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
