package racer

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// work is a cluster with a Job controller, a garbage collector and kubelets whose pods end after ten seconds.
type work struct {
	*driver
}

func newWork(t *testing.T, fails ...PodFailure) *work {
	w := &work{driver: newDriver(t, apiserver.V136)}
	w.start("jobs", NewJobController())
	w.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))
	w.start("kubelet", NewKubelet(KubeletOptions{
		Binds: true, CompletesAfter: 10 * time.Second, Fails: fails, TerminationAfter: 5 * time.Second,
	}))
	return w
}

// always and times are failures of the pods of the Job "work", and of one of its indexes.
func always() PodFailure { return times(0) }

func times(n int) PodFailure {
	return PodFailure{Labels: map[string]string{batchv1.JobNameLabel: "work"}, Times: n}
}

func atIndex(index string) PodFailure {
	return PodFailure{Labels: map[string]string{batchv1.JobCompletionIndexAnnotation: index}}
}

func newJob(edits ...func(*batchv1.JobSpec)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "work"}}
	job.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "c", Image: "busybox:1"}},
	}
	for _, edit := range edits {
		edit(&job.Spec)
	}
	return job
}

func inParallel(parallelism, completions int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = &parallelism, &completions }
}

func byIndex(s *batchv1.JobSpec) {
	mode := batchv1.IndexedCompletion
	s.CompletionMode = &mode
}

func limit(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.BackoffLimit = &n }
}

func inPlace(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }

// summary is what is left of the Job and its pods.
func (w *work) summary() string {
	var text strings.Builder
	if job, ok := w.get("Job", "work").(*batchv1.Job); ok {
		s := job.Status
		fmt.Fprintf(&text, "%d active %d succeeded %d failed", s.Active, s.Succeeded, s.Failed)
		if s.CompletedIndexes != "" {
			fmt.Fprintf(&text, " [%s]", s.CompletedIndexes)
		}
		if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
			fmt.Fprintf(&text, " %d uncounted", len(u.Succeeded)+len(u.Failed))
		}
		for _, c := range s.Conditions {
			fmt.Fprintf(&text, ", %s=%s %s", c.Type, c.Status, c.Reason)
		}
	} else {
		text.WriteString("gone")
	}
	phases := map[corev1.PodPhase]int{}
	held := 0
	for _, obj := range w.server.List(w.kind("Pod"), w.namespace) {
		pod := obj.(*corev1.Pod)
		phases[pod.Status.Phase]++
		if tracked(pod) {
			held++
		}
	}
	text.WriteString("; pods:")
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed} {
		if n := phases[phase]; n > 0 {
			fmt.Fprintf(&text, " %d %s", n, phase)
		}
	}
	if held > 0 {
		fmt.Fprintf(&text, ", %d with the finalizer", held)
	}
	return text.String()
}

const (
	completed = ", SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"
	exceeded  = ", FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded"
)

