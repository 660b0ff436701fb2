package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// applyStep is one request of a story. Verb and manager come first: "apply one", "force two", "merge three", "json four",
// "put five", "create six", "delete"; then the kind and, after a slash, a subresource. The object is called a.
type applyStep struct {
	does string // "apply one ConfigMap"
	body string // fields are added that every object has, but to a patch; the resourceVersion $ is that of what is stored
	want string // the code, and what the error has to say
	// owners are the managedFields afterwards, "manager operation[/subresource]" each with the paths it owns; nil is not looked at.
	owners map[string]string
	bumped bool // the write must have been committed; otherwise, of those that succeed, it must not
}

func play(t *testing.T, steps []applyStep) *tester {
	t.Helper()
	test := newTester(t)
	for i, step := range steps {
		test.time = test.time.Add(time.Second)
		test.playStep(fmt.Sprintf("step %d, %s", i, step.does), step)
	}
	return test
}

func (t *tester) playStep(at string, step applyStep) {
	t.Helper()
	req := t.applyRequest(step)
	response := t.Do(req)
	got := fmt.Sprint(response.Code)
	if response.Err != nil {
		got += " " + response.Err.ErrStatus.Message
	}
	if code, text, _ := strings.Cut(step.want, " "); !strings.HasPrefix(got, code) || !strings.Contains(got, text) {
		t.Fatalf("%s:\nhave %s\nwant %s", at, got, step.want)
	}
	if response.Err == nil && (response.Committed != 0) != step.bumped {
		t.Errorf("%s: committed at %d, want a commit: %v", at, response.Committed, step.bumped)
	}
	if step.owners == nil {
		return
	}
	stored := t.WithManagedFields(req.Kind, t.Get(req.Kind, req.Namespace, "a"))
	if diff := cmp.Diff(step.owners, owners(stored)); diff != "" {
		t.Errorf("%s: owners (-want +have):\n%s", at, diff)
	}
}

func (t *tester) applyRequest(step applyStep) *Request {
	t.Helper()
	words := strings.Fields(step.does)
	kind, subresource, _ := strings.Cut(words[2], "/")
	req := &Request{Kind: t.kind(kind), Namespace: "default", Name: "a", Subresource: subresource, FieldManager: words[1]}
	if !req.Kind.Namespaced {
		req.Namespace = ""
	}
	req.Verb, req.PatchData = schedule.Patch, []byte(step.body)
	switch words[0] {
	case "force", "apply":
		req.PatchType, req.PatchData = types.ApplyPatchType, []byte(complete(req.Kind, step.body))
		if words[0] == "force" {
			req.Force = new(true)
		}
	case "raw":
		req.PatchType = types.ApplyPatchType
	case "merge":
		req.PatchType = types.MergePatchType
	case "strategic":
		req.PatchType = types.StrategicMergePatchType
	case "json":
		req.PatchType = types.JSONPatchType
	case "put", "create":
		req.Verb = schedule.Update
		if words[0] == "create" {
			req.Verb = schedule.Create
		}
		obj, err := req.Kind.Decode([]byte(complete(req.Kind, step.body)))
		if err != nil {
			t.Fatal(err)
		}
		if obj.GetResourceVersion() == "$" {
			obj.SetResourceVersion(t.Get(req.Kind, req.Namespace, "a").GetResourceVersion())
		}
		req.Object, req.PatchData = obj, nil
	case "delete":
		req.Verb = schedule.Delete
	default:
		t.Fatalf("no such step: %s", step.does)
	}
	return req
}

// complete adds apiVersion, kind and name to a body that does not have them.
func complete(k *Kind, body string) string {
	tree := map[string]any{}
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		panic(err)
	}
	apiVersion, kind := k.ToAPIVersionAndKind()
	meta, _ := tree["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	if _, ok := meta["name"]; !ok {
		meta["name"] = "a"
	}
	tree["apiVersion"], tree["kind"], tree["metadata"] = apiVersion, kind, meta
	data, _ := json.Marshal(tree)
	return string(data)
}

// owners returns who owns which fields of an object.
func owners(obj Object) map[string]string {
	all := map[string]string{}
	for _, e := range obj.GetManagedFields() {
		name := e.Manager + " " + string(e.Operation)
		if e.Subresource != "" {
			name += "/" + e.Subresource
		}
		var tree map[string]any
		if err := json.Unmarshal(e.FieldsV1.Raw, &tree); err != nil {
			panic(err)
		}
		all[name] = strings.Join(paths("", tree), " ")
	}
	return all
}

// paths lists the fields of a set: f:data{f:k} is data.k, and an item of a list is its key.
func paths(prefix string, tree map[string]any) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		below := tree[name].(map[string]any)
		path := prefix
		if name != "." {
			_, rest, _ := strings.Cut(name, ":")
			path = strings.TrimPrefix(prefix+"."+rest, ".")
		}
		if len(below) == 0 {
			all = append(all, path)
		} else {
			all = append(all, paths(path, below)...)
		}
	}
	return all
}

const stsBody = `{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},` +
	`"spec":{"containers":[{"name":"c","image":"i:1"}]}}%s}}`

func stsWith(more string) string { return fmt.Sprintf(stsBody, more) }

