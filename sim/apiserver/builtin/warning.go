package builtin

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// What a server warns of, though it accepts it: WarningsOnCreate and WarningsOnUpdate of the strategies in pkg/registry. The old
// object is nil for a new one. Where a real server goes through a map, this one goes by name.

// WarnStatefulSet returns the warnings about a StatefulSet; pkg/registry/apps/statefulset/strategy.go.
func WarnStatefulSet(set, old *appsv1.StatefulSet) []string {
	var warnings []string
	if old == nil || set.Generation != old.Generation {
		warnings = warnTemplate(field.NewPath("spec", "template"), &set.Spec.Template)
	}
	for i := range set.Spec.VolumeClaimTemplates {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec")
		}
		warnings = append(warnings, warnClaimSpec(at, &set.Spec.VolumeClaimTemplates[i].Spec)...)
	}
	if limit := set.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		warnings = append(warnings,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return warnings
}

// WarnDeployment returns the warnings about a Deployment; pkg/registry/apps/deployment/strategy.go.
func WarnDeployment(deployment, old *appsv1.Deployment) []string {
	before := int64(0)
	if old != nil {
		before = old.Generation
	}
	return warnNamed(deployment.Name, deployment.Generation, before, &deployment.Spec.Template)
}

// WarnReplicaSet returns the warnings about a ReplicaSet; pkg/registry/apps/replicaset/strategy.go.
func WarnReplicaSet(set, old *appsv1.ReplicaSet) []string {
	before := int64(0)
	if old != nil {
		before = old.Generation
	}
	return warnNamed(set.Name, set.Generation, before, &set.Spec.Template)
}

// WarnReplicationController returns the warnings about a ReplicationController; pkg/registry/core/replicationcontroller/
// strategy.go, which of an update looks at the template that there was.
func WarnReplicationController(controller, old *corev1.ReplicationController) []string {
	before, template := int64(0), controller.Spec.Template
	if old != nil {
		before, template = old.Generation, old.Spec.Template
	}
	if template == nil {
		template = &corev1.PodTemplateSpec{}
	}
	return warnNamed(controller.Name, controller.Generation, before, template)
}

// WarnDaemonSet returns the warnings about a DaemonSet; pkg/registry/apps/daemonset/strategy.go.
func WarnDaemonSet(set, old *appsv1.DaemonSet) []string {
	if old != nil && canon.Equal(&set.Spec.Template, &old.Spec.Template) {
		return nil
	}
	return warnTemplate(field.NewPath("spec", "template"), &set.Spec.Template)
}

// WarnPodTemplate returns the warnings about a PodTemplate; pkg/registry/core/podtemplate/strategy.go.
func WarnPodTemplate(template, old *corev1.PodTemplate) []string {
	if old != nil && template.Generation == old.Generation {
		return nil
	}
	return warnTemplate(field.NewPath("template"), &template.Template)
}

// WarnJob returns the warnings about a Job; pkg/registry/batch/job/strategy.go.
func WarnJob(job, old *batchv1.Job) []string {
	switch {
	case old == nil:
		return append(warnPodName(job.Name), warnJobSpec(field.NewPath("spec"), &job.Spec)...)
	case job.Generation != old.Generation:
		return warnJobSpec(field.NewPath("spec"), &job.Spec)
	default:
		return nil
	}
}

// WarnCronJob returns the warnings about a CronJob; pkg/registry/batch/cronjob/strategy.go.
func WarnCronJob(job, old *batchv1.CronJob) []string {
	var warnings []string
	if old == nil {
		warnings = warnPodName(job.Name)
	}
	if old == nil || job.Generation != old.Generation {
		warnings = append(warnings, warnJobSpec(field.NewPath("spec", "jobTemplate", "spec"), &job.Spec.JobTemplate.Spec)...)
	}
	if old != nil && strings.Contains(job.Spec.Schedule, "TZ") {
		warnings = append(warnings, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "+
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return warnings
}

// warnNamed returns the warnings about a workload of which pods get their names.
func warnNamed(name string, generation, before int64, template *corev1.PodTemplateSpec) []string {
	at := field.NewPath("spec", "template")
	switch before {
	case 0: // it is new
		return append(warnPodName(name), warnTemplate(at, template)...)
	case generation:
		return nil
	default:
		return warnTemplate(at, template)
	}
}

// warnPodName warns of a name that cannot be that of a host.
func warnPodName(name string) []string {
	wrong := validation.IsDNS1123Label(name)
	if len(wrong) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "+
		"a DNS label is recommended: %v", wrong)}
}

