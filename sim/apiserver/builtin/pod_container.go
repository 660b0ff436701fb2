package builtin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateContainers(spec *corev1.PodSpec, volumes map[string]bool, root *field.Path, version string) field.ErrorList {
	at := root.Child("containers")
	if len(spec.Containers) == 0 {
		return append(field.ErrorList{field.Required(at, "")}, validateInitContainers(spec, volumes, root.Child("initContainers"), version)...)
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range spec.Containers {
		c, at := &spec.Containers[i], at.Index(i)
		errs = append(errs, validateContainer(c, volumes, at, version)...)
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
		errs = append(errs, validateLifecycleAndProbes(c, at)...)
	}
	errs = append(errs, validateHostPorts(spec.Containers, at)...)
	return append(errs, validateInitContainers(spec, volumes, root.Child("initContainers"), version)...)
}

func validateInitContainers(spec *corev1.PodSpec, volumes map[string]bool, root *field.Path, version string) field.ErrorList {
	names := map[string]bool{}
	for i := range spec.Containers {
		names[spec.Containers[i].Name] = true
	}
	var errs field.ErrorList
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], root.Index(i)
		errs = append(errs, validateContainer(c, volumes, at, version)...)
		stays := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		switch {
		case names[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		case c.Name != "":
			names[c.Name] = true
		}
		errs = append(errs, validateHostPorts(spec.InitContainers[i:i+1], root)...)
		if stays {
			errs = append(errs, validateLifecycleAndProbes(c, at)...)
			continue
		}
		for _, refused := range []struct {
			name string
			set  bool
		}{{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil}} {
			if refused.set {
				errs = append(errs, field.Forbidden(at.Child(refused.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	return errs
}

// validateContainer is validateContainerCommon.
func validateContainer(c *corev1.Container, volumes map[string]bool, at *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, named(c.Name, validation.IsDNS1123Label, at.Child("name"))...)
	}
	errs = join(errs,
		required(c.Image, at.Child("image")),
		oneOf(c.TerminationMessagePolicy, []corev1.TerminationMessagePolicy{
			corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError,
		}, at.Child("terminationMessagePolicy")),
		validateContainerPorts(c.Ports, at.Child("ports")),
	)
	for i := range c.Env {
		errs = append(errs, validateEnv(&c.Env[i], at.Child("env").Index(i), version)...)
	}
	if len(c.EnvFrom) > 0 { // a path costs more than the check
		errs = append(errs, validateEnvFrom(c.EnvFrom, at.Child("envFrom"))...)
	}
	return join(errs,
		validateMounts(c, volumes, at.Child("volumeMounts")),
		validateDevices(c, volumes, at.Child("volumeDevices")),
		oneOf(c.ImagePullPolicy, []corev1.PullPolicy{
			corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever,
		}, at.Child("imagePullPolicy")),
		validateResources(&c.Resources, at.Child("resources")),
		validateContainerSecurity(c.SecurityContext, at.Child("securityContext"), version),
	)
}

// validateLifecycleAndProbes checks what only containers have that run as long as their pod.
func validateLifecycleAndProbes(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Lifecycle != nil {
		for _, hook := range []struct {
			name    string
			handler *corev1.LifecycleHandler
		}{{"postStart", c.Lifecycle.PostStart}, {"preStop", c.Lifecycle.PreStop}} {
			if h := hook.handler; h != nil {
				errs = append(errs, validateHandler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep}, at.Child("lifecycle", hook.name))...)
			}
		}
	}
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		if probe.probe != nil {
			errs = append(errs, validateProbe(probe.probe, probe.name == "readinessProbe", at.Child(probe.name))...)
		}
	}
	return errs
}

// handler is one of the things a probe or a hook can do.
type handler struct {
	exec  *corev1.ExecAction
	get   *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func validateHandler(h handler, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	handlers := 0
	check := func(name string, present bool, validate func(at *field.Path) field.ErrorList) {
		switch {
		case !present:
		case handlers > 0:
			errs = append(errs, field.Forbidden(root.Child(name), "may not specify more than 1 handler type"))
		default:
			handlers++
			errs = append(errs, validate(root.Child(name))...)
		}
	}
	check("exec", h.exec != nil, func(at *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(at.Child("command"), "")}
		}
		return nil
	})
	check("httpGet", h.get != nil, func(at *field.Path) field.ErrorList { return validateHTTPGet(h.get, at) })
	check("tcpSocket", h.tcp != nil, func(at *field.Path) field.ErrorList { return validatePort(h.tcp.Port, at.Child("port")) })
	check("grpc", h.grpc != nil, func(at *field.Path) field.ErrorList {
		return validatePort(intstr.FromInt32(h.grpc.Port), at.Child("port"))
	})
	check("sleep", h.sleep != nil, func(*field.Path) field.ErrorList { return nil })
	if handlers == 0 {
		errs = append(errs, field.Required(root, "must specify a handler type"))
	}
	return errs
}