const stsOwned = "spec.selector spec.template.metadata.labels.app spec.template.spec.containers.{\"name\":\"c\"} " +
	"spec.template.spec.containers.{\"name\":\"c\"}.image spec.template.spec.containers.{\"name\":\"c\"}.name"

func TestApplyConfigMap(t *testing.T) {
	const two = `Apply failed with 2 conflicts: conflicts with "one":` + "\n- .data.k\n- .data.l"
	play(t, []applyStep{
		{does: "apply one ConfigMap", body: `{"data":{"k":"1","l":"1"}}`, want: "201", bumped: true,
			owners: map[string]string{"one Apply": "data.k data.l"}},
		{does: "apply one ConfigMap", body: `{"data":{"k":"1","l":"1"}}`, want: "200"},
		{does: "apply two ConfigMap", body: `{"data":{"k":"2"}}`, want: `409 Apply failed with 1 conflict: conflict with "one": .data.k`},
		{does: "apply two ConfigMap", body: `{"data":{"k":"2","l":"2"}}`, want: "409 " + two},
		// Shared ownership is a change, and either may then only change the value by force.
		{does: "apply two ConfigMap", body: `{"data":{"k":"1"}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data.k data.l", "two Apply": "data.k"}},
		{does: "apply one ConfigMap", body: `{"data":{"k":"3","l":"1"}}`, want: `409 conflict with "two": .data.k`},
		// What one drops stays for the other; what nobody else has goes.
		{does: "apply one ConfigMap", body: `{"data":{}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data", "two Apply": "data.k"}},
		{does: "force one ConfigMap", body: `{"data":{"k":"4","m":"1"}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data.k data.m"}},
		// An Update takes ownership without asking.
		{does: "merge three ConfigMap", body: `{"data":{"k":"5"}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data.m", "three Update": "data.k"}},
		{does: "apply one ConfigMap", body: `{"data":{"k":"6","m":"1"}}`, want: `409 conflict with "three" using v1: .data.k`},
		{does: "apply one ConfigMap", body: `{"data":{"k":"5","m":"1"}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data.k data.m", "three Update": "data.k"}},
		// The same name owns separately what it applied and what it updated.
		{does: "merge one ConfigMap", body: `{"data":{"n":"1"}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": "data.k data.m", "one Update": "data.n", "three Update": "data.k"}},
		{does: "merge three ConfigMap", body: `{"metadata":{"managedFields":[{}]}}`, want: "200", bumped: true, owners: map[string]string{}},
		{does: "merge three ConfigMap", body: `{"data":{"n":"2"}}`, want: "200", bumped: true, owners: map[string]string{}},
		{does: "apply two ConfigMap", body: `{"data":{"k":"7"}}`, want: `409 conflict with "before-first-apply" using v1: .data.k`},
		{does: "apply two ConfigMap", body: `{"data":{"z":"7"}}`, want: "200", bumped: true,
			owners: map[string]string{"before-first-apply Update": "data data.k data.m data.n", "two Apply": "data.z"}},
	})
}

func TestApplyStatefulSet(t *testing.T) {
	test := play(t, []applyStep{
		// What is filled in belongs to nobody, so that another may set it.
		{does: "apply one StatefulSet", body: stsWith(""), want: "201", bumped: true, owners: map[string]string{"one Apply": stsOwned}},
		{does: "apply scaler StatefulSet", body: `{"spec":{"replicas":3}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": stsOwned, "scaler Apply": "spec.replicas"}},
		{does: "apply one StatefulSet", body: stsWith(`,"replicas":2`), want: `409 conflict with "scaler": .spec.replicas`},
		// The status belongs to its subresource, and nothing else does.
		{does: "apply ctl StatefulSet/status", body: `{"status":{"replicas":1,"readyReplicas":1}}`, want: "200", bumped: true,
			owners: map[string]string{
				"one Apply": stsOwned, "scaler Apply": "spec.replicas", "ctl Apply/status": "status.readyReplicas status.replicas",
			}},
		// That is no change, but the entries are sorted by time, and this one gets a new time before the change is undone.
		{does: "apply one StatefulSet", body: strings.Replace(stsWith(""), `{"spec"`, `{"status":{"replicas":7},"spec"`, 1),
			want: "200", bumped: true},
		{does: "apply one StatefulSet", body: strings.Replace(stsWith(""), `{"spec"`, `{"status":{"replicas":7},"spec"`, 1), want: "200"},
		{does: "apply other StatefulSet/status", body: `{"status":{"replicas":2}}`,
			want: `409 conflict with "ctl" with subresource "status": .status.replicas`},
		{does: "apply other StatefulSet/status", body: `{"spec":{"replicas":9},"status":{"currentReplicas":1}}`, want: "200", bumped: true,
			owners: map[string]string{
				"one Apply": stsOwned, "scaler Apply": "spec.replicas", "ctl Apply/status": "status.readyReplicas status.replicas",
				"other Apply/status": "status.currentReplicas",
			}},
		// A dropped field gets its default again.
		{does: "apply scaler StatefulSet", body: `{}`, want: "200", bumped: true},
		{does: "put one StatefulSet", body: stsWith(`,"serviceName":"other"`), want: "422 updates to statefulset spec for fields other than"},
		{does: "force two StatefulSet", body: stsWith(`,"serviceName":"other"`), want: "422 updates to statefulset spec"},
		{does: "apply one StatefulSet/status", body: `{"metadata":{"name":"b"}}`, want: "400 does not match the name on the URL (a)"},
	})
	set := test.Get(test.kind("StatefulSet"), "default", "a")
	if tree := generic(set).(map[string]any); tree["spec"].(map[string]any)["replicas"] != 1.0 || set.GetGeneration() != 3 {
		t.Errorf("generation %d, spec %v", set.GetGeneration(), tree["spec"])
	}
}

// TestApplyLists checks lists whose items have keys, sets, lists that are one value, and defaults of keys.
func TestApplyLists(t *testing.T) {
	ports := func(port string) string {
		return `{"spec":{"containers":[{"name":"c","image":"i:1","ports":[` + port + `]}]}}`
	}
	const owned = `spec.containers.{"name":"c"} spec.containers.{"name":"c"}.image spec.containers.{"name":"c"}.name `
	port := func(n int) string {
		key := fmt.Sprintf(`spec.containers.{"name":"c"}.ports.{"containerPort":%d,"protocol":"TCP"}`, n)
		return key + " " + key + ".containerPort"
	}
	play(t, []applyStep{
		{does: "apply one Pod", body: ports(`{"containerPort":80}`), want: "201", bumped: true,
			owners: map[string]string{"one Apply": owned + port(80)}},
		{does: "apply two Pod", body: `{"metadata":{"finalizers":["e.x/a"],"labels":{"a":"1"}}}`, want: "200", bumped: true,
			owners: map[string]string{"one Apply": owned + port(80), "two Apply": `metadata.finalizers."e.x/a" metadata.labels.a`}},
		{does: "apply three Pod", body: `{"metadata":{"finalizers":["e.x/b"]}}`, want: "200", bumped: true},
		{does: "apply two Pod", body: `{"metadata":{"finalizers":["e.x/a","e.x/a"]}}`,
			want: `500 failed to create typed patch object (/a; /v1, Kind=Pod): .metadata.finalizers: duplicate entries for key [="e.x/a"]`},
		{does: "apply two Pod", body: `{"spec":{"containers":[{"name":"d"},{"name":"d"}]}}`,
			want: `500 .spec.containers: duplicate entries for key [name="d"]`},
		// An item without its key is the one whose key is the default, the empty name.
		{does: "apply two Pod", body: `{"spec":{"containers":[{"image":"i"}]}}`, want: "422 pod updates may not add or remove containers"},
		// What admission added comes back: it looks at updates too.
		{does: "apply two Pod", body: `{"spec":{"tolerations":[]}}`, want: "200", bumped: true},
	})
	test := play(t, []applyStep{
		{does: "apply one StatefulSet", body: stsWith(""), want: "201", bumped: true},
		{does: "apply two StatefulSet", body: `{"metadata":{"finalizers":["e.x/b"]}}`, want: "200", bumped: true},
		{does: "apply three StatefulSet", body: `{"metadata":{"finalizers":["e.x/a"]}}`, want: "200", bumped: true},
		{does: "delete four StatefulSet", want: "200", bumped: true},
		// A terminating object may be applied to, but nobody may add finalizers.
		{does: "apply four StatefulSet", body: `{"metadata":{"labels":{"l":"1"}}}`, want: "200", bumped: true},
		{does: "apply four StatefulSet", body: `{"metadata":{"finalizers":["e.x/c"]}}`, want: "422 no new finalizers can be added"},
		{does: "apply two StatefulSet", body: `{}`, want: "200", bumped: true},
		{does: "apply three StatefulSet", body: `{}`, want: "200", bumped: true},
	})
	if test.Get(test.kind("StatefulSet"), "default", "a") != nil {
		t.Error("the last finalizer is gone, and the object is still there")
	}
}

// TestApplyOwners merges owner references by uid, and validates the result.
func TestApplyOwners(t *testing.T) {
	owner := func(uid, name, more string) string {
		return `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"` + name + `","uid":"` + uid + `"` + more + `}]}}`
	}
	test := play(t, []applyStep{
		{does: "apply one ConfigMap", body: owner("u1", "x", `,"controller":true`), want: "201", bumped: true,
			owners: map[string]string{"one Apply": `metadata.ownerReferences.{"uid":"u1"}`}},
		{does: "apply two ConfigMap", body: owner("u2", "y", ""), want: "200", bumped: true, owners: map[string]string{
			"one Apply": `metadata.ownerReferences.{"uid":"u1"}`, "two Apply": `metadata.ownerReferences.{"uid":"u2"}`,
		}},
		{does: "apply three ConfigMap", body: owner("u3", "z", `,"controller":true`),
			want: "422 Only one reference can have Controller set to true"},
		// A reference is one value.
		{does: "apply two ConfigMap", body: owner("u1", "x", ""), want: `409 conflict with "one": .metadata.ownerReferences[uid="u1"]`},
		{does: "force two ConfigMap", body: owner("u1", "x", ""), want: "200", bumped: true, owners: map[string]string{
			"two Apply": `metadata.ownerReferences.{"uid":"u1"}`,
		}},
	})
	if refs := test.Get(test.kind("ConfigMap"), "default", "a").GetOwnerReferences(); len(refs) != 1 || refs[0].Controller != nil {
		t.Errorf("owner references %+v", refs)
	}
}

func TestApplyWidget(t *testing.T) {
	test := play(t, []applyStep{
		{does: "apply one Widget", body: `{"spec":{"size":1,"color":"red"}}`, want: "201", bumped: true,
			owners: map[string]string{"one Apply": "spec.color spec.size"}},
		{does: "apply two Widget", body: `{"spec":{"size":2}}`, want: `409 conflict with "one": .spec.size`},
		{does: "apply one Widget", body: `{"spec":{"size":1.0,"color":"red"}}`, want: "200"},
		{does: "apply one Widget", body: `{"spec":{"size":-1}}`, want: "422 spec.size in body should be greater than or equal to 0"},
		{does: "apply one Widget", body: `{"spec":{"shape":"x"}}`, want: "500 failed to create typed patch object " +
			"(/a; golden.example.com/v1, Kind=Widget): .spec.shape: field not declared in schema"},
		{does: "apply one Widget", body: `{"spec":{"size":"x"}}`, want: "500 .spec.size: expected numeric (int or float), got string"},
		{does: "apply ctl Widget/status", body: `{"metadata":{"labels":{"l":"1"}},"spec":{"size":9},"status":{"phase":"Ready"}}`,
			want: "200", bumped: true, owners: map[string]string{
				"one Apply": "spec.color spec.size", "ctl Apply/status": "status.phase",
			}},
		{does: "merge two Widget/status", body: `{"status":{"phase":"Gone"}}`, want: "200", bumped: true, owners: map[string]string{
			"one Apply": "spec.color spec.size", "two Update/status": "status.phase",
		}},
		{does: "apply ctl Widget/status", body: `{"status":{"phase":"Ready"}}`,
			want: `409 conflict with "two" with subresource "status" using golden.example.com/v1: .status.phase`},
		{does: "apply one Widget", body: `{"spec":{"color":"red"}}`, want: "200", bumped: true},
	})
	widget := generic(test.Get(test.kind("Widget"), "default", "a")).(map[string]any)
	if diff := cmp.Diff(map[string]any{"color": "red"}, widget["spec"]); diff != "" {
		t.Errorf("spec: %s", diff)
	}
	if generation := widget["metadata"].(map[string]any)["generation"]; generation != 2.0 {
		t.Errorf("generation %v, want 2", generation)
	}
}

// TestApplyRefused checks what is no apply configuration.
func TestApplyRefused(t *testing.T) {
	config := func(body string) applyStep { return applyStep{does: "raw one ConfigMap", body: body} }
	for _, tt := range []struct {
		step applyStep
		want string
	}{
		{config(`{`), "400 error decoding YAML: error converting YAML to JSON: yaml: "},
		{config(`[]`), "400 error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"},
		{config(``), "400 invalid object type: /, Kind="},
		{config(`data: {k: v}`), "400 invalid object type: /, Kind="},
		{config("apiVersion: v1\nkind: Secret\nmetadata: {name: a}"), "400 invalid object type: /v1, Kind=Secret"},
		{config("apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}"), "400 invalid object type: /v2, Kind=ConfigMap"},
		{config("apiVersion: v1\nkind: ConfigMap"), "400 (a based on URL) was undeterminable: name must be provided"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}"), "400 (a based on URL) was undeterminable"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}"), "400 the name of the object (b) does not match the name on the URL (a)"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}"), "400 the namespace of the provided object does not match"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: 1}"),
			"500 .data.k: expected string, got &value.valueUnstructured{Value:1}"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nb: 1\na: 1"),
			"500 failed to create typed patch object (/a; /v1, Kind=ConfigMap): .a: field not declared in schema"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, managedFields: []}"), "400 metadata.managedFields must be nil"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, uid: u}"), "409 uid mismatch: the provided object specified uid u, and no"},
		{config("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, resourceVersion: x}"), "500 strconv.ParseUint"},
		{applyStep{does: "apply one StatefulSet/status", body: `{}`}, `404 statefulsets.apps "a" not found`},
		{applyStep{does: "apply one Widget/status", body: `{}`}, `404 widgets.golden.example.com "a" not found`},
		{applyStep{does: "apply one StatefulSet", body: `{"spec":{"replicas":1}}`}, "422 spec.selector"},
	} {
		tt.step.want = tt.want
		play(t, []applyStep{tt.step})
	}
	long := strings.Repeat("x", 129)
	play(t, []applyStep{
		{does: "raw one ConfigMap", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, resourceVersion: '7'}",
			want: "201", bumped: true},
		{does: "raw " + long + " ConfigMap",
			want: "422 PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"},
		{does: "put " + long + " ConfigMap", body: `{}`, want: "422 UpdateOptions.meta.k8s.io"},
		{does: "create a\u0007b ConfigMap", body: `{}`, want: "422 CreateOptions.meta.k8s.io"},
	})
	test := newTester(t)
	force := &Request{
		Verb: schedule.Patch, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "a", Force: new(false),
		PatchType: types.MergePatchType, PatchData: []byte(`{}`),
	}
	if response := test.Do(force); response.Code != 422 ||
		!strings.Contains(response.Err.Error(), "force: Forbidden: may not be specified for non-apply patch") {
		t.Errorf("force of a merge patch: %d %v", response.Code, response.Err)
	}
}

// TestApplyPlaces creates where there is no namespace, or where it is going away.
func TestApplyPlaces(t *testing.T) {
	test := newTester(t)
	do := func(namespace string) *Response {
		return test.Do(&Request{
			Verb: schedule.Patch, Kind: test.kind("ConfigMap"), Namespace: namespace, Name: "a", FieldManager: "one",
			PatchType: types.ApplyPatchType, PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`),
		})
	}
	if response := do("nowhere"); response.Code != 404 || !strings.Contains(response.Err.Error(), `namespaces "nowhere" not found`) {
		t.Errorf("nowhere: %d %v", response.Code, response.Err)
	}
	test.do(&Request{Verb: schedule.Create, Kind: test.kind("Namespace"), Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}})
	test.do(&Request{Verb: schedule.Delete, Kind: test.kind("Namespace"), Name: "n"})
	if response := do("n"); response.Code != 403 {
		t.Errorf("a namespace that is going away: %d %v", response.Code, response.Err)
	}
}

// TestApplyDryRun changes nothing.
func TestApplyDryRun(t *testing.T) {
	test := newTester(t)
	do := func(dryRun bool, body string) *Response {
		req := test.applyRequest(applyStep{does: "apply one ConfigMap", body: body})
		req.DryRun = dryRun
		return test.do(req)
	}
	if response := do(true, `{"data":{"k":"1"}}`); response.Code != 201 || test.Get(test.kind("ConfigMap"), "default", "a") != nil {
		t.Errorf("a dry run that creates: %d", response.Code)
	}
	made := do(false, `{"data":{"k":"1"}}`).Object
	changed := do(true, `{"data":{"l":"1"}}`)
	if diff := cmp.Diff(map[string]string{"one Apply": "data.l"}, owners(changed.Object)); diff != "" || changed.Committed != 0 {
		t.Errorf("a dry run that changes answers with: %s", diff)
	}
	if test.Get(test.kind("ConfigMap"), "default", "a") != made {
		t.Error("a dry run changed what is stored")
	}
}

// TestOldManagers checks that no more than ten managers of updates are kept apart.
func TestOldManagers(t *testing.T) {
	test := newTester(t)
	test.playStep("create", applyStep{does: "create m00 ConfigMap", body: `{"data":{"k":"1"}}`, want: "201", bumped: true})
	for i := 1; i < 12; i++ { // all in one second: then the names decide who is old
		step := applyStep{does: fmt.Sprintf("merge m%02d ConfigMap", i), body: fmt.Sprintf(`{"data":{"k%d":"1"}}`, i), want: "200", bumped: true}
		test.playStep(step.does, step)
	}
	have := owners(test.WithManagedFields(test.kind("ConfigMap"), test.Get(test.kind("ConfigMap"), "default", "a")))
	if have["ancient-changes Update"] != "data data.k data.k1 data.k2" || have["m03 Update"] != "data.k3" || len(have) != 10 {
		t.Errorf("owners %v", have)
	}
}

// TestApplyScale has the scale subresource take the replicas from who applied them.
func TestApplyScale(t *testing.T) {
	test := newTester(t)
	test.playStep("apply", applyStep{does: "apply one StatefulSet", body: stsWith(`,"replicas":3`), want: "201", bumped: true})
	scale := &Request{
		Verb: schedule.Patch, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "a", Subresource: "scale", FieldManager: "hpa",
		PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"replicas":5}}`),
	}
	test.do(scale)
	want := map[string]string{"one Apply": stsOwned, "hpa Update/scale": "spec.replicas"}
	if diff := cmp.Diff(want, owners(test.Get(scale.Kind, "default", "a"))); diff != "" {
		t.Errorf("owners after a scale (-want +have):\n%s", diff)
	}
	test.playStep("apply again", applyStep{
		does: "apply one StatefulSet", body: stsWith(`,"replicas":3`),
		want: `409 conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas`,
	})
	scale.PatchType, scale.FieldManager = types.ApplyPatchType, "two"
	scale.PatchData = []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":4}}`)
	conflict := test.Do(scale)
	const refusal = `conflict with "hpa" with subresource "scale" using autoscaling/v1: .spec.replicas`
	if conflict.Code != 409 || !strings.Contains(conflict.Err.Error(), refusal) {
		t.Errorf("an apply to the scale: %d %v", conflict.Code, conflict.Err)
	}
	scale.Force = new(true)
	test.do(scale)
	want = map[string]string{"one Apply": stsOwned, "two Apply/scale": "spec.replicas"}
	if diff := cmp.Diff(want, owners(test.Get(scale.Kind, "default", "a"))); diff != "" {
		t.Errorf("owners after an apply of a scale (-want +have):\n%s", diff)
	}
}

// TestApplyInVersions has one manager apply in one version of a kind, another in the other, and the first once more without a field: what
// it drops is looked at in the version that it was applied in.
func TestApplyInVersions(t *testing.T) {
	test := newTester(t)
	apply := func(version, manager, body string) {
		t.Helper()
		gvk := schema.FromAPIVersionAndKind(version, "Event")
		test.do(&Request{
			Verb: schedule.Patch, Kind: test.Kinds().ByGVK(gvk), Namespace: "default", Name: "a", FieldManager: manager, Force: new(true),
			PatchType: types.ApplyPatchType, PatchData: fmt.Appendf(nil, `{"apiVersion":%q,"kind":"Event","metadata":{"name":"a"%s}`, version, body),
		})
	}
	const old = `},"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"reason":"R","type":"Normal","message":`
	const fresh = `},"regarding":{"kind":"Pod","name":"p","namespace":"default"},"reason":"R","type":"Normal","action":"a",` +
		`"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"example.com/c","reportingInstance":"i","note":`
	apply("events.k8s.io/v1", "one", `,"labels":{"a":"x","b":"y"}`+fresh+`"m"`)
	apply("v1", "two", `,"labels":{"b":"y"}`+old+`"m"`)
	apply("events.k8s.io/v1", "one", fresh+`"m"`)
	apply("v1", "two", old+`"m"`)
	if labels := test.Get(test.kind("Event"), "default", "a").GetLabels(); len(labels) != 0 {
		t.Errorf("labels %v, want none left", labels)
	}
}

// TestApplyLoaded applies to objects that were there from the start: with the managedFields they have, or as a real server
// does with objects from before it knew of them.
func TestApplyLoaded(t *testing.T) {
	test := newTester(t)
	plain, owned := newConfig("a"), newConfig("a")
	owned.Namespace = "other"
	owned.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:k":{}}}`)},
	}}
	if err := test.LoadAll([]Object{plain, owned}); err != nil {
		t.Fatal(err)
	}
	for namespace, owner := range map[string]string{"default": "before-first-apply", "other": "helm"} {
		req := test.applyRequest(applyStep{does: "apply one ConfigMap", body: `{"data":{"k":"2"}}`})
		req.Namespace = namespace
		response := test.Do(req)
		if response.Code != 409 || !strings.Contains(response.Err.Error(), `conflict with "`+owner+`" using v1: .data.k`) {
			t.Errorf("in %s: %d %v", namespace, response.Code, response.Err)
		}
	}
}

// TestApplyShows checks that readers see who owns what from the first apply to a kind on, also of objects that nobody applied
// to, and of how they were before.
func TestApplyShows(t *testing.T) {
	test := newTester(t)
	k := test.kind("ConfigMap")
	other := newConfig("b")
	test.do(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: other, FieldManager: "two"})
	before := test.Revision()
	list := func(revision int64) []string {
		req := &Request{Verb: schedule.List, Kind: k, Namespace: "default"}
		if revision != 0 {
			req.ResourceVersion, req.ResourceVersionMatch = fmt.Sprint(revision), metav1.ResourceVersionMatchExact
		}
		var names []string
		for _, obj := range test.do(req).Items {
			names = append(names, fmt.Sprint(obj.GetName(), owners(obj)))
		}
		return names
	}
	if have := list(0); !slices.Equal(have, []string{"bmap[]"}) {
		t.Errorf("before anybody applied: %q", have)
	}
	test.playStep("apply", applyStep{does: "apply one ConfigMap", body: `{"data":{"k":"1"}}`, want: "201", bumped: true})
	want := []string{"amap[one Apply:data.k]", "bmap[two Update:data data.k]"}
	if have := list(0); !slices.Equal(have, want) {
		t.Errorf("a list: %q, want %q", have, want)
	}
	if have := list(before); !slices.Equal(have, want[1:]) {
		t.Errorf("a list of before: %q, want %q", have, want[1:])
	}
	if have := owners(test.List(k, "default")[1]); len(have) != 1 {
		t.Errorf("what a cache begins with: %v", have)
	}
	got := test.do(&Request{Verb: schedule.Get, Kind: k, Namespace: "default", Name: "b"}).Object
	if have := owners(got); have["two Update"] != "data data.k" {
		t.Errorf("a get: %v", have)
	}
}

