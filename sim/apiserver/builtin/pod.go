package builtin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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
		return validatePodUpdate(pod, old, root)
	}
	errs := validatePodSpec(&pod.Spec, nil, root)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(root.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(root.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validatePodSpec is ValidatePodSpec. Claims are volumes that are not among the spec's own.
func validatePodSpec(spec *corev1.PodSpec, claims map[string]bool, root *field.Path) field.ErrorList {
	volumes, errs := validateVolumes(spec.Volumes, claims, root.Child("volumes"))
	errs = append(errs, validateContainers(spec, volumes, root)...)
	errs = append(errs, oneOf(spec.RestartPolicy, []corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure,
	}, root.Child("restartPolicy"))...)
	errs = append(errs, oneOf(spec.DNSPolicy, []corev1.DNSPolicy{
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone,
	}, root.Child("dnsPolicy"))...)
	errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, root.Child("nodeSelector"))...)
	names := []struct {
		field, value string
		rule         func(string) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, validation.IsDNS1123Subdomain},
		{"nodeName", spec.NodeName, validation.IsDNS1123Subdomain},
		{"hostname", spec.Hostname, validation.IsDNS1123Label},
		{"subdomain", spec.Subdomain, validation.IsDNS1123Label},
		{"priorityClassName", spec.PriorityClassName, validation.IsDNS1123Subdomain},
	}
	for _, n := range names {
		if n.value != "" {
			errs = append(errs, named(n.value, n.rule, root.Child(n.field))...)
		}
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, inRange(*spec.ActiveDeadlineSeconds, 1, maxSeconds, root.Child("activeDeadlineSeconds"))...)
	}
	return append(errs, validateTolerations(spec.Tolerations, root.Child("tolerations"))...)
}

// validateVolumes returns the names of the volumes that containers may mount.
func validateVolumes(volumes []corev1.Volume, claims map[string]bool, root *field.Path) (map[string]bool, field.ErrorList) {
	names := map[string]bool{}
	var errs field.ErrorList
	for i := range volumes {
		v, at := &volumes[i], root.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, named(v.Name, validation.IsDNS1123Label, at.Child("name"))...)
		}
		if names[v.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		}
		names[v.Name] = true
		errs = append(errs, validateVolumeSource(&v.VolumeSource, at)...)
	}
	for name := range claims {
		names[name] = true
	}
	return names, errs
}

func validateVolumeSource(source *corev1.VolumeSource, at *field.Path) field.ErrorList {
	sources := 0
	for _, v := range reflect.ValueOf(source).Elem().Fields() {
		if !v.IsNil() {
			sources++
		}
	}
	var errs field.ErrorList
	switch {
	case sources == 0:
		return field.ErrorList{field.Required(at, "must specify a volume type")}
	case sources > 1:
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type"))
	}
	require := func(missing bool, path ...string) {
		if missing {
			errs = append(errs, field.Required(at.Child(path[0], path[1:]...), ""))
		}
	}
	require(source.ConfigMap != nil && source.ConfigMap.Name == "", "configMap", "name")
	require(source.Secret != nil && source.Secret.SecretName == "", "secret", "secretName")
	require(source.HostPath != nil && source.HostPath.Path == "", "hostPath", "path")
	claim := source.PersistentVolumeClaim
	require(claim != nil && claim.ClaimName == "", "persistentVolumeClaim", "claimName")
	require(source.CSI != nil && source.CSI.Driver == "", "csi", "driver")
	return errs
}

func validateContainers(spec *corev1.PodSpec, volumes map[string]bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(root.Child("containers"), ""))
	}
	names := map[string]bool{}
	for _, group := range []struct {
		name       string
		containers []corev1.Container
	}{{"containers", spec.Containers}, {"initContainers", spec.InitContainers}} {
		for i := range group.containers {
			c, at := &group.containers[i], root.Child(group.name).Index(i)
			errs = append(errs, validateContainer(c, volumes, at)...)
			if names[c.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
			}
			names[c.Name] = true
		}
	}
	return errs
}

