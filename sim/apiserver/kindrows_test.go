package apiserver

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Parts of the objects below.
const (
	podTemplateJSON = `{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	workloadJSON    = `"selector":{"matchLabels":{"app":"a"}},"template":` + podTemplateJSON
	jobJSON         = `"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`
)

// kindRow is what the strategy of a kind says, as pkg/registry/*/*/strategy.go of k8s.io/kubernetes v1.36 has it: not as our
// table does.
type kindRow struct {
	kind, object string // the object without its kind and metadata
	change       string // a merge patch that changes what it is about
	// generation is metadata.generation when the object is new, and with a label, an annotation and the change besides.
	generation [4]int64
	// required says that a PUT must name a revision, and creates that one of an object that is missing makes it.
	required, creates bool
	orphans           bool // a delete that says nothing orphans dependents
}

// counted is the generation of a kind that counts its spec, uncounted that of one which counts nothing.
var (
	counted   = [4]int64{1, 1, 1, 2}
	uncounted = [4]int64{}
)

var kindRows = []kindRow{
	{kind: "StatefulSet", object: `"spec":{"serviceName":"a",` + workloadJSON + `}`, change: `{"spec":{"replicas":3}}`,
		generation: counted},
	{kind: "Pod", object: `"spec":{"containers":[{"name":"c","image":"i"}]}`,
		change: `{"spec":{"containers":[{"name":"c","image":"j"}]}}`, generation: counted},
	{kind: "PersistentVolumeClaim", object: `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`,
		change: `{"metadata":{"labels":{"b":"c"}}}`, generation: uncounted},
	{kind: "ControllerRevision", object: `"revision":1,"data":{"a":"b"}`, change: `{"revision":2}`, generation: uncounted},
	{kind: "ConfigMap", object: `"data":{"a":"b"}`, change: `{"data":{"a":"c"}}`, generation: uncounted},
	{kind: "Secret", object: `"data":{"a":"Yg=="}`, change: `{"data":{"a":"Yw=="}}`, generation: uncounted},
	{kind: "Service", object: `"spec":{"ports":[{"port":80}]}`, change: `{"spec":{"selector":{"a":"b"}}}`,
		generation: uncounted, creates: true},
	{kind: "Event", object: `"involvedObject":{"namespace":"default","name":"a"},"reason":"R"`, change: `{"reason":"S"}`,
		generation: uncounted, creates: true},
	{kind: "Namespace", object: `"spec":{}`, change: `{"metadata":{"labels":{"b":"c"}}}`, generation: uncounted},
	{kind: "Lease", object: `"spec":{"holderIdentity":"a"}`, change: `{"spec":{"holderIdentity":"b"}}`, generation: uncounted,
		required: true, creates: true},
	{kind: "Node", object: `"spec":{}`, change: `{"spec":{"unschedulable":true}}`, generation: uncounted},
	{kind: "ServiceAccount", object: `"imagePullSecrets":[{"name":"a"}]`, change: `{"imagePullSecrets":[{"name":"b"}]}`,
		generation: uncounted},
	{kind: "EndpointSlice", object: `"addressType":"IPv4","endpoints":[{"addresses":["10.1.1.1"]}]`,
		change: `{"endpoints":[{"addresses":["10.1.1.2"]}]}`, generation: [4]int64{1, 2, 2, 3}},
	{kind: "PersistentVolume", object: `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}`,
		change: `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, generation: uncounted},
	{kind: "ReplicationController", object: `"spec":{"selector":{"app":"a"},"template":` + podTemplateJSON + `}`,
		change: `{"spec":{"replicas":3}}`, generation: counted, orphans: true},
	{kind: "ReplicaSet", object: `"spec":{` + workloadJSON + `}`, change: `{"spec":{"replicas":3}}`, generation: counted},
	{kind: "DaemonSet", object: `"spec":{` + workloadJSON + `}`, change: `{"spec":{"minReadySeconds":3}}`, generation: counted},
	{kind: "Deployment", object: `"spec":{` + workloadJSON + `}`, change: `{"spec":{"replicas":3}}`, generation: [4]int64{1, 1, 2, 3}},
	{kind: "Job", object: `"spec":{` + jobJSON + `}`, change: `{"spec":{"suspend":true}}`, generation: counted, orphans: true},
	{kind: "CronJob", object: `"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{` + jobJSON + `}}}`,
		change: `{"spec":{"suspend":true}}`, generation: counted},
	{kind: "PodDisruptionBudget", object: `"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}`,
		change: `{"spec":{"minAvailable":2}}`, generation: counted, required: true},
	{kind: "Ingress", object: `"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}`,
		change: `{"spec":{"ingressClassName":"c"}}`, generation: counted},
	{kind: "NetworkPolicy", object: `"spec":{"podSelector":{}}`,
		change: `{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`, generation: counted},
	{kind: "Role", object: `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`, change: `{"rules":null}`,
		generation: uncounted, creates: true},
	{kind: "ClusterRoleBinding", object: `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"a"}`,
		change: `{"subjects":[{"kind":"User","name":"a","apiGroup":"rbac.authorization.k8s.io"}]}`, generation: uncounted, creates: true},
	{kind: "HorizontalPodAutoscaler",
		object: `"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}`,
		change: `{"spec":{"maxReplicas":4}}`, generation: uncounted},
	{kind: "StorageClass", object: `"provisioner":"a.b/c"`, change: `{"allowVolumeExpansion":true}`, generation: uncounted},
	{kind: "ValidatingWebhookConfiguration", object: `"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://a"},` +
		`"sideEffects":"None","admissionReviewVersions":["v1"]}]`, change: `{"webhooks":null}`, generation: counted, required: true},
	{kind: "Widget", object: `"spec":{"size":1,"color":"red"}`, change: `{"spec":{"size":2}}`, generation: counted, required: true},
}

