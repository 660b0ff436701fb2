package builtin

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	onlyLoadBalancers = "may only be used when `type` is 'LoadBalancer'"
	mayNotChange      = "may not change once set"
)

// ValidateService checks a new Service or an update, after its addresses and ports are set; pkg/apis/core/validation/
// validation.go, and the checks of pkg/registry/core/service/storage/alloc.go, which come first and alone.
func ValidateService(service, old *corev1.Service, version string) field.ErrorList {
	if errs := allocateService(service.DeepCopy(), old); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	if old != nil {
		errs = validateServiceChange(service, old)
	}
	errs = append(errs, validateServiceSpec(service, old, version)...)
	return append(errs, validateTraffic(service)...)
}

// validateServiceSpec is the first part of validateService, up to what is about traffic from outside.
func validateServiceSpec(service, old *corev1.Service, version string) field.ErrorList {
	root := field.NewPath("spec")
	spec := &service.Spec
	errs := validateTopologyMode(service)
	errs = append(errs, validateServiceType(spec, root)...)
	names := sets.New[string]()
	for i := range spec.Ports {
		errs = append(errs, validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, names, root.Child("ports").Index(i))...)
	}
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, root.Child("selector"))...)
	errs = append(errs, validateSessionAffinity(spec, root)...)
	errs = append(errs, validateAddresses(spec, old, root)...)
	var known []string
	if old != nil {
		known = old.Spec.ExternalIPs
	}
	for i, ip := range spec.ExternalIPs {
		at := root.Child("externalIPs").Index(i)
		wrong := validation.IsValidIPForLegacyField(at, ip, true, known)
		if len(wrong) == 0 {
			wrong = validateEndpointIP(ip, at)
		}
		errs = append(errs, wrong...)
	}
	errs = append(errs, oneOf(spec.Type, []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}, root.Child("type"))...)
	return append(errs, validateSamePorts(spec, root.Child("ports"), version)...)
}

func validateTopologyMode(service *corev1.Service) field.ErrorList {
	hints, hinted := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, set := service.Annotations[corev1.AnnotationTopologyMode]
	if !hinted || !set || hints == mode {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		"must match annotations["+corev1.DeprecatedAnnotationTopologyAwareHints+"] when both are specified")}
}

// validateServiceType checks what depends on the type first.
func validateServiceType(spec *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Ports) == 0 && !headless(spec) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(root.Child("ports"), ""))
	}
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(spec) {
			errs = append(errs, field.Invalid(root.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
				"may not be set to 'None' for "+string(spec.Type)+" services"))
		}
	case corev1.ServiceTypeExternalName:
		const forbidden = "may not be set for ExternalName services"
		if len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(root.Child("clusterIPs"), forbidden))
		}
		if len(spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(root.Child("ipFamilies"), forbidden))
		}
		if spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(root.Child("ipFamilyPolicy"), forbidden))
		}
		if name := strings.TrimSuffix(spec.ExternalName, "."); name == "" {
			errs = append(errs, field.Required(root.Child("externalName"), ""))
		} else {
			errs = append(errs, named(name, validation.IsDNS1123Subdomain, root.Child("externalName"))...)
		}
	}
	return errs
}

func validateServicePort(port *corev1.ServicePort, several bool, names sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case port.Name == "" && several:
		errs = append(errs, field.Required(at.Child("name"), ""))
	case port.Name != "":
		errs = append(errs, named(port.Name, validation.IsDNS1123Label, at.Child("name"))...)
		if names.Has(port.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
		}
		names.Insert(port.Name)
	}
	errs = append(errs, inRange(int64(port.Port), 1, 65535, at.Child("port"))...)
	errs = append(errs, oneOf(port.Protocol, protocols, at.Child("protocol"))...)
	if port.TargetPort.Type == intstr.Int {
		errs = append(errs, inRange(int64(port.TargetPort.IntVal), 1, 65535, at.Child("targetPort"))...)
	} else {
		errs = append(errs, named(port.TargetPort.StrVal, validation.IsValidPortName, at.Child("targetPort"))...)
	}
	if port.AppProtocol != nil {
		errs = append(errs, named(*port.AppProtocol, validation.IsQualifiedName, at.Child("appProtocol"))...)
	}
	return errs
}

func validateSessionAffinity(spec *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	errs := oneOf(spec.SessionAffinity, []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone},
		root.Child("sessionAffinity"))
	const longest = 86400
	at := root.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
	if config := spec.SessionAffinityConfig; spec.SessionAffinity == corev1.ServiceAffinityClientIP && config != nil {
		// Its default sees to it that a timeout is there.
		if seconds := *config.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > longest {
			errs = append(errs, field.Invalid(at, seconds, "must be greater than 0 and less than 86400"))
		}
	}
	return errs
}

