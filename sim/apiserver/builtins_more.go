package apiserver

import (
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// addMoreCore adds the rest of the core group, and EndpointSlices, which took the place of Endpoints.
func addMoreCore(rows []*Kind, version Version) {
	rows[serviceAccountOrder] = row(version, "v1", "ServiceAccount", "serviceaccounts", Kind{
		ShortNames: []string{"sa"}, Namespaced: true, UnconditionalUpdate: true, ReturnsDeleted: true,
		NotModelled: []string{
			"the subresource token", "the account \"default\" that a controller makes in every namespace",
			"the admission of pods: no account is set, and no token is mounted",
		},
	}, rules[corev1.ServiceAccount]{
		prepare:       builtin.KeepSecretNames,
		prepareUpdate: func(account, _ *corev1.ServiceAccount) { builtin.KeepSecretNames(account) },
		warn:          builtin.WarnServiceAccount,
	})
	rows[endpointsOrder] = row(version, "v1", "Endpoints", "endpoints", Kind{
		ShortNames: []string{"ep"}, Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true,
		storagePath: "services/endpoints",
		NotModelled: []string{"the order and the repeats that a real server makes of subsets", "that they go with the Service of their name"},
		warning:     "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	}, rules[corev1.Endpoints]{
		defaults: builtin.DefaultEndpoints, validate: builtin.ValidateEndpoints, warn: builtin.WarnEndpoints,
	})
	rows[endpointSliceOrder] = row(version, "discovery.k8s.io/v1", "EndpointSlice", "endpointslices", Kind{
		Namespaced: true, UnconditionalUpdate: true, Generation: GenerationContentAndLabels,
		NotModelled: []string{"hints that need a gate"},
	}, rules[discoveryv1.EndpointSlice]{
		defaults: builtin.DefaultEndpointSlice, validate: builtin.ValidateEndpointSlice, warn: builtin.WarnEndpointSlice,
	})
	rows[volumeOrder] = row(version, "v1", "PersistentVolume", "persistentvolumes", Kind{
		ShortNames: []string{"pv"}, HasStatus: true, UnconditionalUpdate: true, ReturnsDeleted: true,
		NotModelled: []string{
			"the finalizer kubernetes.io/pv-protection, which nobody here would take away, unless Server.ProtectVolumes is called",
			"the contents of volume sources but hostPath, nfs, local and csi", "the terms of the node affinity",
		},
	}, rules[corev1.PersistentVolume]{
		defaults: builtin.DefaultPersistentVolume, prepare: builtin.PreparePersistentVolume,
		prepareStatus: builtin.PreparePersistentVolumeStatus, validate: builtin.ValidatePersistentVolume,
		warn: builtin.WarnVolume,
	})
	rows[limitRangeOrder] = row(version, "v1", "LimitRange", "limitranges", Kind{
		ShortNames: []string{"limits"}, Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true,
		admit: admitLimitRange,
	}, rules[corev1.LimitRange]{defaults: builtin.DefaultLimitRange, validate: builtin.ValidateLimitRange})
	rows[quotaOrder] = row(version, "v1", "ResourceQuota", "resourcequotas", Kind{
		ShortNames: []string{"quota"}, Namespaced: true, HasStatus: true, UnconditionalUpdate: true, ReturnsDeleted: true,
		NotModelled: []string{"that creations beyond the quota are refused", "which scopes go with which resources", "scope selectors"},
	}, rules[corev1.ResourceQuota]{
		defaults: builtin.DefaultResourceQuota, validate: builtin.ValidateResourceQuota,
		validateStatus: builtin.ValidateResourceQuotaStatus,
		warn:           builtin.WarnQuota,
	})
	rows[podTemplateOrder] = row(version, "v1", "PodTemplate", "podtemplates", Kind{
		Namespaced: true, UnconditionalUpdate: true, ReturnsDeleted: true, Generation: GenerationContent, NotModelled: podGaps,
	}, rules[corev1.PodTemplate]{
		defaults: builtin.DefaultPodTemplate, validate: builtin.ValidatePodTemplate, warn: builtin.WarnPodTemplate,
	})
}

// podGaps is what is not checked of a pod or its template; package builtin says it at length.
var podGaps = []string{
	"resource claims, resources of the pod as a whole, AppArmor, what is about Windows, and volumes of particular storage " +
		"systems: accepted as sent",
}

// onlyPodGaps is what a pod lacks besides.
var onlyPodGaps = append([]string{
	"the admission plugin ServiceAccount: no account is set, none has to exist, and no token is mounted",
	"the admission plugins PodSecurity and ResourceQuota",
	"the subresources ephemeralcontainers, resize, log, exec, attach, portforward and proxy",
}, podGaps...)

// addWorkloads adds the kinds whose controllers make pods.
func addWorkloads(rows []*Kind, version Version) {
	workload := Kind{
		Namespaced: true, HasStatus: true, UnconditionalUpdate: true, Generation: GenerationSpec, NotModelled: podGaps,
	}
	rows[replicationControllerOrder] = row(version, "v1", "ReplicationController", "replicationcontrollers", workload.with(func(k *Kind) {
		k.ShortNames, k.storagePath, k.DefaultPropagation = []string{"rc"}, "controllers", metav1.DeletePropagationOrphan
		k.Fields = map[string]func(Object) string{
			"status.replicas": fieldOf(func(c *corev1.ReplicationController) string { return strconv.Itoa(int(c.Status.Replicas)) }),
		}
		k.Scale = scale(func(c *corev1.ReplicationController) (**int32, int32, string) {
			return &c.Spec.Replicas, c.Status.Replicas, labels.Set(c.Spec.Selector).String()
		})
	}), rules[corev1.ReplicationController]{
		defaults: builtin.DefaultReplicationController, validate: builtin.ValidateReplicationController,
		validateStatus: builtin.ValidateReplicationControllerStatus,
		warn:           builtin.WarnReplicationController,
	})
	rows[replicaSetOrder] = row(version, "apps/v1", "ReplicaSet", "replicasets", workload.with(func(k *Kind) {
		k.ShortNames = []string{"rs"}
		k.Scale = scale(func(s *appsv1.ReplicaSet) (**int32, int32, string) {
			return &s.Spec.Replicas, s.Status.Replicas, selectorText(s.Spec.Selector)
		})
	}), rules[appsv1.ReplicaSet]{
		defaults: builtin.DefaultReplicaSet, validate: builtin.ValidateReplicaSet, validateStatus: builtin.ValidateReplicaSetStatus,
		warn: builtin.WarnReplicaSet,
	})
	rows[daemonSetOrder] = row(version, "apps/v1", "DaemonSet", "daemonsets", workload.with(func(k *Kind) {
		k.ShortNames = []string{"ds"}
	}), rules[appsv1.DaemonSet]{
		defaults: builtin.DefaultDaemonSet, prepare: builtin.PrepareDaemonSet, prepareUpdate: builtin.KeepDaemonSet,
		prepareStatus: builtin.KeepTemplateCount,
		validate:      builtin.ValidateDaemonSet, validateStatus: builtin.ValidateDaemonSetStatus,
		warn: builtin.WarnDaemonSet,
	})
	rows[deploymentOrder] = row(version, "apps/v1", "Deployment", "deployments", workload.with(func(k *Kind) {
		k.ShortNames, k.Generation, k.StatusKeeps = []string{"deploy"}, GenerationSpecAndAnnotations, ResetSpecAndLabels
		k.Scale = scale(func(d *appsv1.Deployment) (**int32, int32, string) {
			return &d.Spec.Replicas, d.Status.Replicas, selectorText(d.Spec.Selector)
		})
	}), rules[appsv1.Deployment]{
		defaults: builtin.DefaultDeployment, validate: builtin.ValidateDeployment, validateStatus: builtin.ValidateDeploymentStatus,
		warn: builtin.WarnDeployment,
	})
	rows[jobOrder] = row(version, "batch/v1", "Job", "jobs", workload.with(func(k *Kind) {
		k.DefaultPropagation = metav1.DeletePropagationOrphan // since batch/v1, for old clients
		k.Fields = map[string]func(Object) string{
			"status.successful": fieldOf(func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) }),
		}
		k.UnknownField = "field label %q not supported for Job"
	}), rules[batchv1.Job]{
		defaults: builtin.DefaultJob, prepare: builtin.PrepareJob, validate: builtin.ValidateJob,
		validateStatus: builtin.ValidateJobStatus,
		warn:           builtin.WarnJob, reread: builtin.RereadJob,
	})
	rows[cronJobOrder] = row(version, "batch/v1", "CronJob", "cronjobs", workload.with(func(k *Kind) {
		k.ShortNames = []string{"cj"}
	}), rules[batchv1.CronJob]{defaults: builtin.DefaultCronJob, validate: builtin.ValidateCronJob, warn: builtin.WarnCronJob})
	rows[budgetOrder] = row(version, "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Kind{
		ShortNames: []string{"pdb"}, Namespaced: true, HasStatus: true, Generation: GenerationSpec, MetadataLast: true,
		NotModelled: []string{"the status, unless a DisruptionController writes it: it is a racer"},
	}, rules[policyv1.PodDisruptionBudget]{
		validate: builtin.ValidatePodDisruptionBudget, validateStatus: builtin.ValidatePodDisruptionBudgetStatus,
	})
}

