package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// evictor is a cluster with one pod, "p", that runs on a node and is ready, and one budget, "b", that allows one disruption.
type evictor struct {
	*tester
	pods, budgets *Kind
}

func newEvictor(t *testing.T) *evictor {
	test := newTester(t)
	e := &evictor{tester: test, pods: test.kind("Pod"), budgets: test.kind("PodDisruptionBudget")}
	pod := newPod("p", "node1")
	pod.Labels = map[string]string{"app": "a"}
	e.create(pod)
	e.status(func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	e.budget("b", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
	return e
}

// budget makes a budget, or changes it, with its status as the disruption controller would have written it.
func (e *evictor) budget(name string, edit func(*policyv1.PodDisruptionBudget)) {
	e.Helper()
	if e.Get(e.budgets, "default", name) == nil {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		budget.Spec.MinAvailable = new(intstr.FromInt32(2))
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		e.create(budget)
		change(e.tester, "status", budget, func(b *policyv1.PodDisruptionBudget) {
			b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 2, CurrentHealthy: 3, ExpectedPods: 3}
		})
	}
	budget := e.Get(e.budgets, "default", name)
	for _, subresource := range []string{"", "status"} {
		change(e.tester, subresource, budget, edit)
	}
}

func (e *evictor) status(edit func(*corev1.PodStatus)) {
	e.Helper()
	change(e.tester, "status", e.Get(e.pods, "default", "p"), func(p *corev1.Pod) { edit(&p.Status) })
}

func (e *evictor) evict(edits ...func(*Request, *policyv1.Eviction)) *Response {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	req := &Request{Verb: schedule.Create, Kind: e.pods, Namespace: "default", Name: "p", Subresource: "eviction", Object: eviction}
	for _, edit := range edits {
		edit(req, eviction)
	}
	return e.Do(req)
}

func (e *evictor) pod() *corev1.Pod {
	pod, _ := e.Get(e.pods, "default", "p").(*corev1.Pod)
	return pod
}

func withOptions(options metav1.DeleteOptions) func(*Request, *policyv1.Eviction) {
	return func(_ *Request, eviction *policyv1.Eviction) { eviction.DeleteOptions = &options }
}

// outcome says what became of pod and budget: "evicted", "untouched" or "gone", and the disruptions that are left.
func (e *evictor) outcome() string {
	left := e.Get(e.budgets, "default", "b").(*policyv1.PodDisruptionBudget).Status
	what := "untouched"
	switch pod := e.pod(); {
	case pod == nil:
		what = "gone"
	case pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, disruptionTarget):
		what = "evicted"
	case pod.DeletionTimestamp != nil:
		what = "deleted"
	case slices.ContainsFunc(pod.Status.Conditions, disruptionTarget):
		what = "marked"
	}
	return fmt.Sprintf("%s, %d left, %d disrupted", what, left.DisruptionsAllowed, len(left.DisruptedPods))
}

func disruptionTarget(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" &&
		c.Message == "Eviction API: evicting"
}

func unready(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionFalse }

func inPhase(phase corev1.PodPhase) func(*evictor) {
	return func(e *evictor) { e.status(func(s *corev1.PodStatus) { s.Phase = phase }) }
}

func budgetWith(edit func(*policyv1.PodDisruptionBudget)) func(*evictor) {
	return func(e *evictor) { e.budget("b", edit) }
}

func exhausted(edit func(*policyv1.PodDisruptionBudgetStatus)) func(*evictor) {
	return budgetWith(func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed = 0
		edit(&b.Status)
	})
}

func disruptedPods(count int) func(*evictor) {
	return budgetWith(func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{}
		for i := range count {
			b.Status.DisruptedPods[fmt.Sprint("q", i)] = metav1.NewTime(fixedClock())
		}
	})
}

func refusing(reason, message string) []metav1.Condition {
	return []metav1.Condition{{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(fixedClock()),
	}}
}

const violates = "Cannot evict pod as it would violate the pod's disruption budget."

var anotherUID = metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}

// evictionCase is an eviction of the pod p of an [evictor].
type evictionCase struct {
	name    string
	given   func(*evictor)
	edit    func(*Request, *policyv1.Eviction)
	code    int
	message string
	cause   string // of an error; its type is DisruptionBudget
	retry   int32
	outcome string
}