// validateSamePorts refuses ports that two entries have, or that the type has no use for.
func validateSamePorts(spec *corev1.ServiceSpec, root *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	nodePorts, ports := map[corev1.ServicePort]bool{}, map[corev1.ServicePort]bool{}
	for i, port := range spec.Ports {
		if spec.Type == corev1.ServiceTypeClusterIP && port.NodePort != 0 {
			errs = append(errs, field.Forbidden(root.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
	}
	for i, port := range spec.Ports {
		key := corev1.ServicePort{Protocol: port.Protocol, NodePort: port.NodePort}
		if port.NodePort != 0 && nodePorts[key] {
			errs = append(errs, field.Duplicate(root.Index(i).Child("nodePort"), port.NodePort))
		}
		nodePorts[key] = true
	}
	for i, port := range spec.Ports {
		key := corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}
		if ports[key] {
			errs = append(errs, field.Duplicate(root.Index(i), internal(key, version)))
		}
		ports[key] = true
	}
	return errs
}

// validateTraffic is the last part of validateService.
func validateTraffic(service *corev1.Service) field.ErrorList {
	root := field.NewPath("spec")
	spec := &service.Spec
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	errs := validateSourceRanges(service, root)
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced {
		errs = append(errs, field.Forbidden(root.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancers))
	}
	if class := spec.LoadBalancerClass; class != nil && balanced {
		errs = append(errs, named(*class, validation.IsQualifiedName, root.Child("loadBalancerClass"))...)
	} else if class != nil {
		errs = append(errs, field.Forbidden(root.Child("loadBalancerClass"), onlyLoadBalancers))
	}
	errs = append(errs, validateExternalPolicy(spec, root)...)
	switch policy := spec.InternalTrafficPolicy; {
	case policy == nil && inside(spec.Type):
		errs = append(errs, field.Required(root.Child("internalTrafficPolicy"), ""))
	case policy != nil:
		errs = append(errs, supported(*policy, []corev1.ServiceInternalTrafficPolicy{
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
		}, root.Child("internalTrafficPolicy"))...)
	}
	if distribution := spec.TrafficDistribution; distribution != nil {
		errs = append(errs, supported(*distribution, []string{
			corev1.ServiceTrafficDistributionPreferClose, "PreferSameZone", "PreferSameNode",
		}, root.Child("trafficDistribution"))...)
	}
	return errs
}

func validateSourceRanges(service *corev1.Service, root *field.Path) field.ErrorList {
	spec := &service.Spec
	at := root.Child("LoadBalancerSourceRanges")
	ranges, indexed := spec.LoadBalancerSourceRanges, true
	if value, set := service.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; len(ranges) == 0 && set {
		at, indexed = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey), false
		ranges = strings.Split(strings.TrimSpace(value), ",")
		if ranges[0] == "" && len(ranges) == 1 {
			ranges = nil
		}
	} else if len(ranges) == 0 {
		return nil
	}
	var errs field.ErrorList
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at, onlyLoadBalancers))
	}
	for i, cidr := range ranges {
		path := at
		if indexed {
			path = at.Index(i)
		}
		errs = append(errs, validation.IsValidCIDRForLegacyField(path, strings.TrimSpace(cidr), true, nil)...)
	}
	return errs
}