// with returns a copy of a row with some changes.
func (k Kind) with(change func(*Kind)) Kind {
	change(&k)
	return k
}

// scale makes the rules of the scale subresource of a function that returns where the number of replicas is that is asked for,
// the number there is, and the selector.
func scale[T any](parts func(*T) (wanted **int32, current int32, selector string)) *Scale {
	return &Scale{
		Read: func(obj Object) (int32, int32, string) {
			wanted, current, selector := parts(as[T](obj))
			if *wanted == nil {
				return 0, current, selector
			}
			return **wanted, current, selector
		},
		Write: func(obj Object, replicas int32) {
			wanted, _, _ := parts(as[T](obj))
			*wanted = &replicas
		},
	}
}

// selectorText returns a selector as the scale subresource shows it, nothing for one that is not valid.
func selectorText(selector *metav1.LabelSelector) string {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}

func addNetworking(rows []*Kind, version Version) {
	rows[ingressOrder] = row(version, "networking.k8s.io/v1", "Ingress", "ingresses", Kind{
		ShortNames: []string{"ing"}, Namespaced: true, HasStatus: true, UnconditionalUpdate: true, Generation: GenerationSpec,
		storagePath: "ingress", admit: admitIngress,
	}, rules[networkingv1.Ingress]{
		validate: builtin.ValidateIngress, validateStatus: builtin.ValidateIngressStatus,
		warn: builtin.WarnIngress, warnStatus: builtin.WarnIngressStatus,
	})
	rows[networkPolicyOrder] = row(version, "networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", Kind{
		ShortNames: []string{"netpol"}, Namespaced: true, UnconditionalUpdate: true, Generation: GenerationSpec,
	}, rules[networkingv1.NetworkPolicy]{
		defaults: builtin.DefaultNetworkPolicy, validate: builtin.ValidateNetworkPolicy, warn: builtin.WarnNetworkPolicy,
	})
	rows[ingressClassOrder] = row(version, "networking.k8s.io/v1", "IngressClass", "ingressclasses", Kind{
		UnconditionalUpdate: true, Generation: GenerationSpec,
	}, rules[networkingv1.IngressClass]{defaults: builtin.DefaultIngressClass, validate: builtin.ValidateIngressClass})
}