func validateHTTPGet(get *corev1.HTTPGetAction, at *field.Path) field.ErrorList {
	errs := join(required(get.Path, at.Child("path")), validatePort(get.Port, at.Child("port")),
		supported(get.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}, at.Child("scheme")))
	for _, header := range get.HTTPHeaders {
		errs = append(errs, named(header.Name, validation.IsHTTPHeaderName, at.Child("httpHeaders"))...)
	}
	return errs
}

// validatePort is ValidatePortNumOrName.
func validatePort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.Int {
		return portNumber(port.IntVal, at)
	}
	return named(port.StrVal, validation.IsValidPortName, at)
}

func validateProbe(probe *corev1.Probe, readiness bool, at *field.Path) field.ErrorList {
	h := handler{probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC, nil}
	errs := join(
		validateHandler(h, at),
		notNegative(&probe.InitialDelaySeconds, at.Child("initialDelaySeconds")),
		notNegative(&probe.TimeoutSeconds, at.Child("timeoutSeconds")),
		notNegative(&probe.PeriodSeconds, at.Child("periodSeconds")),
		notNegative(&probe.SuccessThreshold, at.Child("successThreshold")),
		notNegative(&probe.FailureThreshold, at.Child("failureThreshold")),
	)
	grace := probe.TerminationGracePeriodSeconds
	if grace != nil && *grace <= 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0"))
	}
	switch {
	case readiness && grace != nil:
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), grace, "must not be set for readinessProbes"))
	case !readiness && probe.SuccessThreshold != 1:
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
			wrong := named(port.Name, validation.IsValidPortName, at.Child("name"))
			if len(wrong) == 0 && names[port.Name] {
				wrong = field.ErrorList{field.Duplicate(at.Child("name"), port.Name)}
			}
			errs = append(errs, wrong...)
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(port.ContainerPort, at.Child("containerPort"))...)
		}
		if port.HostPort != 0 {
			errs = append(errs, portNumber(port.HostPort, at.Child("hostPort"))...)
		}
		errs = append(errs, oneOf(port.Protocol, protocols, at.Child("protocol"))...)
	}
	return errs
}

var protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

// validateHostPorts refuses that two containers want the same port of their node; checkHostPortConflicts.
func validateHostPorts(containers []corev1.Container, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			text := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if taken[text] {
				errs = append(errs, field.Duplicate(root.Index(i).Child("ports").Index(j).Child("hostPort"), text))
			}
			taken[text] = true
		}
	}
	return errs
}

