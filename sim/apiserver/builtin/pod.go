package builtin

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidatePod checks a new pod or an update; ValidatePodCreate and ValidatePodUpdate in
// pkg/apis/core/validation/validation.go.
func ValidatePod(pod, old *corev1.Pod, version string) field.ErrorList {
	root := field.NewPath("spec")
	if old != nil {
		if canon.Equal(&pod.Spec, &old.Spec) {
			return nil
		}
		return append(validateOnlyPod(&pod.Spec, root, version), validatePodUpdate(&pod.Spec, &old.Spec, root, version)...)
	}
	errs := validateOnlyPod(&pod.Spec, root, version)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(root.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(root.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validateOnlyPod checks the spec and what is wrong in a pod only, and not in a template: spaces around an image, which may be
// a placeholder there, and tokens of no account.
func validateOnlyPod(spec *corev1.PodSpec, root *field.Path, version string) field.ErrorList {
	errs := validatePodSpec(spec, root, version)
	for i := range spec.Volumes {
		projected := spec.Volumes[i].Projected
		if projected == nil || spec.ServiceAccountName != "" {
			continue
		}
		for j := range projected.Sources {
			if projected.Sources[j].ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(root.Child("volumes").Index(i).Child("projected", "sources").Index(j).
					Child("serviceAccountToken"), "must not be specified when serviceAccountName is not set"))
			}
		}
	}
	for _, group := range containerGroups(spec) {
		for i, c := range group.containers {
			if strings.TrimSpace(c.Image) != c.Image {
				errs = append(errs, field.Invalid(root.Child(group.name).Index(i).Child("image"), c.Image,
					"must not have leading or trailing whitespace"))
			}
		}
	}
	return errs
}

// containerGroup is one of the two lists of containers that every pod can have.
type containerGroup struct {
	name       string
	containers []corev1.Container
}

func containerGroups(spec *corev1.PodSpec) []containerGroup {
	return []containerGroup{{"containers", spec.Containers}, {"initContainers", spec.InitContainers}}
}

// validatePodSpec is ValidatePodSpec.
func validatePodSpec(spec *corev1.PodSpec, root *field.Path, version string) field.ErrorList {
	volumes, errs := validateVolumes(spec.Volumes, root.Child("volumes"), version)
	errs = join(errs,
		validateContainers(spec, volumes, root, version),
		validateHostNetwork(spec, root),
		oneOf(spec.RestartPolicy, []corev1.RestartPolicy{
			corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
		}, root.Child("restartPolicy")),
		oneOf(spec.DNSPolicy, []corev1.DNSPolicy{
			corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone,
		}, root.Child("dnsPolicy")),
	)
	if len(spec.NodeSelector) > 0 { // a path costs more than the check
		errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, root.Child("nodeSelector"))...)
	}
	errs = append(errs, validatePodSecurity(spec, root.Child("securityContext"), version)...)
	if spec.Affinity != nil {
		errs = append(errs, validateAffinity(spec.Affinity, root.Child("affinity"))...)
	}
	if spec.DNSConfig != nil || spec.DNSPolicy == corev1.DNSNone {
		errs = append(errs, validateDNSConfig(spec, root.Child("dnsConfig"))...)
	}
	errs = append(errs, validateGates(spec, root)...)
	if len(spec.TopologySpreadConstraints) > 0 {
		errs = append(errs, validateSpread(spec.TopologySpreadConstraints, root.Child("topologySpreadConstraints"))...)
	}
	errs = append(errs, validatePodNames(spec, root)...)
	if len(spec.Tolerations) > 0 {
		errs = append(errs, validateTolerations(spec.Tolerations, root.Child("tolerations"))...)
	}
	if len(spec.HostAliases) > 0 {
		errs = append(errs, validateHostAliases(spec.HostAliases, root.Child("hostAliases"))...)
	}
	if name := spec.PriorityClassName; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Subdomain, root.Child("priorityClassName"))...)
	}
	if name := spec.RuntimeClassName; name != nil {
		errs = append(errs, named(*name, validation.IsDNS1123Subdomain, root.Child("runtimeClassName"))...)
	}
	if policy := spec.PreemptionPolicy; policy != nil {
		errs = append(errs, oneOf(*policy, []corev1.PreemptionPolicy{
			corev1.PreemptLowerPriority, corev1.PreemptNever}, root.Child("preemptionPolicy"))...)
	}
	return errs
}

