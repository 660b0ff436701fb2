package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
	"github.com/stalemate-dev/stalemate/sim/canon"
)

// The default admission plugins that look at other objects; pkg/kubeapiserver/options/plugins.go of k8s.io/kubernetes has the
// list of those that are on.

// ProtectClaims turns on the admission plugin StorageObjectInUseProtection, which a real server has: new claims get a finalizer.
// It is off at first because only kube-controller-manager takes the finalizer away again: call it where something plays that
// controller, or where nobody waits for a deletion.
func (s *Server) ProtectClaims() { s.protects = true }

// ProtectVolumes does the same for PersistentVolumes and VolumeAttributesClasses, which other controllers let go.
func (s *Server) ProtectVolumes() { s.keeps = true }

// TaintNodes turns on the admission plugin TaintNodesByCondition, which a real server has: new nodes get the taint not-ready. It is off
// at first because only kube-controller-manager takes the taint away when the node is ready.
func (s *Server) TaintNodes() { s.taints = true }

// admitPod is what the plugins do about a new pod, in their order: LimitRanger, Priority and RuntimeClass.
// DefaultTolerationSeconds comes between the last two, but what it adds depends on nothing else: [builtin.PreparePod] does it.
func admitPod(s *Server, obj Object) *statusError {
	pod := obj.(*corev1.Pod)
	for _, limits := range s.limitRanges(pod.Namespace) {
		builtin.DefaultLimits(pod, limits)
	}
	if err := s.admitPriority(pod); err != nil {
		return err
	}
	if err := s.admitRuntime(pod); err != nil {
		return err
	}
	pod.Labels = overlay(pod.Labels, s.topologyLabels(pod.Spec.NodeName))
	return nil
}

