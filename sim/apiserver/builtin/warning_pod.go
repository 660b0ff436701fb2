package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WarnPod returns the warnings about a new pod: there are none about an update; pkg/registry/core/pod/strategy.go.
func WarnPod(pod, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	if wrong := validation.IsDNS1123Label(pod.Name); len(wrong) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising "+
			"behavior; a DNS label is recommended: %v", wrong))
	}
	return append(warnings, warnPodContent(nil, &pod.Spec, &pod.ObjectMeta)...)
}

func warnTemplate(at *field.Path, template *corev1.PodTemplateSpec) []string {
	return warnPodContent(at, &template.Spec, &template.ObjectMeta)
}

// deprecatedNodeLabels says what is wrong with labels of nodes; pkg/api/node/util.go.
var deprecatedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  "deprecated since v1.9",
	"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// warnNodeTerm warns of labels in a term of a selector of nodes; GetWarningsForNodeSelectorTerm of pkg/api/node/util.go.
func warnNodeTerm(term *corev1.NodeSelectorTerm, values bool, at *field.Path) []string {
	var warnings []string
	for i, expression := range term.MatchExpressions {
		path := at.Child("matchExpressions").Index(i)
		if text, ok := deprecatedNodeLabels[expression.Key]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: %s is %s", path.Child("key"), expression.Key, text))
		}
		if !values {
			continue
		}
		for j, value := range expression.Values {
			for _, wrong := range validation.IsValidLabelValue(value) {
				warnings = append(warnings, fmt.Sprintf("%s: %s is invalid, %s", path.Child("values").Index(j), value, wrong))
			}
		}
	}
	return warnings
}

// warnPodContent is warningsForPodSpecAndMeta of pkg/api/pod/warnings.go, but for paths of volumes that overlap and for AppArmor.
func warnPodContent(at *field.Path, spec *corev1.PodSpec, meta *metav1.ObjectMeta) []string {
	root := at.Child("spec")
	warnings := warnPlacement(root, spec)
	annotations := at.Child("metadata", "annotations")
	for _, deprecated := range []struct{ key, text string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := meta.Annotations[deprecated.key]; ok {
			warnings = append(warnings, annotations.Key(deprecated.key).String()+": "+deprecated.text)
		}
	}
	for i := range spec.Volumes {
		warnings = append(warnings, warnPodVolume(root.Child("volumes").Index(i), &spec.Volumes[i])...)
	}
	warnings = append(warnings, warnRepeated(root, spec)...)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		warnings = append(warnings, warnFraction(spec.Overhead, name, root.Child("overhead"))...)
	}
	const seccomp = `: non-functional in v1.27+; use the "seccompProfile" field instead`
	if _, ok := meta.Annotations[corev1.SeccompPodAnnotationKey]; ok &&
		(spec.SecurityContext == nil || spec.SecurityContext.SeccompProfile == nil) {
		warnings = append(warnings, annotations.Key(corev1.SeccompPodAnnotationKey).String()+seccomp)
	}
	for c, path := range containersOf(spec, root) {
		key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name
		if _, ok := meta.Annotations[key]; ok && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			warnings = append(warnings, annotations.Key(key).String()+seccomp)
		}
		warnings = append(warnings, warnContainer(path, c)...)
	}
	warnings = append(warnings, warnPorts(root, spec)...)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		warnings = append(warnings, root.Child("terminationGracePeriodSeconds").String()+
			": must be >= 0; negative values are invalid and will be treated as 1")
	}
	warnings = append(warnings, warnNeighbours(root.Child("affinity"), spec.Affinity)...)
	if spec.DNSConfig != nil {
		warnings = append(warnings, warnIPs(root.Child("dnsConfig", "nameservers"), spec.DNSConfig.Nameservers)...)
	}
	for i, alias := range spec.HostAliases {
		warnings = append(warnings, validation.GetWarningsForIP(root.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
	return warnings
}

// containersOf goes through the containers of a pod in the order in which a server does, with their paths;
// VisitContainersWithPath of pkg/apis/core/pods/helpers.go. Ephemeral containers, which no new pod has, are left out.
func containersOf(spec *corev1.PodSpec, root *field.Path) func(yield func(*corev1.Container, *field.Path) bool) {
	return func(yield func(*corev1.Container, *field.Path) bool) {
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i], root.Child("initContainers").Index(i)) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i], root.Child("containers").Index(i)) {
				return
			}
		}
	}
}

const matchesNothing = "a null labelSelector results in matching no pod"

// warnPlacement warns of labels of nodes, and of constraints that have no selector.
func warnPlacement(root *field.Path, spec *corev1.PodSpec) []string {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if text, ok := deprecatedNodeLabels[key]; ok {
			warnings = append(warnings, root.Child("nodeSelector").Key(key).String()+": "+text)
		}
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		affinity, at := spec.Affinity.NodeAffinity, root.Child("affinity", "nodeAffinity")
		if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			terms := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			for i := range required.NodeSelectorTerms {
				warnings = append(warnings, warnNodeTerm(&required.NodeSelectorTerms[i], false, terms.Index(i))...)
			}
		}
		terms := at.Child("preferredDuringSchedulingIgnoredDuringExecution")
		for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			term := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
			warnings = append(warnings, warnNodeTerm(&term.Preference, true, terms.Index(i).Child("preference"))...)
		}
	}
	for i, constraint := range spec.TopologySpreadConstraints {
		at := root.Child("topologySpreadConstraints").Index(i)
		if text, ok := deprecatedNodeLabels[constraint.TopologyKey]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: %s is %s", at.Child("topologyKey"), constraint.TopologyKey, text))
		}
		if constraint.LabelSelector == nil {
			warnings = append(warnings, at.Child("labelSelector").String()+": "+matchesNothing)
		}
	}
	return warnings
}

