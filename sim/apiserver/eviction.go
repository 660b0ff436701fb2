package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// eviction is a request to evict a pod; pkg/registry/core/pod/storage/eviction.go of k8s.io/kubernetes v1.36. A real server
// reads and writes the pod and its budget one after another, so that others come in between, and repeats what collided. Here an
// eviction is one step: up to three commits in a row, the budget's, that of the pod's condition and that of the delete.
type eviction struct {
	server  *Server
	options metav1.DeleteOptions // as the client sent them
	dryRun  bool
	pod     *corev1.Pod // as it was when the request came
	done    int64       // the revision of the last commit
}

// doEviction answers a POST to pods/eviction. The request's object is a *policyv1.Eviction or a *policyv1beta1.Eviction.
func (s *Server) doEviction(req *Request) *Response {
	if req.Kind.order != podOrder {
		return failed(noSuchResource())
	}
	if req.Verb != schedule.Create {
		return failed(noSuchMethod())
	}
	body := req.Object
	switch body.(type) {
	case *policyv1.Eviction, *policyv1beta1.Eviction:
	default:
		return failed(badRequest("not a Eviction object: %T", body))
	}
	if err := placeIn(req.Namespace, body); err != nil {
		return failed(err)
	}
	if err := s.admitInto(req.Kind, req.Namespace, req.Name); err != nil {
		return failed(err)
	}
	if body.GetName() != req.Name {
		return failed(badRequest("name in URL does not match name in Eviction object"))
	}
	ev := &eviction{server: s}
	if err := ev.readOptions(req); err != nil {
		return failed(err)
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.Kind, req.Name))
	}
	ev.pod = e.object.(*corev1.Pod)
	if _, err := req.reviewForeign(policyv1.SchemeGroupVersion.WithKind("Eviction"), body, nil, ev.pod); err != nil {
		return failed(err)
	}
	response := ev.run()
	response.Committed, response.Revision = ev.done, ev.done
	if response.Err == nil {
		response.Before = ev.pod
	}
	return response
}

// readOptions takes the options of the delete from the eviction, and makes them one with those of the request.
func (ev *eviction) readOptions(req *Request) *statusError {
	var sent *metav1.DeleteOptions
	switch body := req.Object.(type) {
	case *policyv1.Eviction:
		sent = body.DeleteOptions
	case *policyv1beta1.Eviction:
		sent = body.DeleteOptions
	}
	if sent != nil {
		ev.options = *sent
	}
	if unsafe := ev.options.IgnoreStoreReadErrorWithClusterBreakingPotential; unsafe != nil && *unsafe {
		at := field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential")
		return apierrors.NewInvalid(schema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}, req.Name, field.ErrorList{
			field.Invalid(at, true, "can not be set for pod eviction, try after removing the option"),
		})
	}
	all := []string{metav1.DryRunAll}
	if req.DryRun && len(ev.options.DryRun) > 0 && !slices.Equal(ev.options.DryRun, all) {
		return plain(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", all, ev.options.DryRun))
	}
	ev.dryRun = req.DryRun || len(ev.options.DryRun) > 0
	return nil
}

// run evicts the pod, if its budget allows it.
func (ev *eviction) run() *Response {
	if ended := podEnded(ev.pod); ended || ev.pod.Status.Phase == corev1.PodPending {
		options := ev.options
		if !ended && !locksRevision(&options) {
			options = ev.pinned() // it may become ready in the meantime
		}
		return ev.remove(options) // its end disrupts nothing that a budget guards
	}
	budgets := ev.budgets()
	switch len(budgets) {
	case 0:
		return ev.remove(ev.options)
	case 1:
	default:
		return failed(&statusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}})
	}
	budget := budgets[0]
	if !podReady(ev.pod) && sparesUnready(budget) {
		response := ev.remove(ev.pinned())
		if apierrors.IsConflict(statusOf(response)) && !locksRevision(&ev.options) {
			return failed(budgetPending(budget.Name)) // the pod may have become ready in the meantime
		}
		return response
	}
	if err := ev.spend(budget); err != nil {
		return failed(err)
	}
	return ev.remove(ev.options)
}

// statusOf returns the error of a response as one that is nil on success.
func statusOf(response *Response) error {
	if response.Err == nil {
		return nil
	}
	return response.Err
}

// podEnded reports whether a pod has ended, or is about to.
func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// sparesUnready reports whether a budget lets go of a pod that is not ready without counting it.
func sparesUnready(budget *policyv1.PodDisruptionBudget) bool {
	policy, status := budget.Spec.UnhealthyPodEvictionPolicy, &budget.Status
	return policy != nil && *policy == policyv1.AlwaysAllow ||
		status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0
}

// budgets returns the budgets that guard the pod.
func (ev *eviction) budgets() []*policyv1.PodDisruptionBudget {
	var budgets []*policyv1.PodDisruptionBudget
	stored := ev.server.table(ev.server.kinds.rows[budgetOrder])
	for e := range stored.inNamespace(ev.pod.Namespace).entries() {
		budget := e.object.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(ev.pod.Labels)) {
			budgets = append(budgets, budget)
		}
	}
	return budgets
}