// jobTests are Jobs that are left alone, and what is left of them in the end on a real cluster.
var jobTests = map[string]struct {
	fails []PodFailure
	edits []func(*batchv1.JobSpec)
	want  string
}{
	"one pod": {want: "0 active 1 succeeded 0 failed" + completed + "; pods: 1 Succeeded"},
	"two of five at a time": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 5)},
		want:  "0 active 5 succeeded 0 failed" + completed + "; pods: 5 Succeeded",
	},
	"a queue of work": {
		edits: []func(*batchv1.JobSpec){inParallel(3, 0), func(s *batchv1.JobSpec) { s.Completions = nil }},
		want:  "0 active 3 succeeded 0 failed" + completed + "; pods: 3 Succeeded",
	},
	"nothing to do": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 0)},
		want:  "0 active 0 succeeded 0 failed" + completed + "; pods:",
	},
	"paused by parallelism": {
		edits: []func(*batchv1.JobSpec){inParallel(0, 2)},
		want:  "0 active 0 succeeded 0 failed; pods:",
	},
	"indexed": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 5), byIndex},
		want:  "0 active 5 succeeded 0 failed [0-4]" + completed + "; pods: 5 Succeeded",
	},
	"some fail": {
		fails: []PodFailure{times(2)}, edits: []func(*batchv1.JobSpec){inParallel(2, 3)},
		want: "0 active 3 succeeded 2 failed" + completed + "; pods: 3 Succeeded 2 Failed",
	},
	"all fail": {
		fails: []PodFailure{always()}, edits: []func(*batchv1.JobSpec){limit(2)},
		want: "0 active 0 succeeded 3 failed" + exceeded + "; pods: 3 Failed",
	},
	"not one may fail": {
		fails: []PodFailure{times(1)}, edits: []func(*batchv1.JobSpec){limit(0), inParallel(3, 3)},
		want: "0 active 2 succeeded 1 failed" + exceeded + "; pods: 2 Succeeded 1 Failed",
	},
	"an index fails": {
		fails: []PodFailure{atIndex("1")}, edits: []func(*batchv1.JobSpec){inParallel(3, 3), byIndex, limit(1)},
		want: "0 active 2 succeeded 2 failed [0,2]" + exceeded + "; pods: 2 Succeeded 2 Failed",
	},
	"restarted where it is": {
		fails: []PodFailure{times(2)}, edits: []func(*batchv1.JobSpec){inPlace},
		want: "0 active 1 succeeded 0 failed" + completed + "; pods: 1 Succeeded",
	},
	"restarted too often": {
		fails: []PodFailure{always()}, edits: []func(*batchv1.JobSpec){inPlace, limit(2)},
		want: "0 active 0 succeeded 1 failed" + exceeded + "; pods:",
	},
	"too late": {
		edits: []func(*batchv1.JobSpec){inParallel(1, 3), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = new(int64(15)) }},
		want: "0 active 1 succeeded 1 failed, FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded" +
			"; pods: 1 Succeeded",
	},
	"of another controller": {
		edits: []func(*batchv1.JobSpec){func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/other") }},
		want:  "0 active 0 succeeded 0 failed; pods:",
	},
	"suspended": {
		edits: []func(*batchv1.JobSpec){func(s *batchv1.JobSpec) { s.Suspend = new(true) }},
		want:  "0 active 0 succeeded 0 failed, Suspended=True JobSuspended; pods:",
	},
	"gone after its time": {
		edits: []func(*batchv1.JobSpec){func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = new(int32(60)) }},
		want:  "gone; pods:",
	},
}

func TestJobs(t *testing.T) {
	for name, tt := range jobTests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				w := newWork(t, tt.fails...)
				if seed > 0 {
					w.random = rand.New(rand.NewPCG(seed, 0))
				}
				w.after = w.checkActive
				w.create("Job", newJob(tt.edits...))
				w.settle()
				if got := w.summary(); got != tt.want {
					t.Fatalf("seed %d: %s, want %s", seed, got, tt.want)
				}
			}
		})
	}
}

// checkActive fails as soon as a Job has more pods at work than it may.
func (w *work) checkActive(actor string, r *apiserver.Request) {
	w.t.Helper()
	w.checkCounts(actor, r)
	active := 0
	for _, obj := range w.server.List(w.kind("Pod"), w.namespace) {
		if podActive(obj.(*corev1.Pod)) {
			active++
		}
	}
	if job, ok := w.get("Job", "work").(*batchv1.Job); ok && active > int(*job.Spec.Parallelism) {
		w.t.Fatalf("%d pods are active, more than %d:\n%s", active, *job.Spec.Parallelism, strings.Join(w.calls, "\n"))
	}
}

// checkCounts fails as soon as a Job counts what there never was.
func (w *work) checkCounts(string, *apiserver.Request) {
	w.t.Helper()
	job, ok := w.get("Job", "work").(*batchv1.Job)
	if !ok {
		return
	}
	ended := map[corev1.PodPhase]map[string]bool{}
	for _, event := range w.server.Log(w.kind("Pod")) {
		pod := event.Object.(*corev1.Pod)
		phase := pod.Status.Phase
		if terminating(pod) && phase != corev1.PodSucceeded {
			phase = corev1.PodFailed // a Job counts it before it has ended
		}
		if ended[phase] == nil {
			ended[phase] = map[string]bool{}
		}
		ended[phase][string(pod.UID)] = true
	}
	if n := int32(len(ended[corev1.PodSucceeded])); job.Status.Succeeded > n {
		w.t.Fatalf("%d counted as succeeded, of %d", job.Status.Succeeded, n)
	}
	if n := int32(len(ended[corev1.PodFailed])); job.Status.Failed > n {
		w.t.Fatalf("%d counted as failed, of %d", job.Status.Failed, n)
	}
}