func validateExternalPolicy(spec *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	policy, at := spec.ExternalTrafficPolicy, root.Child("externalTrafficPolicy")
	if reachedFromOutside(spec) {
		errs = append(errs, oneOf(policy, []corev1.ServiceExternalTrafficPolicy{
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
		}, at)...)
	} else if policy != "" {
		errs = append(errs, field.Invalid(at, policy, "may only be set for externally-accessible services"))
	}
	port, at := spec.HealthCheckNodePort, root.Child("healthCheckNodePort")
	switch {
	case checksHealth(spec):
		errs = append(errs, inRange(int64(port), 1, 65535, at)...)
	case port != 0:
		errs = append(errs, field.Invalid(at, port,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	return errs
}

// validateServiceChange refuses that a Service moves. A second address may be added, and dropped together with the second
// family.
func validateServiceChange(service, old *corev1.Service) field.ErrorList {
	root := field.NewPath("spec")
	spec, before := &service.Spec, &old.Spec
	var errs field.ErrorList
	if spec.Type != corev1.ServiceTypeExternalName && before.Type != corev1.ServiceTypeExternalName {
		errs = append(validateAddressChange(spec, before, root), validateFamilyChange(spec, before, root)...)
	}
	balancer := corev1.ServiceTypeLoadBalancer
	if spec.Type == balancer && before.Type == balancer && !samePointed(spec.LoadBalancerClass, before.LoadBalancerClass) {
		errs = append(errs, field.Invalid(root.Child("loadBalancerClass"), spec.LoadBalancerClass, mayNotChange))
	}
	if spec.Type == balancer && spec.LoadBalancerClass != nil {
		errs = append(errs, named(*spec.LoadBalancerClass, validation.IsQualifiedName, root.Child("loadBalancerClass"))...)
	} else if spec.LoadBalancerClass != nil {
		errs = append(errs, field.Forbidden(root.Child("loadBalancerClass"), onlyLoadBalancers))
	}
	if checksHealth(before) && checksHealth(spec) && spec.HealthCheckNodePort != before.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(root.Child("healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

func samePointed[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func validateAddressChange(spec, before *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	if headless(spec) && headless(before) {
		return nil
	}
	var errs field.ErrorList
	at, now, was := root.Child("clusterIPs"), spec.ClusterIPs, before.ClusterIPs
	switch {
	case len(now) == len(was):
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(at.Index(i), now, mayNotChange))
			}
		}
		return errs
	case len(now) == 0:
		return field.ErrorList{field.Invalid(at.Index(0), now, "primary clusterIP can not be unset")}
	case len(was) > 0 && now[0] != was[0]:
		errs = append(errs, field.Invalid(at.Index(0), now, mayNotChange))
	}
	if len(now) < len(was) && !singleStack(spec) {
		errs = append(errs, field.Invalid(root.Child("ipFamilyPolicy"), spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

func validateFamilyChange(spec, before *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	if headless(spec) || headless(before) {
		return nil
	}
	var errs field.ErrorList
	at, now, was := root.Child("ipFamilies").Index(0), spec.IPFamilies, before.IPFamilies
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(at, now, mayNotChange))
			}
		}
		return errs
	}
	if len(now) > 0 && len(was) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, mayNotChange))
	}
	if len(now) == 1 && len(was) > 1 && !singleStack(spec) {
		errs = append(errs, field.Invalid(root.Child("ipFamilyPolicy"), spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}

// ValidateServiceStatus checks what a load balancer reports; ValidateLoadBalancerStatus.
func ValidateServiceStatus(service, old *corev1.Service, _ string) field.ErrorList {
	at := field.NewPath("status", "loadBalancer", "ingress")
	points := service.Status.LoadBalancer.Ingress
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer && len(points) > 0 {
		return field.ErrorList{field.Forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var known []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			known = append(known, point.IP)
		}
	}
	var errs field.ErrorList
	for i := range points {
		errs = append(errs, validateBalancerPoint(&points[i], known, at.Index(i))...)
	}
	return errs
}

func validateBalancerPoint(point *corev1.LoadBalancerIngress, known []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if point.IP != "" {
		errs = validation.IsValidIPForLegacyField(at.Child("ip"), point.IP, true, known)
	}
	switch mode := point.IPMode; {
	case mode == nil && point.IP != "":
		errs = append(errs, field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
	case mode != nil && point.IP == "":
		errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
	case mode != nil:
		errs = append(errs, supported(*mode, []corev1.LoadBalancerIPMode{
			corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP,
		}, at.Child("ipMode"))...)
	}
	if point.Hostname == "" {
		return errs
	}
	errs = append(errs, named(point.Hostname, validation.IsDNS1123Subdomain, at.Child("hostname"))...)
	if len(validation.IsValidIPForLegacyField(nil, point.Hostname, false, nil)) == 0 {
		errs = append(errs, field.Invalid(at.Child("hostname"), point.Hostname, "must be a DNS name, not an IP address"))
	}
	return errs
}

// inside says whether a Service of the type has an internal traffic policy.
func inside(t corev1.ServiceType) bool {
	return t == corev1.ServiceTypeClusterIP || t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

// headless says whether there is no address by which to reach the Service itself.
func headless(spec *corev1.ServiceSpec) bool {
	return len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func reachedFromOutside(spec *corev1.ServiceSpec) bool {
	return usesNodePorts(spec) || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

func usesNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort
}

// checksHealth says whether a load balancer asks nodes whether they have endpoints.
func checksHealth(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func singleStack(spec *corev1.ServiceSpec) bool {
	return hasPolicy(spec, corev1.IPFamilyPolicySingleStack)
}

func hasPolicy(spec *corev1.ServiceSpec, policy corev1.IPFamilyPolicy) bool {
	return spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == policy
}
