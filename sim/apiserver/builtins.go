package apiserver

import (
	"reflect"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// The places of the built-ins in the kinds table.
const (
	statefulSetOrder = iota
	podOrder
	claimOrder
	controllerRevisionOrder
	configMapOrder
	secretOrder
	serviceOrder
	eventOrder
	namespaceOrder
	leaseOrder
	nodeOrder
	// Owners come after what they own.
	serviceAccountOrder
	endpointsOrder
	endpointSliceOrder
	volumeOrder
	replicationControllerOrder
	limitRangeOrder
	quotaOrder
	podTemplateOrder
	replicaSetOrder
	daemonSetOrder
	deploymentOrder
	jobOrder
	cronJobOrder
	budgetOrder
	ingressOrder
	networkPolicyOrder
	ingressClassOrder
	roleOrder
	roleBindingOrder
	clusterRoleOrder
	clusterRoleBindingOrder
	autoscalerOrder
	storageClassOrder
	priorityClassOrder
	mutatingOrder
	validatingOrder
	definitionOrder
	runtimeClassOrder
	volumeAttachmentOrder
	csiDriverOrder
	csiNodeOrder
	attributesClassOrder
	newEventOrder
	oldAutoscalerOrder
	builtinCount
)

// rules are what package builtin knows about a kind whose Go type is T. Any of them may be nil.
type rules[T any] struct {
	defaults                 func(obj *T, version string)
	prepare                  func(obj *T)
	prepareUpdate            func(obj, old *T)
	prepareStatus            func(obj, old *T, now metav1.Time)
	validate, validateStatus func(obj, old *T, version string) field.ErrorList
	warn, warnStatus         func(obj, old *T) []string
	reread                   func(obj, old *T) bool
}

// builtins returns the rows of the built-in kinds. What a row says is said by the strategy of the kind, in
// pkg/registry/<group>/<kind>/strategy.go and storage/storage.go of k8s.io/kubernetes v1.36.
func builtins(version Version) []*Kind {
	rows := make([]*Kind, builtinCount)
	addCore(rows, version)
	addMoreCore(rows, version)
	addWorkloads(rows, version)
	addNetworking(rows, version)
	addAccess(rows, version)
	addScaling(rows, version)
	addCluster(rows, version)
	addDrivers(rows, version)
	addAliases(rows, version)
	return rows
}

// addCore adds what StatefulSets and the operators around them need.
func addCore(rows []*Kind, version Version) {
	sets := rules[appsv1.StatefulSet]{
		defaults: builtin.DefaultStatefulSet,
		validate: builtin.ValidateStatefulSet, validateStatus: builtin.ValidateStatefulSetStatus,
		warn: builtin.WarnStatefulSet,
	}
	if version == V136 {
		sets.prepare, sets.prepareUpdate = builtin.PrepareStatefulSet, builtin.PrepareStatefulSetUpdate
	}
	rows[statefulSetOrder] = row(version, "apps/v1", "StatefulSet", "statefulsets", Kind{
		ShortNames: []string{"sts"}, Namespaced: true, HasStatus: true, Generation: GenerationSpec, UnconditionalUpdate: true,
		Scale: scale(func(s *appsv1.StatefulSet) (**int32, int32, string) {
			return &s.Spec.Replicas, s.Status.Replicas, selectorText(s.Spec.Selector)
		}),
	}, sets)
	rows[podOrder] = row(version, "v1", "Pod", "pods", Kind{
		ShortNames: []string{"po"}, Namespaced: true, HasStatus: true, Generation: GenerationSpec, UnconditionalUpdate: true,
		StatusKeeps: ResetSpecAndOwners, ReturnsDeleted: true, Graceful: podGrace, Fields: podFields, NotModelled: onlyPodGaps,
	}, rules[corev1.Pod]{
		defaults: builtin.DefaultPod, prepare: builtin.PreparePod, prepareUpdate: builtin.PreparePodUpdate,
		prepareStatus: builtin.PreparePodStatus,
		validate:      builtin.ValidatePod, validateStatus: builtin.ValidatePodStatus,
		warn: builtin.WarnPod, warnStatus: builtin.WarnPodStatus,
	})
	rows[claimOrder] = row(version, "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Kind{
		ShortNames: []string{"pvc"}, Namespaced: true, HasStatus: true, UnconditionalUpdate: true, ReturnsDeleted: true,
		NotModelled: []string{"the finalizer kubernetes.io/pvc-protection, unless something takes it away again: a VolumeBinder"},
	}, rules[corev1.PersistentVolumeClaim]{
		defaults: builtin.DefaultPersistentVolumeClaim, prepare: builtin.PreparePersistentVolumeClaim,
		prepareUpdate: builtin.PreparePersistentVolumeClaimUpdate,
		validate:      builtin.ValidatePersistentVolumeClaim, validateStatus: builtin.ValidatePersistentVolumeClaimStatus,
		warn: builtin.WarnClaim, reread: builtin.RereadClaim,
	})
	rows[controllerRevisionOrder] = row(version, "apps/v1", "ControllerRevision", "controllerrevisions", Kind{
		Namespaced: true, UnconditionalUpdate: true,
	}, rules[appsv1.ControllerRevision]{validate: builtin.ValidateControllerRevision})
	rows[configMapOrder] = row(version, "v1", "ConfigMap", "configmaps", Kind{
		ShortNames: []string{"cm"}, Namespaced: true, UnconditionalUpdate: true,
	}, rules[corev1.ConfigMap]{validate: builtin.ValidateConfigMap})
	rows[secretOrder] = row(version, "v1", "Secret", "secrets", Kind{
		Namespaced: true, UnconditionalUpdate: true, Fields: secretFields,
	}, rules[corev1.Secret]{defaults: builtin.DefaultSecret, validate: builtin.ValidateSecret, warn: builtin.WarnSecret})
	rows[serviceOrder] = row(version, "v1", "Service", "services", Kind{
		ShortNames: []string{"svc"}, Namespaced: true, HasStatus: true, UnconditionalUpdate: true, CreateOnUpdate: true,
		ReturnsDeleted: true, Fields: serviceFields, storagePath: "services/specs",
	}, rules[corev1.Service]{
		defaults: builtin.DefaultService, prepare: builtin.PrepareService, prepareUpdate: builtin.PrepareServiceUpdate,
		validate: builtin.ValidateService, validateStatus: builtin.ValidateServiceStatus,
		warn: builtin.WarnService, warnStatus: builtin.WarnServiceStatus,
	})
	rows[eventOrder] = row(version, "v1", "Event", "events", Kind{
		ShortNames: []string{"ev"}, Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true, Volatile: true,
		Fields: eventFields, Uncollected: true, MetadataLast: true,
	}, rules[corev1.Event]{validate: builtin.ValidateEvent})
	rows[namespaceOrder] = row(version, "v1", "Namespace", "namespaces", Kind{
		ShortNames: []string{"ns"}, HasStatus: true, UnconditionalUpdate: true, ReturnsDeleted: true, Fields: namespaceFields,
		Held: func(obj Object) bool { return len(as[corev1.Namespace](obj).Spec.Finalizers) > 0 },
	}, rules[corev1.Namespace]{
		defaults: builtin.DefaultNamespace, prepare: builtin.PrepareNamespace, prepareUpdate: builtin.KeepNamespaceFinalizers,
		validate: builtin.ValidateNamespace, validateStatus: builtin.ValidateNamespaceStatus,
	})
	rows[leaseOrder] = row(version, "coordination.k8s.io/v1", "Lease", "leases", Kind{
		Namespaced: true, CreateOnUpdate: true, Volatile: true,
	}, rules[coordinationv1.Lease]{
		prepare: builtin.PrepareLease, prepareUpdate: builtin.PrepareLeaseUpdate, validate: builtin.ValidateLease,
	})
	rows[nodeOrder] = nodeRow(version)
}

