package builtin

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// A real server validates the internal form of its objects and prints parts of it in errors: that form has no JSON names, and
// what it has nothing for is null. It is printed here from the served form. In 1.36 some internal types have their fields in an
// order of their own, in 1.37 they have the served one, with the fields that are new then.

// internal returns a value that prints as the internal form of v, a value of a served type or a pointer to one.
func internal(v any, version string) any { return internalForm{reflect.ValueOf(v), version} }

type internalForm struct {
	value   reflect.Value
	version string
}

// MarshalJSON implements [json.Marshaler].
func (f internalForm) MarshalJSON() ([]byte, error) {
	w := internalWriter{version: f.version}
	err := w.write(f.value)
	return w.Bytes(), err
}

// machinery is where the types live that the internal form shares with the served one.
const machinery = "k8s.io/apimachinery/"

var jsonMarshaler = reflect.TypeFor[json.Marshaler]()

type internalWriter struct {
	bytes.Buffer

	version string
}

func (w *internalWriter) write(v reflect.Value) error {
	if !v.IsValid() { // a field that this version of k8s.io/api does not have
		return w.writeJSON(nil)
	}
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer && v.IsNil():
		return w.writeJSON(nil)
	case t.Kind() == reflect.Pointer:
		return w.write(v.Elem())
	case t.Implements(jsonMarshaler), reflect.PointerTo(t).Implements(jsonMarshaler), strings.HasPrefix(t.PkgPath(), machinery):
		return w.writeJSON(v.Interface())
	}
	switch {
	case t.Kind() == reflect.Struct:
		w.WriteByte('{')
		err := w.writeFields(v)
		w.WriteByte('}')
		return err
	case t.Kind() == reflect.Slice && !v.IsNil() && t.Elem().Kind() != reflect.Uint8:
		w.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := w.write(v.Index(i)); err != nil {
				return err
			}
		}
		w.WriteByte(']')
		return nil
	default: // the maps have strings, quantities and the like
		return w.writeJSON(v.Interface())
	}
}

func (w *internalWriter) writeJSON(value any) error {
	data, err := json.Marshal(value)
	w.Write(data)
	return err
}

// writeFields writes the fields of a struct, those of embedded structs among them.
func (w *internalWriter) writeFields(v reflect.Value) error {
	for _, name := range w.fields(v.Type()) {
		f, _ := v.Type().FieldByName(name)
		value := v.FieldByName(name)
		if pod, ok := reflect.TypeAssert[corev1.PodSpec](v); ok && name == "SecurityContext" && !since(w.version, 37) {
			value = reflect.ValueOf(securityContext(&pod))
		}
		if !f.Anonymous {
			w.separate()
			w.WriteString(`"` + name + `":`)
			if err := w.write(value); err != nil {
				return err
			}
			continue
		}
		inner := internalWriter{version: w.version}
		if err := inner.write(value); err != nil {
			return err
		}
		if fields := inner.Bytes(); len(fields) > len("{}") {
			w.separate()
			w.Write(fields[1 : len(fields)-1])
		}
	}
	return nil
}

// separate writes a comma unless a struct has just begun.
func (w *internalWriter) separate() {
	if data := w.Bytes(); len(data) > 0 && data[len(data)-1] != '{' {
		w.WriteByte(',')
	}
}

// fields returns the fields a type has internally, in their order.
func (w *internalWriter) fields(t reflect.Type) []string {
	if names, ok := order36[t]; ok && !since(w.version, 37) {
		return strings.Fields(names)
	}
	names := make([]string, 0, t.NumField())
	for f := range t.Fields() {
		if f.Name != "TypeMeta" {
			names = append(names, f.Name)
		}
	}
	if since(w.version, 37) {
		names = append(names, strings.Fields(added37[t])...)
	}
	return slices.Compact(names)
}

// podSecurityContext is what 1.36 has of a pod's security context internally: what a served pod says of its host is there.
type podSecurityContext struct {
	HostNetwork, HostPID, HostIPC    bool
	ShareProcessNamespace, HostUsers *bool
	corev1.PodSecurityContext
}

