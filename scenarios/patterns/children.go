package patterns

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// labelApp is on all children of an app, with its name.
const labelApp = "patterns.example.com/app"

func labelsOf(app *App) map[string]string { return map[string]string{labelApp: app.Name} }

// meta names a child of an app.
func meta(app *App, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: name, Labels: labelsOf(app)}
}

func podSpec(app *App) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: app.Spec.Image}}}
}

// mount adds the volume of a claim to a pod.
func mount(spec *corev1.PodSpec, claim string) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	container := &spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
}

func claimSpec(app *App) (corev1.PersistentVolumeClaimSpec, error) {
	size, err := resource.ParseQuantity(app.Spec.Storage)
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}, err
}

// statefulSet returns the set of an app, each pod of which has a claim "data-<app>-<ordinal>".
func statefulSet(app *App) (*appsv1.StatefulSet, error) {
	claim, err := claimSpec(app)
	spec := podSpec(app)
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: meta(app, app.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &app.Spec.Replicas,
			ServiceName: app.Name,
			Selector:    &metav1.LabelSelector{MatchLabels: labelsOf(app)},
			Template:    corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(app)}, Spec: spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: labelsOf(app)}, Spec: claim,
			}},
		},
	}, err
}

// phase returns the phase of an app.
func phase(ready bool) string {
	if ready {
		return PhaseReady
	}
	return PhaseProgressing
}

// setReady reports whether a set has done all that its spec says.
func setReady(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == *set.Spec.Replicas
}

// rolledOut reports whether all pods of a set are as its spec says, and ready.
func rolledOut(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration == set.Generation && statusRolledOut(set)
}

// statusRolledOut reports the same by a status that may be about an earlier spec.
func statusRolledOut(set *appsv1.StatefulSet) bool {
	status := &set.Status
	return status.UpdatedReplicas == *set.Spec.Replicas && status.ReadyReplicas == *set.Spec.Replicas &&
		status.CurrentRevision == status.UpdateRevision
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func terminating(obj client.Object) bool { return !obj.GetDeletionTimestamp().IsZero() }