// rowTester plays with one object of a kind, named "a".
type rowTester struct {
	*tester
	row *Kind
}

func newRowTester(t *testing.T, kind string) *rowTester {
	test := newTester(t)
	return &rowTester{test, test.kind(kind)}
}

func (t *rowTester) object(fields string) Object {
	t.Helper()
	obj, err := t.row.Decode([]byte(`{"apiVersion":"` + t.row.GroupVersion().String() + `","kind":"` + t.row.Kind +
		`","metadata":{"name":"a"},` + fields + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (t *rowTester) request(verb schedule.Verb, obj Object) *Request {
	return &Request{Verb: verb, Kind: t.row, Namespace: t.namespace(), Name: "a", Object: obj}
}

func (t *rowTester) namespace() string {
	if t.row.Namespaced {
		return "default"
	}
	return ""
}

func (t *rowTester) patched(subresource, patch string) *Response {
	req := t.request(schedule.Patch, nil)
	req.Subresource, req.PatchType, req.PatchData = subresource, types.MergePatchType, []byte(patch)
	return t.Do(req)
}

// TestKindRows checks what differs from kind to kind.
func TestKindRows(t *testing.T) {
	for _, tt := range kindRows {
		t.Run(tt.kind, func(t *testing.T) {
			test := newRowTester(t, tt.kind)
			missing := test.Do(test.request(schedule.Update, test.object(tt.object)))
			if want := map[bool]int{true: 201, false: 404}[tt.creates]; missing.Code != want {
				t.Errorf("a PUT of an object that is missing: %d %v, want %d", missing.Code, missing.Err, want)
			}
			if !tt.creates {
				test.do(test.request(schedule.Create, test.object(tt.object)))
			}
			var generation [4]int64
			for i, patch := range []string{"{}", `{"metadata":{"labels":{"x":"y"}}}`, `{"metadata":{"annotations":{"x":"y"}}}`, tt.change} {
				response := test.patched("", patch)
				if response.Err != nil || i > 0 && response.Committed == 0 {
					t.Fatalf("%s: %v, committed at %d", patch, response.Err, response.Committed)
				}
				generation[i] = response.Object.GetGeneration()
			}
			if generation != tt.generation {
				t.Errorf("generations %v, want %v", generation, tt.generation)
			}
			unlocked := test.Get(test.row, test.namespace(), "a").DeepCopyObject().(Object)
			unlocked.SetResourceVersion("")
			put := test.Do(test.request(schedule.Update, unlocked))
			if want := map[bool]int{true: 422, false: 200}[tt.required]; put.Code != want {
				t.Errorf("a PUT without a revision: %d %v, want %d", put.Code, put.Err, want)
			}
			test.do(test.request(schedule.Delete, nil))
			left := test.Get(test.row, test.namespace(), "a")
			orphans := left != nil && slices.Contains(left.GetFinalizers(), metav1.FinalizerOrphanDependents)
			if orphans != tt.orphans {
				t.Errorf("a delete that says nothing left %v", left)
			}
		})
	}
}

// TestStatusKeepsMetadata checks what of the metadata a write to the status subresource stores.
func TestStatusKeepsMetadata(t *testing.T) {
	const patch = `{"metadata":{"labels":{"l":"1"},"annotations":{"a":"1"},"finalizers":["e.x/f"],` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]}}`
	all := []string{"annotations", "finalizers", "labels", "ownerReferences"}
	for kind, want := range map[string][]string{
		"StatefulSet": all, "ReplicaSet": all, "Service": all, "PersistentVolumeClaim": all, "Job": all, "Node": all, "Ingress": all,
		"Deployment": {"annotations", "finalizers", "ownerReferences"},
		"Pod":        {"annotations", "finalizers", "labels"},
		"Widget":     nil,
	} {
		t.Run(kind, func(t *testing.T) {
			test := newRowTester(t, kind)
			i := slices.IndexFunc(kindRows, func(r kindRow) bool { return r.kind == kind })
			test.do(test.request(schedule.Create, test.object(kindRows[i].object)))
			response := test.patched("status", patch)
			if response.Err != nil {
				t.Fatal(response.Err)
			}
			var kept []string
			for name, stored := range map[string]bool{
				"labels":          response.Object.GetLabels()["l"] == "1",
				"annotations":     response.Object.GetAnnotations()["a"] == "1",
				"finalizers":      slices.Contains(response.Object.GetFinalizers(), "e.x/f"),
				"ownerReferences": len(response.Object.GetOwnerReferences()) == 1,
			} {
				if stored {
					kept = append(kept, name)
				}
			}
			slices.Sort(kept)
			if !slices.Equal(kept, want) {
				t.Errorf("stored %q, want %q", kept, want)
			}
		})
	}
}

// TestImmutableFields changes what must not change once an object is there.
func TestImmutableFields(t *testing.T) {
	const selector = `{"spec":{"selector":{"matchLabels":{"app":"b"}},"template":{"metadata":{"labels":{"app":"b"}}}}}`
	for _, tt := range []struct{ kind, first, patch, want string }{
		{"Deployment", "", selector, "spec.selector: Invalid value"},
		{"ReplicaSet", "", selector, "spec.selector: Invalid value"},
		{"DaemonSet", "", selector, "spec.selector: Invalid value"},
		{"Job", "", `{"spec":{"template":{"metadata":{"labels":{"b":"c"}}}}}`, "spec.template: Invalid value"},
		{"Job", "", `{"spec":{"completionMode":"Indexed","completions":1}}`, "field is immutable"},
		{"Pod", "", `{"spec":{"serviceAccountName":"other"}}`, "spec: Forbidden: pod updates may not change fields other than"},
		{"Service", "", `{"spec":{"clusterIP":"10.96.3.3","clusterIPs":["10.96.3.3"]}}`, "may not change once set"},
		{"PersistentVolumeClaim", "", `{"spec":{"volumeName":"other","accessModes":["ReadWriteMany"]}}`,
			"spec: Forbidden: spec is immutable after creation"},
		{"ConfigMap", `{"immutable":true}`, `{"data":{"a":"other"}}`, "data: Forbidden: field is immutable when `immutable` is set"},
		{"ConfigMap", `{"immutable":true}`, `{"immutable":null}`, "immutable: Forbidden: field is immutable when `immutable` is set"},
		{"Secret", `{"immutable":true}`, `{"data":{"a":"Yw=="}}`, "data: Forbidden: field is immutable when `immutable` is set"},
		{"Secret", "", `{"type":"example.com/other"}`, "type: Invalid value"},
		{"ControllerRevision", "", `{"data":{"a":"c"}}`, "data: Invalid value"},
		{"ClusterRoleBinding", "", `{"roleRef":{"name":"other"}}`, "roleRef: Invalid value"},
		{"StorageClass", "", `{"provisioner":"other.example.com/p"}`, "provisioner: Invalid value"},
		{"StorageClass", "", `{"parameters":{"a":"b"}}`, "parameters: Invalid value"},
		{"ConfigMap", "", `{"metadata":{"uid":"other"}}`, "metadata.uid: Invalid value"},
	} {
		t.Run(tt.kind+" "+tt.patch, func(t *testing.T) {
			test := newRowTester(t, tt.kind)
			i := slices.IndexFunc(kindRows, func(r kindRow) bool { return r.kind == tt.kind })
			test.do(test.request(schedule.Create, test.object(kindRows[i].object)))
			if tt.first != "" && test.patched("", tt.first).Err != nil {
				t.Fatalf("%s was refused", tt.first)
			}
			response := test.patched("", tt.patch)
			if response.Code != 422 || !strings.Contains(response.Err.ErrStatus.Message, tt.want) {
				t.Errorf("%d %v, want 422 %s", response.Code, response.Err, tt.want)
			}
		})
	}
}

// TestOneController checks that an object has at most one controlling owner.
func TestOneController(t *testing.T) {
	const owners = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"x","uid":"1","controller":true},` +
		`{"apiVersion":"v1","kind":"B","name":"y","uid":"2","controller":true}]}}`
	for _, kind := range []string{"ConfigMap", "Widget"} {
		test := newRowTester(t, kind)
		i := slices.IndexFunc(kindRows, func(r kindRow) bool { return r.kind == kind })
		test.do(test.request(schedule.Create, test.object(kindRows[i].object)))
		response := test.patched("", owners)
		const want = `Only one reference can have Controller set to true. Found "true" in references for A/x and B/y`
		if response.Code != 422 || !strings.Contains(response.Err.ErrStatus.Message, want) {
			t.Errorf("%s: %d %v, want 422 %s", kind, response.Code, response.Err, want)
		}
	}
}

