package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidateService checks a new service or an update, after its addresses are set; pkg/apis/core/validation/validation.go.
func ValidateService(service, old *corev1.Service, _ string) field.ErrorList {
	root := field.NewPath("spec")
	if old == nil {
		return validateServiceSpec(&service.Spec, root)
	}
	if canon.Equal(&service.Spec, &old.Spec) {
		return nil
	}
	return append(validateAddressChange(&service.Spec, &old.Spec, root), validateServiceSpec(&service.Spec, root)...)
}

func validateServiceSpec(spec *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if len(spec.Ports) == 0 && !headless && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(root.Child("ports"), ""))
	}
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless {
			errs = append(errs, field.Invalid(root.Child("clusterIPs").Index(0), spec.ClusterIP,
				"may not be set to 'None' for "+string(spec.Type)+" services"))
		}
	case corev1.ServiceTypeExternalName:
		if spec.ClusterIP != "" {
			errs = append(errs, field.Forbidden(root.Child("clusterIPs"), "may not be set for ExternalName services"))
		}
		if spec.ExternalName == "" {
			errs = append(errs, field.Required(root.Child("externalName"), ""))
		} else {
			errs = append(errs, named(spec.ExternalName, validation.IsDNS1123Subdomain, root.Child("externalName"))...)
		}
	}
	errs = append(errs, validateServicePorts(spec.Ports, root.Child("ports"))...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, root.Child("selector"))...)
	errs = append(errs, oneOf(spec.SessionAffinity, []corev1.ServiceAffinity{
		corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone,
	}, root.Child("sessionAffinity"))...)
	errs = append(errs, validateAddresses(spec, root)...)
	return append(errs, oneOf(spec.Type, []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}, root.Child("type"))...)
}

func validateServicePorts(ports []corev1.ServicePort, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, numbers := map[string]bool{}, map[corev1.ServicePort]bool{}
	for i, port := range ports {
		at := root.Index(i)
		switch {
		case port.Name == "" && len(ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		case port.Name != "":
			errs = append(errs, named(port.Name, validation.IsDNS1123Label, at.Child("name"))...)
			if names[port.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		errs = append(errs, inRange(int64(port.Port), 1, 65535, at.Child("port"))...)
		errs = append(errs, oneOf(port.Protocol, protocols, at.Child("protocol"))...)
		if port.TargetPort.Type == intstr.Int {
			errs = append(errs, inRange(int64(port.TargetPort.IntVal), 1, 65535, at.Child("targetPort"))...)
		} else {
			errs = append(errs, named(port.TargetPort.StrVal, validation.IsValidPortName, at.Child("targetPort"))...)
		}
		key := corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}
		if numbers[key] {
			errs = append(errs, field.Duplicate(at, key))
		}
		numbers[key] = true
	}
	return errs
}

// validateAddresses checks that the two forms of the cluster's address agree; ValidateServiceClusterIPsRelatedFields.
func validateAddresses(spec *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := root.Child("clusterIPs")
	var errs field.ErrorList
	if len(spec.ClusterIPs) > 0 && spec.ClusterIP != spec.ClusterIPs[0] {
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		errs = append(errs, field.Required(at, ""))
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	for i, ip := range spec.ClusterIPs {
		if ip != corev1.ClusterIPNone && len(validation.IsValidIP(nil, ip)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
		}
	}
	if len(spec.ClusterIPs) > 1 && slices.Contains(spec.ClusterIPs, corev1.ClusterIPNone) {
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "'None' must be the first and only value"))
	}
	return errs
}

// validateAddressChange refuses that a service moves; validateUpgradeDowngradeClusterIPs. A second address may be added,
// and dropped together with the second family.
func validateAddressChange(spec, old *corev1.ServiceSpec, root *field.Path) field.ErrorList {
	external := corev1.ServiceTypeExternalName
	if spec.Type == external || old.Type == external || len(old.ClusterIPs) == 0 {
		return nil
	}
	at := root.Child("clusterIPs")
	if len(spec.ClusterIPs) == 0 {
		return field.ErrorList{field.Invalid(at.Index(0), spec.ClusterIPs, "primary clusterIP can not be unset")}
	}
	var errs field.ErrorList
	for i := range min(len(spec.ClusterIPs), len(old.ClusterIPs)) {
		if spec.ClusterIPs[i] != old.ClusterIPs[i] {
			errs = append(errs, field.Invalid(at.Index(i), spec.ClusterIPs, "may not change once set"))
		}
	}
	policy := spec.IPFamilyPolicy
	if len(spec.ClusterIPs) < len(old.ClusterIPs) && (policy == nil || *policy != corev1.IPFamilyPolicySingleStack) {
		errs = append(errs, field.Invalid(root.Child("ipFamilyPolicy"), policy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}
