package builtin

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DefaultPod fills in defaults: pkg/apis/core/v1/defaults.go SetDefaults_Pod and SetDefaults_PodSpec. Some defaults are
// only for pods and not for their templates.
func DefaultPod(pod *corev1.Pod, _ string) {
	spec := &pod.Spec
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
		}
	}
	fillPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
			for i := range containers {
				for j := range containers[i].Ports {
					port := &containers[i].Ports[j]
					fill(&port.HostPort, port.ContainerPort)
				}
			}
		}
	}
	defaultPodSpec(spec)
	if *spec.TerminationGracePeriodSeconds < 0 { // "as fast as gracefully possible"
		*spec.TerminationGracePeriodSeconds = 1
	}
	switch status := &pod.Status; { // the internal type has only the younger field
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
}

// requestLimits requests what is limited and not requested.
func requestLimits(resources *corev1.ResourceRequirements) {
	for name, limit := range resources.Limits {
		if _, ok := resources.Requests[name]; ok {
			continue
		}
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[name] = limit.DeepCopy()
	}
}

func defaultPodSpec(spec *corev1.PodSpec) {
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fillPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	fillPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	// Not a default but the conversions to the internal form and back: the account has two names, which are the same.
	fill(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	if spec.DeprecatedServiceAccount != spec.ServiceAccountName {
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	defaultAmounts(spec.Overhead)
	if spec.Resources != nil {
		defaultAmounts(spec.Resources.Limits)
		defaultAmounts(spec.Resources.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	defaultAmounts(c.Resources.Limits)
	defaultAmounts(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

func defaultProbe(probe *corev1.Probe) {
	fill(&probe.TimeoutSeconds, 1)
	fill(&probe.PeriodSeconds, 10)
	fill(&probe.SuccessThreshold, 1)
	fill(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		fillPointer(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		fill(&get.Path, "/")
		fill(&get.Scheme, corev1.URISchemeHTTP)
	}
}

// pullPolicy returns how an image is pulled by default: always if it is the newest of its name, because its tag is "latest" or
// it has neither tag nor digest; pkg/util/parsers/parsers.go. What is no name of an image has no tag either.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	if tag == "latest" || tag == "" && !pinned && imageName.MatchString(name) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// imageName is the name of an image, with or without a registry; github.com/distribution/reference regexp.go.
var imageName = regexp.MustCompile(`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// defaultVolume fills in the defaults of the volume sources in common use; pkg/apis/core/v1/defaults.go.
func defaultVolume(v *corev1.Volume) {
	switch {
	case v.VolumeSource == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.HostPath != nil:
		fillPointer(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		fillPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		fillPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		fillPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	case v.Projected != nil:
		fillPointer(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				defaultDownward(source.DownwardAPI.Items)
			}
			if source.ServiceAccountToken != nil {
				fillPointer(&source.ServiceAccountToken.ExpirationSeconds, 60*60)
			}
		}
	case v.Ephemeral != nil:
		if v.Ephemeral.VolumeClaimTemplate != nil {
			defaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
		}
	case v.ISCSI != nil:
		fill(&v.ISCSI.ISCSIInterface, "default")
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			fill(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}