// TestApplyRepeatedKeys checks what becomes of a key that a configuration has twice.
func TestApplyRepeatedKeys(t *testing.T) {
	for validation, want := range map[string]string{
		"": "201 []", metav1.FieldValidationIgnore: "201 []",
		metav1.FieldValidationWarn: "201 [error converting YAML to JSON: yaml: unmarshal errors:\n  line 5: key \"k\" already set in map]",
		metav1.FieldValidationStrict: "400 [] error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  " +
			"line 5: key \"k\" already set in map",
	} {
		test := newTester(t)
		req := test.applyRequest(applyStep{does: "raw one ConfigMap", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" +
			"data: {k: '1',\n  k: '2'}\n"})
		req.FieldValidation = validation
		response := test.Do(req)
		have := fmt.Sprint(response.Code, " ", response.Warnings)
		if response.Err != nil {
			have += " " + response.Err.ErrStatus.Message
		}
		if have != want {
			t.Errorf("%s:\nhave %s\nwant %s", validation, have, want)
		}
	}
}

// TestKubectlApply checks that kubectl may take over what its annotation says it had before.
func TestKubectlApply(t *testing.T) {
	const annotation = `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":` +
		`"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"1\"}}"}`
	play(t, []applyStep{
		{does: "create kubectl-client-side-apply ConfigMap", body: `{"metadata":{` + annotation + `},"data":{"k":"1"}}`,
			want: "201", bumped: true},
		{does: "apply one ConfigMap", body: `{"data":{"k":"2"}}`, want: `409 conflict with "kubectl-client-side-apply" using v1: .data.k`},
		{does: "apply kubectl ConfigMap", body: `{"data":{"k":"2"}}`, want: "200", bumped: true},
	})
}