// TestBindingKeepsGeneration checks that a pod which gets its node is at the generation it was.
func TestBindingKeepsGeneration(t *testing.T) {
	test := newRowTester(t, "Pod")
	test.create(newPod("a", ""))
	bind := binding(corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Name: "node1"}})
	bind.Kind, bind.Namespace = test.row, "default"
	test.do(&bind)
	if got := test.Get(test.row, "default", "a"); got.GetGeneration() != 1 {
		t.Errorf("generation %d after the binding, want 1", got.GetGeneration())
	}
}

// TestPatchesNeverConflict checks that a patch without a revision applies to whatever is there: nobody is told of a conflict.
func TestPatchesNeverConflict(t *testing.T) {
	test := newRowTester(t, "ConfigMap")
	read := test.create(newConfig("a"))
	test.patched("", `{"data":{"other":"1"}}`)
	for _, patch := range []string{`{"data":{"mine":"1"}}`, `{"data":{"mine":"2"},"metadata":{"resourceVersion":null}}`} {
		if response := test.patched("", patch); response.Err != nil || response.Committed == 0 {
			t.Errorf("%s: %v", patch, response.Err)
		}
	}
	locked := test.patched("", `{"data":{"mine":"3"},"metadata":{"resourceVersion":"`+read.GetResourceVersion()+`"}}`)
	if locked.Code != 409 {
		t.Errorf("a patch with the revision that was read: %d %v, want 409", locked.Code, locked.Err)
	}
}

