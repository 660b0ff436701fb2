package builtin

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidateIngress checks a new Ingress or an update; pkg/apis/networking/validation/validation.go.
func ValidateIngress(ingress, old *networkingv1.Ingress, _ string) field.ErrorList {
	spec, root := &ingress.Spec, field.NewPath("spec")
	if old != nil {
		if canon.Equal(spec, &old.Spec) {
			return nil
		}
		return validateIngressSpec(spec, root)
	}
	errs := validateIngressSpec(spec, root)
	const annotation = "kubernetes.io/ingress.class"
	if class, ok := ingress.Annotations[annotation]; ok && spec.IngressClassName != nil && class != *spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(annotation), class,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateIngressSpec(spec *networkingv1.IngressSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(root, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, root.Child("defaultBackend"))...)
	}
	for i := range spec.Rules {
		rule, at := &spec.Rules[i], root.Child("rules").Index(i)
		if rule.Host != "" {
			if net.ParseIP(rule.Host) != nil {
				errs = append(errs, field.Invalid(at.Child("host"), rule.Host, "must be a DNS name, not an IP address"))
			}
			errs = append(errs, validateHost(rule.Host, at.Child("host"))...)
		}
		if rule.HTTP != nil {
			errs = append(errs, validatePaths(rule.HTTP.Paths, at.Child("http", "paths"))...)
		}
	}
	for i, tls := range spec.TLS {
		at := root.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			errs = append(errs, validateHost(host, at.Child("hosts").Index(j))...)
		}
		if tls.SecretName != "" {
			errs = append(errs, named(tls.SecretName, validation.IsDNS1123Subdomain, at.Child("secretName"))...)
		}
	}
	if class := spec.IngressClassName; class != nil {
		errs = append(errs, named(*class, validation.IsDNS1123Subdomain, root.Child("ingressClassName"))...)
	}
	return errs
}

func validateHost(host string, at *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return named(host, validation.IsWildcardDNS1123Subdomain, at)
	}
	return named(host, validation.IsDNS1123Subdomain, at)
}

func validatePaths(paths []networkingv1.HTTPIngressPath, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(paths) == 0 {
		errs = append(errs, field.Required(root, ""))
	}
	for i := range paths {
		path, at := &paths[i], root.Index(i)
		if path.PathType == nil {
			errs = append(errs, field.Required(at.Child("pathType"), "pathType must be specified"))
			continue
		}
		errs = join(errs, validatePath(path.Path, *path.PathType, at), validateBackend(&path.Backend, at.Child("backend")))
	}
	return errs
}

func validatePath(path string, pathType networkingv1.PathType, root *field.Path) field.ErrorList {
	at := root.Child("path")
	var errs field.ErrorList
	switch pathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(path, "/") {
			errs = append(errs, field.Invalid(at, path, "must be an absolute path"))
		}
		for _, sequence := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(path, sequence) {
				errs = append(errs, field.Invalid(at, path, "must not contain '"+sequence+"'"))
			}
		}
		for _, suffix := range []string{"/..", "/."} {
			if strings.HasSuffix(path, suffix) {
				errs = append(errs, field.Invalid(at, path, "cannot end with '"+suffix+"'"))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if path != "" && !strings.HasPrefix(path, "/") {
			errs = append(errs, field.Invalid(at, path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(root.Child("pathType"), pathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return errs
}

func validateBackend(backend *networkingv1.IngressBackend, root *field.Path) field.ErrorList {
	switch {
	case backend.Resource != nil && backend.Service != nil:
		return field.ErrorList{field.Invalid(root, "", "cannot set both resource and service backends")}
	case backend.Resource != nil:
		return validateTypedReference(backend.Resource.APIGroup, backend.Resource.Kind, backend.Resource.Name, root.Child("resource"))
	case backend.Service == nil:
		return field.ErrorList{field.Invalid(root, "", "resource or service backend is required")}
	}
	at, service := root.Child("service"), backend.Service
	var errs field.ErrorList
	if service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, named(service.Name, validation.IsDNS1123Label, at.Child("name"))...)
	}
	switch port := service.Port; {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(root, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, named(port.Name, validation.IsValidPortName, at.Child("port", "name"))...)
	case port.Number != 0:
		errs = append(errs, portNumber(port.Number, at.Child("port", "number"))...)
	default:
		errs = append(errs, field.Required(root, "port name or number is required"))
	}
	return errs
}

// portNumber is IsValidPortNum in k8s.io/apimachinery/pkg/util/validation.
func portNumber(port int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(at, port, message))
	}
	return errs
}

func validateTypedReference(group *string, kind, name string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, named(*group, validation.IsDNS1123Subdomain, root.Child("apiGroup"))...)
	}
	return join(errs, pathSegment(kind, "", root.Child("kind")), pathSegment(name, "", root.Child("name")))
}