func validateEnv(env *corev1.EnvVar, at *field.Path, version string) field.ErrorList {
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
	at = at.Child("valueFrom")
	if from.FieldRef != nil {
		errs = append(errs, validateFieldRef(from.FieldRef, envFields, at.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		errs = append(errs, validateResourceRef(from.ResourceFieldRef, false, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	sources := 0
	for _, v := range reflect.ValueOf(from).Elem().Fields() {
		if !v.IsNil() {
			sources++
		}
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(at, "", noEnvSource(version)))
	case env.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func noEnvSource(string) string {
	return "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
}

func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	errs := named(name, validation.IsDNS1123Subdomain, at.Child("name"))
	if key == "" {
		return append(errs, field.Required(at.Child("key"), ""))
	}
	return append(errs, named(key, validation.IsConfigMapKey, at.Child("key"))...)
}

// validateFieldRef is validateObjectFieldSelector.
func validateFieldRef(ref *corev1.ObjectFieldSelector, known []string, at *field.Path) field.ErrorList {
	if ref.FieldPath == "" {
		return field.ErrorList{field.Required(at.Child("fieldPath"), "")}
	}
	path, subscript, indexed := subscripted(ref.FieldPath)
	switch {
	case ref.APIVersion != "v1":
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath,
			fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", ref.APIVersion))}
	case indexed && path == "metadata.annotations":
		return named(strings.ToLower(subscript), validation.IsQualifiedName, at)
	case indexed && path == "metadata.labels":
		return named(subscript, validation.IsQualifiedName, at)
	case indexed:
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", ref.FieldPath))}
	case path == "spec.host":
		path = "spec.nodeName" // an old name
	case !slices.Contains(downwardFields, path):
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label not supported: %s", ref.FieldPath))}
	}
	if !slices.Contains(known, path) {
		return field.ErrorList{field.NotSupported(at.Child("fieldPath"), path, known)}
	}
	return nil
}

// downwardFields are the fields that have a name outside of a pod; ConvertDownwardAPIFieldLabel in pkg/apis/core/pods/helpers.go.
var downwardFields = append([]string{"spec.restartPolicy", "spec.schedulerName", "status.phase", "metadata.annotations", "metadata.labels"},
	envFields...)

// subscripted splits "metadata.labels['app']" into its parts.
func subscripted(path string) (name, subscript string, ok bool) {
	text, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, subscript, ok = strings.Cut(text, "['")
	if !ok || name == "" {
		return path, "", false
	}
	return name, subscript, true
}

// resourceFields are what a container can ask for and be limited to.
var resourceFields = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
	"requests.memory"}

// validateResourceRef is validateContainerResourceFieldSelector.
func validateResourceRef(ref *corev1.ResourceFieldSelector, volume bool, at *field.Path) field.ErrorList {
	huge := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	var errs field.ErrorList
	switch {
	case volume && ref.ContainerName == "":
		errs = append(errs, field.Required(at.Child("containerName"), ""))
	case ref.Resource == "":
		errs = append(errs, field.Required(at.Child("resource"), ""))
	case !slices.Contains(resourceFields, ref.Resource) && !huge:
		errs = append(errs, field.NotSupported(at.Child("resource"), ref.Resource, resourceFields))
	}
	if ref.Divisor.IsZero() {
		return errs
	}
	_, name, _ := strings.Cut(ref.Resource, ".")
	text, divisors := "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the %s resource", []string{
		"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	switch {
	case name == "cpu":
		text, divisors = "1m and 1 are supported with the cpu resource", []string{"1m", "1"}
	case name == "memory":
		text = fmt.Sprintf(text, "memory")
	case name == "ephemeral-storage":
		text = fmt.Sprintf(text, "local ephemeral storage")
	case huge:
		text = fmt.Sprintf(text, "hugepages")
	default:
		return errs
	}
	if !slices.Contains(divisors, ref.Divisor.String()) {
		errs = append(errs, field.Invalid(at.Child("divisor"), ref.Resource, "only divisor's values "+text))
	}
	return errs
}

func validateEnvFrom(sources []corev1.EnvFromSource, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, source := range sources {
		at, count := root.Index(i), 0
		if source.Prefix != "" {
			errs = append(errs, named(source.Prefix, validation.IsRelaxedEnvVarName, at.Child("prefix"))...)
		}
		check := func(name string, at *field.Path) {
			count++
			if name == "" {
				errs = append(errs, field.Required(at.Child("name"), ""))
				return
			}
			for _, message := range apivalidation.NameIsDNSSubdomain(name, true) {
				errs = append(errs, field.Invalid(at.Child("name"), name, message))
			}
		}
		if source.ConfigMapRef != nil {
			check(source.ConfigMapRef.Name, at.Child("configMapRef"))
		}
		if source.SecretRef != nil {
			check(source.SecretRef.Name, at.Child("secretRef"))
		}
		switch {
		case count == 0:
			errs = append(errs, field.Invalid(root, "", "must specify one of: `configMapRef` or `secretRef`"))
		case count > 1:
			errs = append(errs, field.Invalid(root, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

func validateMounts(c *corev1.Container, volumes map[string]bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	for i, mount := range c.VolumeMounts {
		at := root.Index(i)
		errs = append(errs, required(mount.Name, at.Child("name"))...)
		if !volumes[mount.Name] {
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		errs = append(errs, required(mount.MountPath, at.Child("mountPath"))...)
		if paths[mount.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths[mount.MountPath] = true
		for _, device := range c.VolumeDevices {
			if device.Name == mount.Name {
				errs = append(errs, field.Invalid(at.Child("name"), mount.Name, "must not already exist in volumeDevices"))
			}
			if device.DevicePath == mount.MountPath {
				errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices"))
			}
		}
		// The paths of the rest are those of the list: Kubernetes leaves out the index.
		if mount.SubPath != "" {
			errs = append(errs, descendingPath(mount.SubPath, root.Child("subPath"))...)
		}
		if mount.SubPathExpr != "" {
			if mount.SubPath != "" {
				errs = append(errs, field.Invalid(at.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			errs = append(errs, descendingPath(mount.SubPathExpr, root.Child("subPathExpr"))...)
		}
		if mode := mount.MountPropagation; mode != nil {
			errs = append(errs, validatePropagation(c, *mode, root.Child("mountPropagation"))...)
		}
	}
	return errs
}

func validatePropagation(c *corev1.Container, mode corev1.MountPropagationMode, at *field.Path) field.ErrorList {
	modes := []corev1.MountPropagationMode{
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone}
	if !slices.Contains(modes, mode) {
		return field.ErrorList{field.NotSupported(at, mode, modes)}
	}
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if mode == corev1.MountPropagationBidirectional && !privileged {
		return field.ErrorList{field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers")}
	}
	return nil
}

func validateDevices(c *corev1.Container, volumes map[string]bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, paths := map[string]bool{}, map[string]bool{}
	for i, device := range c.VolumeDevices {
		at := root.Index(i)
		errs = append(errs, required(device.Name, at.Child("name"))...)
		if names[device.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), device.Name, "must be unique"))
		}
		if device.Name != "" && !volumes[device.Name] {
			errs = append(errs, field.NotFound(at.Child("name"), device.Name))
		}
		errs = append(errs, required(device.DevicePath, at.Child("devicePath"))...)
		if paths[device.DevicePath] {
			errs = append(errs, field.Invalid(at.Child("devicePath"), device.DevicePath, "must be unique"))
		}
		names[device.Name], paths[device.DevicePath] = true, true
	}
	return errs
}

// validateResources refuses amounts that cannot be, and requests beyond the limit, in the order of the resources' names.
func validateResources(resources *corev1.ResourceRequirements, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	huge, plain := false, false
	check := func(name corev1.ResourceName, amount resource.Quantity, at *field.Path) {
		errs = join(errs, validateContainerResourceName(name, at), amountNotNegative(amount, at))
		if isExtended(name) && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, amount, "must be an integer"))
		}
		huge = huge || isHugePage(name)
		plain = plain || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	limits, requests := root.Child("limits"), root.Child("requests")
	for _, name := range sortedNames(resources.Limits) {
		check(name, resources.Limits[name], limits.Key(string(name)))
	}
	for _, name := range sortedNames(resources.Requests) {
		request := resources.Requests[name]
		check(name, request, requests.Key(string(name)))
		overcommit := isNative(name) && !isHugePage(name)
		switch limit, ok := resources.Limits[name]; {
		case !ok && !overcommit:
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case !ok:
		case !overcommit && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if huge && !plain {
		errs = append(errs, field.Forbidden(root, "HugePages require cpu or memory"))
	}
	return errs
}

func sortedNames[V any](amounts map[corev1.ResourceName]V) []corev1.ResourceName {
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