func addAccess(rows []*Kind, version Version) {
	const group = "rbac.authorization.k8s.io/v1"
	gaps := []string{"that what is written in the course of a run changes what processes may do"}
	rows[roleOrder] = row(version, group, "Role", "roles", Kind{
		Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true, NotModelled: gaps,
	}, rules[rbacv1.Role]{validate: builtin.ValidateRole})
	rows[roleBindingOrder] = row(version, group, "RoleBinding", "rolebindings", Kind{
		Namespaced: true, UnconditionalUpdate: true, CreateOnUpdate: true, NotModelled: gaps,
	}, rules[rbacv1.RoleBinding]{defaults: builtin.DefaultRoleBinding, validate: builtin.ValidateRoleBinding})
	rows[clusterRoleOrder] = row(version, group, "ClusterRole", "clusterroles", Kind{
		UnconditionalUpdate: true, CreateOnUpdate: true,
		NotModelled: append([]string{"the roles every cluster has", "the controller that aggregates roles"}, gaps...),
	}, rules[rbacv1.ClusterRole]{validate: builtin.ValidateClusterRole})
	rows[clusterRoleBindingOrder] = row(version, group, "ClusterRoleBinding", "clusterrolebindings", Kind{
		UnconditionalUpdate: true, CreateOnUpdate: true, NotModelled: gaps,
	}, rules[rbacv1.ClusterRoleBinding]{
		defaults: builtin.DefaultClusterRoleBinding, validate: builtin.ValidateClusterRoleBinding,
	})
}