func securityContext(pod *corev1.PodSpec) *podSecurityContext {
	if pod.SecurityContext == nil {
		return nil
	}
	return &podSecurityContext{
		HostNetwork: pod.HostNetwork, HostPID: pod.HostPID, HostIPC: pod.HostIPC,
		ShareProcessNamespace: pod.ShareProcessNamespace, HostUsers: pod.HostUsers, PodSecurityContext: *pod.SecurityContext,
	}
}

// order36 has the internal types of 1.36 whose fields are not the served ones in their order.
var order36 = map[reflect.Type]string{
	reflect.TypeFor[corev1.PodSpec](): "Volumes InitContainers Containers EphemeralContainers RestartPolicy " +
		"TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName " +
		"AutomountServiceAccountToken NodeName SecurityContext ImagePullSecrets Hostname Subdomain SetHostnameAsFQDN Affinity " +
		"SchedulerName Tolerations HostAliases PriorityClassName Priority PreemptionPolicy DNSConfig ReadinessGates " +
		"RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints OS SchedulingGates ResourceClaims Resources " +
		"HostnameOverride SchedulingGroup",
	reflect.TypeFor[corev1.PodSecurityContext](): "SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot " +
		"SupplementalGroups SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls SeccompProfile AppArmorProfile " +
		"SELinuxChangePolicy",
	reflect.TypeFor[corev1.VolumeSource](): "HostPath EmptyDir GCEPersistentDisk AWSElasticBlockStore GitRepo Secret NFS ISCSI " +
		"Glusterfs PersistentVolumeClaim RBD Quobyte FlexVolume Cinder CephFS Flocker DownwardAPI FC AzureFile ConfigMap " +
		"VsphereVolume AzureDisk PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS CSI Ephemeral Image",
	reflect.TypeFor[corev1.PersistentVolumeSource](): "GCEPersistentDisk AWSElasticBlockStore HostPath Glusterfs NFS RBD " +
		"Quobyte ISCSI FlexVolume Cinder CephFS FC Flocker AzureFile VsphereVolume AzureDisk PhotonPersistentDisk " +
		"PortworxVolume ScaleIO Local StorageOS CSI",
	reflect.TypeFor[batchv1.JobSpec](): "Parallelism Completions PodFailurePolicy SuccessPolicy ActiveDeadlineSeconds " +
		"BackoffLimit BackoffLimitPerIndex MaxFailedIndexes Selector ManualSelector Template TTLSecondsAfterFinished " +
		"CompletionMode Suspend PodReplacementPolicy ManagedBy",
}

// added37 has the fields that are new in 1.37.
var added37 = map[reflect.Type]string{
	reflect.TypeFor[corev1.PodSpec]():                       "EvictionResponders",
	reflect.TypeFor[corev1.VolumeMount]():                   "BindMountOptions",
	reflect.TypeFor[corev1.ConfigMapVolumeSource]():         "DefaultUser",
	reflect.TypeFor[corev1.SecretVolumeSource]():            "DefaultUser",
	reflect.TypeFor[corev1.ProjectedVolumeSource]():         "DefaultUser",
	reflect.TypeFor[corev1.DownwardAPIVolumeSource]():       "DefaultUser",
	reflect.TypeFor[corev1.DownwardAPIVolumeFile]():         "User",
	reflect.TypeFor[corev1.KeyToPath]():                     "User",
	reflect.TypeFor[corev1.ServiceAccountTokenProjection](): "User",
	reflect.TypeFor[corev1.ClusterTrustBundleProjection]():  "User",
	reflect.TypeFor[corev1.PodCertificateProjection]():      "User",
	reflect.TypeFor[corev1.EmptyDirVolumeSource]():          "Mode",
	reflect.TypeFor[corev1.GRPCAction]():                    "Mode",
	reflect.TypeFor[corev1.HTTPGetAction]():                 "Protocol",
	reflect.TypeFor[corev1.PersistentVolumeClaimStatus]():   "HealthStatus",
	reflect.TypeFor[batchv1.JobSpec]():                      "Scheduling",
}