// validatePodNames checks what of a pod names something, and its deadline, which comes between them.
func validatePodNames(spec *corev1.PodSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name := spec.ServiceAccountName; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Subdomain, root.Child("serviceAccountName"))...)
	}
	if name := spec.NodeName; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Subdomain, root.Child("nodeName"))...)
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, inRange(*spec.ActiveDeadlineSeconds, 1, maxSeconds, root.Child("activeDeadlineSeconds"))...)
	}
	if name := spec.Hostname; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Label, root.Child("hostname"))...)
	}
	if name := spec.Subdomain; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Label, root.Child("subdomain"))...)
	}
	return errs
}

// validateHostNetwork checks that a pod on its node's network has its ports where it says; validatePodHostNetworkDeps.
func validateHostNetwork(spec *corev1.PodSpec, root *field.Path) field.ErrorList {
	if !spec.HostNetwork {
		return nil
	}
	var errs field.ErrorList
	for _, group := range containerGroups(spec) {
		for i := range group.containers {
			for j, port := range group.containers[i].Ports {
				if port.HostPort != 0 && port.HostPort != port.ContainerPort {
					at := root.Child(group.name).Index(i).Child("ports").Index(j).Child("hostPort")
					errs = append(errs, field.Invalid(at, port.HostPort, "must match `containerPort` when `hostNetwork` is true"))
				}
			}
		}
	}
	return errs
}

// validateGates checks the readiness gates and the scheduling gates.
func validateGates(spec *corev1.PodSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range spec.ReadinessGates {
		at := root.Child("readinessGates").Index(i).Child("conditionType")
		errs = append(errs, named(string(gate.ConditionType), validation.IsQualifiedName, at)...)
	}
	seen := map[string]bool{}
	for i, gate := range spec.SchedulingGates {
		at := root.Child("schedulingGates").Index(i)
		errs = append(errs, named(gate.Name, validation.IsQualifiedName, at)...)
		if seen[gate.Name] {
			errs = append(errs, field.Duplicate(at, gate.Name))
		}
		seen[gate.Name] = true
	}
	return errs
}

// The limits of a resolver's configuration.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// validateDNSConfig is validatePodDNSConfig.
func validateDNSConfig(spec *corev1.PodSpec, root *field.Path) field.ErrorList {
	config := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone {
		switch {
		case config == nil:
			return field.ErrorList{field.Required(root, "must provide `dnsConfig` when `dnsPolicy` is None")}
		case len(config.Nameservers) == 0:
			return field.ErrorList{field.Required(root.Child("nameservers"),
				"must provide at least one DNS nameserver when `dnsPolicy` is None")}
		}
	}
	if config == nil {
		return nil
	}
	var errs field.ErrorList
	refuse := func(refused bool, name string, value any, text string) {
		if refused {
			errs = append(errs, field.Invalid(root.Child(name), value, text))
		}
	}
	servers, searches := config.Nameservers, config.Searches
	refuse(len(servers) > maxNameservers, "nameservers", servers, fmt.Sprintf("must not have more than %d nameservers", maxNameservers))
	for i, server := range servers {
		errs = append(errs, validation.IsValidIPForLegacyField(root.Child("nameservers").Index(i), server, true, nil)...)
	}
	refuse(len(searches) > maxSearches, "searches", searches, fmt.Sprintf("must not have more than %d search paths", maxSearches))
	refuse(len(strings.Join(searches, " ")) > maxSearchChars, "searches", searches,
		fmt.Sprintf("must not have more than %d characters (including spaces) in the search list", maxSearchChars))
	for i, search := range searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			errs = append(errs, named(search, validation.IsDNS1123SubdomainWithUnderscore, root.Child("searches").Index(i))...)
		}
	}
	for i, option := range config.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(root.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func validateHostAliases(aliases []corev1.HostAlias, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, alias := range aliases {
		at := root.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, named(name, validation.IsDNS1123Subdomain, at.Child("hostnames").Index(j))...)
		}
	}
	return errs
}