// vetPod is what LimitRanger and RuntimeClass refuse of a new pod. Updates cannot change what they look at.
func vetPod(s *Server, obj, old Object) *statusError {
	if old != nil {
		return nil
	}
	pod := obj.(*corev1.Pod)
	for _, limits := range s.limitRanges(pod.Namespace) {
		if err := builtin.CheckPodLimits(pod, limits); err != nil {
			return s.forbidden(podOrder, pod.Name, err)
		}
	}
	if pod.Spec.Overhead != nil && s.runtimeClass(pod).Overhead == nil {
		return s.forbidden(podOrder, pod.Name,
			errorText("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// forbidden is what a plugin answers; pkg/admission/errors.go NewForbidden.
func (s *Server) forbidden(order int, name string, reason error) *statusError {
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(s.kinds.rows[order].GroupResource(), name, reason)
}

// askedName is the name that a new object was asked for with: what makes names is called after the mutating plugins. An object that
// says both is taken for one whose name was made.
func askedName(obj Object) string {
	if prefix := obj.GetGenerateName(); prefix != "" && strings.HasPrefix(obj.GetName(), prefix) {
		return prefix
	}
	return obj.GetName()
}

// limitRanges returns the LimitRanges of a namespace, by name.
func (s *Server) limitRanges(namespace string) []*corev1.LimitRange {
	t := s.table(s.kinds.rows[limitRangeOrder])
	if t.count == 0 {
		return nil // what nearly always is the case
	}
	var limits []*corev1.LimitRange
	for e := range t.inNamespace(namespace).entries() {
		limits = append(limits, e.object.(*corev1.LimitRange))
	}
	return limits
}

// admitPriority gives a pod the priority of its class; plugin/pkg/admission/priority/admission.go. A pod without a class gets
// that of the global default, where there is one.
func (s *Server) admitPriority(pod *corev1.Pod) *statusError {
	k := s.kinds.rows[priorityClassOrder]
	name, spec := pod.Spec.PriorityClassName, &pod.Spec
	if name == "" && spec.Priority == nil && spec.PreemptionPolicy == nil && s.table(k).count == 0 {
		return nil // what nearly always is the case; builtin.PreparePod fills in the defaults
	}
	class := s.priorityClass(k, name)
	switch {
	case class != nil:
	case name != "":
		return s.forbidden(podOrder, askedName(pod), fmt.Errorf("no PriorityClass with name %s was found", name))
	default:
		class = &schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptLowerPriority)}
	}
	const refusal = "the %s (%v) must not be provided in pod spec; priority admission controller computed %v from the given " +
		"PriorityClass name"
	if spec.Priority != nil && *spec.Priority != class.Value {
		return s.forbidden(podOrder, askedName(pod), fmt.Errorf(refusal, "integer value of priority", *spec.Priority, class.Value))
	}
	policy := class.PreemptionPolicy
	if policy != nil && spec.PreemptionPolicy != nil && *spec.PreemptionPolicy != *policy {
		return s.forbidden(podOrder, askedName(pod), fmt.Errorf(refusal, "string value of PreemptionPolicy", *spec.PreemptionPolicy, *policy))
	}
	spec.PriorityClassName, spec.Priority = class.Name, &class.Value
	if policy != nil {
		spec.PreemptionPolicy = policy
	}
	return nil
}

// vetPriorityClass sees to it that only one class is the global default; plugin/pkg/admission/priority/admission.go.
func vetPriorityClass(s *Server, obj, _ Object) *statusError {
	if !obj.(*schedulingv1.PriorityClass).GlobalDefault {
		return nil
	}
	other := s.priorityClass(s.kinds.rows[priorityClassOrder], "")
	if other == nil || other.Name == obj.GetName() {
		return nil
	}
	return s.forbidden(priorityClassOrder, obj.GetName(),
		fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", other.Name))
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

// admitClaim gives a claim the default class of the cluster, unless it says that it wants none, and protects it;
// plugin/pkg/admission/storage/storageclass/setdefault/admission.go and .../storageobjectinuseprotection/admission.go.
func admitClaim(s *Server, obj Object) *statusError {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if s.protects {
		hold(claim, "kubernetes.io/pvc-protection")
	}
	if claim.Spec.StorageClassName != nil || claim.Annotations[corev1.BetaStorageClassAnnotation] != "" {
		return nil
	}
	const annotation, old = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	if class, ok := s.defaultClass(storageClassOrder, annotation, old); ok {
		claim.Spec.StorageClassName = &class
	}
	return nil
}

// defaultClass returns the name of the class of a kind that one of some annotations makes the default: of several the youngest, of
// those of one age the first by name.
func (s *Server) defaultClass(order int, annotations ...string) (name string, ok bool) {
	var youngest metav1.Time
	for e := range s.table(s.kinds.rows[order]).all().entries() {
		class := objectMeta(e.object)
		isDefault := slices.ContainsFunc(annotations, func(a string) bool { return class.Annotations[a] == "true" })
		if isDefault && (!ok || class.CreationTimestamp.After(youngest.Time)) {
			name, youngest, ok = class.Name, class.CreationTimestamp, true
		}
	}
	return name, ok
}

// hold gives a new object of storage a finalizer; plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go.
func hold(obj Object, finalizer string) {
	if held := obj.GetFinalizers(); !slices.Contains(held, finalizer) {
		obj.SetFinalizers(append(slices.Clip(held), finalizer))
	}
}

// admitHeld returns what gives new objects a finalizer, where that is on.
func admitHeld(finalizer string) func(s *Server, obj Object) *statusError {
	return func(s *Server, obj Object) *statusError {
		if s.keeps {
			hold(obj, finalizer)
		}
		return nil
	}
}

// admitNode taints a new node, unless nothing here would take the taint away; plugin/pkg/admission/nodetaint/admission.go.
func admitNode(s *Server, obj Object) *statusError {
	node := obj.(*corev1.Node)
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if s.taints && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(slices.Clip(node.Spec.Taints), taint)
	}
	return nil
}

// admitLimitRange names a LimitRange that has no name; pkg/registry/core/limitrange/strategy.go.
func admitLimitRange(s *Server, obj Object) *statusError {
	if obj.GetName() == "" {
		key := uidKey(s.kinds.rows[limitRangeOrder], obj.GetNamespace(), "")
		obj.SetName(string(uidFor(key+"?name", s.uids.count(key))))
	}
	return nil
}

// admitService refuses ports that a Service cannot have, and an address for one without a name; pkg/registry/core/service/storage/
// alloc.go.
func admitService(s *Server, obj Object) *statusError {
	service := obj.(*corev1.Service)
	if errs := builtin.CheckNameless(service); len(errs) > 0 {
		return invalid(s.kinds.rows[serviceOrder], "", errs)
	}
	if err := builtin.CheckHealthPort(service); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// vetClaim is what LimitRanger refuses of a claim, and PersistentVolumeClaimResize of one that asks for more than it did:
// plugin/pkg/admission/storage/persistentvolume/resize/admission.go.
func vetClaim(s *Server, obj, old Object) *statusError {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if old == nil || old.GetDeletionTimestamp() == nil {
		for _, limits := range s.limitRanges(claim.Namespace) {
			if err := builtin.CheckClaimLimits(claim, limits); err != nil {
				return s.forbidden(claimOrder, claim.Name, err)
			}
		}
	}
	if old == nil {
		return nil
	}
	before := old.(*corev1.PersistentVolumeClaim)
	size, had := claim.Spec.Resources.Requests[corev1.ResourceStorage], before.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(had) <= 0:
		return nil
	case before.Status.Phase != corev1.ClaimBound:
		return s.forbidden(claimOrder, claim.Name, errorText("Only bound persistent volume claims can be expanded"))
	case claimClass(claim) != claimClass(before) || !s.expands(claimClass(claim)):
		return s.forbidden(claimOrder, claim.Name, errorText("only dynamically provisioned pvc can be resized and "+
			"the storageclass that provisions the pvc must support resize"))
	default:
		return nil
	}
}

// claimClass returns the name of the class of a claim; pkg/apis/core/helper/helpers.go GetPersistentVolumeClaimClass.
func claimClass(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// expands reports whether the volumes of a class can grow.
func (s *Server) expands(class string) bool {
	e := s.table(s.kinds.rows[storageClassOrder]).get("", class)
	if e == nil {
		return false
	}
	allowed := e.object.(*storagev1.StorageClass).AllowVolumeExpansion
	return allowed != nil && *allowed
}

// topologyLabels returns the labels that a pod takes over from its node: plugin/pkg/admission/podtopologylabels/admission.go, on
// by default since 1.35.
func (s *Server) topologyLabels(node string) map[string]string {
	if node == "" {
		return nil
	}
	e := s.table(s.kinds.rows[nodeOrder]).get("", node)
	if e == nil {
		return nil
	}
	var found map[string]string
	have := e.object.GetLabels()
	for _, name := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := have[name]; ok {
			found = overlay(found, map[string]string{name: value})
		}
	}
	return found
}

// admitIngress gives an ingress the default class of the cluster; plugin/pkg/admission/network/defaultingressclass/
// admission.go.
func admitIngress(s *Server, obj Object) *statusError {
	ingress := obj.(*networkingv1.Ingress)
	if ingress.Spec.IngressClassName != nil || ingress.Annotations["kubernetes.io/ingress.class"] != "" {
		return nil
	}
	if class, ok := s.defaultClass(ingressClassOrder, networkingv1.AnnotationIsDefaultIngressClass); ok {
		ingress.Spec.IngressClassName = &class
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

// runtimeClass returns the class that a pod names, an empty one if it names none, and nil if there is none of that name.
func (s *Server) runtimeClass(pod *corev1.Pod) *nodev1.RuntimeClass {
	if pod.Spec.RuntimeClassName == nil {
		return &nodev1.RuntimeClass{}
	}
	if e := s.table(s.kinds.rows[runtimeClassOrder]).get("", *pod.Spec.RuntimeClassName); e != nil {
		return e.object.(*nodev1.RuntimeClass)
	}
	return nil
}

// admitRuntime gives a pod the overhead of its RuntimeClass and the nodes that have it; plugin/pkg/admission/runtimeclass/
// admission.go.
func (s *Server) admitRuntime(pod *corev1.Pod) *statusError {
	spec := &pod.Spec
	if spec.RuntimeClassName == nil {
		return nil
	}
	class := s.runtimeClass(pod)
	if class == nil {
		return s.forbidden(podOrder, pod.Name, fmt.Errorf("pod rejected: RuntimeClass %q not found", *spec.RuntimeClassName))
	}
	if class.Overhead != nil {
		if len(spec.Overhead) > 0 && !canon.Equal(&spec.Overhead, &class.Overhead.PodFixed) {
			return s.forbidden(podOrder, pod.Name,
				errorText("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
		}
		spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		value := class.Scheduling.NodeSelector[key]
		if own, ok := spec.NodeSelector[key]; ok && own != value {
			return s.forbidden(podOrder, pod.Name, fmt.Errorf(
				"conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
	}
	spec.NodeSelector = overlay(spec.NodeSelector, class.Scheduling.NodeSelector)
	builtin.TolerateBriefly(spec)
	spec.Tolerations = builtin.MergeTolerations(spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}