// warnJobSpec is WarningsForJobSpec of pkg/api/job/warnings.go.
func warnJobSpec(at *field.Path, spec *batchv1.JobSpec) []string {
	const completions, parallelism = 100_000, 10_000
	var warnings []string
	if spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion &&
		spec.Completions != nil && *spec.Completions > completions && spec.Parallelism != nil && *spec.Parallelism > parallelism {
		warnings = append(warnings, at.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "+
			"higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(warnings, warnTemplate(at.Child("template"), &spec.Template)...)
}

// WarnClaim returns the warnings about a PersistentVolumeClaim; pkg/api/persistentvolumeclaim/util.go.
func WarnClaim(claim, _ *corev1.PersistentVolumeClaim) []string {
	var warnings []string
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		warnings = append(warnings, "metadata.annotations["+corev1.BetaStorageClassAnnotation+
			`]: deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	return append(warnings, warnClaimSpec(field.NewPath("spec"), &claim.Spec)...)
}

func warnClaimSpec(at *field.Path, spec *corev1.PersistentVolumeClaimSpec) []string {
	resources := at.Child("resources")
	return append(warnFraction(spec.Resources.Requests, corev1.ResourceStorage, resources.Child("requests")),
		warnFraction(spec.Resources.Limits, corev1.ResourceStorage, resources.Child("limits"))...)
}

// warnFraction warns of a part of a byte.
func warnFraction(list corev1.ResourceList, name corev1.ResourceName, at *field.Path) []string {
	const unit = 1000
	value, ok := list[name]
	if !ok || value.MilliValue()%unit == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer", at.Key(string(name)), value.String())}
}

// WarnVolume returns the warnings about a PersistentVolume; pkg/api/persistentvolume/util.go.
func WarnVolume(volume, _ *corev1.PersistentVolume) []string {
	var warnings []string
	for _, deprecated := range []struct{ key, text string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, ok := volume.Annotations[deprecated.key]; ok {
			warnings = append(warnings, "metadata.annotations["+deprecated.key+"]: "+deprecated.text)
		}
	}
	spec := &volume.Spec
	if spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "+
			"recommended approach is to use dynamic provisioning.")
	}
	if affinity := spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		at := field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms")
		for i := range affinity.Required.NodeSelectorTerms {
			warnings = append(warnings, warnNodeTerm(&affinity.Required.NodeSelectorTerms[i], false, at.Index(i))...)
		}
	}
	return append(warnings, goneWith(field.NewPath("spec"), []goneVolume{
		{spec.CephFS != nil, "cephfs", goneIn131},
		{spec.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{spec.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{spec.StorageOS != nil, "storageOS", goneIn125},
		{spec.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{spec.RBD != nil, "rbd", goneIn131},
	})...)
}

const (
	goneIn125 = "deprecated in v1.22, non-functional in v1.25+"
	goneIn131 = "deprecated in v1.28, non-functional in v1.31+"
)

// goneVolume is a kind of volume that is not what it was, and whether it is used.
type goneVolume struct {
	used       bool
	name, text string
}

func goneWith(at *field.Path, volumes []goneVolume) []string {
	var warnings []string
	for _, volume := range volumes {
		if volume.used {
			warnings = append(warnings, at.Child(volume.name).String()+": "+volume.text)
		}
	}
	return warnings
}

// WarnService returns the warnings about a Service; pkg/api/service/warnings.go.
func WarnService(service, _ *corev1.Service) []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	spec, root := &service.Spec, field.NewPath("spec")
	if _, ok := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warn("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints,
			corev1.AnnotationTopologyMode)
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		warnings = append(warnings, warnIPs(root.Child("clusterIPs"), spec.ClusterIPs)...)
	}
	hidden := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	external := spec.Type == corev1.ServiceTypeExternalName
	if hidden && spec.LoadBalancerIP != "" {
		warn("spec.loadBalancerIP is ignored for headless services")
	}
	if hidden && len(spec.ExternalIPs) > 0 {
		warn("spec.externalIPs is ignored for headless services")
	}
	if hidden && spec.SessionAffinity != corev1.ServiceAffinityNone {
		warn("spec.SessionAffinity is ignored for headless services")
	}
	warnings = append(warnings, warnIPs(root.Child("externalIPs"), spec.ExternalIPs)...)
	if len(spec.ExternalIPs) > 0 && !hidden && !external {
		warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, validation.GetWarningsForIP(root.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, validation.GetWarningsForCIDR(root.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if external && len(spec.ExternalIPs) > 0 {
		warn("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if !external && spec.ExternalName != "" {
		warn("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warn("spec.trafficDistribution: %q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone)
	}
	return warnings
}

// warnIPs warns of addresses that are not written as they should be.
func warnIPs(at *field.Path, ips []string) []string {
	var warnings []string
	for i, ip := range ips {
		warnings = append(warnings, validation.GetWarningsForIP(at.Index(i), ip)...)
	}
	return warnings
}

// WarnNode returns the warnings about a Node; pkg/registry/core/node/strategy.go.
func WarnNode(node, _ *corev1.Node) []string {
	var warnings []string
	if node.Spec.ConfigSource != nil {
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if node.Spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range node.Spec.PodCIDRs {
		warnings = append(warnings, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
	}
	return warnings
}

// WarnQuota returns the warnings about a new ResourceQuota; pkg/registry/core/resourcequota/strategy.go.
func WarnQuota(quota, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage,
	} {
		requests, limits := "requests."+name, "limits."+name
		request, requested := quota.Spec.Hard[requests]
		if bare, ok := quota.Spec.Hard[name]; !requested && ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			requests, request, requested = name, bare, true
		}
		if limit, limited := quota.Spec.Hard[limits]; requested && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)",
				requests, request.String(), limits, limit.String()))
		}
	}
	return warnings
}

// WarnSecret returns the warnings about a Secret; pkg/registry/core/secret/strategy.go.
func WarnSecret(secret, _ *corev1.Secret) []string {
	if secret.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// WarnServiceAccount returns the warnings about a ServiceAccount; pkg/registry/core/serviceaccount/strategy.go.
func WarnServiceAccount(account, old *corev1.ServiceAccount) []string {
	const enforce = "kubernetes.io/enforce-mountable-secrets"
	if old != nil {
		if _, ok := old.Annotations[enforce]; ok {
			return nil
		}
	}
	if _, ok := account.Annotations[enforce]; !ok {
		return nil
	}
	return []string{"metadata.annotations[" + enforce + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to " +
		"mounted secrets"}
}

// WarnEndpoints returns the warnings about Endpoints; pkg/registry/core/endpoint/strategy.go.
func WarnEndpoints(endpoints, _ *corev1.Endpoints) []string {
	if endpoints.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var warnings []string
	for i, subset := range endpoints.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, address := range subset.Addresses {
			warnings = append(warnings, validation.GetWarningsForIP(at.Child("addresses").Index(j).Child("ip"), address.IP)...)
		}
		for j, address := range subset.NotReadyAddresses {
			warnings = append(warnings, validation.GetWarningsForIP(at.Child("notReadyAddresses").Index(j).Child("ip"), address.IP)...)
		}
	}
	return warnings
}

// WarnEndpointSlice returns the warnings about an EndpointSlice; pkg/registry/discovery/endpointslice/strategy.go.
func WarnEndpointSlice(slice, old *discoveryv1.EndpointSlice) []string {
	var warnings []string
	if old == nil && slice.AddressType == discoveryv1.AddressTypeFQDN {
		warnings = append(warnings, "spec.addressType: FQDN endpoints are deprecated")
	}
	switch slice.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return warnings
	}
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return warnings // no addresses are in it
	}
	for i, endpoint := range slice.Endpoints {
		warnings = append(warnings, warnIPs(field.NewPath("endpoints").Index(i).Child("addresses"), endpoint.Addresses)...)
	}
	return warnings
}

// WarnIngress returns the warnings about a new Ingress; pkg/registry/networking/ingress/strategy.go.
func WarnIngress(ingress, old *networkingv1.Ingress) []string {
	const annotation = "kubernetes.io/ingress.class"
	if _, ok := ingress.Annotations[annotation]; !ok || old != nil || ingress.Spec.IngressClassName != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", annotation)}
}

// WarnNetworkPolicy returns the warnings about a NetworkPolicy; pkg/registry/networking/networkpolicy/strategy.go.
func WarnNetworkPolicy(policy, _ *networkingv1.NetworkPolicy) []string {
	var warnings []string
	peers := func(at *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			block := at.Index(i).Child("ipBlock")
			warnings = append(warnings, validation.GetWarningsForCIDR(block.Child("cidr"), peer.IPBlock.CIDR)...)
			for j, cidr := range peer.IPBlock.Except {
				warnings = append(warnings, validation.GetWarningsForCIDR(block.Child("except").Index(j), cidr)...)
			}
		}
	}
	for i, rule := range policy.Spec.Ingress {
		peers(field.NewPath("spec", "ingress").Index(i).Child("from"), rule.From)
	}
	for i, rule := range policy.Spec.Egress {
		peers(field.NewPath("spec", "egress").Index(i).Child("to"), rule.To)
	}
	return warnings
}

// WarnRuntimeClass returns the warnings about a RuntimeClass; pkg/api/node/util.go.
func WarnRuntimeClass(class, _ *nodev1.RuntimeClass) []string {
	if class.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		if text, ok := deprecatedNodeLabels[key]; ok {
			warnings = append(warnings, "scheduling.nodeSelector: "+text)
		}
	}
	return warnings
}

// WarnCSIDriver returns the warnings about a CSIDriver; pkg/registry/storage/csidriver/strategy.go.
func WarnCSIDriver(driver, old *storagev1.CSIDriver) []string {
	requests := driver.Spec.TokenRequests
	if len(requests) == 0 || driver.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && canon.Equal(&requests, &old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible " +
		"logging of tokens in volume attributes"}
}

// WarnStorageClass returns the warnings about a StorageClass; pkg/api/storage/util.go.
func WarnStorageClass(class, _ *storagev1.StorageClass) []string {
	var warnings []string
	for i, topology := range class.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, expression := range topology.MatchLabelExpressions {
			if text, ok := deprecatedNodeLabels[expression.Key]; ok {
				warnings = append(warnings, at.Index(j).Child("key").String()+": "+text)
			}
		}
	}
	return warnings
}

// WarnServiceStatus returns the warnings about what a load balancer reports; pkg/registry/core/service/strategy.go.
func WarnServiceStatus(service, _ *corev1.Service) []string {
	var warnings []string
	for i, point := range service.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), point.IP)...)
		}
	}
	return warnings
}

// WarnIngressStatus returns the same of an Ingress; pkg/registry/networking/ingress/strategy.go.
func WarnIngressStatus(ingress, _ *networkingv1.Ingress) []string {
	var warnings []string
	for i, point := range ingress.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), point.IP)...)
		}
	}
	return warnings
}

// WarnPodStatus returns the warnings about the addresses of a pod; pkg/registry/core/pod/strategy.go.
func WarnPodStatus(pod, _ *corev1.Pod) []string {
	var warnings []string
	for i, ip := range pod.Status.PodIPs {
		warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range pod.Status.HostIPs {
		warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return warnings
}
