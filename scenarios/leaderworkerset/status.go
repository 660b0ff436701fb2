package leaderworkerset

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The types of an LWS's conditions. Available excludes the other two.
const (
	conditionAvailable   = "Available"
	conditionProgressing = "Progressing"
	conditionUpdating    = "UpdateInProgress"
)

// updateStatus is step 8. It reports whether all groups are updated and ready.
func (p *pass) updateStatus(ctx context.Context, key string) (done bool, err error) {
	set := &appsv1.StatefulSet{}
	if err := p.client.Get(ctx, p.key, set); err != nil {
		return false, err // NotFound, too: a cache that does not have the new set yet
	}
	status := &p.lws.Status
	changed := assign(&status.Replicas, set.Status.Replicas)
	if status.HPAPodSelector == "" {
		status.HPAPodSelector = labels.SelectorFromSet(p.leaders()).String()
		changed = true
	}
	pods := &corev1.PodList{}
	if err := p.client.List(ctx, pods, client.InNamespace(p.lws.Namespace), client.MatchingLabels(p.leaders())); err != nil {
		return false, err
	}
	t, err := p.tally(pods.Items, key)
	if err != nil {
		return false, err
	}
	changed = assign(&status.ReadyReplicas, t.ready) || changed
	changed = assign(&status.UpdatedReplicas, t.updated) || changed
	conditions := t.conditions(*p.lws.Spec.Replicas)
	if setConditions(status, conditions) {
		changed = true
		p.event(corev1.EventTypeNormal, conditions[0].Reason, "%s, with %d groups ready of total %d groups",
			conditions[0].Message, t.ready, *p.lws.Spec.Replicas)
	}
	if changed {
		if err := p.client.Status().Update(ctx, p.lws); err != nil {
			return false, err
		}
	}
	return *p.lws.Spec.RolloutStrategy.RollingUpdateConfiguration.Partition == 0 && t.inPartDone == *p.lws.Spec.Replicas, nil
}

// assign sets a field, and reports whether that changes it.
func assign(field *int32, value int32) bool {
	changed := *field != value
	*field = value
	return changed
}

// tally counts groups by their leaders: all, those that the LWS asks for, and of these the ones that are to be updated.
type tally struct {
	ready, updated                int32
	wantedReady                   int32
	inPart, inPartNew, inPartDone int32
}

func (p *pass) tally(pods []corev1.Pod, key string) (t tally, err error) {
	partition := *p.lws.Spec.RolloutStrategy.RollingUpdateConfiguration.Partition
	for i := range pods {
		pod := &pods[i]
		index, err := strconv.Atoi(pod.Labels[labelGroupIndex])
		if err != nil {
			return t, err
		}
		wanted := index < int(*p.lws.Spec.Replicas)
		inPart := wanted && index >= int(partition)
		ready, updated := runningAndReady(pod), keyOf(pod) == key
		t.ready += one(ready)
		t.updated += one(updated)
		t.wantedReady += one(wanted && ready)
		t.inPart += one(inPart)
		t.inPartNew += one(inPart && updated)
		t.inPartDone += one(inPart && updated && ready)
	}
	return t, nil
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// conditions returns the conditions that are true.
func (t tally) conditions(replicas int32) []metav1.Condition {
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now()}
	}
	progressing := condition(conditionProgressing, reasonProgressing, "Replicas are progressing")
	switch {
	case t.inPartNew < t.inPart:
		return []metav1.Condition{condition(conditionUpdating, reasonUpdating, "Rolling Upgrade is in progress"), progressing}
	case t.wantedReady == replicas && t.inPartDone == t.inPart:
		return []metav1.Condition{condition(conditionAvailable, "AllGroupsReady", "All replicas are ready")}
	default:
		return []metav1.Condition{progressing}
	}
}

// setConditions sets conditions up to the first that changes something, as the original does, and reports whether one did.
func setConditions(status *Status, conditions []metav1.Condition) bool {
	for _, c := range conditions {
		if setCondition(status, c) {
			return true
		}
	}
	return false
}

// setCondition sets a condition that is true, and makes those false that it excludes. It reports whether something changed.
func setCondition(status *Status, c metav1.Condition) (changed bool) {
	found := false
	for i := range status.Conditions {
		current := &status.Conditions[i]
		switch {
		case current.Type == c.Type:
			found = true
			if current.Status != c.Status {
				*current = c
				changed = true
			}
		case (current.Type == conditionAvailable || c.Type == conditionAvailable) && current.Status == metav1.ConditionTrue:
			current.Status = metav1.ConditionFalse
			changed = true
		}
	}
	if !found {
		status.Conditions = append(status.Conditions, c)
		changed = true
	}
	return changed
}

func runningAndReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return pod.Status.Phase == corev1.PodRunning && c.Status == corev1.ConditionTrue
		}
	}
	return false
}