func nodeRow(version Version) *Kind {
	return row(version, "v1", "Node", "nodes", Kind{
		ShortNames: []string{"no"}, HasStatus: true, UnconditionalUpdate: true, Fields: nodeFields, storagePath: "minions",
		CreateKeepsStatus: true, NotModelled: []string{"the taint not-ready of new nodes, unless Server.TaintNodes is called"},
	}, rules[corev1.Node]{
		defaults: builtin.DefaultNode, validate: builtin.ValidateNode, validateStatus: builtin.ValidateNodeStatus,
		warn: builtin.WarnNode,
	})
}

// row completes the row of a built-in whose Go type is T.
func row[T any](version Version, apiVersion, kind, resource string, k Kind, r rules[T]) *Kind {
	k.GroupVersionKind = schema.FromAPIVersionAndKind(apiVersion, kind)
	k.Resource = resource
	k.Type = reflect.TypeFor[T]()
	k.ValidName = builtin.ValidName(kind)
	k.checks[0], k.checks[1] = builtin.MetadataChecks(k.GroupKind())
	if r.defaults != nil {
		k.Default = func(obj Object) { r.defaults(as[T](obj), string(version)) }
	}
	if r.prepare != nil {
		k.PrepareCreate = func(obj Object) { r.prepare(as[T](obj)) }
	}
	k.PrepareUpdate = onPair(r.prepareUpdate)
	if r.prepareStatus != nil {
		k.PrepareStatus = func(obj, old Object, now metav1.Time) { r.prepareStatus(as[T](obj), as[T](old), now) }
	}
	if r.reread != nil {
		k.reread = func(obj, old Object) bool { return r.reread(as[T](obj), as[T](old)) }
	}
	k.warn, k.warnStatus = warning(r.warn), warning(r.warnStatus)
	k.Validate = onVersion(r.validate)
	k.ValidateStatus = onVersion(r.validateStatus)
	return &k
}

