package racer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// indexSet is a set of completion indexes, sorted.
type indexSet []int

func (s indexSet) has(index int) bool {
	_, found := slices.BinarySearch(s, index)
	return found
}

// with returns the set with more indexes in it.
func (s indexSet) with(more ...int) indexSet {
	all := append(slices.Clone(s), more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// String returns the set as a Job's status shows it: "1,3-5,7". Two neighbours have a comma between them.
func (s indexSet) String() string {
	var parts []string
	for i := 0; i < len(s); {
		first, last := s[i], s[i]
		for i++; i < len(s) && s[i] == last+1; i++ {
			last = s[i]
		}
		parts = append(parts, strconv.Itoa(first))
		switch last - first {
		case 0:
		case 1:
			parts = append(parts, strconv.Itoa(last))
		default:
			parts[len(parts)-1] += "-" + strconv.Itoa(last)
		}
	}
	return strings.Join(parts, ",")
}

// parseIndexes reads the text of a status. Indexes that the Job does not have any more, and what is no index, are passed over;
// parseIndexesFromString.
func parseIndexes(text string, completions int) indexSet {
	var set indexSet
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		if first >= completions {
			break
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		for i := first; i <= min(last, completions-1); i++ {
			set = append(set, i)
		}
	}
	return set.with()
}

// noIndex is the index of a pod that has none.
const noIndex = -1

// indexOf returns the completion index of a pod: getCompletionIndex.
func indexOf(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 {
		return noIndex
	}
	return index
}

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// replacesOnlyFailed reports whether a terminating pod is replaced only when it has failed: onlyReplaceFailedPods.
func replacesOnlyFailed(job *batchv1.Job) bool {
	policy := job.Spec.PodReplacementPolicy
	return policy != nil && *policy == batchv1.Failed
}

// podFailed reports whether a pod counts as failed for a Job: isPodFailed.
func podFailed(pod *corev1.Pod, job *batchv1.Job) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesOnlyFailed(job) && terminating(pod) && pod.Status.Phase != corev1.PodSucceeded
}

// excess returns the active pods that a Job is to delete, at least so many: activePodsForRemoval. Of an indexed Job these are, first
// of all, those without an index of its own, and all but one of each index.
func excess(job *batchv1.Job, active []*corev1.Pod, atLeast int) []*corev1.Pod {
	left := slices.Clone(active)
	var victims []*corev1.Pod
	if indexed(job) {
		victims, left = duplicates(left, int(*job.Spec.Completions))
	}
	if more := atLeast - len(victims); more > 0 {
		slices.SortStableFunc(left, compareActive)
		victims = append(victims, left[:more]...)
	}
	return victims
}

// duplicates divides the pods of an indexed Job: appendDuplicatedIndexPodsForRemoval.
func duplicates(pods []*corev1.Pod, completions int) (victims, left []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return indexOf(a) - indexOf(b) })
	for len(pods) > 0 {
		index, n := indexOf(pods[0]), 1
		for n < len(pods) && indexOf(pods[n]) == index {
			n++
		}
		same := pods[:n:n]
		pods = pods[n:]
		if index == noIndex || index >= completions {
			victims = append(victims, same...)
			continue
		}
		slices.SortStableFunc(same, compareActive)
		victims, left = append(victims, same[:n-1]...), append(left, same[n-1])
	}
	return victims, left
}

// newJobPod returns a pod for a Job, of a completion index or of none, as manageJob makes it.
func newJobPod(job *batchv1.Job, index int) *corev1.Pod {
	pod := podFromTemplate(&job.Spec.Template, job, jobGVK)
	if !tracked(pod) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index == noIndex {
		return pod
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			addIndexVariable(&containers[i])
		}
	}
	number := strconv.Itoa(index)
	pod.Labels = withEntry(pod.Labels, batchv1.JobCompletionIndexAnnotation, number)
	pod.Annotations = withEntry(pod.Annotations, batchv1.JobCompletionIndexAnnotation, number)
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", job.Name, index)
	suffix := fmt.Sprintf("-%d-", index)
	pod.GenerateName = job.Name[:min(len(job.Name), maxGeneratedName-len(suffix))] + suffix
	return pod
}

// maxGeneratedName is how much of a name with a generated end can be given: MaxGeneratedNameLength of k8s.io/apiserver.
const maxGeneratedName = 58

func addIndexVariable(container *corev1.Container) {
	const name = "JOB_COMPLETION_INDEX"
	if slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == name }) {
		return
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}})
}

// jobFailures is what the back-off between pods is computed from.
type jobFailures struct {
	sinceSuccess int
	last         time.Time
}

// The back-off between pods: DefaultJobPodFailureBackOff, MaxJobPodFailureBackOff.
const (
	podBackoffFirst = 10 * time.Second
	podBackoffLast  = 10 * time.Minute
)

// with returns the failures with pods that have ended since: newBackoffRecord.
func (f jobFailures) with(succeeded, failed []*corev1.Pod) jobFailures {
	latest := func(pods []*corev1.Pod) (at time.Time) {
		for _, pod := range pods {
			if ended := endedAt(pod); ended.After(at) {
				at = ended
			}
		}
		return at
	}
	if len(succeeded) == 0 {
		if len(failed) > 0 {
			f.sinceSuccess += len(failed)
			f.last = latest(failed)
		}
		return f
	}
	success := latest(succeeded)
	after := selectPods(failed, func(pod *corev1.Pod) bool { return endedAt(pod).After(success) })
	return jobFailures{len(after), latest(after)}
}

// wait returns how long to wait before there may be another pod: getRemainingTime.
func (f jobFailures) wait(now time.Time) time.Duration {
	if f.sinceSuccess == 0 {
		return 0
	}
	backoff := podBackoffFirst
	for i := 1; i < f.sinceSuccess && backoff < podBackoffLast; i++ {
		backoff = min(2*backoff, podBackoffLast)
	}
	return max(f.last.Add(backoff).Sub(now), 0)
}

// endedAt returns when a pod has ended, or failing that when it was deleted: getFinishedTime of backoff_utils.go.
func endedAt(pod *corev1.Pod) time.Time {
	var last time.Time
	for i := range pod.Status.ContainerStatuses {
		ended := pod.Status.ContainerStatuses[i].State.Terminated
		if ended == nil || ended.FinishedAt.IsZero() {
			last = time.Time{}
			break
		}
		if ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	if !last.IsZero() {
		return last
	}
	if ready := podCondition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionFalse &&
		!ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	if terminating(pod) {
		return pod.DeletionTimestamp.Add(-graceOf(pod))
	}
	return pod.CreationTimestamp.Time
}

// uidsOf returns the UIDs of a list.
func uidsOf(list []types.UID) map[types.UID]bool {
	set := map[types.UID]bool{}
	for _, uid := range list {
		set[uid] = true
	}
	return set
}