func warnPodVolume(at *field.Path, volume *corev1.Volume) []string {
	warnings := goneWith(at, []goneVolume{
		{volume.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{volume.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
		{volume.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{volume.Flocker != nil, "flocker", goneIn125},
		{volume.StorageOS != nil, "storageOS", goneIn125},
		{volume.Quobyte != nil, "quobyte", goneIn125},
		{volume.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
	})
	if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
		template := at.Child("ephemeral", "volumeClaimTemplate", "spec")
		warnings = append(warnings, warnClaimSpec(template, &volume.Ephemeral.VolumeClaimTemplate.Spec)...)
	}
	return append(warnings, goneWith(at, []goneVolume{
		{volume.CephFS != nil, "cephfs", goneIn131}, {volume.RBD != nil, "rbd", goneIn131},
	})...)
}

// warnRepeated warns of entries of lists that are there twice.
func warnRepeated(root *field.Path, spec *corev1.PodSpec) []string {
	var warnings []string
	seen := sets.New[string]()
	for i, alias := range spec.HostAliases {
		if seen.Has(alias.IP) {
			warnings = append(warnings, fmt.Sprintf("%s: duplicate ip %q", root.Child("hostAliases").Index(i).Child("ip"), alias.IP))
		}
		seen.Insert(alias.IP)
	}
	at := root.Child("imagePullSecrets")
	seen = sets.New[string]()
	for i, secret := range spec.ImagePullSecrets {
		if seen.Has(secret.Name) {
			warnings = append(warnings, fmt.Sprintf("%s: duplicate name %q", at.Index(i).Child("name"), secret.Name))
		}
		seen.Insert(secret.Name)
	}
	for i, secret := range spec.ImagePullSecrets {
		if secret.Name == "" {
			warnings = append(warnings, fmt.Sprintf("%s: invalid empty name %q", at.Index(i).Child("name"), secret.Name))
		}
	}
	return warnings
}

// warnContainer warns of parts of bytes, and of variables that hide others.
func warnContainer(at *field.Path, c *corev1.Container) []string {
	var warnings []string
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		warnings = append(warnings, warnFraction(c.Resources.Limits, name, at.Child("resources", "limits"))...)
		warnings = append(warnings, warnFraction(c.Resources.Requests, name, at.Child("resources", "requests"))...)
	}
	if len(c.Env) < 2 {
		return warnings
	}
	seen := sets.New[string]()
	for i, env := range c.Env {
		if !seen.Has(env.Name) {
			seen.Insert(env.Name)
			continue
		}
		// What adds to an earlier definition is as it should be.
		reference := "$(" + env.Name + ")"
		if env.ValueFrom != nil || env.Value == reference || !strings.Contains(env.Value, reference) {
			warnings = append(warnings, fmt.Sprintf("%s: hides previous definition of %q, which may be dropped when using apply",
				at.Child("env").Index(i), env.Name))
		}
	}
	return warnings
}

// warnPorts warns of ports that get into each other's way.
func warnPorts(root *field.Path, spec *corev1.PodSpec) []string {
	type known struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	var warnings []string
	all := map[string][]known{}
	for c, path := range containersOf(spec, root) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				warnings = append(warnings, fmt.Sprintf("%s: hostIP set without hostPort: %+v", at, port))
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range all[key] {
				if what := portOverlap(&port, &other.port); what != "" {
					warnings = append(warnings, fmt.Sprintf("%s: %s port definition with %s", at, what, other.at))
				}
			}
			all[key] = append(all[key], known{at, port})
		}
	}
	names := map[string]*field.Path{}
	for c, path := range containersOf(spec, root) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if other, ok := names[port.Name]; ok {
				warnings = append(warnings, fmt.Sprintf(
					"%s: duplicate port name %q with %s, services and probes that select ports by name will use %s", at, port.Name, other, other))
			} else if port.Name != "" {
				names[port.Name] = at
			}
		}
	}
	return warnings
}

// portOverlap says how two definitions of one port overlap, nothing if they do not.
func portOverlap(a, b *corev1.ContainerPort) string {
	switch {
	case a.HostIP == b.HostIP && a.HostPort == b.HostPort:
		return "duplicate"
	case a.HostPort == 0 || b.HostPort == 0:
		return "overlapping"
	case a.HostPort == b.HostPort && (a.HostIP == "") != (b.HostIP == ""):
		return "dangerously ambiguous"
	default:
		return ""
	}
}

// warnNeighbours warns of terms about other pods that have no selector.
func warnNeighbours(at *field.Path, affinity *corev1.Affinity) []string {
	if affinity == nil {
		return nil
	}
	var warnings []string
	terms := func(at *field.Path, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			if required[i].LabelSelector == nil {
				warnings = append(warnings, at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).
					Child("labelSelector").String()+": "+matchesNothing)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				warnings = append(warnings, at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).
					Child("podAffinityTerm", "labelSelector").String()+": "+matchesNothing)
			}
		}
	}
	if pods := affinity.PodAffinity; pods != nil {
		terms(at.Child("podAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		terms(at.Child("podAntiAffinity"), pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return warnings
}