var evictionCases = []evictionCase{
	{name: "allowed", code: 201, outcome: "evicted, 0 left, 1 disrupted"},
	{
		name: "no budget", code: 201, outcome: "evicted, 1 left, 0 disrupted",
		given: budgetWith(func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchLabels["app"] = "b"
			b.Status.ObservedGeneration = 2
		}),
	},
	{
		name: "a budget without a selector", code: 201, outcome: "evicted, 1 left, 0 disrupted",
		given: budgetWith(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil; b.Status.ObservedGeneration = 2 }),
	},
	{
		name: "a budget for all", code: 201, outcome: "evicted, 0 left, 1 disrupted",
		given: budgetWith(func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector, b.Status.ObservedGeneration = &metav1.LabelSelector{}, 2
		}),
	},
	{
		name: "two budgets", code: 500, outcome: "untouched, 1 left, 0 disrupted",
		given:   func(e *evictor) { e.budget("c", func(*policyv1.PodDisruptionBudget) {}) },
		message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	},
	{
		name: "not observed", code: 429, retry: 10, message: violates, outcome: "untouched, 1 left, 0 disrupted",
		cause: "The disruption budget b is still being processed by the server.",
		given: budgetWith(func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(3)) }),
	},
	{
		name: "too few healthy", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b needs 2 healthy pods and has 1 currently",
		given: exhausted(func(s *policyv1.PodDisruptionBudgetStatus) { s.CurrentHealthy = 1 }),
	},
	{
		name: "just enough healthy", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b needs 2 healthy pods and has 2 currently",
		given: exhausted(func(s *policyv1.PodDisruptionBudgetStatus) { s.CurrentHealthy = 2 }),
	},
	{
		name: "enough healthy", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b does not allow evicting pods currently",
		given: exhausted(func(*policyv1.PodDisruptionBudgetStatus) {}),
	},
	{
		name: "failed sync", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b does not allow evicting pods currently because it failed sync: found no controllers",
		given: exhausted(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.CurrentHealthy, s.Conditions = 0, refusing(policyv1.SyncFailedReason, "found no controllers")
		}),
	},
	{
		name: "another reason", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b does not allow evicting pods currently (Because): it is so",
		given: exhausted(func(s *policyv1.PodDisruptionBudgetStatus) { s.Conditions = refusing("Because", "it is so") }),
	},
	{name: "many disrupted", code: 201, outcome: "evicted, 0 left, 2001 disrupted", given: disruptedPods(2000)},
	{
		name: "too many disrupted", code: 403, outcome: "untouched, 1 left, 2001 disrupted",
		message: `poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller`,
		given:   disruptedPods(2001),
	},
	{name: "pending", given: inPhase(corev1.PodPending), code: 201, outcome: "evicted, 1 left, 0 disrupted"},
	{name: "succeeded", given: inPhase(corev1.PodSucceeded), code: 201, outcome: "gone, 1 left, 0 disrupted"},
	{name: "failed", given: inPhase(corev1.PodFailed), code: 201, outcome: "gone, 1 left, 0 disrupted"},
	{
		name: "terminating", code: 201, outcome: "evicted, 1 left, 0 disrupted",
		given: func(e *evictor) { e.remove(e.pod(), metav1.DeleteOptions{}) },
	},
	{
		name: "unready, budget met", code: 201, outcome: "evicted, 1 left, 0 disrupted",
		given: func(e *evictor) { e.status(unready) },
	},
	{
		name: "unready, budget not met", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b needs 2 healthy pods and has 1 currently",
		given: func(e *evictor) {
			e.status(unready)
			exhausted(func(s *policyv1.PodDisruptionBudgetStatus) { s.CurrentHealthy = 1 })(e)
		},
	},
	{
		name: "unready, nothing wanted", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b needs 0 healthy pods and has 0 currently",
		given: func(e *evictor) {
			e.status(unready)
			exhausted(func(s *policyv1.PodDisruptionBudgetStatus) { s.CurrentHealthy, s.DesiredHealthy = 0, 0 })(e)
		},
	},
	{
		name: "unready, always allowed", code: 201, outcome: "evicted, 0 left, 0 disrupted",
		given: func(e *evictor) {
			e.status(unready)
			e.budget("b", func(b *policyv1.PodDisruptionBudget) {
				b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
				b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = 0, 1
			})
		},
	},
	{
		name: "unready, another uid", code: 429, retry: 10, message: violates, outcome: "untouched, 1 left, 0 disrupted",
		cause: "The disruption budget b is still being processed by the server.",
		given: func(e *evictor) { e.status(unready) }, edit: withOptions(anotherUID),
	},
	{
		name: "unready, another uid, locked", code: 409, outcome: "untouched, 1 left, 0 disrupted",
		message: `Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not match the UID in record (UID). ` +
			`The object might have been deleted and then recreated`,
		given: func(e *evictor) { e.status(unready) },
		edit: withOptions(metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: new(types.UID("other")), ResourceVersion: new("1")},
		}),
	},
	{
		name: "another uid", code: 409, outcome: "untouched, 0 left, 1 disrupted", edit: withOptions(anotherUID),
		message: `Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not match the UID in record (UID). ` +
			`The object might have been deleted and then recreated`,
	},
	{
		name: "pending, another revision", code: 409, given: inPhase(corev1.PodPending), outcome: "untouched, 1 left, 0 disrupted",
		edit: withOptions(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}}),
		message: `Operation cannot be fulfilled on Pod "p": the ResourceVersion in the precondition (1) does not match the ` +
			`ResourceVersion in record (RV). The object might have been modified`,
	},
	{
		name: "grace 0", code: 201, outcome: "gone, 0 left, 1 disrupted",
		edit: withOptions(metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}),
	},
	{
		name: "dry run", code: 201, outcome: "untouched, 1 left, 0 disrupted",
		edit: func(r *Request, _ *policyv1.Eviction) { r.DryRun = true },
	},
	{
		name: "dry run in the body", code: 201, outcome: "untouched, 1 left, 0 disrupted",
		edit: withOptions(metav1.DeleteOptions{DryRun: []string{"All"}}),
	},
	{
		name: "dry run beyond the budget", code: 429, message: violates, outcome: "untouched, 0 left, 0 disrupted",
		cause: "The disruption budget b does not allow evicting pods currently",
		given: exhausted(func(*policyv1.PodDisruptionBudgetStatus) {}), edit: func(r *Request, _ *policyv1.Eviction) { r.DryRun = true },
	},
	{
		name: "two kinds of dry run", code: 500, outcome: "untouched, 1 left, 0 disrupted",
		message: "Non-matching dry-run options in request and content: [All] and [Some]",
		edit: func(r *Request, eviction *policyv1.Eviction) {
			r.DryRun, eviction.DeleteOptions = true, &metav1.DeleteOptions{DryRun: []string{"Some"}}
		},
	},
	{
		name: "no such pod", code: 404, message: `pods "q" not found`, outcome: "untouched, 1 left, 0 disrupted",
		edit: func(r *Request, eviction *policyv1.Eviction) { r.Name, eviction.Name = "q", "q" },
	},
	{
		name: "another name", code: 400, message: "name in URL does not match name in Eviction object",
		outcome: "untouched, 1 left, 0 disrupted", edit: func(_ *Request, eviction *policyv1.Eviction) { eviction.Name = "q" },
	},
	{
		name: "another namespace", code: 400, message: "the namespace of the provided object does not match the namespace sent on the request",
		outcome: "untouched, 1 left, 0 disrupted", edit: func(_ *Request, eviction *policyv1.Eviction) { eviction.Namespace = "x" },
	},
	{
		name: "no eviction", code: 400, message: "not a Eviction object: *v1.Pod", outcome: "untouched, 1 left, 0 disrupted",
		edit: func(r *Request, _ *policyv1.Eviction) { r.Object = newPod("p", "") },
	},
	{
		name: "an unsafe option", code: 422, outcome: "untouched, 1 left, 0 disrupted",
		message: `Eviction.policy "p" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: ` +
			`can not be set for pod eviction, try after removing the option`,
		edit: withOptions(metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}),
	},
	{
		name: "older version", code: 201, outcome: "evicted, 0 left, 1 disrupted",
		edit: func(r *Request, _ *policyv1.Eviction) {
			r.Object = &policyv1beta1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		},
	},
}