// pathSegment checks a required name that will be part of a path.
func pathSegment(name, missing string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, missing)}
	}
	return named(name, content.IsPathSegmentName, at)
}

// ValidateIngressStatus checks a status write.
func ValidateIngressStatus(ingress, old *networkingv1.Ingress, _ string) field.ErrorList {
	var known []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		known = append(known, point.IP)
	}
	var errs field.ErrorList
	for i, point := range ingress.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), point.IP, true, known)...)
		}
		if point.Hostname != "" {
			errs = append(errs, named(point.Hostname, validation.IsDNS1123Subdomain, at.Child("hostname"))...)
			if net.ParseIP(point.Hostname) != nil {
				errs = append(errs, field.Invalid(at.Child("hostname"), point.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}

// DefaultIngressClass fills in defaults: pkg/apis/networking/v1/defaults.go.
func DefaultIngressClass(class *networkingv1.IngressClass, _ string) {
	if class.Spec.Parameters != nil {
		fillPointer(&class.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

// ValidateIngressClass checks a new IngressClass or an update; pkg/apis/networking/validation/validation.go.
func ValidateIngressClass(class, old *networkingv1.IngressClass, _ string) field.ErrorList {
	spec, root := &class.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if old != nil {
		if canon.Equal(spec, &old.Spec) {
			return nil
		}
		errs = immutable(&spec.Controller, &old.Spec.Controller, spec.Controller, root.Child("controller"))
	}
	const maxController = 250
	if len(spec.Controller) > maxController {
		errs = append(errs, field.TooLong(root.Child("controller"), "", maxController))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(root.Child("controller"), spec.Controller)...)
	if spec.Parameters != nil {
		errs = append(errs, validateClassParameters(spec.Parameters, root.Child("parameters"))...)
	}
	return errs
}

func validateClassParameters(parameters *networkingv1.IngressClassParametersReference, root *field.Path) field.ErrorList {
	errs := validateTypedReference(parameters.APIGroup, parameters.Kind, parameters.Name, root)
	at, namespace := root.Child("namespace"), parameters.Namespace
	switch *parameters.Scope { // defaulted
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if namespace == nil {
			return append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
		}
		return append(errs, named(*namespace, validation.IsDNS1123Label, at)...)
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if namespace != nil {
			errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
		}
		return errs
	default:
		return append(errs, field.NotSupported(root.Child("scope"), *parameters.Scope, []string{
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace}))
	}
}

// DefaultNetworkPolicy fills in defaults: pkg/apis/networking/v1/defaults.go.
func DefaultNetworkPolicy(policy *networkingv1.NetworkPolicy, _ string) {
	spec := &policy.Spec
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	protocols := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			fillPointer(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range spec.Ingress {
		protocols(spec.Ingress[i].Ports)
	}
	for i := range spec.Egress {
		protocols(spec.Egress[i].Ports)
	}
}

// ValidateNetworkPolicy checks a new NetworkPolicy or an update; pkg/apis/networking/validation/validation.go.
func ValidateNetworkPolicy(policy, old *networkingv1.NetworkPolicy, version string) field.ErrorList {
	spec, root := &policy.Spec, field.NewPath("spec")
	var known []string
	if old != nil {
		if canon.Equal(spec, &old.Spec) {
			return nil
		}
		known = blocksOf(&old.Spec)
	}
	errs := validateSelector(&spec.PodSelector, root.Child("podSelector"))
	for i, rule := range spec.Ingress {
		at := root.Child("ingress").Index(i)
		errs = join(errs, validatePolicyPorts(rule.Ports, version, at.Child("ports")), validatePeers(rule.From, known, at.Child("from")))
	}
	for i, rule := range spec.Egress {
		at := root.Child("egress").Index(i)
		errs = join(errs, validatePolicyPorts(rule.Ports, version, at.Child("ports")), validatePeers(rule.To, known, at.Child("to")))
	}
	at := root.Child("policyTypes")
	if len(spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(at, spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, policyType := range spec.PolicyTypes {
		errs = append(errs, supported(policyType, []networkingv1.PolicyType{
			networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
		}, at.Index(i))...)
	}
	return errs
}

// blocksOf returns the address blocks of a policy, which may stay in it even if they are not valid any more.
func blocksOf(spec *networkingv1.NetworkPolicySpec) []string {
	var blocks []string
	add := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if peer.IPBlock != nil {
				blocks = append(append(blocks, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		}
	}
	for _, rule := range spec.Ingress {
		add(rule.From)
	}
	for _, rule := range spec.Egress {
		add(rule.To)
	}
	return blocks
}

func validatePolicyPorts(ports []networkingv1.NetworkPolicyPort, version string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, port := range ports {
		at := root.Index(i)
		errs = append(errs, supported(*port.Protocol, []corev1.Protocol{ // defaulted
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP,
		}, at.Child("protocol"))...)
		end := at.Child("endPort")
		switch {
		case port.Port == nil && port.EndPort != nil:
			errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified"))
		case port.Port == nil:
		case port.Port.Type == intstr.String:
			if port.EndPort != nil {
				errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, named(port.Port.StrVal, validation.IsValidPortName, at.Child("port"))...)
		default:
			first := port.Port.IntVal
			errs = append(errs, portNumber(first, at.Child("port"))...)
			if port.EndPort == nil {
				continue
			}
			if last := *port.EndPort; last < first {
				shown := first // 1.36 shows the wrong one of the two
				if since(version, 37) {
					shown = last
				}
				errs = append(errs, field.Invalid(end, shown, "must be greater than or equal to `port`"))
			}
			errs = append(errs, portNumber(*port.EndPort, end)...)
		}
	}
	return errs
}

func validatePeers(peers []networkingv1.NetworkPolicyPeer, known []string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, peer := range peers {
		at, count := root.Index(i), 0
		if peer.PodSelector != nil {
			count++
			errs = append(errs, validateSelector(peer.PodSelector, at.Child("podSelector"))...)
		}
		if peer.NamespaceSelector != nil {
			count++
			errs = append(errs, validateSelector(peer.NamespaceSelector, at.Child("namespaceSelector"))...)
		}
		if peer.IPBlock != nil {
			count++
			errs = append(errs, validateBlock(peer.IPBlock, known, at.Child("ipBlock"))...)
		}
		switch {
		case count == 0:
			errs = append(errs, field.Required(at, "must specify a peer"))
		case count > 1 && peer.IPBlock != nil:
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func validateBlock(block *networkingv1.IPBlock, known []string, root *field.Path) field.ErrorList {
	if block.CIDR == "" {
		return field.ErrorList{field.Required(root.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(root.Child("cidr"), block.CIDR, true, known)
	_, outer, err := net.ParseCIDR(block.CIDR)
	if err != nil {
		return errs
	}
	for i, except := range block.Except {
		at := root.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, except, true, known)...)
		_, inner, err := net.ParseCIDR(except)
		if err != nil {
			continue
		}
		outerSize, _ := outer.Mask.Size()
		innerSize, _ := inner.Mask.Size()
		if !outer.Contains(inner.IP) || outerSize >= innerSize {
			errs = append(errs, field.Invalid(at, except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
