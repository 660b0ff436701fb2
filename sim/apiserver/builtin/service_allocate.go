package builtin

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PrepareService gives a new Service its addresses and ports, in a cluster with IPv4 only; pkg/registry/core/service/storage.
// As a UID does, they follow from what the Service is called: that two Services share one is possible but unlikely, and
// nothing here routes by it.
func PrepareService(service *corev1.Service) {
	if service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
	_ = allocateService(service, nil) // what is wrong is found again by ValidateService
}

// PrepareServiceUpdate carries over what a Service was given and an update leaves out, gives it what it needs now, and drops
// what its type has no use for any longer.
func PrepareServiceUpdate(service, old *corev1.Service) {
	keepAllocations(&service.Spec, &old.Spec)
	mirrorAddress(&service.Spec, &old.Spec)
	_ = allocateService(service, old)
	dropUnneeded(&service.Spec, &old.Spec)
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// keepAllocations is patchAllocatedValues.
func keepAllocations(spec, before *corev1.ServiceSpec) {
	if spec.Type != corev1.ServiceTypeExternalName && before.Type != corev1.ServiceTypeExternalName {
		if spec.ClusterIP == "" {
			spec.ClusterIP = before.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(before.ClusterIPs)
		}
	}
	if allocatesNodePorts(spec) && allocatesNodePorts(before) {
		used := nodePorts(spec).Intersection(nodePorts(before))
		byName := map[string]int32{}
		for _, port := range before.Ports {
			byName[port.Name] = port.NodePort
		}
		for i := range spec.Ports {
			port := &spec.Ports[i]
			if was := byName[port.Name]; port.NodePort == 0 && !used.Has(was) {
				port.NodePort = was
			}
		}
	}
	if checksHealth(spec) && checksHealth(before) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = before.HealthCheckNodePort
	}
}

// mirrorAddress keeps the two forms of an address the same for those who know only the older one; normalizeClusterIPs.
func mirrorAddress(spec, before *corev1.ServiceSpec) {
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP == before.ClusterIP {
		spec.ClusterIPs = slices.Clone(before.ClusterIPs)
	}
	if spec.ClusterIP == before.ClusterIP || !slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
		return
	}
	spec.ClusterIPs = []string{spec.ClusterIP}
	if spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	}
}

