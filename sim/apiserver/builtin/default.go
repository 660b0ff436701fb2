package builtin

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultStatefulSet fills in defaults: pkg/apis/apps/v1/defaults.go SetDefaults_StatefulSet and what
// zz_generated.defaults.go adds for the pod template and the claim templates. An update strategy whose type is given
// stays without rollingUpdate, which the controller treats differently from an empty one.
func DefaultStatefulSet(set *appsv1.StatefulSet, version string) {
	spec := &set.Spec
	fill(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	defaultUpdateStrategy(&spec.UpdateStrategy, version)
	fillPointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fillPointer(&spec.Replicas, 1)
	fillPointer(&spec.RevisionHistoryLimit, 10)
	defaultPodSpec(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		DefaultPersistentVolumeClaim(claim, version)
		// Not a default but the conversion from the internal form: a served claim template names its type.
		claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
	}
}

// defaultUpdateStrategy knows of maxUnavailable from 1.37 on, where the gate MaxUnavailableStatefulSet is on.
func defaultUpdateStrategy(strategy *appsv1.StatefulSetUpdateStrategy, version string) {
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		fillPointer(&strategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	rolling := strategy.RollingUpdate
	if rolling == nil {
		return
	}
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return
	}
	fillPointer(&rolling.Partition, 0)
	if since(version, 37) {
		fillPointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
}

// DefaultControllerRevision does nothing: the kind has no defaults.
func DefaultControllerRevision(*appsv1.ControllerRevision, string) {}

// DefaultPersistentVolumeClaim fills in defaults: pkg/apis/core/v1/defaults.go.
func DefaultPersistentVolumeClaim(claim *corev1.PersistentVolumeClaim, _ string) {
	fill(&claim.Status.Phase, corev1.ClaimPending)
	defaultClaimSpec(&claim.Spec)
	defaultAmounts(claim.Status.Capacity)
	defaultAmounts(claim.Status.AllocatedResources)
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	fillPointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	defaultAmounts(spec.Resources.Limits)
	defaultAmounts(spec.Resources.Requests)
}

// DefaultConfigMap does nothing that a client could see: the empty data it sets is not sent. pkg/apis/core/v1/defaults.go.
func DefaultConfigMap(*corev1.ConfigMap, string) {}

// DefaultSecret fills in the type and moves stringData, which is never stored, into data; pkg/apis/core/v1/defaults.go and
// conversion.go.
func DefaultSecret(secret *corev1.Secret, _ string) {
	fill(&secret.Type, corev1.SecretTypeOpaque)
	if len(secret.StringData) == 0 {
		secret.StringData = nil
		return
	}
	data := maps.Clone(secret.Data) // it may be shared with a stored object
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		data[key] = []byte(value)
	}
	secret.Data, secret.StringData = data, nil
}

// DefaultService fills in defaults: pkg/apis/core/v1/defaults.go. The addresses of a service are no defaults but are
// allocated once, see [PrepareService].
func DefaultService(service *corev1.Service, _ string) {
	spec := &service.Spec
	fill(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch affinity := spec.SessionAffinityConfig; spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if affinity == nil || affinity.ClientIP == nil || affinity.ClientIP.TimeoutSeconds == nil {
			seconds := corev1.DefaultClientIPServiceAffinitySeconds
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	fill(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		fill(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if reachedFromOutside(spec) {
		fill(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if inside(spec.Type) {
		fillPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		fillPointer(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range service.Status.LoadBalancer.Ingress {
			if ingress := &service.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
				fillPointer(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// DefaultNamespace labels a namespace with its name and fills in its phase; pkg/apis/core/v1/defaults.go.
func DefaultNamespace(namespace *corev1.Namespace, _ string) {
	fill(&namespace.Status.Phase, corev1.NamespaceActive)
	if namespace.Name == "" || namespace.Labels[corev1.LabelMetadataName] == namespace.Name {
		return
	}
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
}

// DefaultNode takes what a node can allocate to be all it has, unless it says otherwise; pkg/apis/core/v1/defaults.go.
func DefaultNode(node *corev1.Node, _ string) {
	defaultFirst(&node.Spec.PodCIDR, &node.Spec.PodCIDRs)
	status := &node.Status
	if status.Allocatable == nil && status.Capacity != nil {
		status.Allocatable = maps.Clone(status.Capacity)
	}
	defaultAmounts(status.Capacity)
	defaultAmounts(status.Allocatable)
}

// defaultFirst lets a field for one value and its younger form for several agree, as the conversion of the internal type does
// that has only the latter. The older one wins.
func defaultFirst(one *string, several *[]string) {
	switch {
	case *one == "" && len(*several) > 0:
		*one = (*several)[0]
	case *one != "" && (len(*several) == 0 || (*several)[0] != *one):
		*several = []string{*one}
	}
}

// defaultAmounts rounds quantities up to thousandths.
func defaultAmounts(amounts corev1.ResourceList) {
	for name, amount := range amounts {
		if !amount.RoundUp(resource.Milli) {
			amounts[name] = amount
		}
	}
}
