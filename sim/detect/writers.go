package detect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// fights is how often each of two writers must have written its own value over that of the other.
const fights = 3

// findCompetingWriters finds two writers who give a field of an object their own value again and again, each over that of the
// other. One of them is an operator, or one of its controllers; the other may be anybody.
func findCompetingWriters(r *Run) (*Found, int) {
	exercised := 0
	var first *Found
	for _, commits := range r.contested() {
		exercised++
		found := r.fight(commits)
		if found != nil && (first == nil || found.At < first.At) {
			first = found
		}
	}
	return first, exercised
}

// contested returns the commits to each object that two writers changed often enough to fight over it.
func (r *Run) contested() [][]int {
	if _, most := r.writes(); most < fights {
		return nil
	}
	var order []object
	byObject := map[object][]int{}
	for i := range r.History.Records {
		record := &r.History.Records[i]
		if record.Committed == 0 || record.Before == nil || record.After == nil || r.beats(record.Event.Kind) {
			continue
		}
		name := objectOf(record)
		if byObject[name] == nil {
			order = append(order, name)
		}
		byObject[name] = append(byObject[name], i)
	}
	var contested [][]int
	for _, name := range order {
		writers, often := map[string]int{}, 0
		for _, i := range byObject[name] {
			by := writer(&r.History.Records[i].Event)
			if writers[by]++; writers[by] == fights {
				often++
			}
		}
		if often > 1 {
			contested = append(contested, byObject[name])
		}
	}
	return contested
}

// change is a change of one field.
type change struct {
	record int
	value  string
}

// fight looks for a field that two writers change in turns. To look into the objects is what takes time here.
func (r *Run) fight(commits []int) *Found {
	if !r.takeTurns(commits) {
		return nil
	}
	fields := map[string][]change{}
	var last apiserver.Object
	var after map[string]string
	for _, i := range commits {
		record := &r.History.Records[i]
		before := after
		if record.Before != last { // which it is, unless it was deleted and made again
			before = fieldsOf(record.Before)
		}
		last, after = record.After, fieldsOf(record.After)
		for _, path := range sortedKeys(before, after) {
			if before[path] == after[path] {
				continue
			}
			fields[path] = append(fields[path], change{i, after[path]})
			if changes := fields[path]; r.inTurns(changes) {
				return r.fought(path, changes)
			}
		}
	}
	return nil
}

// takeTurns reports whether two writers, one of them an operator, made commits in turns often enough to fight over a field, whatever
// it is that they changed.
func (r *Run) takeTurns(commits []int) bool {
	writers := make([]string, len(commits))
	operators := map[string]bool{}
	for n, i := range commits {
		record := &r.History.Records[i]
		writers[n] = writer(&record.Event)
		operators[writers[n]] = record.OfProcess()
	}
	for a, operator := range operators {
		for b := range operators {
			if operator && a != b && turns(writers, a, b) >= 2*fights {
				return true
			}
		}
	}
	return false
}

// turns counts how often it was the turn of one of two writers.
func turns(writers []string, a, b string) int {
	n, last := 0, ""
	for _, w := range writers {
		if (w == a || w == b) && w != last {
			n, last = n+1, w
		}
	}
	return n
}

// inTurns reports whether two writers made the last changes of a field in turns, each to a value of its own.
func (r *Run) inTurns(changes []change) bool {
	if len(changes) < 2*fights {
		return false
	}
	last := changes[len(changes)-2*fights:]
	by := func(c change) *history.Record { return &r.History.Records[c.record] }
	if writer(&by(last[0]).Event) == writer(&by(last[1]).Event) || !by(last[0]).OfProcess() && !by(last[1]).OfProcess() {
		return false
	}
	for i, c := range last {
		if before := last[i%2]; c.value != before.value || writer(&by(c).Event) != writer(&by(before).Event) {
			return false
		}
	}
	return true
}

func (r *Run) fought(path string, changes []change) *Found {
	last := &r.History.Records[changes[len(changes)-1].record]
	other := &r.History.Records[changes[len(changes)-2].record]
	actors := []string{writer(&last.Event), writer(&other.Event)}
	slices.Sort(actors)
	return &Found{At: last.At,
		Values: []property.Value{{Path: "object", Value: objectOf(last).String()}, {Path: "field", Value: path},
			{Path: "writers", Value: strings.Join(actors, ", ")}},
		Note: fmt.Sprintf("each wrote its own value over the other's %d times", fights)}
}

// fieldsOf returns what an object says, masked, by the paths of its fields.
func fieldsOf(obj apiserver.Object) map[string]string {
	fields := map[string]string{}
	flatten(fields, "", masked(obj).Object)
	return fields
}

func flatten(fields map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			flatten(fields, path+"."+name, field)
		}
	case []any:
		for i, item := range v {
			flatten(fields, path+"["+strconv.Itoa(i)+"]", item)
		}
	default:
		fields[strings.TrimPrefix(path, ".")] = fmt.Sprint(v)
	}
}

// statusOwners says who owns the status of built-in kinds: controllers of Kubernetes, which write all of it from what they know,
// and so lose what others write there. Kinds whose status others are meant to write as well are not among them: Node, Service,
// Ingress, PersistentVolume. Kinds without a subresource for the status have none that belongs to anybody.
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
		if !owned || record.Event.Subresource != "status" || record.Committed == 0 || mayWriteStatus(record) {
			continue
		}
		return &Found{At: record.At, Values: []property.Value{about("write", record.Event)}, Note: "it belongs to " + owner}, exercised
	}
	return nil, exercised
}

// mayWriteStatus reports whether the owner of a status leaves what was written to others: conditions of pods that the kubelet
// does not own, as those that readiness gates ask for, and the status of jobs that name another controller in spec.managedBy.
func mayWriteStatus(r *history.Record) bool {
	switch after := r.After.(type) {
	case *batchv1.Job:
		return after.Spec.ManagedBy != nil && *after.Spec.ManagedBy != batchv1.JobControllerName
	case *corev1.Pod:
		before, known := r.Before.(*corev1.Pod)
		return known && canon.Equal(kubeletStatus(before), kubeletStatus(after))
	default:
		return false
	}
}

// kubeletConditions are the conditions of a pod that the kubelet owns, and so overwrites (PodConditionByKubelet in
// pkg/kubelet/types/pod_status.go, 1.36), with that of the scheduler. It keeps others.
var kubeletConditions = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.PodReadyToStartContainers, corev1.ContainersReady,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// kubeletStatus returns a pod's status without the conditions that the kubelet leaves to others.
func kubeletStatus(pod *corev1.Pod) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return !slices.Contains(kubeletConditions, c.Type)
	})
	return status
}
