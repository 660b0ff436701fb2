package clickhouse

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels of the objects of a host, as the operator names them.
const (
	labelApp           = "clickhouse.altinity.com/app"
	labelCHI           = "clickhouse.altinity.com/chi"
	labelShard         = "clickhouse.altinity.com/shard"
	labelReplica       = "clickhouse.altinity.com/replica"
	labelObjectVersion = "clickhouse.altinity.com/object-version"
)

const (
	containerName = "clickhouse"
	dataPath      = "/var/lib/clickhouse"
	configPath    = "/etc/clickhouse-server/config.d"
	defaultImage  = "clickhouse/clickhouse-server:latest"
)

// host is one ClickHouse server: a replica of a shard, with a StatefulSet of its own.
type host struct {
	chi            *ClickHouseInstallation
	shard, replica int
}

// hosts returns the hosts of an installation in the order they are reconciled in.
func hosts(chi *ClickHouseInstallation) []host {
	layout := Layout{}
	if clusters := chi.Spec.Configuration.Clusters; len(clusters) > 0 {
		layout = clusters[0].Layout
	}
	var all []host
	for shard := range max(layout.ShardsCount, 1) {
		for replica := range max(layout.ReplicasCount, 1) {
			all = append(all, host{chi: chi, shard: shard, replica: replica})
		}
	}
	return all
}

// name is the name of the host's StatefulSet and Service.
func (h host) name() string { return fmt.Sprintf("chi-%s-%d-%d", h.chi.Name, h.shard, h.replica) }

func (h host) configMapName() string {
	return fmt.Sprintf("chi-%s-deploy-confd-%d-%d", h.chi.Name, h.shard, h.replica)
}

func (h host) labels() map[string]string {
	return map[string]string{
		labelApp:     "chop",
		labelCHI:     h.chi.Name,
		labelShard:   fmt.Sprint(h.shard),
		labelReplica: fmt.Sprint(h.replica),
	}
}

// meta is the metadata of an object that belongs to the host. As in the original its owner is the CHI, as controller and
// blocking a foreground deletion of the CHI.
func (h host) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: h.chi.Namespace,
		Labels:    h.labels(),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(h.chi, GroupVersion.WithKind("ClickHouseInstallation")),
		},
	}
}

// statefulSet renders the host's StatefulSet from scratch. It has no resourceVersion, so an update with it is
// unconditional.
func (h host) statefulSet() *appsv1.StatefulSet {
	replicas, history := int32(1), int32(10)
	if h.chi.Spec.Stop.IsTrue() {
		replicas = 0
	}
	pod := h.podSpec()
	set := &appsv1.StatefulSet{
		ObjectMeta: h.meta(h.name()),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &replicas,
			ServiceName:          h.name(),
			Selector:             &metav1.LabelSelector{MatchLabels: h.labels()},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: h.labels()}, Spec: pod},
			VolumeClaimTemplates: h.claims(pod),
			PodManagementPolicy:  appsv1.OrderedReadyPodManagement,
			// An explicit type without a rollingUpdate: not the same as partition 0, see newVersionedStatefulSetPod in
			// kube-controller-manager.
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: &history,
		},
	}
	set.Labels[labelObjectVersion] = fingerprint(set.Spec)
	return set
}

// podSpec is the spec of the pod template the CHI chooses, with the host's data claim and configuration mounted.
func (h host) podSpec() corev1.PodSpec {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: containerName, Image: defaultImage}}}
	for _, t := range h.chi.Spec.Templates.PodTemplates {
		if t.Name == h.chi.Spec.Defaults.Templates.PodTemplate {
			spec = *t.Spec.DeepCopy()
		}
	}
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: h.configMapName()}}
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: h.configMapName(), VolumeSource: corev1.VolumeSource{ConfigMap: source},
	})
	for i := range spec.Containers {
		if c := &spec.Containers[i]; c.Name == containerName {
			mount(c, h.configMapName(), configPath)
			if data := h.chi.Spec.Defaults.Templates.DataVolumeClaimTemplate; data != "" {
				mount(c, data, dataPath)
			}
		}
	}
	return spec
}

// mount mounts a volume unless the container mounts it already.
func mount(c *corev1.Container, volume, path string) {
	if !mounts(c, volume) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
}

func mounts(c *corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
}

// claims are the claim templates that the containers of a pod mount.
func (h host) claims(pod corev1.PodSpec) []corev1.PersistentVolumeClaim {
	var claims []corev1.PersistentVolumeClaim
	for _, t := range h.chi.Spec.Templates.VolumeClaimTemplates {
		used := slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return mounts(&c, t.Name) })
		if used {
			claims = append(claims, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: h.labels()}, Spec: *t.Spec.DeepCopy(),
			})
		}
	}
	return claims
}

// claim is the claim of the host's only pod that the StatefulSet controller makes from a claim template.
func (h host) claim(template corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s-%s-0", template.Name, h.name()),
			Namespace: h.chi.Namespace,
			Labels:    h.labels(),
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// configMap renders the configuration of the host.
func (h host) configMap() *corev1.ConfigMap {
	const macros = "<yandex><macros><installation>%s</installation><shard>%d</shard><replica>%s</replica></macros></yandex>"
	return &corev1.ConfigMap{
		ObjectMeta: h.meta(h.configMapName()),
		Data: map[string]string{
			"chop-generated-macros.xml": fmt.Sprintf(macros, h.chi.Name, h.shard, h.name()),
		},
	}
}

// service renders the headless service of the host.
func (h host) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: h.meta(h.name()),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 h.labels(),
			Ports: []corev1.ServicePort{
				{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 9000, TargetPort: intstr.FromInt32(9000)},
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8123, TargetPort: intstr.FromInt32(8123)},
			},
		},
	}
}

// fingerprint is the object version of a rendered spec: the 64-bit FNV-1a hash of its JSON. The operator compares
// StatefulSets by it alone, never by their specs.
func fingerprint(spec appsv1.StatefulSetSpec) string {
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("StatefulSet spec cannot be written as JSON: %v", err)) // it was decoded from JSON
	}
	hash := fnv.New64a()
	hash.Write(data)
	return fmt.Sprintf("%016x", hash.Sum64())
}