func addScaling(rows []*Kind, version Version) {
	generation := GenerationNone
	if version != V136 {
		generation = GenerationSpec // HPAGeneration
	}
	rows[autoscalerOrder] = row(version, "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", Kind{
		ShortNames: []string{"hpa"}, Namespaced: true, HasStatus: true, UnconditionalUpdate: true, Generation: generation,
	}, rules[autoscalingv2.HorizontalPodAutoscaler]{
		defaults: builtin.DefaultHorizontalPodAutoscaler, validate: builtin.ValidateHorizontalPodAutoscaler,
		validateStatus: builtin.ValidateHorizontalPodAutoscalerStatus,
	})
	rows[priorityClassOrder] = row(version, "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Kind{
		ShortNames: []string{"pc"}, UnconditionalUpdate: true, Generation: GenerationOnce,
		NotModelled: []string{"the two classes every cluster has: pods may name them, but they cannot be read"},
	}, rules[schedulingv1.PriorityClass]{defaults: builtin.DefaultPriorityClass, validate: builtin.ValidatePriorityClass})
	rows[storageClassOrder] = row(version, "storage.k8s.io/v1", "StorageClass", "storageclasses", Kind{
		ShortNames: []string{"sc"}, UnconditionalUpdate: true, ReturnsDeleted: true, NotModelled: []string{"allowed topologies"},
	}, rules[storagev1.StorageClass]{
		defaults: builtin.DefaultStorageClass, validate: builtin.ValidateStorageClass, warn: builtin.WarnStorageClass,
	})
	rows[priorityClassOrder].vet = vetPriorityClass
	rows[claimOrder].admit, rows[claimOrder].vet = admitClaim, vetClaim
	rows[podOrder].admit, rows[podOrder].vet = admitPod, vetPod
	rows[serviceOrder].admit, rows[nodeOrder].admit = admitService, admitNode
	rows[volumeOrder].admit = admitHeld("kubernetes.io/pv-protection")
}

// addCluster adds what configures the API server itself.
func addCluster(rows []*Kind, version Version) {
	gaps := []string{"match conditions: webhooks are called as if they held"}
	rows[mutatingOrder] = row(version, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration",
		"mutatingwebhookconfigurations", Kind{Generation: GenerationContent, NotModelled: gaps},
		rules[admissionv1.MutatingWebhookConfiguration]{
			defaults: builtin.DefaultMutatingWebhookConfiguration, validate: builtin.ValidateMutatingWebhookConfiguration,
		})
	rows[validatingOrder] = row(version, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
		"validatingwebhookconfigurations", Kind{Generation: GenerationContent, NotModelled: gaps},
		rules[admissionv1.ValidatingWebhookConfiguration]{
			defaults: builtin.DefaultValidatingWebhookConfiguration, validate: builtin.ValidateValidatingWebhookConfiguration,
		})
	rows[definitionOrder] = row(version, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", Kind{
		ShortNames: []string{"crd", "crds"}, HasStatus: true, Generation: GenerationSpec,
		storagePath: "apiextensions.k8s.io/customresourcedefinitions", admit: admitDefinition,
		NotModelled: []string{
			"what a definition that is made in the course of a run leads to: its resource is not served, and nobody writes its status",
			"the validation of schemas", "that objects go with their definition",
		},
	}, rules[apiextensionsv1.CustomResourceDefinition]{
		defaults: builtin.DefaultCustomResourceDefinition, prepare: builtin.PrepareCustomResourceDefinition,
		prepareUpdate: builtin.KeepStoredVersions, validate: builtin.ValidateCustomResourceDefinition,
	})
}

// addDrivers adds what drivers of storage and container runtimes work with.
func addDrivers(rows []*Kind, version Version) {
	const storage = "storage.k8s.io/v1"
	rows[runtimeClassOrder] = row(version, "node.k8s.io/v1", "RuntimeClass", "runtimeclasses", Kind{CreateOnUpdate: true},
		rules[nodev1.RuntimeClass]{
			defaults: builtin.DefaultRuntimeClass, validate: builtin.ValidateRuntimeClass, warn: builtin.WarnRuntimeClass,
		})
	rows[volumeAttachmentOrder] = row(version, storage, "VolumeAttachment", "volumeattachments", Kind{
		HasStatus: true, StatusKeeps: ResetAllButStatus, ReturnsDeleted: true, NotModelled: []string{"the inline volume"},
	}, rules[storagev1.VolumeAttachment]{
		validate: builtin.ValidateVolumeAttachment, validateStatus: builtin.ValidateVolumeAttachment,
	})
	rows[csiDriverOrder] = row(version, storage, "CSIDriver", "csidrivers", Kind{
		ReturnsDeleted: true, Generation: GenerationLate,
		NotModelled: []string{"preventPodSchedulingIfMissing, which is new in 1.37"},
	}, rules[storagev1.CSIDriver]{defaults: builtin.DefaultCSIDriver, validate: builtin.ValidateCSIDriver, warn: builtin.WarnCSIDriver})
	rows[csiNodeOrder] = row(version, storage, "CSINode", "csinodes", Kind{
		ReturnsDeleted: true, NotModelled: []string{"the status, which is new in 1.37"},
	}, rules[storagev1.CSINode]{validate: builtin.ValidateCSINode})
	rows[attributesClassOrder] = row(version, storage, "VolumeAttributesClass", "volumeattributesclasses", Kind{
		ShortNames: []string{"vac"}, UnconditionalUpdate: true, ReturnsDeleted: true,
		admit:       admitHeld("kubernetes.io/vac-protection"),
		NotModelled: []string{"the finalizer kubernetes.io/vac-protection, unless Server.ProtectVolumes is called"},
	}, rules[storagev1.VolumeAttributesClass]{validate: builtin.ValidateVolumeAttributesClass})
}