// allocateService is allocateCreate and allocateUpdate. It does no harm to do it again.
func allocateService(service, old *corev1.Service) field.ErrorList {
	spec := &service.Spec
	if spec.Type != corev1.ServiceTypeExternalName && !keepsDualStack(service, old) {
		if errs := initFamilies(service, old); len(errs) > 0 {
			return errs
		}
		fresh := old == nil || old.Spec.Type == corev1.ServiceTypeExternalName
		if fresh && len(spec.ClusterIPs) == 0 && spec.ClusterIP == "" {
			n := serviceHash(service)
			spec.ClusterIP = fmt.Sprintf("10.%d.%d.%d", 96+n>>16&15, n>>8&255, 1+n&255%254)
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
	}
	if usesNodePorts(spec) {
		if errs := allocateNodePorts(service, old); len(errs) > 0 {
			return errs
		}
	}
	if checksHealth(spec) && spec.HealthCheckNodePort == 0 && (old == nil || !checksHealth(&old.Spec)) {
		spec.HealthCheckNodePort = nextNodePort(service, nodePorts(spec))
	}
	return nil
}

// serviceHash is what addresses follow from.
func serviceHash(service *corev1.Service) uint64 {
	return xxhash.Sum64String(service.Namespace + "/" + service.Name)
}

// keepsDualStack is isMatchingPreferDualStackClusterIPFields.
func keepsDualStack(service, old *corev1.Service) bool {
	const prefer = corev1.IPFamilyPolicyPreferDualStack
	return old != nil && hasPolicy(&service.Spec, prefer) && service.Spec.Type == old.Spec.Type &&
		(old.Spec.IPFamilyPolicy == nil || hasPolicy(&old.Spec, prefer)) &&
		slices.Equal(service.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(service.Spec.IPFamilies, old.Spec.IPFamilies)
}

// initFamilies is initIPFamilyFields.
func initFamilies(service, old *corev1.Service) field.ErrorList {
	spec := &service.Spec
	selected := len(spec.Selector) > 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if old != nil && old.Spec.IPFamilyPolicy != nil {
			policy = *old.Spec.IPFamilyPolicy
		} else if spec.ClusterIP == corev1.ClusterIPNone && !selected {
			// Somebody else writes the endpoints and may use any family.
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if errs := validateAddresses(spec, old, field.NewPath("spec")); len(errs) > 0 {
		return errs
	}
	errs := changeFamilies(spec, old)
	errs = append(errs, inferFamilies(spec)...)
	if len(errs) > 0 {
		return errs
	}
	if spec.ClusterIP == corev1.ClusterIPNone && !selected {
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
		if len(spec.IPFamilies) == 1 && !singleStack(spec) {
			other := corev1.IPv4Protocol
			if spec.IPFamilies[0] == corev1.IPv4Protocol {
				other = corev1.IPv6Protocol
			}
			spec.IPFamilies = append(spec.IPFamilies, other)
		}
		return nil
	}
	if hasPolicy(spec, corev1.IPFamilyPolicyRequireDualStack) {
		errs = append(errs, invalidPolicy(spec, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if family != corev1.IPv4Protocol {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	if len(spec.IPFamilies) == 0 && len(errs) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return errs
}

func invalidPolicy(spec *corev1.ServiceSpec, text string) *field.Error {
	return field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy, text)
}

// changeFamilies drops a second address with the policy, and refuses that one goes without it.
func changeFamilies(spec *corev1.ServiceSpec, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	single := singleStack(spec)
	if old != nil && single {
		if slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
	} else if old != nil {
		if n := len(spec.ClusterIPs); n > 0 && n < len(old.Spec.ClusterIPs) {
			errs = append(errs, invalidPolicy(spec, "must be 'SingleStack' to release the secondary cluster IP"))
		}
		if n := len(spec.IPFamilies); n > 0 && n < len(old.Spec.IPFamilies) {
			errs = append(errs, invalidPolicy(spec, "must be 'SingleStack' to release the secondary IP family"))
		}
	}
	const dual = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	if single && len(spec.ClusterIPs) == 2 {
		errs = append(errs, invalidPolicy(spec, dual+"cluster IPs are specified"))
	}
	if single && len(spec.IPFamilies) == 2 {
		errs = append(errs, invalidPolicy(spec, dual+"IP families are specified"))
	}
	return errs
}

// inferFamilies fills in the families of the addresses that are given.
func inferFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		if isIPv6(ip) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs,
				"IPv6 is not configured on this cluster"))
			continue
		}
		spec.IPFamilies = append(spec.IPFamilies, corev1.IPv4Protocol)
	}
	return errs
}

// validateAddresses is ValidateServiceClusterIPsRelatedFields.
func validateAddresses(spec *corev1.ServiceSpec, old *corev1.Service, root *field.Path) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := root.Child("clusterIPs")
	var errs field.ErrorList
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(at, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	for i, family := range spec.IPFamilies {
		errs = append(errs, supported(family, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, root.Child("ipFamilies").Index(i))...)
		if slices.Contains(spec.IPFamilies[:i], family) {
			errs = append(errs, field.Duplicate(root.Child("ipFamilies").Index(i), family))
		}
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		errs = append(errs, supported(*policy, []corev1.IPFamilyPolicy{
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
		}, root.Child("ipFamilyPolicy"))...)
	}
	wrong := validateAddressTexts(spec.ClusterIPs, old, at)
	if len(spec.ClusterIPs) > 2 {
		wrong = append(wrong, field.Invalid(at, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	errs = append(errs, wrong...)
	if slices.ContainsFunc(wrong, func(e *field.Error) bool { return !strings.HasPrefix(e.Detail, "may only hold") }) {
		return errs
	}
	return append(errs, validateAddressFamilies(spec, at)...)
}

func validateAddressTexts(addresses []string, old *corev1.Service, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var known []string
	if old != nil {
		known = old.Spec.ClusterIPs
	}
	for i, ip := range addresses {
		if i > 0 || ip != corev1.ClusterIPNone {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Index(i), ip, true, known)...)
		} else if len(addresses) > 1 {
			errs = append(errs, field.Invalid(at, addresses, "'None' must be the first and only value"))
		}
	}
	return errs
}

func validateAddressFamilies(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if headless(spec) {
		return nil
	}
	if len(spec.ClusterIPs) > 1 {
		six := slices.ContainsFunc(spec.ClusterIPs, isIPv6)
		four := slices.ContainsFunc(spec.ClusterIPs, func(ip string) bool { return !isIPv6(ip) })
		if !six || !four {
			errs = append(errs, field.Invalid(at, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	for i, ip := range spec.ClusterIPs[:min(len(spec.ClusterIPs), len(spec.IPFamilies))] {
		if family := spec.IPFamilies[i]; isIPv6(ip) != (family == corev1.IPv6Protocol) {
			errs = append(errs, field.Invalid(at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i)))
		}
	}
	return errs
}

func isIPv6(address string) bool {
	ip := net.ParseIP(address)
	return ip != nil && ip.To4() == nil
}

// The range that node ports are of.
const firstNodePort, lastNodePort = 30000, 32767

func nodePorts(spec *corev1.ServiceSpec) sets.Set[int32] {
	used := sets.New[int32]()
	for _, port := range spec.Ports {
		if port.NodePort != 0 {
			used.Insert(port.NodePort)
		}
	}
	return used
}

// allocatesNodePorts says whether ports are chosen that the Service does not ask for.
func allocatesNodePorts(spec *corev1.ServiceSpec) bool {
	allocate := spec.AllocateLoadBalancerNodePorts
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

// allocateNodePorts is initNodePorts and updateNodePorts.
func allocateNodePorts(service, old *corev1.Service) field.ErrorList {
	spec := &service.Spec
	used, known := nodePorts(spec), sets.New[int32]()
	if old != nil {
		known = nodePorts(&old.Spec)
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.NodePort == 0 && allocatesNodePorts(spec) {
			if old == nil { // the same port over two protocols has one node port
				same := slices.IndexFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port.Port && p.NodePort != 0 })
				if same >= 0 {
					port.NodePort = spec.Ports[same].NodePort
				}
			}
			if port.NodePort == 0 {
				port.NodePort = nextNodePort(service, used)
				used.Insert(port.NodePort)
			}
		}
		if n := port.NodePort; n != 0 && !known.Has(n) && (n < firstNodePort || n > lastNodePort) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), n,
				fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort))}
		}
	}
	return nil
}

