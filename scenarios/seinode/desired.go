package seinode

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeLabel has the name of the node that an object belongs to.
const nodeLabel = "sei.io/node"

const (
	containerName = "seid"
	rpcPort       = 26657
)

func (n *SeiNode) labels() map[string]string { return map[string]string{nodeLabel: n.Name} }

// owned is the metadata of an object that belongs to the node.
func (n *SeiNode) owned() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            n.Name,
		Namespace:       n.Namespace,
		Labels:          n.labels(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(n, GroupVersion.WithKind("SeiNode"))},
	}
}

// statefulSet renders the node's StatefulSet: one replica, none while the node is paused. What the API server has a default for
// is left out.
func (n *SeiNode) statefulSet() *appsv1.StatefulSet {
	replicas := int32(1)
	if n.Spec.Paused {
		replicas = 0
	}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: n.owned(),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: n.Name,
			Selector:    &metav1.LabelSelector{MatchLabels: n.labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: n.labels()},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: containerName, Image: n.Spec.Image,
					Ports: []corev1.ContainerPort{{Name: "rpc", ContainerPort: rpcPort}},
				}}},
			},
		},
	}
}

// service renders the node's headless Service.
func (n *SeiNode) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: n.owned(),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 n.labels(),
			PublishNotReadyAddresses: true,
			Ports:                    []corev1.ServicePort{{Name: "rpc", Port: rpcPort}},
		},
	}
}