// addAliases adds the kinds that show the objects of another.
func addAliases(rows []*Kind, version Version) {
	rows[newEventOrder] = aliasRow(version, "events.k8s.io/v1", rows[eventOrder], alias(builtin.EventFromNew, builtin.EventToNew), nil)
	rows[newEventOrder].Fields = newEventFields
	rows[newEventOrder].Validate = onVersion(builtin.ValidateNewEvent)
	rows[newEventOrder].ValidName = apivalidation.NameIsDNSSubdomain
	rows[oldAutoscalerOrder] = aliasRow(version, "autoscaling/v1", rows[autoscalerOrder],
		alias(builtin.AutoscalerFromV1, builtin.AutoscalerToV1), builtin.DefaultHorizontalPodAutoscalerV1)
}

// form is what an alias has of its own: its Go type and the conversions.
type form[A any] struct {
	to, from func(obj Object) (Object, error)
}

func alias[A, B any](to func(*A) *B, from func(*B) *A) form[A] {
	return form[A]{
		to:   func(obj Object) (Object, error) { return any(to(as[A](obj))).(Object), nil },
		from: func(obj Object) (Object, error) { return any(from(as[B](obj))).(Object), nil },
	}
}

// aliasRow returns a row with the rules of the kind behind it, but for those that work on its objects.
func aliasRow[A any](version Version, apiVersion string, of *Kind, f form[A], defaults func(*A, string)) *Kind {
	return row(version, apiVersion, of.Kind, of.Resource, Kind{
		ShortNames: of.ShortNames, Namespaced: of.Namespaced, HasStatus: of.HasStatus, StatusKeeps: of.StatusKeeps,
		Generation: of.Generation, UnconditionalUpdate: of.UnconditionalUpdate, CreateOnUpdate: of.CreateOnUpdate,
		DefaultPropagation: of.DefaultPropagation, ReturnsDeleted: of.ReturnsDeleted, Volatile: of.Volatile,
		storagePath: of.storagePath, NotModelled: of.NotModelled, Alias: &Alias{Of: of, To: f.to, From: f.from},
	}, rules[A]{defaults: defaults})
}

// newEventFields are the field selectors of events.k8s.io/v1: AddFieldLabelConversionsForEvent in pkg/apis/events/v1/
// conversion.go.
var newEventFields = map[string]func(Object) string{
	"reason":                    fieldOf(func(e *eventsv1.Event) string { return e.Reason }),
	"regarding.kind":            fieldOf(func(e *eventsv1.Event) string { return e.Regarding.Kind }),
	"regarding.namespace":       fieldOf(func(e *eventsv1.Event) string { return e.Regarding.Namespace }),
	"regarding.name":            fieldOf(func(e *eventsv1.Event) string { return e.Regarding.Name }),
	"regarding.uid":             fieldOf(func(e *eventsv1.Event) string { return string(e.Regarding.UID) }),
	"regarding.apiVersion":      fieldOf(func(e *eventsv1.Event) string { return e.Regarding.APIVersion }),
	"regarding.resourceVersion": fieldOf(func(e *eventsv1.Event) string { return e.Regarding.ResourceVersion }),
	"regarding.fieldPath":       fieldOf(func(e *eventsv1.Event) string { return e.Regarding.FieldPath }),
	"reportingController":       fieldOf(func(e *eventsv1.Event) string { return e.ReportingController }),
	"type":                      fieldOf(func(e *eventsv1.Event) string { return e.Type }),
}
