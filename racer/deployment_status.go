package racer

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// The reasons of the condition Progressing (pkg/controller/deployment/util, v1.36.3).
const (
	reasonCreated     = "NewReplicaSetCreated"
	reasonFound       = "FoundNewReplicaSet"
	reasonCreateError = "ReplicaSetCreateError"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// hasDeadline reports whether the Deployment is to tell if it makes no progress.
func hasDeadline(deployment *appsv1.Deployment) bool {
	deadline := deployment.Spec.ProgressDeadlineSeconds
	return deadline != nil && *deadline != math.MaxInt32
}

func deploymentCondition(status *appsv1.DeploymentStatus, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}

// setDeploymentCondition sets a condition that has another status or reason than before.
func setDeploymentCondition(status *appsv1.DeploymentStatus, condition appsv1.DeploymentCondition) {
	old := deploymentCondition(status, condition.Type)
	if old != nil && old.Status == condition.Status {
		if old.Reason == condition.Reason {
			return
		}
		condition.LastTransitionTime = old.LastTransitionTime
	}
	removeDeploymentCondition(status, condition.Type)
	status.Conditions = append(status.Conditions, condition)
}

func removeDeploymentCondition(status *appsv1.DeploymentStatus, conditionType appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c appsv1.DeploymentCondition) bool {
		return c.Type == conditionType
	})
}

func (s *deploymentSync) newCondition(conditionType appsv1.DeploymentConditionType, is corev1.ConditionStatus,
	reason, message string) appsv1.DeploymentCondition {
	now := metav1.NewTime(s.c.env.Now())
	return appsv1.DeploymentCondition{
		Type: conditionType, Status: is, LastUpdateTime: now, LastTransitionTime: now, Reason: reason, Message: message,
	}
}

func (s *deploymentSync) setProgressing(status *appsv1.DeploymentStatus, is corev1.ConditionStatus, reason, message string) {
	setDeploymentCondition(status, s.newCondition(appsv1.DeploymentProgressing, is, reason, message))
}

// complete reports whether all replicas are new and available, and no old ones are left: DeploymentComplete.
func complete(deployment *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	replicas := *deployment.Spec.Replicas
	return status.UpdatedReplicas == replicas && status.Replicas == replicas && status.AvailableReplicas == replicas &&
		status.ObservedGeneration >= deployment.Generation
}

// progresses reports whether a status says more than the one before: DeploymentProgressing.
func progresses(old, status *appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas > old.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		status.ReadyReplicas > old.ReadyReplicas || status.AvailableReplicas > old.AvailableReplicas
}