// unlabel makes a pod one that the selector of its Job does not match.
const unlabel = `{"metadata":{"labels":{"` + batchv1.ControllerUidLabel + `":null,"controller-uid":null}}}`

// jobStepTests change Jobs and pods while they run, and then once more when nothing moves.
var jobStepTests = map[string]struct {
	edits []func(*batchv1.JobSpec)
	step  func(w *work)
	later func(w *work)
	want  string
}{
	"suspended and resumed": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 4)},
		step:  func(w *work) { w.patch("Job", "work", `{"spec":{"suspend":true}}`) },
		later: func(w *work) { w.patch("Job", "work", `{"spec":{"suspend":false}}`) },
		want:  "0 active 4 succeeded 0 failed, Suspended=False JobResumed" + completed + "; pods: 4 Succeeded",
	},
	"fewer at a time": {
		edits: []func(*batchv1.JobSpec){inParallel(3, 3)},
		step:  func(w *work) { w.patch("Job", "work", `{"spec":{"parallelism":1}}`) },
		want:  "0 active 3 succeeded 0 failed" + completed + "; pods: 3 Succeeded",
	},
	"fewer indexes": {
		edits: []func(*batchv1.JobSpec){inParallel(4, 4), byIndex},
		step:  func(w *work) { w.patch("Job", "work", `{"spec":{"parallelism":2,"completions":2}}`) },
		want:  "0 active 2 succeeded 0 failed [0,1]" + completed + "; pods: 2 Succeeded",
	},
	"a pod is deleted": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 2)},
		step:  func(w *work) { w.delete("Pod", w.names("Pod")[0], "") },
		want:  "0 active 2 succeeded 1 failed" + completed + "; pods: 2 Succeeded",
	},
	"a pod is deleted, and replaced only when it has ended": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 2), func(s *batchv1.JobSpec) { s.PodReplacementPolicy = new(batchv1.Failed) }},
		step:  func(w *work) { w.delete("Pod", w.names("Pod")[0], "") },
		want:  "0 active 2 succeeded 0 failed" + completed + "; pods: 1 Succeeded",
	},
	"a pod of an index is deleted": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 2), byIndex},
		step:  func(w *work) { w.delete("Pod", w.names("Pod")[0], "") },
		want:  "0 active 2 succeeded 1 failed [0,1]" + completed + "; pods: 2 Succeeded",
	},
	"deleted in the foreground": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 4)},
		step:  func(w *work) { w.delete("Job", "work", metav1.DeletePropagationForeground) },
		want:  "gone; pods:",
	},
	"deleted in the background": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 4)},
		step:  func(w *work) { w.delete("Job", "work", metav1.DeletePropagationBackground) },
		want:  "gone; pods:",
	},
	"its pods are orphaned": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 4)},
		step:  func(w *work) { w.delete("Job", "work", metav1.DeletePropagationOrphan) },
		want:  "gone; pods: 2 Succeeded",
	},
	"a pod is released": {
		edits: []func(*batchv1.JobSpec){inParallel(2, 2)},
		step:  func(w *work) { w.patch("Pod", w.names("Pod")[0], unlabel) },
		want:  "0 active 2 succeeded 0 failed" + completed + "; pods: 3 Succeeded",
	},
}