// TestStaleManagedFields sends back managedFields that are not those of the object any more: they count.
func TestStaleManagedFields(t *testing.T) {
	test := newTester(t)
	test.playStep("apply", applyStep{does: "apply one ConfigMap", body: `{"data":{"k":"1"}}`, want: "201", bumped: true})
	k := test.kind("ConfigMap")
	stale := test.Get(k, "default", "a").DeepCopyObject().(*corev1.ConfigMap)
	test.playStep("apply", applyStep{does: "apply two ConfigMap", body: `{"data":{"l":"1"}}`, want: "200", bumped: true})
	stale.ResourceVersion, stale.Data = "", map[string]string{"k": "1", "l": "1"}
	test.do(&Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: stale, FieldManager: "three"})
	if diff := cmp.Diff(map[string]string{"one Apply": "data.k"}, owners(test.Get(k, "default", "a"))); diff != "" {
		t.Errorf("owners (-want +have):\n%s", diff)
	}
	emptied := test.Get(k, "default", "a").DeepCopyObject().(*corev1.ConfigMap)
	emptied.ManagedFields = []metav1.ManagedFieldsEntry{}
	test.do(&Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: emptied, FieldManager: "three"})
	if have := owners(test.Get(k, "default", "a")); len(have) != 0 {
		t.Errorf("owners after an empty list: %v", have)
	}
}

