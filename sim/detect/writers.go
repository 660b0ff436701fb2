package detect

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// content is the hash of what an object says, without what counts its changes.
func content(obj apiserver.Object) uint64 {
	bare := obj.DeepCopyObject().(apiserver.Object)
	bare.SetGeneration(0)
	return canon.Hash(bare)
}

// fights is how often one must have undone what the other did.
const fights = 3

// findCompetingWriters finds two actors who undo each other's changes of an object: one of them an operator, the other anybody.
func findCompetingWriters(r *Run) (*Found, int) {
	h := r.History
	byObject := map[string][]int{}
	exercised := 0
	for i := range h.Records {
		record := &h.Records[i]
		if record.Committed == 0 || record.Before == nil || record.After == nil {
			continue
		}
		name := objectOf(record)
		byObject[name] = append(byObject[name], i)
		if found := r.undone(byObject[name]); found != nil {
			return found, exercised + 1
		}
		if len(byObject[name]) == 2 {
			exercised++
		}
	}
	return nil, exercised
}

// undone looks whether the last of the commits to an object, and those of the same two actors before it, undo each other.
func (r *Run) undone(commits []int) *Found {
	if len(commits) < 2*fights {
		return nil
	}
	last := commits[len(commits)-2*fights:]
	a, b := &r.History.Records[last[0]], &r.History.Records[last[1]]
	if a.Event.Actor == b.Event.Actor || !a.OfProcess() && !b.OfProcess() {
		return nil
	}
	var hashes [2]uint64
	for i, at := range last {
		record := &r.History.Records[at]
		first := &r.History.Records[last[i%2]]
		if record.Event.Actor != first.Event.Actor {
			return nil
		}
		hash := content(record.After)
		if i < 2 {
			hashes[i] = hash
		} else if hash != hashes[i%2] {
			return nil
		}
	}
	if hashes[0] == hashes[1] {
		return nil
	}
	actors := sortedNames([]string{a.Event.Actor, b.Event.Actor})
	return &Found{At: r.History.Records[last[len(last)-1]].At,
		Values: []property.Value{{Path: "object", Value: objectOf(a)}, {Path: "actors", Value: actors[0] + ", " + actors[1]}},
		Note:   fmt.Sprintf("each undid what the other wrote %d times", fights)}
}

// statusOwners says who owns the status of built-in kinds: controllers of Kubernetes, which write all of it from what they know,
// and so lose what others write there. Kinds whose status others are meant to write as well are not among them: Node, Service,
// Ingress, PersistentVolume.
var statusOwners = map[string]string{
	"CronJob":                 "the CronJob controller",
	"DaemonSet":               "the DaemonSet controller",
	"Deployment":              "the Deployment controller",
	"HorizontalPodAutoscaler": "the HorizontalPodAutoscaler controller",
	"Job":                     "the Job controller",
	"Namespace":               "the namespace controller",
	"PersistentVolumeClaim":   "the volume controllers",
	"Pod":                     "the kubelet",
	"PodDisruptionBudget":     "the disruption controller",
	"ReplicaSet":              "the ReplicaSet controller",
	"ReplicationController":   "the ReplicationController controller",
	"StatefulSet":             "the StatefulSet controller",
}

// findForeignStatus finds an operator that writes the status of an object whose status belongs to a controller of Kubernetes.
func findForeignStatus(r *Run) (*Found, int) {
	exercised := 0
	for i := range r.History.Records {
		record := &r.History.Records[i]
		if !record.OfProcess() || !record.Event.Verb.IsWrite() {
			continue
		}
		exercised++
		owner, owned := statusOwners[record.Event.Kind]
		if !owned || record.Event.Subresource != "status" || record.Committed == 0 || readinessGatesOnly(record) {
			continue
		}
		return &Found{At: record.At, Values: []property.Value{about("write", record.Event.Base())},
			Note: "it belongs to " + owner}, exercised
	}
	return nil, exercised
}

// readinessGatesOnly reports whether a write to a pod's status changes nothing but conditions that its readiness gates ask for,
// which is what they are for.
func readinessGatesOnly(r *history.Record) bool {
	before, _ := r.Before.(*corev1.Pod)
	after, _ := r.After.(*corev1.Pod)
	if before == nil || after == nil {
		return false
	}
	gated := map[corev1.PodConditionType]bool{}
	for _, gate := range after.Spec.ReadinessGates {
		gated[gate.ConditionType] = true
	}
	without := func(pod *corev1.Pod) *corev1.PodStatus {
		status := pod.Status.DeepCopy()
		status.Conditions = nil
		for _, c := range pod.Status.Conditions {
			if !gated[c.Type] {
				status.Conditions = append(status.Conditions, c)
			}
		}
		return status
	}
	return canon.Equal(without(before), without(after))
}