// TestJobSteps changes Jobs and pods while they run. What is left in the end is what real controllers leave, in any order of steps.
func TestJobSteps(t *testing.T) {
	for name, tt := range jobStepTests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				w := newWork(t)
				w.create("Job", newJob(tt.edits...))
				for len(w.names("Pod")) < int(*w.get("Job", "work").(*batchv1.Job).Spec.Parallelism) && w.step() {
				}
				for !podReady(w.server.List(w.kind("Pod"), w.namespace)[0].(*corev1.Pod)) && w.step() {
				}
				if seed > 0 {
					w.random = rand.New(rand.NewPCG(seed, 0))
				}
				tt.step(w)
				w.settle()
				if tt.later != nil {
					tt.later(w)
					w.settle()
				}
				if got := w.summary(); got != tt.want {
					t.Fatalf("seed %d: %s, want %s", seed, got, tt.want)
				}
			}
		})
	}
}

// TestJobCalls is the whole life of a Job whose first pod fails: what is written, in order.
func TestJobCalls(t *testing.T) {
	w := newWork(t, times(1))
	w.create("Job", newJob())
	w.settle()
	want := []string{
		"Create Pod ", "Update Job/status work", // 1 active
		"Update Job/status work",                                               // 1 ready
		"Update Job/status work", "Patch Pod work-0", "Update Job/status work", // to be counted; its finalizer; counted
		"Create Pod ", "Update Job/status work",
		"Update Job/status work",
		"Update Job/status work", "Patch Pod work-1", "Update Job/status work", // and complete
	}
	got := w.writes("jobs")
	for i, name := range slices.Collect(podNames(w)) {
		for j := range got {
			got[j] = strings.Replace(got[j], name, fmt.Sprintf("work-%d", i), 1)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// podNames are the names of all pods there ever were, in the order they were made.
func podNames(w *work) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, event := range w.server.Log(w.kind("Pod")) {
			if event.Type == apiserver.Added && !yield(event.Object.GetName()) {
				return
			}
		}
	}
}

// TestJobPods looks at a pod of an indexed Job.
func TestJobPods(t *testing.T) {
	w := newWork(t)
	job := newJob(inParallel(1, 1), byIndex)
	job.Spec.Template.Annotations = map[string]string{"a": "b"}
	w.create("Job", job)
	for len(w.names("Pod")) == 0 && w.step() {
	}
	pod := w.server.List(w.kind("Pod"), w.namespace)[0].(*corev1.Pod)
	if !strings.HasPrefix(pod.Name, "work-0-") || pod.Spec.Hostname != "work-0" || pod.Annotations["a"] != "b" ||
		pod.Labels[batchv1.JobCompletionIndexAnnotation] != "0" || indexOf(pod) != 0 || !tracked(pod) ||
		pod.Labels[batchv1.JobNameLabel] != "work" || pod.Spec.Containers[0].Env[0].Name != "JOB_COMPLETION_INDEX" {
		t.Errorf("pod %s", encode(t, pod))
	}
	if ref := metav1.GetControllerOf(pod); ref == nil || ref.Kind != "Job" || ref.UID != w.get("Job", "work").GetUID() {
		t.Errorf("owner %v", ref)
	}
}

// TestJobFaults lets a quarter of the requests fail for a while, half of those only after they were committed. A controller that was
// not told of a pod it has made may make one too many, which it deletes.
func TestJobFaults(t *testing.T) {
	for seed := range uint64(30) {
		w := newWork(t, times(1))
		w.random = rand.New(rand.NewPCG(seed, 1))
		w.refuse = faults(w.driver, rand.New(rand.NewPCG(seed, 2)), 60)
		w.after = w.checkCounts
		w.create("Job", newJob(inParallel(2, 3)))
		w.settle()
		want := "0 active 3 succeeded 1 failed" + completed + "; pods: 3 Succeeded 1 Failed"
		if got := w.summary(); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

// TestJobBrokenWatches has watches that break now and then.
func TestJobBrokenWatches(t *testing.T) {
	for seed := range uint64(20) {
		w := newWork(t, times(1))
		w.random = rand.New(rand.NewPCG(seed, 1))
		random := rand.New(rand.NewPCG(seed, 3))
		w.breaks = func() bool { return random.IntN(4) == 0 }
		w.after = w.checkCounts
		w.create("Job", newJob(inParallel(2, 3), byIndex))
		w.settle()
		want := "0 active 3 succeeded 1 failed [0-2]" + completed + "; pods: 3 Succeeded 1 Failed"
		if got := w.summary(); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
}
