package scenarios

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The apiVersion and the kinds of the files this package reads.
const (
	APIVersion   = "stalemate.dev/v1alpha1"
	KindScenario = "Scenario"
	KindSchedule = "Schedule"
)

// Manifest is a scenario as it is written in its file. It follows the conventions of the Kubernetes API: a union is a `type`
// and the block of that type, durations are strings ("20s", "1h30m"), enums are CamelCase, lists are keyed by `name`.
type Manifest struct {
	// APIVersion is "stalemate.dev/v1alpha1".
	APIVersion string `json:"apiVersion"`
	// Kind is "Scenario".
	Kind string `json:"kind"`
	// Metadata names the scenario.
	Metadata Metadata `json:"metadata"`
	// Spec says what may happen.
	Spec Spec `json:"spec"`
}

// Metadata names a scenario.
type Metadata struct {
	// Name of the scenario, a DNS label; that of a schedule is a DNS subdomain, which may be longer.
	Name string `json:"name"`
	// Labels are for the tools of those who own the file.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are for the tools of those who own the file.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Spec says what may happen in the runs of a scenario.
type Spec struct {
	// KubernetesVersion is the minor version that the API server and the racers behave like: "1.36" (the default) or "1.37".
	// In quotes: without them YAML reads a number.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// CRDs are files of CustomResourceDefinitions: the custom resources that the API server knows, in every version that is
	// served. Operators find the definitions as objects, too. Kinds without a definition that objects of the scenario have, or
	// the Go types of an operator, are treated as namespaced custom resources without a schema; reports name those that were used.
	CRDs []FileReference `json:"crds,omitempty"`
	// Given are files of the objects at the start, kept as written: status, generation, deletionTimestamp and finalizers
	// included. A namespaced object without a namespace is put in "default".
	Given []FileReference `json:"given,omitempty"`
	// Settle lets objects, controllers and racers first run to a terminal state in the default order; every run starts from
	// there, and then the script begins. True unless set to false: then every run starts from Given.
	Settle *bool `json:"settle,omitempty"`
	// Controllers are the operators under test. Each is a process of its own.
	Controllers []Controller `json:"controllers,omitempty"`
	// Racers are the competitors, in the order they start in.
	Racers []Racer `json:"racers,omitempty"`
	// Script is what a user does, step by step in this order.
	Script []ScriptStep `json:"script,omitempty"`
	// Faults are what may go wrong.
	Faults *Faults `json:"faults,omitempty"`
	// Matrix runs the scenario once per combination of values, which stand for $(name) in every string of the spec.
	Matrix []MatrixEntry `json:"matrix,omitempty"`
	// Variables bind names in the properties' rules to objects of the cluster.
	Variables []Variable `json:"variables,omitempty"`
	// Properties judge the runs.
	Properties []Property `json:"properties,omitempty"`
	// Detectors switch what is looked for without a property. Most are on where nothing is said: `stalemate list` has them.
	Detectors []Detector `json:"detectors,omitempty"`
	// Limits bound a run.
	Limits Limits `json:"limits,omitempty"`
}

// Detector switches one detector.
type Detector struct {
	// Type says what it looks for: the name of a detector, as `stalemate list` prints it.
	Type DetectorType `json:"type"`
	// Enabled switches it on, as if unset, or off.
	Enabled *bool `json:"enabled,omitempty"`
}

// DetectorType says what a detector looks for.
type DetectorType string

// MatrixEntry is one name of the matrix. A string that is $(name) and nothing else takes the value's type; within a longer
// string stands its text. $$(name) is the text $(name) itself.
type MatrixEntry struct {
	// Name that stands for the values: letters, digits, "-" and "_".
	Name string `json:"name"`
	// Values are strings, numbers, true or false.
	Values []any `json:"values"`
}

// FileReference names a file of Kubernetes objects: one YAML or JSON document, several, or a List as `kubectl get -o yaml`
// prints it. If it names a directory, all its *.yaml, *.yml and *.json files are meant but kustomizations and their
// kustomizeconfig.yaml, in the order of their names; its sub-directories are not.
type FileReference struct {
	// Path is relative to the scenario file, with slashes. It must stay inside the repository that holds the scenario.
	Path string `json:"path"`
}

// Controller is an operator under test: one process that runs a registered reconciler.
type Controller struct {
	// Name of the process: the `actor` of selectors, and the column of reports. A DNS label.
	Name string `json:"name"`
	// Reconciler is the name of a registered reconciler, "operator/variant". The command lists them: `stalemate list`.
	Reconciler string `json:"reconciler"`
	// Reads says where the reconciler's client reads from. If unset, as its program says.
	Reads Reads `json:"reads,omitempty"`
	// Replicas is the number of instances of the process. Only 1, the default, is supported yet.
	Replicas *int32 `json:"replicas,omitempty"`
	// RBAC are files of the operator's Roles and ClusterRoles, and of what binds them: a request that they do not allow is
	// answered with 403. Objects of other API groups in the files are passed over. Without bindings all the roles are the
	// controller's. If there is no RBAC, the controller may do everything.
	RBAC []FileReference `json:"rbac,omitempty"`
	// ServiceAccount is what the controller runs as, for the bindings of RBAC. If unset, it is the one that they name.
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`
}

// ServiceAccount names a service account.
type ServiceAccount struct {
	// Name of the service account. If empty, the one that the bindings name, or else the controller's name.
	Name string `json:"name,omitempty"`
	// Namespace of the service account, and of the roles and bindings that say none. If empty, the one that the bindings name,
	// or else "default".
	Namespace string `json:"namespace,omitempty"`
}

// Reads says where a reconciler's client reads from.
type Reads string

// Where a reconciler's client reads from.
const (
	// ReadsCached reads from the informers' caches, as a manager's client does.
	ReadsCached Reads = "Cached"
	// ReadsLive reads from the API server.
	ReadsLive Reads = "Live"
)

// Racer is a competitor of the operators: a union of `type` and at most the block of that type. One plays its part for the whole
// cluster, so there is one of each type; there may be several autoscalers and several annotators, each about another object.
type Racer struct {
	// Name of the racer: the `actor` of selectors, and the column of reports. A DNS label.
	Name string `json:"name"`
	// Type says what it does.
	Type RacerType `json:"type"`
	// GarbageCollector configures a racer of that type.
	GarbageCollector *GarbageCollector `json:"garbageCollector,omitempty"`
	// NamespaceController configures a racer of that type.
	NamespaceController *NamespaceController `json:"namespaceController,omitempty"`
	// Kubelet configures a racer of that type.
	Kubelet *Kubelet `json:"kubelet,omitempty"`
	// HorizontalPodAutoscaler configures a racer of that type, which cannot do without.
	HorizontalPodAutoscaler *HorizontalPodAutoscaler `json:"horizontalPodAutoscaler,omitempty"`
	// Annotator configures a racer of that type, which cannot do without.
	Annotator *Annotator `json:"annotator,omitempty"`
}

// RacerType says what a racer does.
type RacerType string

// The types of racers.
const (
	// RacerStatefulSetController is kube-controller-manager's StatefulSet controller.
	RacerStatefulSetController RacerType = "StatefulSetController"
	// RacerDeploymentController is kube-controller-manager's Deployment controller. Where no ReplicaSetController is among the racers
	// it is that one, too.
	RacerDeploymentController RacerType = "DeploymentController"
	// RacerReplicaSetController is kube-controller-manager's ReplicaSet controller.
	RacerReplicaSetController RacerType = "ReplicaSetController"
	// RacerGarbageCollector is kube-controller-manager's garbage collector.
	RacerGarbageCollector RacerType = "GarbageCollector"
	// RacerNamespaceController is kube-controller-manager's namespace controller: it empties a namespace that is deleted. Without
	// one, such a namespace stays Terminating for ever.
	RacerNamespaceController RacerType = "NamespaceController"
	// RacerDisruptionController is kube-controller-manager's disruption controller: it writes the status of PodDisruptionBudgets.
	// Without one, no pod that a budget guards can be evicted.
	RacerDisruptionController RacerType = "DisruptionController"
	// RacerJobController is kube-controller-manager's Job controller, with the one that deletes a Job some time after it has finished.
	RacerJobController RacerType = "JobController"
	// RacerHorizontalPodAutoscaler is kube-controller-manager's horizontal pod autoscaler for one target, which is told what the
	// metrics would lead to.
	RacerHorizontalPodAutoscaler RacerType = "HorizontalPodAutoscaler"
	// RacerNodeLifecycle is what kube-controller-manager does about a node that a Kubelet has lost: it makes the pods not ready,
	// taints the node, evicts its pods, and deletes them for good if the node is gone or out of service. It needs Node objects.
	RacerNodeLifecycle RacerType = "NodeLifecycle"
	// RacerScheduler binds pods to a node. Without one, the kubelet does.
	RacerScheduler RacerType = "Scheduler"
	// RacerKubelet makes pods ready and takes terminating ones away.
	RacerKubelet RacerType = "Kubelet"
	// RacerVolumeBinder binds claims, and lets a claim go that no pod uses. Without one, claims stay Pending.
	RacerVolumeBinder RacerType = "VolumeBinder"
	// RacerAnnotator changes an annotation of one object again and again, like a tool that stamps what it has seen. It begins
	// with the script.
	RacerAnnotator RacerType = "Annotator"
)

// GarbageCollector configures a racer of type GarbageCollector.
type GarbageCollector struct {
	// Delay is the virtual time between an event and the collector looking at it. None by default.
	Delay *metav1.Duration `json:"delay,omitempty"`
}

// NamespaceController configures a racer of type NamespaceController.
type NamespaceController struct {
	// Delay is the virtual time that the controller waits before it looks at a deleted namespace, beyond the 5 seconds of a real
	// one. None by default.
	Delay *metav1.Duration `json:"delay,omitempty"`
}

// Kubelet configures a racer of type Kubelet.
type Kubelet struct {
	// ReadyAfter is the virtual time from a pod being bound to its being ready. None by default.
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// TerminationAfter is the virtual time that the containers of a terminating pod take to stop; they are killed when the
	// pod's grace period is over. None by default.
	TerminationAfter *metav1.Duration `json:"terminationAfter,omitempty"`
	// CompletesAfter is the virtual time that the containers of a ready pod run whose restartPolicy is not Always; then the pod
	// Succeeds. If unset, they run until the pod is deleted.
	CompletesAfter *metav1.Duration `json:"completesAfter,omitempty"`
	// Fails says which of these pods fail instead. The containers of one whose restartPolicy is OnFailure are restarted.
	Fails []FailingPods `json:"fails,omitempty"`
	// Unready says which pods run but never become ready.
	Unready *UnreadyPods `json:"unready,omitempty"`
	// Wedged names pods that never terminate, as on a node that is lost: "name", or "namespace/name".
	Wedged []string `json:"wedged,omitempty"`
	// Lost are nodes that are lost for a while: nothing is written about their pods, and none of them goes. A NodeLifecycle among
	// the racers notices it.
	Lost []LostNode `json:"lost,omitempty"`
}

// UnreadyPods says which pods never become ready: a program that cannot serve, as after a bad release.
type UnreadyPods struct {
	// Images that a container of the pods has, as they are written in its spec.
	Images []string `json:"images"`
}

// FailingPods says which pods fail, and how often. Of several for a pod the first one counts.
type FailingPods struct {
	// Labels that the pods have: those of a Job have "batch.kubernetes.io/job-name" and, by index,
	// "batch.kubernetes.io/job-completion-index".
	Labels map[string]string `json:"labels"`
	// Times is how often it happens, counted over all these pods. Every time by default.
	Times *int `json:"times,omitempty"`
	// ExitCode of the containers; 1 by default.
	ExitCode *int32 `json:"exitCode,omitempty"`
}

// LostNode is a node that is lost.
type LostNode struct {
	// Node is its name. There must be an object of that name, or a given pod on it; without a Scheduler pods are put on "node1".
	Node string `json:"node"`
	// At is when it is lost, in virtual time since the script began. At once by default.
	At *metav1.Duration `json:"at,omitempty"`
	// Back is when it is back, in virtual time since the script began. Never by default.
	Back *metav1.Duration `json:"back,omitempty"`
}

// HorizontalPodAutoscaler configures a racer of type HorizontalPodAutoscaler: every 15 seconds it reads the scale of its target, and
// writes it if the number of replicas is another one than it wants. Exactly one of Name and Target says what it is about.
type HorizontalPodAutoscaler struct {
	// Name of a HorizontalPodAutoscaler object, which says what to scale and between which bounds. Its status is written.
	Name string `json:"name,omitempty"`
	// Target is what to scale where there is no such object: at once, and without bounds.
	Target *ScaleTarget `json:"target,omitempty"`
	// Namespace of the object or the target; "default" if empty.
	Namespace string `json:"namespace,omitempty"`
	// Recommends are the numbers of replicas that the metrics lead to from some time on, in this order. Before the first, the
	// number there is is right. A target needs one.
	Recommends []Recommendation `json:"recommends,omitempty"`
}

// ScaleTarget names an object of a kind with a scale subresource.
type ScaleTarget struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
}

// Recommendation is a number of replicas.
type Recommendation struct {
	// At is when it begins to be right, in virtual time since the script began. At once by default.
	At *metav1.Duration `json:"at,omitempty"`
	// Replicas is the number.
	Replicas *int32 `json:"replicas"`
}

// Annotator configures a racer of type Annotator: Get, change the annotation, Update, every so often, until the number of
// times is reached or the object is gone.
type Annotator struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; "default" if empty.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// Every is the virtual time between two changes.
	Every metav1.Duration `json:"every"`
	// Times is the number of changes.
	Times int `json:"times"`
	// Annotation is the key that is changed; "stalemate.dev/touched" if empty.
	Annotation string `json:"annotation,omitempty"`
}

// ScriptStep is one thing a user does: exactly one of create, patch and delete. A step begins when the one before it is over,
// and when its own `at` or `after` has come.
type ScriptStep struct {
	// Create creates the objects of a file, in their order.
	Create *FileReference `json:"create,omitempty"`
	// Patch changes an object.
	Patch *PatchStep `json:"patch,omitempty"`
	// Delete deletes an object.
	Delete *DeleteStep `json:"delete,omitempty"`
	// At is the virtual time at which the step begins at the earliest: since the script began or, with After, since that
	// event.
	At *metav1.Duration `json:"at,omitempty"`
	// After is the event that the step waits for. It may come before the step's turn does.
	After *Selector `json:"after,omitempty"`
	// RetryWhile has the step tried again every second as long as it fails for this reason, as "AlreadyExists" does while
	// the object that a create replaces is still terminating. A step that fails for another reason is left at that.
	RetryWhile metav1.StatusReason `json:"retryWhile,omitempty"`
}

// PatchStep changes an object by a JSON merge patch (RFC 7386).
type PatchStep struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; "default" if empty.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// Merge is the patch.
	Merge map[string]any `json:"merge"`
}

// DeleteStep deletes an object.
type DeleteStep struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; "default" if empty.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// PropagationPolicy is Orphan, Background or Foreground; the default of the kind if empty.
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
}

// Selector chooses events. An empty field matches everything.
type Selector struct {
	// Actor is the name of a controller or racer; "user" is the script.
	Actor string `json:"actor,omitempty"`
	// Incarnation, from 1, chooses one start of the process: 2 is the one after its first crash or upgrade.
	Incarnation int `json:"incarnation,omitempty"`
	// Controller is the name of one controller of the process; those of a process with a single one have none.
	Controller string `json:"controller,omitempty"`
	// Key is what is being reconciled: "namespace/name", or "name" where there is no namespace.
	Key string `json:"key,omitempty"`
	// Verb of the request: Get, List, Watch, Create, Update, Patch, Delete or DeleteCollection.
	Verb string `json:"verb,omitempty"`
	// Verbs is a choice of verbs. Not together with Verb.
	Verbs []string `json:"verbs,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Namespace of the object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name,omitempty"`
	// Subresource of the request; "" chooses those to the main resource, and leaving it out chooses all.
	Subresource *string `json:"subresource,omitempty"`
	// Occurrence, from 1, chooses the n-th of the events that match; 0 chooses all.
	Occurrence int `json:"occurrence,omitempty"`
}

// Variable binds a name to the cluster: exactly one of object and list.
type Variable struct {
	// Name in the rules, a CEL identifier.
	Name string `json:"name"`
	// Object binds one object; the variable is null when it is absent.
	Object *ObjectBinding `json:"object,omitempty"`
	// List binds a list of objects, ordered by namespace and name.
	List *ListBinding `json:"list,omitempty"`
	// At freezes the variable to what it was at that moment.
	At VariableTime `json:"at,omitempty"`
}

// VariableTime is a moment that a variable can be frozen to.
type VariableTime string

// AtStart is when the run begins: after settling, before the script.
const AtStart VariableTime = "Start"

// ObjectBinding names one object.
type ObjectBinding struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; "default" if empty.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
}

// ListBinding chooses objects of a kind.
type ListBinding struct {
	// Kind of the objects.
	Kind string `json:"kind"`
	// Namespace of the objects; all namespaces if empty.
	Namespace string `json:"namespace,omitempty"`
	// Labels that the objects must have.
	Labels map[string]string `json:"labels,omitempty"`
}

// Property is a rule that judges the runs.
type Property struct {
	// Name of the property, a DNS label.
	Name string `json:"name"`
	// Type says when the rule must hold: Always, Terminal, Eventually, Sometimes or Request.
	Type string `json:"type"`
	// Within bounds an Eventually in virtual time, which needs it.
	Within *metav1.Duration `json:"within,omitempty"`
	// Match chooses the requests that a Request or Sometimes looks at.
	Match *Selector `json:"match,omitempty"`
	// Rule is a CEL expression over the variables; for a Request, also over `request` and `response`.
	Rule string `json:"rule"`
	// Message says what it means when the rule is false; the rule itself if empty.
	Message string `json:"message,omitempty"`
}

// Limits bound a run. A run that hits one is inconclusive.
type Limits struct {
	// Steps bounds the number of steps; 20000 by default.
	Steps *int32 `json:"steps,omitempty"`
	// VirtualTime bounds the virtual time; 24h by default.
	VirtualTime *metav1.Duration `json:"virtualTime,omitempty"`
	// Hold bounds in virtual time how long an ordering constraint may hold a step; 120s by default.
	Hold *metav1.Duration `json:"hold,omitempty"`
}
