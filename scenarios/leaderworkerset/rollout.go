package leaderworkerset

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollout is how far the leaders' set is to be brought.
type rollout struct {
	// partition is the first group that is updated, replicas the number of groups with those beyond what the LWS asks for.
	partition, replicas int32
}

// partitionOf returns the first group that a set updates.
func partitionOf(set *appsv1.StatefulSet) int32 {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return *r.Partition
	}
	return 0
}

// rollout is step 5. Set is the leaders' set as it was found, key that of the revision to bring it to, and begins says that
// this revision is new.
func (p *pass) rollout(ctx context.Context, set *appsv1.StatefulSet, key string, begins bool) (rollout, error) {
	r, err := p.unboundedRollout(ctx, set, key, begins)
	r.partition = max(r.partition, *p.lws.Spec.RolloutStrategy.RollingUpdateConfiguration.Partition)
	return r, err
}

// unboundedRollout is rollout but for the partition that the LWS itself asks for.
func (p *pass) unboundedRollout(ctx context.Context, set *appsv1.StatefulSet, key string, begins bool) (rollout, error) {
	replicas := *p.lws.Spec.Replicas
	if set == nil {
		return rollout{replicas: replicas}, nil
	}
	config := p.lws.Spec.RolloutStrategy.RollingUpdateConfiguration
	surge, err := scaled(config.MaxSurge, replicas, true)
	if err != nil {
		return rollout{}, err
	}
	surge = min(surge, replicas)
	existing, partition := *set.Spec.Replicas, partitionOf(set)
	if begins { // scaling comes first
		return rollout{min(replicas, existing), p.wanted(replicas, surge)}, nil
	}
	if partition == 0 && existing == replicas {
		return rollout{replicas: replicas}, nil
	}
	groups, err := p.groups(ctx, existing, key)
	if err != nil {
		return rollout{}, err
	}
	unready := outstanding(groups, replicas)
	before, err := strconv.Atoi(set.Annotations[annotationReplicas])
	if err != nil {
		return rollout{}, err
	}
	if int32(before) != replicas { // scaled while an update is under way
		return rollout{min(partition, replicas+surge), p.wanted(unready, surge)}, nil
	}
	step, err := scaled(config.MaxUnavailable, replicas, false)
	if err != nil {
		return rollout{}, err
	}
	step += surge - (replicas + surge - existing)
	return rollout{min(nextPartition(groups, step), partition), p.wanted(unready, surge)}, nil
}

func scaled(value intstr.IntOrString, total int32, roundUp bool) (int32, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(total), roundUp)
	return int32(n), err
}

// wanted returns how many groups there are to be while so many are not yet ready and updated: those beyond replicas are given
// up one by one towards the end.
func (p *pass) wanted(unready, surge int32) int32 {
	replicas := *p.lws.Spec.Replicas
	if unready > surge {
		return replicas + surge
	}
	final := replicas + max(unready-1, 0)
	p.event(corev1.EventTypeNormal, reasonProgressing, "deleting surge replica %s-%d", p.lws.Name, final)
	return final
}

// group is the state of one group, which is that of its leader.
type group struct {
	ready, updated bool
}

// groups returns the states of so many groups.
func (p *pass) groups(ctx context.Context, n int32, key string) ([]group, error) {
	pods := &corev1.PodList{}
	if err := p.client.List(ctx, pods, client.InNamespace(p.lws.Namespace), client.MatchingLabels(p.leaders())); err != nil {
		return nil, err
	}
	// The sets of the workers; those of groups of one do not exist, but the original lists them all the same.
	sets := &appsv1.StatefulSetList{}
	if err := p.client.List(ctx, sets, client.InNamespace(p.lws.Namespace), client.MatchingLabels{labelName: p.lws.Name}); err != nil {
		return nil, err
	}
	groups := make([]group, n)
	for i := range pods.Items {
		pod := &pods.Items[i]
		index, err := strconv.Atoi(pod.Labels[labelGroupIndex])
		if err == nil && index < int(n) && pod.Name == fmt.Sprintf("%s-%d", p.lws.Name, index) {
			groups[index] = group{ready: runningAndReady(pod), updated: keyOf(pod) == key}
		}
	}
	return groups, nil
}

// outstanding counts the groups below replicas that are not ready and updated.
func outstanding(groups []group, replicas int32) (n int32) {
	for i := range replicas {
		if int(i) >= len(groups) || !groups[i].ready || !groups[i].updated {
			n++
		}
	}
	return n
}

// nextPartition returns the partition that lets step more groups be updated, from the last one down.
func nextPartition(groups []group, step int32) int32 {
	n := int32(len(groups))
	finished := int32(0)
	for finished < n && groups[n-1-finished].ready && groups[n-1-finished].updated {
		finished++
	}
	lowest := max(n-finished-step, 0)
	partition := lowest
	for _, g := range groups[:lowest] { // those that are unavailable already count against the step
		if !g.ready {
			partition++
		}
	}
	// To update what is not ready, or to pass over what is updated, makes nothing less available.
	for i := min(partition, n-1); i >= lowest && (!groups[i].ready || groups[i].updated); i-- {
		partition = i
	}
	return partition
}
