package leaderworkerset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// subdomainShared has all groups share one headless Service.
const subdomainShared = "Shared"

// serveWebhooks registers the operator's mutating webhooks, of which objects/webhooks.yaml tells the API server.
func serveWebhooks(m ctrl.Manager) error {
	return errors.Join(
		ctrl.NewWebhookManagedBy(m, &LeaderWorkerSet{}).WithDefaulter(lwsDefaults{}).Complete(),
		ctrl.NewWebhookManagedBy(m, &corev1.Pod{}).WithDefaulter(podDefaults{}).Complete(),
	)
}

// lwsDefaults fills in what the controller relies on.
type lwsDefaults struct{}

// Default implements admission.Defaulter.
func (lwsDefaults) Default(_ context.Context, lws *LeaderWorkerSet) error {
	spec := &lws.Spec
	setDefault(&spec.Replicas, 1)
	setDefault(&spec.LeaderWorkerTemplate.Size, 1)
	if spec.LeaderWorkerTemplate.RestartPolicy == "" {
		spec.LeaderWorkerTemplate.RestartPolicy = "RecreateGroupOnPodRestart"
	}
	if spec.RolloutStrategy.Type == "" {
		spec.RolloutStrategy.Type = string(appsv1.RollingUpdateStatefulSetStrategyType)
	}
	setDefault(&spec.RolloutStrategy.RollingUpdateConfiguration, RollingUpdateConfiguration{MaxUnavailable: intstr.FromInt32(1)})
	setDefault(&spec.RolloutStrategy.RollingUpdateConfiguration.Partition, 0)
	setDefault(&spec.NetworkConfig, NetworkConfig{})
	setDefault(&spec.NetworkConfig.SubdomainPolicy, subdomainShared)
	return nil
}

// setDefault sets a field that is nil.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// podDefaults labels leaders with the index of their group.
type podDefaults struct{}

// Default implements admission.Defaulter.
func (podDefaults) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Labels[labelName] == "" || pod.Labels[labelWorkerIndex] != "0" || pod.Labels[labelGroupIndex] != "" {
		return nil
	}
	ordinal := pod.Name[strings.LastIndex(pod.Name, "-")+1:]
	if ordinal == "" || strings.Trim(ordinal, "0123456789") != "" {
		return fmt.Errorf("pod %s: its name must end in an ordinal", pod.Name)
	}
	pod.Labels[labelGroupIndex] = ordinal
	return nil
}