func TestEviction(t *testing.T) {
	for _, tt := range evictionCases {
		t.Run(tt.name, tt.run)
	}
}

func (tt evictionCase) run(t *testing.T) {
	e := newEvictor(t)
	if tt.given != nil {
		tt.given(e)
	}
	pod, before := e.pod(), e.Revision()
	var edits []func(*Request, *policyv1.Eviction)
	if tt.edit != nil {
		edits = append(edits, tt.edit)
	}
	response := e.evict(edits...)
	if got := e.outcome(); got != tt.outcome {
		t.Errorf("%s, want %s", got, tt.outcome)
	}
	if committed := e.Revision() != before; committed != (response.Committed != 0) || committed && response.Committed != e.Revision() {
		t.Errorf("committed at %d, the server went from %d to %d", response.Committed, before, e.Revision())
	}
	if tt.message == "" {
		if response.Code != tt.code || response.Err != nil || response.Object != nil {
			t.Fatalf("%d %v %v, want %d and no object", response.Code, response.Err, response.Object, tt.code)
		}
		return
	}
	status := response.Err.ErrStatus
	want := strings.NewReplacer("(UID)", "("+string(pod.UID)+")", "(RV)", "("+pod.ResourceVersion+")").Replace(tt.message)
	if status.Code != int32(tt.code) || status.Message != want {
		t.Errorf("%d %s, want %d %s", status.Code, status.Message, tt.code, want)
	}
	if tt.cause != "" && (len(status.Details.Causes) != 1 || status.Details.Causes[0].Message != tt.cause ||
		status.Details.Causes[0].Type != policyv1.DisruptionBudgetCause) {
		t.Errorf("causes %+v, want %s", status.Details.Causes, tt.cause)
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds != tt.retry {
		t.Errorf("retry after %d seconds, want %d", d.RetryAfterSeconds, tt.retry)
	}
}

// TestEvictionCommits checks the commits that an eviction makes, and what a second one finds.
func TestEvictionCommits(t *testing.T) {
	e := newEvictor(t)
	before := e.Revision()
	response := e.evict()
	if response.Err != nil || response.Committed != before+3 {
		t.Fatalf("%v, committed at %d, want 3 commits after %d", response.Err, response.Committed, before)
	}
	budget := e.Get(e.budgets, "default", "b").(*policyv1.PodDisruptionBudget)
	if at := budget.Status.DisruptedPods["p"]; !at.Time.Equal(e.time) {
		t.Errorf("disrupted at %v, want %v", at, e.time)
	}
	c := budget.Status.Conditions
	if len(c) != 1 || c[0].Type != "DisruptionAllowed" || c[0].Status != "False" || c[0].Reason != "InsufficientPods" {
		t.Errorf("conditions of the budget %+v", c)
	}
	log := e.Log(e.pods)
	marked, deleted := log[len(log)-2].Object.(*corev1.Pod), log[len(log)-1].Object.(*corev1.Pod)
	if marked.DeletionTimestamp != nil || !disruptionTarget(marked.Status.Conditions[1]) {
		t.Errorf("first the condition: %+v", marked)
	}
	if *deleted.DeletionGracePeriodSeconds != 30 || deleted.Generation != 2 {
		t.Errorf("then the delete: %+v", deleted.ObjectMeta)
	}
	if again := e.evict(); again.Err != nil || again.Committed != 0 {
		t.Errorf("a second eviction: %v, committed at %d", again.Err, again.Committed)
	}
	if budget := e.Get(e.budgets, "default", "b").(*policyv1.PodDisruptionBudget); budget.Status.DisruptionsAllowed != 0 {
		t.Errorf("it went over budget: %+v", budget.Status)
	}
}

// TestEvictionHeld evicts a pod with a finalizer, and one that keeps its revision as a precondition.
func TestEvictionHeld(t *testing.T) {
	e := newEvictor(t)
	change(e.tester, "", e.pod(), func(p *corev1.Pod) { p.Finalizers = []string{"e.x/f"} })
	revision := e.pod().ResourceVersion
	options := metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{ResourceVersion: &revision, UID: &e.pod().UID},
	}
	if response := e.evict(withOptions(options)); response.Err != nil {
		t.Fatal(response.Err)
	}
	if pod := e.pod(); pod == nil || *pod.DeletionGracePeriodSeconds != 0 || revision != *options.Preconditions.ResourceVersion {
		t.Errorf("%+v, or the options were written to", pod)
	}
}

