package builtin

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PreparePod sets the status of a new pod and what the admission plugins Priority and DefaultTolerationSeconds add;
// pkg/registry/core/pod/strategy.go PrepareForCreate, plugin/pkg/admission/{priority,defaulttolerationseconds}. There is no
// ServiceAccount admission: no token volume is mounted.
func PreparePod(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QOSClass(pod)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
			LastTransitionTime: pod.CreationTimestamp,
		}}
	}
	if pod.Spec.PriorityClassName == "" {
		fillPointer(&pod.Spec.Priority, 0)
		fillPointer(&pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority)
	}
	TolerateBriefly(&pod.Spec)
}

// PreparePodUpdate carries over what the admission plugins gave a pod and an update leaves out.
func PreparePodUpdate(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
	TolerateBriefly(&pod.Spec)
}

// TolerateBriefly lets a pod stay a while on a node that does not answer.
func TolerateBriefly(spec *corev1.PodSpec) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerateBriefly(spec, key)
	}
}

// tolerateBriefly lets a pod stay five minutes on a node with a taint, unless it says itself how long.
func tolerateBriefly(spec *corev1.PodSpec, taint string) {
	const seconds = 300
	said := slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
	})
	if said {
		return
	}
	spec.Tolerations = append(slices.Clip(spec.Tolerations), corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(seconds)),
	})
}

// PreparePodStatus carries over what a write to the status of a pod may leave out; pkg/registry/core/pod/strategy.go
// podStatusStrategy.
func PreparePodStatus(pod, old *corev1.Pod, _ metav1.Time) {
	fill(&pod.Status.QOSClass, old.Status.QOSClass)
	fill(&pod.Status.ObservedGeneration, old.Status.ObservedGeneration)
}

// QOSClass returns the class of service that a pod's requests and limits put it in; pkg/apis/core/helper/qos/qos.go.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	requested, guaranteed := false, true
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := resources.Requests[name], resources.Limits[name]
				requested = requested || !request.IsZero() || !limit.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Cmp(limit) == 0)
			}
		}
	}
	switch {
	case !requested:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// RereadClaim reports that a new claim is stored without a phase, and read with one; pkg/apis/core/v1/defaults.go.
func RereadClaim(_, old *corev1.PersistentVolumeClaim) bool { return old == nil }

// PreparePersistentVolumeClaim sets the status of a new claim; pkg/registry/core/persistentvolumeclaim/strategy.go.
func PreparePersistentVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	normalizeDataSources(&claim.Spec, nil)
}

// PrepareNamespace sets the status of a new namespace and the finalizer of the namespace controller, and labels it with its name
// where that was generated, for defaulting came too early then; PrepareForCreate and Canonicalize of
// pkg/registry/core/namespace/strategy.go.
func PrepareNamespace(namespace *corev1.Namespace) {
	namespace.Labels = maps.Clone(namespace.Labels)
	DefaultNamespace(namespace, "")
	namespace.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// KeepNamespaceFinalizers carries over the finalizers of a namespace's spec, which only its subresource finalize changes;
// pkg/registry/core/namespace/strategy.go.
func KeepNamespaceFinalizers(namespace, old *corev1.Namespace) {
	namespace.Spec.Finalizers = old.Spec.Finalizers
}

// PodGracePeriod returns for how many seconds a delete leaves a pod in place, and whether it does so at all;
// pkg/registry/core/pod/strategy.go CheckGracefulDelete. A pod that no node has, or that has ended, goes at once.
func PodGracePeriod(pod *corev1.Pod, options *metav1.DeleteOptions) (seconds int64, graceful bool) {
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0, true
	case options != nil && options.GracePeriodSeconds != nil:
		seconds = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1 // a negative period means "as fast as gracefully possible"
	}
	return seconds, true
}
