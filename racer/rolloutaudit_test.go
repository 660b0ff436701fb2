package racer

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// auditedReplicas is a pass of the ReplicaSet controller whose requests are checked.
type auditedReplicas struct {
	*replicaSync
	audit *audit
}

func (s *auditedReplicas) Next(resp *apiserver.Response) sim.Action {
	action := s.replicaSync.Next(resp)
	r, _, _ := action.Parts()
	switch {
	case r == nil:
	case r.Kind.Kind == "Pod" && r.Verb == schedule.Create:
		s.checkCreate(r.Object.(*corev1.Pod))
	case r.Kind.Kind == "Pod" && r.Verb == schedule.Delete:
		if s.set.DeletionTimestamp != nil || len(s.active)-s.next <= int(*s.set.Spec.Replicas) {
			s.audit.errorf("pod %s is deleted, number %d of %d, and %d are wanted", r.Name, s.next+1, len(s.active), *s.set.Spec.Replicas)
		}
	case r.Subresource == "status":
		s.checkStatus(&r.Object.(*appsv1.ReplicaSet).Status)
	}
	return action
}

func (s *auditedReplicas) checkCreate(pod *corev1.Pod) {
	ref := metav1.GetControllerOf(pod)
	switch {
	case s.set.DeletionTimestamp != nil:
		s.audit.errorf("a pod is created for %s, which is being deleted", s.set.Name)
	case ref == nil || ref.UID != s.set.UID:
		s.audit.errorf("a pod is created with the controller %v, want the ReplicaSet %s", ref, s.set.UID)
	case len(s.active)+s.next >= int(*s.set.Spec.Replicas):
		s.audit.errorf("pod number %d of %s is created, and %d are wanted", len(s.active)+s.next+1, s.set.Name, *s.set.Spec.Replicas)
	}
}

func (s *auditedReplicas) checkStatus(status *appsv1.ReplicaSetStatus) {
	if status.ObservedGeneration != s.set.Generation {
		s.audit.errorf("status of %s observes generation %d, of %d", s.set.Name, status.ObservedGeneration, s.set.Generation)
	}
	if status.AvailableReplicas < 0 || status.AvailableReplicas > status.ReadyReplicas || status.ReadyReplicas > status.Replicas ||
		status.FullyLabeledReplicas > status.Replicas || int(status.Replicas) != len(s.active) {
		s.audit.errorf("status of %s, with %d pods, is %s", s.set.Name, len(s.active), replicaSetText(status))
	}
}

// auditedRollout is a pass of the Deployment controller whose requests are checked.
type auditedRollout struct {
	*deploymentSync
	audit *audit
}

func (s *auditedRollout) Next(resp *apiserver.Response) sim.Action {
	action := s.deploymentSync.Next(resp)
	r, _, _ := action.Parts()
	if r == nil || r.Kind.Kind != "ReplicaSet" {
		return action
	}
	if r.Verb.IsWrite() && s.deployment.DeletionTimestamp != nil {
		s.audit.errorf("ReplicaSet %s is written to, and its Deployment is being deleted", r.Name)
	}
	switch r.Verb {
	case schedule.Create:
		s.checkSizes(*r.Object.(*appsv1.ReplicaSet).Spec.Replicas, nil)
	case schedule.Delete:
		s.checkUnused(r.Name)
	case schedule.Update:
		s.checkSize(r.Object.(*appsv1.ReplicaSet))
	default:
	}
	return action
}

func (s *auditedRollout) checkSize(set *appsv1.ReplicaSet) {
	for _, before := range s.all() {
		if before.UID != set.UID {
			continue
		}
		switch {
		case *set.Spec.Replicas > *before.Spec.Replicas && s.stage == deploymentGrown:
			s.checkSizes(*set.Spec.Replicas-*before.Spec.Replicas, set)
		case *set.Spec.Replicas < *before.Spec.Replicas && s.stage == deploymentShrunk:
			s.checkAvailable(set)
		}
	}
}

// checkSizes checks that a rolling update has no more pods than it may have, and one that recreates no old ones besides new ones.
func (s *auditedRollout) checkSizes(more int32, grown *appsv1.ReplicaSet) {
	wanted := more
	for _, set := range s.sets {
		wanted += *set.Spec.Replicas
	}
	if allowed := *s.deployment.Spec.Replicas + maxSurge(s.deployment); more > 0 && wanted > allowed {
		s.audit.errorf("the ReplicaSets are to have %d pods (%v grows), and at most %d are allowed", wanted, grown, allowed)
	}
	if !rolling(s.deployment) && s.oldPodsRun() {
		s.audit.errorf("a ReplicaSet grows while old pods run, and the strategy is to recreate")
	}
}

// checkAvailable checks that a rolling update leaves as many pods available as there have to be, even if it is these that go.
func (s *auditedRollout) checkAvailable(shrunk *appsv1.ReplicaSet) {
	available := s.newSet.Status.AvailableReplicas
	for _, next := range s.scales {
		size := *next.set.Spec.Replicas
		if next.set.UID == shrunk.UID {
			size = *shrunk.Spec.Replicas
		}
		available += min(size, next.set.Status.AvailableReplicas)
	}
	if least := minAvailable(s.deployment); available < least {
		s.audit.errorf("ReplicaSet %s shrinks to %d, which leaves %d available, and there have to be %d",
			shrunk.Name, *shrunk.Spec.Replicas, available, least)
	}
}

func (s *auditedRollout) checkUnused(name string) {
	for _, set := range s.sets {
		if set.Name == name && (set.Status.Replicas > 0 || isActive(set) || set == s.newSet) {
			s.audit.errorf("ReplicaSet %s is deleted, and in use", name)
		}
	}
}