// TestOwnersOnly checks writes of which the server resets all that they would change: they are stored if they change who owns what.
// Recorded from kube-apiserver v1.36.3.
func TestOwnersOnly(t *testing.T) {
	const label = `"labels":{"x":"1"}`
	unavailable := func(n string) string {
		return `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":` + n + `}}}}`
	}
	tests := []struct {
		name  string
		steps []applyStep
	}{
		{"a deletionTimestamp that a client sent", []applyStep{
			{does: "put one Lease", body: `{"metadata":{"finalizers":["e.x/f"],"deletionTimestamp":"2001-01-01T00:00:00Z"}}`,
				want: "201", bumped: true,
				owners: map[string]string{"one Update": `metadata.deletionTimestamp metadata.finalizers metadata.finalizers."e.x/f"`}},
			{does: "delete one Lease", want: "200", bumped: true},
			{does: "put two Lease", body: `{"metadata":{"finalizers":["e.x/f"],"resourceVersion":"$"}}`, want: "200", bumped: true,
				owners: map[string]string{"one Update": `metadata.finalizers metadata.finalizers."e.x/f"`}},
			{does: "put two Lease", body: `{"metadata":{"finalizers":["e.x/f"],"resourceVersion":"$"}}`, want: "200"},
		}},
		{"a field whose gate is off", []applyStep{
			{does: "apply one StatefulSet", body: stsWith(""), want: "201", bumped: true},
			{does: "merge two StatefulSet", body: unavailable("1"), want: "200", bumped: true, owners: map[string]string{
				"one Apply": stsOwned, "two Update": "spec.updateStrategy.rollingUpdate.maxUnavailable"}},
			{does: "merge two StatefulSet", body: unavailable("1"), want: "200"},
			{does: "merge two StatefulSet", body: unavailable("2"), want: "200"},
			{does: "merge three StatefulSet", body: unavailable("2"), want: "200", bumped: true, owners: map[string]string{
				"one Apply": stsOwned, "three Update": "spec.updateStrategy.rollingUpdate.maxUnavailable"}},
			{does: "merge four StatefulSet", body: `{"spec":{"revisionHistoryLimit":10}}`, want: "200"},
		}},
		{"a spec that cannot be read", []applyStep{
			{does: "create one Widget", body: `{"metadata":{` + label + `},"spec":{"size":1}}`, want: "201", bumped: true},
			{does: "merge two Widget/status", body: `{"spec":{"size":"x"}}`, want: "200", bumped: true, owners: map[string]string{}},
			{does: "merge two Widget/status", body: `{"spec":{"size":"x"}}`, want: "200"},
		}},
		{"a status that cannot be read", []applyStep{
			{does: "create one Widget", body: `{"metadata":{` + label + `},"spec":{"size":1}}`, want: "201", bumped: true},
			{does: "merge two Widget", body: `{"status":{"phase":1}}`, want: "200", bumped: true, owners: map[string]string{}},
			{does: "merge two Widget", body: `{"spec":{"size":2}}`, want: "200", bumped: true, owners: map[string]string{}},
		}},
		{"a scale that changes nothing", []applyStep{
			{does: "create one StatefulSet", body: stsWith(`,"replicas":2`), want: "201", bumped: true},
			{does: "merge two StatefulSet", body: `{"spec":{"replicas":3}}`, want: "200", bumped: true},
			{does: "merge two StatefulSet/scale", body: `{"spec":{"replicas":3}}`, want: "200", bumped: true},
			{does: "merge two StatefulSet/scale", body: `{"spec":{"replicas":3}}`, want: "200"},
		}},
		{"nothing", []applyStep{
			{does: "create one StatefulSet", body: stsWith(`,"replicas":2`), want: "201", bumped: true},
			{does: "merge two StatefulSet", body: `{"spec":{"replicas":2}}`, want: "200"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { play(t, test.steps) })
	}
}

// TestSeededOwners checks who owns the label of a namespace that is there from the start.
func TestSeededOwners(t *testing.T) {
	test := newTester(t)
	test.TrackManagedFields()
	k := test.kind("Namespace")
	response := test.do(&Request{Verb: schedule.Get, Kind: k, Name: "default"})
	want := map[string]string{"kube-apiserver Update": "metadata.labels metadata.labels.kubernetes.io/metadata.name"}
	if diff := cmp.Diff(want, owners(response.Object)); diff != "" {
		t.Errorf("owners (-want +have):\n%s", diff)
	}
}

// TestManagerOfUserAgent checks who owns what is written without a field manager.
func TestManagerOfUserAgent(t *testing.T) {
	for agent, want := range map[string]string{
		"manager/v0.0.0 (linux/amd64) kubernetes/$Format": "manager", "": "unknown", "a\u0007b": "ab",
		strings.Repeat("ä", 100): strings.Repeat("ä", 64),
	} {
		test := newTester(t)
		obj := test.do(&Request{
			Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "default", Object: newConfig("a"), UserAgent: agent,
		}).Object
		if entries := test.WithManagedFields(test.kind("ConfigMap"), obj).GetManagedFields(); len(entries) != 1 || entries[0].Manager != want {
			t.Errorf("%q: %+v, want %q", agent, entries, want)
		}
	}
}

// TestApplyWithoutSchema applies to a kind of which there is no definition: lists are one value, and that is told.
func TestApplyWithoutSchema(t *testing.T) {
	test := newTester(t)
	kinds := NewKinds(V136)
	policy := widgetKind("Policy")
	if _, err := kinds.AddUnknown(policy); err != nil {
		t.Fatal(err)
	}
	test.Server = NewServer(kinds, fixedClock)
	test.playStep("apply", applyStep{does: "apply one Policy", body: `{"spec":{"items":[{"name":"x"}]}}`, want: "201", bumped: true})
	test.playStep("apply", applyStep{
		does: "apply two Policy", body: `{"spec":{"items":[{"name":"y"}]}}`, want: `409 conflict with "one": .spec.items`,
	})
	if gaps := strings.Join(test.Gaps(), "\n"); !strings.Contains(gaps, "Policy.golden.example.com has no schema") {
		t.Errorf("gaps: %s", gaps)
	}
}

// TestApplyCustomLists merges what a definition says of its lists and maps: keys, sets, atoms, objects within objects, and
// values of any type.
func TestApplyCustomLists(t *testing.T) {
	definitions, err := crd.Load([]byte(gearDefinition))
	if err != nil {
		t.Fatal(err)
	}
	kinds := NewKinds(V136)
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		t.Fatal(err)
	}
	test := newTester(t)
	test.Server = NewServer(kinds, fixedClock)
	for _, step := range []applyStep{
		{does: "apply one Gear", body: `{"spec":{"named":[{"name":"x"}],"set":["a"],"atom":{"a":1,"b":2},"port":80,"free":{"a":{"b":1}},` +
			`"inner":{"apiVersion":"v1","kind":"X","metadata":{"labels":{"l":"1"}}}}}`, want: "201", bumped: true,
			owners: map[string]string{"one Apply": `spec.atom spec.free.a spec.free.a.b spec.inner.apiVersion spec.inner.kind ` +
				`spec.inner.metadata.labels.l spec.named.{"name":"x"} spec.named.{"name":"x"}.name spec.port spec.set."a"`}},
		{does: "apply two Gear", body: `{"spec":{"named":[{"name":"y","value":"w"},{"name":"x","value":"v"}],"set":["b"],"free":{"a":{"c":1}},` +
			`"inner":{"metadata":{"labels":{"m":"1"}}}}}`, want: "200", bumped: true},
		{does: "apply three Gear", body: `{"spec":{"atom":{"c":3}}}`, want: `409 conflict with "one": .spec.atom`},
		{does: "apply three Gear", body: `{"spec":{"port":"http"}}`, want: `409 conflict with "one": .spec.port`},
		{does: "apply three Gear", body: `{"spec":{"named":[{"name":"x","value":"z"}]}}`,
			want: `409 conflict with "two": .spec.named[name="x"].value`},
		{does: "apply three Gear", body: `{"spec":{"set":["a","a"]}}`, want: `500 .spec.set: duplicate entries for key [="a"]`},
		{does: "force three Gear", body: `{"spec":{"port":"http","atom":{"c":3}}}`, want: "200", bumped: true},
		// Items go when the last one who applied them drops them, and what is filled in is nobody's.
		{does: "apply two Gear", body: `{}`, want: "200", bumped: true},
	} {
		test.playStep(step.does, step)
	}
	gear := generic(test.Get(test.kind("Gear"), "default", "a")).(map[string]any)
	want := generic(map[string]any{
		"named": []any{map[string]any{"name": "x", "value": "v"}}, "set": []any{"a"}, "atom": map[string]any{"c": 3}, "port": "http",
		"free":  map[string]any{"a": map[string]any{"b": 1}},
		"inner": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"labels": map[string]any{"l": "1"}}},
	})
	if diff := cmp.Diff(want, gear["spec"]); diff != "" {
		t.Errorf("spec (-want +have):\n%s", diff)
	}
}

const gearDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.golden.example.com}
spec:
  group: golden.example.com
  names: {kind: Gear, plural: gears}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              named:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    value: {type: string, default: v}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              atom: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: integer}}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              inner: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`

func widgetKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "golden.example.com", Version: "v1", Kind: kind}
}