// CheckNameless refuses an address for a Service that has no name, which comes before anything else is said about it.
func CheckNameless(service *corev1.Service) field.ErrorList {
	spec := &service.Spec
	if service.Name != "" || spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP != "" || len(spec.ClusterIPs) > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), []string{""},
		"failed to allocate IP: IPAddress.networking.k8s.io \"10.96.0.1\" is invalid: spec.parentRef.name: Required value")}
}

// CheckHealthPort refuses a port for health checks that is not to be had, as a real server does: with an internal error.
func CheckHealthPort(service *corev1.Service) error {
	port := service.Spec.HealthCheckNodePort
	if !checksHealth(&service.Spec) || port == 0 || port >= firstNodePort && port <= lastNodePort {
		return nil
	}
	return fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: provided port is not in the valid range. "+
		"The range of valid ports is %d-%d", port, firstNodePort, lastNodePort)
}

// nextNodePort chooses a node port that the Service does not use yet.
func nextNodePort(service *corev1.Service, used sets.Set[int32]) int32 {
	const count = lastNodePort - firstNodePort + 1
	for n := serviceHash(service); ; n++ {
		if port := firstNodePort + int32(n%count); !used.Has(port) && port != service.Spec.HealthCheckNodePort { //nolint:gosec // < count
			return port
		}
	}
}

// dropUnneeded is dropTypeDependentFields: it drops what the update did not change and the new type has no use for.
func dropUnneeded(spec, before *corev1.ServiceSpec) {
	if before.Type != corev1.ServiceTypeExternalName && spec.Type == corev1.ServiceTypeExternalName {
		if spec.ClusterIP == before.ClusterIP && slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, before.IPFamilies) {
			spec.IPFamilies = nil
		}
		if samePointed(spec.IPFamilyPolicy, before.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
		if samePointed(spec.InternalTrafficPolicy, before.InternalTrafficPolicy) {
			spec.InternalTrafficPolicy = nil
		}
	}
	if usesNodePorts(before) && !usesNodePorts(spec) && nodePorts(before).IsSuperset(nodePorts(spec)) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if checksHealth(before) && !checksHealth(spec) && spec.HealthCheckNodePort == before.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if before.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		if samePointed(spec.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if samePointed(spec.LoadBalancerClass, before.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if reachedFromOutside(before) && !reachedFromOutside(spec) && spec.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
}