// TestEvictionConditionTime: the condition of a pod that was disrupted before keeps its time, one that turns true gets a new one.
func TestEvictionConditionTime(t *testing.T) {
	earlier := metav1.NewTime(fixedClock().Add(-time.Hour))
	for was, want := range map[corev1.ConditionStatus]time.Time{
		corev1.ConditionTrue:  earlier.Time,
		corev1.ConditionFalse: fixedClock(),
	} {
		e := newEvictor(t)
		e.status(func(s *corev1.PodStatus) {
			s.Conditions = append(s.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: was, Reason: "Before", LastTransitionTime: earlier,
			})
		})
		if err := e.evict().Err; err != nil {
			t.Fatal(err)
		}
		conditions := e.pod().Status.Conditions
		if got := conditions[len(conditions)-1]; !disruptionTarget(got) || !got.LastTransitionTime.Time.Equal(want) {
			t.Errorf("was %s: %+v, want one since %s", was, got, want)
		}
	}
}

// TestEvictionVerbs checks that nothing but a POST is taken, and by pods only.
func TestEvictionVerbs(t *testing.T) {
	e := newEvictor(t)
	for verb, code := range map[schedule.Verb]int{schedule.Get: 405, schedule.Delete: 405} {
		if response := e.evict(func(r *Request, _ *policyv1.Eviction) { r.Verb = verb }); response.Code != code {
			t.Errorf("%s: %d, want %d", verb, response.Code, code)
		}
	}
	if response := e.evict(func(r *Request, _ *policyv1.Eviction) { r.Kind = e.kind("ConfigMap") }); response.Code != 404 {
		t.Errorf("of a ConfigMap: %d, want 404", response.Code)
	}
}