func locksRevision(options *metav1.DeleteOptions) bool {
	return options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
}

// pinned returns the options of the delete, bound to the pod as it was read.
func (ev *eviction) pinned() metav1.DeleteOptions {
	preconditions := metav1.Preconditions{ResourceVersion: &ev.pod.ResourceVersion}
	if ev.options.Preconditions != nil {
		preconditions.UID = ev.options.Preconditions.UID
	}
	options := ev.options
	options.Preconditions = &preconditions
	return options
}

// maxDisrupted is how many evicted pods a budget may have that its controller has not looked at: MaxDisruptedPodSize.
const maxDisrupted = 2000

// spend takes one disruption off the budget, or says why there is none; checkAndDecrement.
func (ev *eviction) spend(budget *policyv1.PodDisruptionBudget) *statusError {
	resource := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	switch status := &budget.Status; {
	case status.ObservedGeneration < budget.Generation:
		return budgetPending(budget.Name)
	case status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(resource, budget.Name, errors.New("pdb disruptions allowed is negative"))
	case len(status.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(resource, budget.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case status.DisruptionsAllowed == 0:
		return budgetExhausted(budget)
	}
	if ev.dryRun {
		return nil
	}
	s, k := ev.server, ev.server.kinds.rows[budgetOrder]
	spent := budget.DeepCopy()
	spent.Status.DisruptionsAllowed--
	if spent.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&spent.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.InsufficientPodsReason, Status: metav1.ConditionFalse,
			ObservedGeneration: spent.Status.ObservedGeneration, LastTransitionTime: s.timestamp(),
		})
	}
	if spent.Status.DisruptedPods == nil {
		spent.Status.DisruptedPods = map[string]metav1.Time{}
	}
	spent.Status.DisruptedPods[ev.pod.Name] = s.timestamp()
	response := s.update(&Request{
		Verb: schedule.Update, Kind: k, Namespace: spent.Namespace, Name: spent.Name, Subresource: "status", Object: spent,
		UserAgent: "kube-apiserver",
	})
	ev.done = max(ev.done, response.Committed)
	return response.Err
}

// budgetPending is an eviction that has to wait for the disruption controller; createTooManyRequestsError.
func budgetPending(budget string) *statusError {
	return overBudget(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

// budgetExhausted is an eviction of one pod too many. It tells nobody when to come back.
func budgetExhausted(budget *policyv1.PodDisruptionBudget) *statusError {
	status, name := &budget.Status, budget.Name
	reason, message := "", ""
	condition := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	if condition != nil && condition.Status == metav1.ConditionFalse {
		reason, message = condition.Reason, condition.Message
	}
	switch {
	case message != "" && reason == policyv1.SyncFailedReason:
		return overBudget(0, fmt.Sprintf(
			"The disruption budget %s does not allow evicting pods currently because it failed sync: %s", name, message))
	case status.CurrentHealthy <= status.DesiredHealthy:
		return overBudget(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			name, status.DesiredHealthy, status.CurrentHealthy))
	case message != "":
		return overBudget(0, fmt.Sprintf(
			"The disruption budget %s does not allow evicting pods currently (%s): %s", name, reason, message))
	default:
		return overBudget(0, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", name))
	}
}

func overBudget(retryAfter int, cause string) *statusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: cause}}
	return err
}

// remove notes in the pod's status that it is disrupted, and deletes it; addConditionAndDeletePod.
func (ev *eviction) remove(options metav1.DeleteOptions) *Response {
	s, k := ev.server, ev.server.kinds.rows[podOrder]
	e := s.table(k).get(ev.pod.Namespace, ev.pod.Name)
	if !ev.dryRun {
		if err := checkPreconditions(k, e, options.Preconditions); err != nil {
			return failed(err)
		}
		marked := ev.disrupted()
		ev.done = max(ev.done, s.write(k, k.resetForStatus(s, marked, ev.pod), ev.pod, false).Committed)
		e = s.table(k).get(ev.pod.Namespace, ev.pod.Name)
		if locksRevision(&options) {
			preconditions := *options.Preconditions
			revision := e.object.GetResourceVersion()
			preconditions.ResourceVersion, options.Preconditions = &revision, &preconditions
		}
	}
	if err := checkDeleteOptions(&options); err != nil {
		return failed(err)
	}
	response := s.deleteStored(&Request{Kind: k}, e, options, ev.dryRun)
	if response.Err != nil {
		return response
	}
	ev.done = max(ev.done, response.Committed)
	return &Response{Code: http.StatusCreated} // and a Status that says Success
}

// disrupted returns the pod with the condition of one that is evicted.
func (ev *eviction) disrupted() *corev1.Pod {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: ev.server.timestamp(),
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	}
	pod := *ev.pod
	pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return &pod
	}
	if old := pod.Status.Conditions[i]; old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	pod.Status.Conditions[i] = condition
	return &pod
}