// TestOneRevision checks that there is one counter of revisions over all kinds, which every commit moves on by one, deletes
// included, and that an event has the revision of its commit.
func TestOneRevision(t *testing.T) {
	test := newTester(t)
	revision := test.Revision()
	next := func(what string, obj Object) {
		t.Helper()
		if revision++; test.Revision() != revision || revisionOf(obj) != revision {
			t.Errorf("%s: the object is at %d, the server at %d, want %d", what, revisionOf(obj), test.Revision(), revision)
		}
	}
	config, widget := test.create(newConfig("a")), Object(nil)
	next("a ConfigMap", config)
	widget = test.create(newWidget("a"))
	next("a Widget", widget)
	next("an update", change(test, "", widget, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }).Object)
	test.remove(config, metav1.DeleteOptions{})
	log := test.Log(test.kind("ConfigMap"))
	next("a delete", log[len(log)-1].Object)
	set := test.create(newSet("s"))
	next("a StatefulSet", set)
	if response := change(test, "", set, func(*appsv1.StatefulSet) {}); response.Committed != 0 || test.Revision() != revision {
		t.Error("a write that changes nothing has a revision")
	}
}

// TestUnknownKindRules checks that a kind of which only the name is known follows the rules of a custom resource.
func TestUnknownKindRules(t *testing.T) {
	test := newTester(t)
	kinds := NewKinds(V136)
	row, err := kinds.AddUnknown(schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "Policy"})
	if err != nil {
		t.Fatal(err)
	}
	test.Server = NewServer(kinds, fixedClock)
	rows := &rowTester{test, row}
	rows.do(rows.request(schedule.Create, rows.object(`"spec":{"a":1},"status":{"b":1}`)))
	if r := rows.patched("", `{"spec":{"a":2}}`); r.Err != nil || r.Object.GetGeneration() != 2 {
		t.Errorf("a change: %v", r.Err)
	}
	if r := rows.patched("status", `{"status":{"b":2},"spec":{"a":3}}`); r.Err != nil || r.Object.GetGeneration() != 2 {
		t.Errorf("a write of the status: %v", r.Err)
	}
	unlocked := test.Get(row, "default", "a").DeepCopyObject().(Object)
	unlocked.SetResourceVersion("")
	if r := test.Do(rows.request(schedule.Update, unlocked)); r.Code != 422 {
		t.Errorf("a PUT without a revision: %d", r.Code)
	}
}
