package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// The default admission plugins that look at other objects; pkg/kubeapiserver/options/plugins.go of k8s.io/kubernetes has the
// list of those that are on.

// admitPod gives a pod the priority of its class; plugin/pkg/admission/priority/admission.go. A pod without a class gets that
// of the global default, where there is one.
func admitPod(s *Server, obj Object) *statusError {
	pod := obj.(*corev1.Pod)
	k := s.kinds.rows[priorityClassOrder]
	name := pod.Spec.PriorityClassName
	if name == "" && s.table(k).count == 0 {
		return nil // what nearly always is the case
	}
	class := s.priorityClass(k, name)
	if class == nil {
		if name == "" {
			return nil
		}
		return apierrors.NewForbidden(s.kinds.rows[podOrder].GroupResource(), pod.Name,
			fmt.Errorf("no PriorityClass with name %s was found", name))
	}
	pod.Spec.PriorityClassName = class.Name
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &class.Value, class.PreemptionPolicy
	return nil
}

// priorityClass returns the class of that name, the global default of least value where there is none, or nil.
func (s *Server) priorityClass(k *Kind, name string) *schedulingv1.PriorityClass {
	if value, ok := builtin.SystemPriorities[name]; ok {
		policy := corev1.PreemptLowerPriority
		class := &schedulingv1.PriorityClass{Value: value, PreemptionPolicy: &policy}
		class.Name = name
		return class
	}
	if name != "" {
		if e := s.table(k).get("", name); e != nil {
			return e.object.(*schedulingv1.PriorityClass).DeepCopy()
		}
		return nil
	}
	var least *schedulingv1.PriorityClass
	for e := range s.table(k).all().entries() {
		if class := e.object.(*schedulingv1.PriorityClass); class.GlobalDefault && (least == nil || class.Value < least.Value) {
			least = class
		}
	}
	return least.DeepCopy()
}

// admitClaim gives a claim the default class of the cluster, unless it says that it wants none;
// plugin/pkg/admission/storage/storageclass/setdefault/admission.go.
func admitClaim(s *Server, obj Object) *statusError {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if claim.Spec.StorageClassName != nil || claim.Annotations[corev1.BetaStorageClassAnnotation] != "" {
		return nil
	}
	const annotation, old = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	var newest *storagev1.StorageClass
	for e := range s.table(s.kinds.rows[storageClassOrder]).all().entries() {
		class := e.object.(*storagev1.StorageClass)
		if class.Annotations[annotation] != "true" && class.Annotations[old] != "true" {
			continue
		}
		// Of several the youngest is taken, of those of one age the first by name.
		if newest == nil || class.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = class
		}
	}
	if newest != nil {
		claim.Spec.StorageClassName = &newest.Name
	}
	return nil
}

// admitIngress gives an ingress the default class of the cluster; plugin/pkg/admission/network/defaultingressclass/
// admission.go.
func admitIngress(s *Server, obj Object) *statusError {
	ingress := obj.(*networkingv1.Ingress)
	if ingress.Spec.IngressClassName != nil || ingress.Annotations["kubernetes.io/ingress.class"] != "" {
		return nil
	}
	var newest *networkingv1.IngressClass
	for e := range s.table(s.kinds.rows[ingressClassOrder]).all().entries() {
		class := e.object.(*networkingv1.IngressClass)
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if newest == nil || class.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = class
		}
	}
	if newest != nil {
		ingress.Spec.IngressClassName = &newest.Name
	}
	return nil
}

// admitDefinition notes that nothing will come of a definition.
func admitDefinition(s *Server, obj Object) *statusError {
	definition := obj.(*apiextensionsv1.CustomResourceDefinition)
	group, kind := definition.Spec.Group, definition.Spec.Names.Kind
	for _, row := range s.kinds.rows {
		if row.GroupKind() == (schema.GroupKind{Group: group, Kind: kind}) {
			return nil
		}
	}
	s.gap(fmt.Sprintf("the CustomResourceDefinition %s was made at run time: it is stored, but %s.%s is not served, and its status "+
		"is not written: give the definition to the scenario", definition.Name, kind, group))
	return nil
}
