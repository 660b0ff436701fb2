package builtin

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodSecurity is validatePodSpecSecurityContext, without AppArmor, SELinux and Windows.
func validatePodSecurity(spec *corev1.PodSpec, root *field.Path, version string) field.ErrorList {
	security := spec.SecurityContext
	if security == nil || security.FSGroup == nil && security.RunAsUser == nil && security.RunAsGroup == nil &&
		len(security.SupplementalGroups)+len(security.Sysctls) == 0 && security.FSGroupChangePolicy == nil &&
		security.SeccompProfile == nil && spec.ShareProcessNamespace == nil {
		return nil // what nearly always is the case
	}
	errs := join(
		idNumber(security.FSGroup, validation.IsValidGroupID, root.Child("fsGroup")),
		idNumber(security.RunAsUser, validation.IsValidUserID, root.Child("runAsUser")),
		idNumber(security.RunAsGroup, validation.IsValidGroupID, root.Child("runAsGroup")),
	)
	for i := range security.SupplementalGroups {
		errs = append(errs, idNumber(&security.SupplementalGroups[i], validation.IsValidGroupID, root.Child("supplementalGroups").Index(i))...)
	}
	if shared := spec.ShareProcessNamespace; shared != nil && *shared && spec.HostPID {
		errs = append(errs, field.Invalid(root.Child("shareProcessNamespace"), *shared,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	errs = append(errs, validateSysctls(security.Sysctls, root.Child("sysctls"))...)
	policies := []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch}
	if policy := security.FSGroupChangePolicy; policy != nil && !slices.Contains(policies, *policy) {
		errs = append(errs, field.NotSupported(root.Child("fsGroupChangePolicy"), policy, policies))
	}
	return append(errs, validateSeccomp(security.SeccompProfile, root.Child("seccompProfile"), version)...)
}

// idNumber checks the number of a user or a group.
func idNumber(id *int64, rule func(int64) []string, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	var errs field.ErrorList
	for _, message := range rule(*id) {
		errs = append(errs, field.Invalid(at, *id, message))
	}
	return errs
}

const sysctlPattern = "^(" + "[a-z0-9]([-_a-z0-9]*[a-z0-9])?" + "[\\./])*" + "[a-z0-9]([-_a-z0-9]*[a-z0-9])?" + "$"

var sysctlName = regexp.MustCompile(sysctlPattern)

func validateSysctls(sysctls []corev1.Sysctl, root *field.Path) field.ErrorList {
	const most = 253
	var errs field.ErrorList
	names := map[string]bool{}
	for i, sysctl := range sysctls {
		at := root.Index(i).Child("name")
		switch {
		case sysctl.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(sysctl.Name) > most || !sysctlName.MatchString(sysctl.Name):
			errs = append(errs, field.Invalid(at, sysctl.Name,
				fmt.Sprintf("must have at most %d characters and match regex %s", most, sysctlPattern)))
		case names[sysctl.Name]:
			errs = append(errs, field.Duplicate(at, sysctl.Name))
		}
		names[sysctl.Name] = true
	}
	return errs
}

func validateSeccomp(profile *corev1.SeccompProfile, root *field.Path, version string) field.ErrorList {
	if profile == nil {
		return nil
	}
	at := root.Child("localhostProfile")
	local := profile.Type == corev1.SeccompProfileTypeLocalhost
	var errs field.ErrorList
	if profile.Type == "" {
		errs = append(errs, field.Required(root.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, supported(profile.Type, []corev1.SeccompProfileType{
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined,
		}, root.Child("type"))...)
	}
	switch {
	case local && profile.LocalhostProfile == nil:
		errs = append(errs, field.Required(at, "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, descendingPath(*profile.LocalhostProfile, at)...)
	case profile.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(at, internal(profile, version), "can only be set when seccomp type is Localhost"))
	}
	return errs
}

// validateContainerSecurity is ValidateSecurityContext, without AppArmor, process mounts and Windows.
func validateContainerSecurity(security *corev1.SecurityContext, root *field.Path, version string) field.ErrorList {
	if security == nil {
		return nil
	}
	errs := join(
		idNumber(security.RunAsUser, validation.IsValidUserID, root.Child("runAsUser")),
		idNumber(security.RunAsGroup, validation.IsValidGroupID, root.Child("runAsGroup")),
		validateSeccomp(security.SeccompProfile, root.Child("seccompProfile"), version),
	)
	if escalation := security.AllowPrivilegeEscalation; escalation == nil || *escalation {
		return errs
	}
	if security.Privileged != nil && *security.Privileged {
		errs = append(errs, field.Invalid(root, internal(security, version),
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if security.Capabilities != nil && slices.Contains(security.Capabilities.Add, "CAP_SYS_ADMIN") {
		errs = append(errs, field.Invalid(root, internal(security, version),
			"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
	}
	return errs
}
