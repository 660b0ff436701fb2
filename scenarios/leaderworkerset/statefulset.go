package leaderworkerset

import (
	"context"
	"encoding/json"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Labels and annotations of what belongs to an LWS, as the operator names them.
const (
	labelName          = "leaderworkerset.sigs.k8s.io/name"
	labelWorkerIndex   = "leaderworkerset.sigs.k8s.io/worker-index"
	labelGroupIndex    = "leaderworkerset.sigs.k8s.io/group-index"
	annotationSize     = "leaderworkerset.sigs.k8s.io/size"
	annotationReplicas = "leaderworkerset.sigs.k8s.io/replicas"
)

// fieldManager is what the operator applies as.
const fieldManager = "lws"

// leaders returns the labels of the leader pods.
func (p *pass) leaders() map[string]string {
	return map[string]string{labelName: p.lws.Name, labelWorkerIndex: "0"}
}

// getSet gets the leaders' set by its name; nil if there is none.
func (p *pass) getSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := p.client.Get(ctx, p.key, set); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return set, nil
}

// applySet is step 6.
func (p *pass) applySet(ctx context.Context, r rollout, key string) error {
	config, err := p.leaderSet(r, key)
	if err != nil {
		return err
	}
	return p.client.Apply(ctx, config, client.FieldOwner(fieldManager), client.ForceOwnership)
}

// leaderSet renders the leaders' set. It is applied without the fields that it does not name: of its owner references only
// that of this LWS, which takes the place of the one that was applied before.
func (p *pass) leaderSet(r rollout, key string) (*applyappsv1.StatefulSetApplyConfiguration, error) {
	spec := &p.lws.Spec
	template, err := applyTemplate(spec.LeaderWorkerTemplate.leader())
	if err != nil {
		return nil, err
	}
	template.WithLabels(p.leaders()).WithLabels(map[string]string{labelKey: key}).
		WithAnnotations(map[string]string{annotationSize: strconv.Itoa(int(*spec.LeaderWorkerTemplate.Size))})
	rolling := applyappsv1.RollingUpdateStatefulSetStrategy().
		WithMaxUnavailable(spec.RolloutStrategy.RollingUpdateConfiguration.MaxUnavailable).WithPartition(r.partition)
	strategy := applyappsv1.StatefulSetUpdateStrategy().
		WithType(appsv1.StatefulSetUpdateStrategyType(spec.RolloutStrategy.Type)).WithRollingUpdate(rolling)
	owner := applymetav1.OwnerReference().
		WithAPIVersion(GroupVersion.String()).WithKind(lwsKind.Kind).WithName(p.lws.Name).WithUID(p.lws.UID).
		WithBlockOwnerDeletion(true).WithController(true)
	return applyappsv1.StatefulSet(p.lws.Name, p.lws.Namespace).
		WithLabels(map[string]string{labelName: p.lws.Name, labelKey: key}).
		WithAnnotations(map[string]string{annotationReplicas: strconv.Itoa(int(*spec.Replicas))}).
		WithOwnerReferences(owner).
		WithSpec(applyappsv1.StatefulSetSpec().
			WithServiceName(p.lws.Name).
			WithReplicas(r.replicas).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithTemplate(template).
			WithUpdateStrategy(strategy).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(p.leaders()))), nil
}

func applyTemplate(template *corev1.PodTemplateSpec) (*applycorev1.PodTemplateSpecApplyConfiguration, error) {
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	config := applycorev1.PodTemplateSpec()
	return config, json.Unmarshal(text, config)
}

// createService is step 7: it creates the headless Service unless there is one of the name, whoever owns that.
func (p *pass) createService(ctx context.Context) error {
	if n := p.lws.Spec.NetworkConfig; n != nil && *n.SubdomainPolicy != subdomainShared {
		return nil
	}
	err := p.client.Get(ctx, p.key, &corev1.Service{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return p.client.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       p.lws.Namespace,
			Name:            p.lws.Name,
			Labels:          map[string]string{labelName: p.lws.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.lws, lwsKind)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 map[string]string{labelName: p.lws.Name},
			PublishNotReadyAddresses: true,
		},
	})
}