// computeStatus returns the status that the ReplicaSets make: calculateStatus.
func (s *deploymentSync) computeStatus() appsv1.DeploymentStatus {
	sum := total(s.all())
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  s.deployment.Generation,
		Replicas:            sum.replicas,
		ReadyReplicas:       sum.ready,
		AvailableReplicas:   sum.available,
		UnavailableReplicas: max(0, sum.wanted-sum.available),
		TerminatingReplicas: sum.terminating,
		CollisionCount:      s.deployment.Status.CollisionCount,
		Conditions:          slices.Clone(s.deployment.Status.Conditions),
	}
	if s.newSet != nil {
		status.UpdatedReplicas = s.newSet.Status.Replicas
	}
	if sum.available >= minAvailable(s.deployment) {
		setDeploymentCondition(&status, s.newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability."))
	} else {
		setDeploymentCondition(&status, s.newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability."))
	}
	return status
}

// writeStatus ends a sync that is no rollout.
func (s *deploymentSync) writeStatus(*apiserver.Response) (sim.Action, bool) {
	status := s.computeStatus()
	if equality.Semantic.DeepEqual(s.deployment.Status, status) {
		return s.c.done(s.key), true
	}
	s.deployment.Status = status
	return s.putStatus(deploymentLastAnswer)
}

// writeProgress ends a sync of a rollout.
func (s *deploymentSync) writeProgress(*apiserver.Response) (sim.Action, bool) {
	status := s.computeStatus()
	s.noteProgress(&status)
	if failure := s.replicaFailure(); failure != nil {
		setDeploymentCondition(&status, *failure)
	} else {
		removeDeploymentCondition(&status, appsv1.DeploymentReplicaFailure)
	}
	if equality.Semantic.DeepEqual(s.deployment.Status, status) {
		s.watchDeadline()
		return s.c.done(s.key), true
	}
	s.deployment.Status = status
	return s.putStatus(deploymentLastAnswer)
}

// noteProgress says in the condition Progressing how the rollout gets on, until it is complete.
func (s *deploymentSync) noteProgress(status *appsv1.DeploymentStatus) {
	if !hasDeadline(s.deployment) {
		removeDeploymentCondition(status, appsv1.DeploymentProgressing)
		return
	}
	current := deploymentCondition(&s.deployment.Status, appsv1.DeploymentProgressing)
	if current != nil && current.Reason == reasonAvailable && status.Replicas == status.UpdatedReplicas {
		return
	}
	subject := fmt.Sprintf("Deployment %q", s.deployment.Name)
	if s.newSet != nil {
		subject = fmt.Sprintf("ReplicaSet %q", s.newSet.Name)
	}
	switch {
	case complete(s.deployment, status):
		s.setProgressing(status, corev1.ConditionTrue, reasonAvailable, subject+" has successfully progressed.")
	case progresses(&s.deployment.Status, status):
		// Unlike any other condition, this one is renewed for the same reason: the deadline counts from it.
		condition := s.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, subject+" is progressing.")
		if current != nil && current.Status == corev1.ConditionTrue {
			condition.LastTransitionTime = current.LastTransitionTime
		}
		removeDeploymentCondition(status, appsv1.DeploymentProgressing)
		status.Conditions = append(status.Conditions, condition)
	case s.timedOut(deploymentCondition(status, appsv1.DeploymentProgressing)):
		s.setProgressing(status, corev1.ConditionFalse, reasonTimedOut, subject+" has timed out progressing.")
	}
}

// deadline returns when the rollout has to have made the next progress.
func (s *deploymentSync) deadline(condition *appsv1.DeploymentCondition) time.Time {
	return condition.LastUpdateTime.Add(time.Duration(*s.deployment.Spec.ProgressDeadlineSeconds) * time.Second)
}

// timedOut reports whether the deadline has passed: DeploymentTimedOut.
func (s *deploymentSync) timedOut(condition *appsv1.DeploymentCondition) bool {
	switch {
	case condition == nil, condition.Reason == reasonAvailable:
		return false
	case condition.Reason == reasonTimedOut:
		return true
	default:
		return s.deadline(condition).Before(s.c.env.Now())
	}
}

// watchDeadline has the Deployment looked at again when its deadline has passed, as no event says that: requeueStuckDeployment.
// In the last second before, and for as long as a deadline that has passed is not noted, upstream looks at it every 5 ms, to no
// effect; this one waits for the deadline or for an event.
func (s *deploymentSync) watchDeadline() {
	condition := deploymentCondition(&s.deployment.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(s.deployment) || condition == nil || complete(s.deployment, &s.deployment.Status) || condition.Reason == reasonTimedOut {
		return
	}
	switch left := s.deadline(condition).Sub(s.c.env.Now()); {
	case left < 0:
	case left < time.Second:
		s.c.queue.AddAfter(s.key, left+5*time.Millisecond)
	default:
		s.c.queue.AddAfter(s.key, left+time.Second)
	}
}

// replicaFailure returns the failure to create or delete pods that a ReplicaSet has noted, the new one first, or nil.
func (s *deploymentSync) replicaFailure() *appsv1.DeploymentCondition {
	sets := s.oldSets
	if s.newSet != nil {
		sets = slices.Insert(slices.Clone(sets), 0, s.newSet)
	}
	for _, set := range sets {
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, LastUpdateTime: c.LastTransitionTime,
					LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
				}
			}
		}
	}
	return nil
}