// as returns the object as a *T, nil for none.
func as[T any](obj Object) *T {
	typed, _ := any(obj).(*T)
	return typed
}

func onPair[T any](f func(obj, old *T)) func(obj, old Object) {
	if f == nil {
		return nil
	}
	return func(obj, old Object) { f(as[T](obj), as[T](old)) }
}

func warning[T any](f func(obj, old *T) []string) func(obj, old Object) []string {
	if f == nil {
		return nil
	}
	return func(obj, old Object) []string { return f(as[T](obj), as[T](old)) }
}

func onVersion[T any](f func(obj, old *T, version string) field.ErrorList) func(obj, old Object, v Version) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(obj, old Object, v Version) field.ErrorList {
		return builtin.Declared(f(as[T](obj), as[T](old), string(v)), string(v))
	}
}

func podGrace(obj Object, options *metav1.DeleteOptions) (seconds int64, graceful bool) {
	return builtin.PodGracePeriod(obj.(*corev1.Pod), options)
}

// fieldOf makes a field selector's value of a field of T.
func fieldOf[T any](value func(*T) string) func(Object) string {
	return func(obj Object) string { return value(as[T](obj)) }
}

// The field selectors of the kinds: AddFieldLabelConversionFunc in pkg/apis/core/v1/conversion.go.
var (
	podFields = map[string]func(Object) string{
		"spec.nodeName":            fieldOf(func(p *corev1.Pod) string { return p.Spec.NodeName }),
		"spec.restartPolicy":       fieldOf(func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) }),
		"spec.schedulerName":       fieldOf(func(p *corev1.Pod) string { return p.Spec.SchedulerName }),
		"spec.serviceAccountName":  fieldOf(func(p *corev1.Pod) string { return p.Spec.ServiceAccountName }),
		"spec.hostNetwork":         fieldOf(func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) }),
		"status.phase":             fieldOf(func(p *corev1.Pod) string { return string(p.Status.Phase) }),
		"status.podIP":             fieldOf(func(p *corev1.Pod) string { return p.Status.PodIP }),
		"status.nominatedNodeName": fieldOf(func(p *corev1.Pod) string { return p.Status.NominatedNodeName }),
	}
	secretFields = map[string]func(Object) string{
		"type": fieldOf(func(s *corev1.Secret) string { return string(s.Type) }),
	}
	serviceFields = map[string]func(Object) string{
		"spec.clusterIP": fieldOf(func(s *corev1.Service) string { return s.Spec.ClusterIP }),
		"spec.type":      fieldOf(func(s *corev1.Service) string { return string(s.Spec.Type) }),
	}
	namespaceFields = map[string]func(Object) string{
		"status.phase": fieldOf(func(n *corev1.Namespace) string { return string(n.Status.Phase) }),
	}
	nodeFields = map[string]func(Object) string{
		"spec.unschedulable": fieldOf(func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) }),
	}
	eventFields = map[string]func(Object) string{
		"involvedObject.kind":            fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.Kind }),
		"involvedObject.namespace":       fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.Namespace }),
		"involvedObject.name":            fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.Name }),
		"involvedObject.uid":             fieldOf(func(e *corev1.Event) string { return string(e.InvolvedObject.UID) }),
		"involvedObject.apiVersion":      fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.APIVersion }),
		"involvedObject.resourceVersion": fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion }),
		"involvedObject.fieldPath":       fieldOf(func(e *corev1.Event) string { return e.InvolvedObject.FieldPath }),
		"reason":                         fieldOf(func(e *corev1.Event) string { return e.Reason }),
		"reportingComponent":             fieldOf(func(e *corev1.Event) string { return e.ReportingController }),
		"source":                         fieldOf(func(e *corev1.Event) string { return e.Source.Component }),
		"type":                           fieldOf(func(e *corev1.Event) string { return e.Type }),
	}
)