func validateContainer(c *corev1.Container, volumes map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, named(c.Name, validation.IsDNS1123Label, at.Child("name"))...)
	}
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(at.Child("image"), ""))
	case strings.TrimSpace(c.Image) != c.Image:
		errs = append(errs, field.Invalid(at.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
		once  bool // the container has to succeed a single time
	}{
		{"livenessProbe", c.LivenessProbe, true}, {"readinessProbe", c.ReadinessProbe, false}, {"startupProbe", c.StartupProbe, true},
	} {
		if probe.probe != nil {
			errs = append(errs, validateProbe(probe.probe, probe.once, at.Child(probe.name))...)
		}
	}
	errs = append(errs, validateContainerPorts(c.Ports, at.Child("ports"))...)
	for i := range c.Env {
		errs = append(errs, validateEnv(&c.Env[i], at.Child("env").Index(i))...)
	}
	errs = append(errs, validateMounts(c.VolumeMounts, volumes, at.Child("volumeMounts"))...)
	errs = append(errs, oneOf(c.ImagePullPolicy, []corev1.PullPolicy{
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever,
	}, at.Child("imagePullPolicy"))...)
	return append(errs, validateResources(&c.Resources, at.Child("resources"))...)
}

func validateProbe(probe *corev1.Probe, once bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	handlers := 0
	for _, set := range []bool{probe.Exec != nil, probe.HTTPGet != nil, probe.TCPSocket != nil, probe.GRPC != nil} {
		if set {
			handlers++
		}
	}
	switch {
	case handlers == 0:
		errs = append(errs, field.Required(at, "must specify a handler type"))
	case handlers > 1:
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 handler type"))
	}
	errs = append(errs, notNegative(&probe.InitialDelaySeconds, at.Child("initialDelaySeconds"))...)
	errs = append(errs, notNegative(&probe.TimeoutSeconds, at.Child("timeoutSeconds"))...)
	errs = append(errs, notNegative(&probe.PeriodSeconds, at.Child("periodSeconds"))...)
	errs = append(errs, notNegative(&probe.SuccessThreshold, at.Child("successThreshold"))...)
	errs = append(errs, notNegative(&probe.FailureThreshold, at.Child("failureThreshold"))...)
	if once && probe.SuccessThreshold != 1 {
		errs = append(errs, field.Invalid(at.Child("successThreshold"), probe.SuccessThreshold, "must be 1"))
	}
	return errs
}

func validateContainerPorts(ports []corev1.ContainerPort, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		at := root.Index(i)
		if port.Name != "" {
			errs = append(errs, named(port.Name, validation.IsValidPortName, at.Child("name"))...)
			if names[port.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, inRange(int64(port.ContainerPort), 1, 65535, at.Child("containerPort"))...)
		}
		if port.HostPort != 0 {
			errs = append(errs, inRange(int64(port.HostPort), 1, 65535, at.Child("hostPort"))...)
		}
		errs = append(errs, oneOf(port.Protocol, protocols, at.Child("protocol"))...)
	}
	return errs
}

var protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

func validateEnv(env *corev1.EnvVar, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if env.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, named(env.Name, validation.IsRelaxedEnvVarName, at.Child("name"))...)
	}
	from := env.ValueFrom
	if from == nil {
		return errs
	}
	sources := 0
	for _, v := range reflect.ValueOf(from).Elem().Fields() {
		if !v.IsNil() {
			sources++
		}
	}
	at = at.Child("valueFrom")
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(at, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"))
	case env.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateMounts(mounts []corev1.VolumeMount, volumes map[string]bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	for i, mount := range mounts {
		at := root.Index(i)
		switch {
		case mount.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes[mount.Name]:
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
		if paths[mount.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths[mount.MountPath] = true
	}
	return errs
}

// validateResources refuses negative amounts and requests beyond the limit, in the order of the resources' names.
func validateResources(resources *corev1.ResourceRequirements, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(resources.Limits) {
		limit := resources.Limits[name]
		errs = append(errs, amountNotNegative(limit, root.Child("limits").Key(string(name)))...)
	}
	for _, name := range sortedNames(resources.Requests) {
		request, at := resources.Requests[name], root.Child("requests")
		errs = append(errs, amountNotNegative(request, at.Key(string(name)))...)
		if limit, ok := resources.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at, request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
}

func sortedNames(amounts corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(amounts))
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func amountNotNegative(amount resource.Quantity, at *field.Path) field.ErrorList {
	if amount.Sign() < 0 {
		return field.ErrorList{field.Invalid(at, amount.String(), apivalidation.IsNegativeErrorMsg)}
	}
	return nil
}

func validateTolerations(tolerations []corev1.Toleration, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := root.Index(i)
		if t.Key != "" {
			for _, message := range validation.IsQualifiedName(t.Key) {
				errs = append(errs, field.Invalid(at.Child("key"), t.Key, message))
			}
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			for _, message := range validation.IsValidLabelValue(t.Value) {
				errs = append(errs, field.Invalid(at.Child("operator"), t.Value, message))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("operator"), t, "value must be empty when `operator` is 'Exists'"))
			}
		default:
			errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
	}
	return errs
}
