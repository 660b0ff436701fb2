package apiserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestManagedFieldsLater makes random sequences of requests by a few managers to two servers: one works out managedFields at
// once, the other when they are asked for. They must agree on every answer, and on the managedFields of every state that any
// object ever had. SIM_RUNS sets the number of sequences.
func TestManagedFieldsLater(t *testing.T) {
	runs := uint64(60)
	if text := os.Getenv("SIM_RUNS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		runs = n
	}
	for seed := range runs {
		p := newPair(t, seed)
		for range 80 {
			p.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		p.compareAll()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// pairKinds have their particularities: a Service keeps what a client leaves out, a Pod is changed as it is created.
var pairKinds = []string{"ConfigMap", "StatefulSet", "Widget", "Pod", "Service"}

// pair is two servers that get the same requests.
type pair struct {
	*testing.T
	rand        *rand.Rand
	time        time.Time
	later, ever *Server // managedFields worked out when they are asked for, and always
}

func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{T: t, rand: rand.New(rand.NewPCG(seed, 3)), time: fixedClock()}
	clock := func() time.Time { return p.time }
	p.later, p.ever = NewServer(GoldenKinds(V136), clock), NewServer(GoldenKinds(V136), clock)
	p.ever.TrackManagedFields()
	if p.rand.IntN(3) == 0 {
		for _, s := range []*Server{p.later, p.ever} {
			if err := s.LoadAll([]Object{newConfig("a"), newSet("a"), newWidget("a")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

func choose[T any](p *pair, choices ...T) T { return choices[p.rand.IntN(len(choices))] }

// step makes one request to both.
func (p *pair) step() {
	p.Helper()
	if p.rand.IntN(3) > 0 {
		p.time = p.time.Add(time.Duration(p.rand.IntN(5)) * time.Second)
	}
	seed := p.rand.Uint64()
	kind := choose(p, pairKinds...)
	fromLater := p.request(p.later, kind, rand.New(rand.NewPCG(seed, 1)))
	fromEver := p.request(p.ever, kind, rand.New(rand.NewPCG(seed, 1)))
	text := describe(fromLater)
	a, b := p.later.Do(fromLater), p.ever.Do(fromEver)
	if a.Code != b.Code || a.Committed != b.Committed || fmt.Sprint(a.Err) != fmt.Sprint(b.Err) {
		p.Errorf("%s:\nlater: %d at %d: %v\never:  %d at %d: %v", text, a.Code, a.Committed, a.Err, b.Code, b.Committed, b.Err)
		return
	}
	if p.rand.IntN(8) == 0 {
		p.compare(fromLater.Kind, p.later.Get(fromLater.Kind, "default", "a"), p.ever.Get(fromLater.Kind, "default", "a"), text)
	}
}

func describe(r *Request) string {
	body, _ := json.Marshal(r.Object)
	return fmt.Sprintf("%s %s %s %s by %s: %s%s", r.Verb, r.Kind.Kind, r.Subresource, r.PatchType, r.FieldManager, r.PatchData, body)
}

// compareAll compares every state that is or was stored.
func (p *pair) compareAll() {
	p.Helper()
	for _, name := range pairKinds {
		k := p.later.Kinds().ByName(name)
		ours, theirs := p.later.Log(k), p.ever.Log(k)
		for i := range ours {
			p.compare(k, ours[i].Object, theirs[i].Object, fmt.Sprintf("%s event %d", name, i))
		}
	}
}

func (p *pair) compare(k *Kind, later, ever Object, at string) {
	p.Helper()
	if later == nil || ever == nil {
		if later != ever {
			p.Errorf("%s: only one has the object", at)
		}
		return
	}
	later = p.later.WithManagedFields(k, later)
	if diff := cmp.Diff(entriesText(ever), entriesText(later)); diff != "" {
		p.Errorf("%s: managedFields worked out later differ (-at once +later):\n%s", at, diff)
	}
	if diff := cmp.Diff(withoutFields(ever), withoutFields(later)); diff != "" {
		p.Errorf("%s: the objects differ (-at once +later):\n%s", at, diff)
	}
}

// entriesText returns the managedFields of an object, one entry a line.
func entriesText(obj Object) []string {
	var lines []string
	for _, e := range obj.GetManagedFields() {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

func withoutFields(obj Object) any {
	bare := obj.DeepCopyObject().(Object)
	bare.SetManagedFields(nil)
	return generic(bare)
}

// request makes up a request. What it reads from the server differs between the two in nothing but managedFields.
func (p *pair) request(s *Server, kind string, r *rand.Rand) *Request {
	k := s.Kinds().ByName(kind)
	req := &Request{Kind: k, Namespace: "default", Name: "a", DryRun: r.IntN(10) == 0}
	req.FieldManager = []string{"one", "two", "three", ""}[r.IntN(4)]
	req.UserAgent = "operator/v1.2 (linux/amd64)"
	stored := s.Get(k, "default", "a")
	choice := r.IntN(12)
	switch {
	case stored == nil && choice < 6:
		req.Verb, req.Object = schedule.Create, varied(k, r)
	case choice < 4:
		applyRequest(req, varied(k, r), r)
	case choice < 8 && stored != nil:
		req.Verb, req.Object = schedule.Update, edited(k, stored, r)
		req.Subresource = []string{"", "", "status", "scale"}[r.IntN(4)]
		switch {
		case req.Subresource == "scale" && kind == "StatefulSet":
			req.Object = &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: r.Int32N(3)},
			}
		case req.Subresource == "scale", kind == "ConfigMap":
			req.Subresource = ""
		}
	case choice < 11:
		req.Verb, req.PatchType, req.PatchData = schedule.Patch, types.MergePatchType, []byte(randomPatch(k, r))
	default:
		req.Verb = schedule.Delete
		if r.IntN(2) == 0 {
			policy := metav1.DeletePropagationForeground
			req.Delete.PropagationPolicy = &policy
		}
	}
	return req
}

// applyRequest makes an apply of some of the fields of an object.
func applyRequest(req *Request, obj Object, r *rand.Rand) {
	if req.FieldManager == "" {
		req.FieldManager = "four"
	}
	tree := generic(obj).(map[string]any)
	apiVersion, kind := req.Kind.ToAPIVersionAndKind()
	tree["apiVersion"], tree["kind"] = apiVersion, kind
	delete(tree["metadata"].(map[string]any), "creationTimestamp")
	if req.Kind.Kind != "Widget" {
		delete(tree, "status")
	}
	req.Verb, req.PatchType = schedule.Patch, types.ApplyPatchType
	req.PatchData, _ = json.Marshal(tree)
	if r.IntN(2) == 0 {
		req.Force = new(r.IntN(2) == 0)
	}
	if req.Kind.HasStatus && r.IntN(4) == 0 {
		req.Subresource = "status"
	}
}

// varied returns an object with some fields set at random.
func varied(k *Kind, r *rand.Rand) Object {
	value := func() string { return fmt.Sprint(r.IntN(2)) }
	var obj Object
	switch k.Kind {
	case "ConfigMap":
		config := newConfig("a")
		config.Data = map[string]string{}
		for _, key := range []string{"k", "l", "m"} {
			if r.IntN(2) == 0 {
				config.Data[key] = value()
			}
		}
		obj = config
	case "StatefulSet":
		set := newSet("a")
		set.Spec.ServiceName = "svc"
		if r.IntN(2) == 0 {
			set.Spec.Replicas = new(r.Int32N(3))
		}
		container := &set.Spec.Template.Spec.Containers[0]
		for _, name := range []string{"A", "B"} {
			if r.IntN(2) == 0 {
				container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value()})
			}
		}
		obj = set
	case "Pod":
		pod := newPod("a", "")
		pod.Spec.ActiveDeadlineSeconds = new(10 - r.Int64N(2))
		pod.Status.Message = value()
		obj = pod
	case "Service":
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		for _, port := range []int32{80, 90} {
			if r.IntN(2) == 0 || port == 80 {
				service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port), Port: port})
			}
		}
		service.Spec.Selector = map[string]string{"app": value()}
		obj = service
	default:
		widget := newWidget("a")
		spec := widget.Object["spec"].(map[string]any)
		spec["size"] = r.Int64N(3)
		if r.IntN(2) == 0 {
			delete(spec, "color")
		}
		if r.IntN(2) == 0 {
			widget.Object["status"] = map[string]any{"phase": value()}
		}
		obj = widget
	}
	if r.IntN(2) == 0 {
		obj.SetLabels(map[string]string{"x": value(), "y" + value(): "1"})
	}
	if r.IntN(3) == 0 {
		obj.SetFinalizers([]string{"e.x/" + value()})
	}
	if r.IntN(3) == 0 {
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: types.UID("u" + value())}})
	}
	return obj
}

// edited returns a changed copy of a stored object.
func edited(k *Kind, stored Object, r *rand.Rand) Object {
	obj := stored.DeepCopyObject().(Object)
	like := varied(k, r)
	switch r.IntN(4) {
	case 0:
		obj.SetLabels(like.GetLabels())
	case 1:
		obj.SetFinalizers(like.GetFinalizers())
	case 2:
		obj.SetAnnotations(map[string]string{"a": fmt.Sprint(r.IntN(3))})
	}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		obj.Data = like.(*corev1.ConfigMap).Data
		if r.IntN(3) == 0 {
			obj.ResourceVersion = ""
		}
	case *appsv1.StatefulSet:
		obj.Spec.Replicas = new(r.Int32N(3))
		obj.Status.Replicas = r.Int32N(3)
		obj.Spec.Template.Spec.Containers[0].Env = like.(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Env
	case *corev1.Pod:
		obj.Status.Message = like.(*corev1.Pod).Status.Message
		if r.IntN(2) == 0 {
			obj.Spec.ActiveDeadlineSeconds = like.(*corev1.Pod).Spec.ActiveDeadlineSeconds
			obj.Status.QOSClass = ""
		}
	case *corev1.Service:
		obj.Spec.Ports, obj.Spec.Selector = like.(*corev1.Service).Spec.Ports, like.(*corev1.Service).Spec.Selector
		if r.IntN(2) == 0 {
			obj.Spec.ClusterIP, obj.Spec.ClusterIPs = "", nil
		}
	case *unstructured.Unstructured:
		content := like.(*unstructured.Unstructured).Object
		obj.Object["spec"] = content["spec"]
		if status, ok := content["status"]; ok {
			obj.Object["status"] = status
		}
	}
	if r.IntN(12) == 0 {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
	}
	return obj
}

func randomPatch(k *Kind, r *rand.Rand) string {
	patches := []string{
		`{"metadata":{"labels":{"x":"%d"}}}`, `{"metadata":{"labels":null,"annotations":{"p":"%d"}}}`,
		`{"metadata":{"finalizers":["e.x/%d"]}}`, `{"metadata":{"ownerReferences":null,"annotations":{"q":"%d"}}}`,
		`{"metadata":{"finalizers":null,"annotations":{"q":"%d"}}}`,
		`{"metadata":{"managedFields":[{}],"annotations":{"r":"%d"}}}`,
	}
	switch k.Kind {
	case "ConfigMap":
		patches = append(patches, `{"data":{"k":"%d"}}`, `{"data":{"k":null,"m":"%d"}}`, `{"data":null,"binaryData":{"z%d":"eA=="}}`)
	case "StatefulSet":
		patches = append(patches, `{"spec":{"replicas":%d}}`, `{"spec":{"template":{"metadata":{"annotations":{"t":"%d"}}}}}`,
			`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":%d}}}}`)
	case "Pod":
		patches = append(patches, `{"status":{"message":"%d"}}`, `{"spec":{"activeDeadlineSeconds":%d}}`)
	case "Service":
		patches = append(patches, `{"spec":{"selector":{"app":"%d"}}}`, `{"spec":{"ports":[{"port":8%d}]}}`)
	default:
		patches = append(patches, `{"spec":{"size":%d}}`, `{"spec":{"color":null,"size":%d}}`, `{"status":{"phase":"%d"}}`,
			`{"spec":{"size":"%d"}}`, `{"status":{"phase":%d}}`) // of the wrong type: only for the part that is reset
	}
	return fmt.Sprintf(patches[r.IntN(len(patches))], r.IntN(2))
}

// TestManagedFieldsInSnapshots checks that servers made from one snapshot, which share objects, writers and what is known of
// either, do not see each other's applies.
func TestManagedFieldsInSnapshots(t *testing.T) {
	test := newTester(t)
	test.playStep("create", applyStep{does: "create one ConfigMap", body: `{"data":{"k":"1"}}`, want: "201", bumped: true})
	snapshot := test.Snapshot()
	answers := make([]string, 4)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			server := &tester{T: t, Server: snapshot.NewServer(fixedClock)}
			for _, does := range []string{"apply two ConfigMap", "apply two ConfigMap", "apply one ConfigMap"} {
				req := server.applyRequest(applyStep{does: does, body: fmt.Sprintf(`{"data":{"k%d":"1"}}`, i)})
				server.Do(req)
			}
			obj := server.Get(server.kind("ConfigMap"), "default", "a")
			answers[i] = fmt.Sprint(owners(server.WithManagedFields(server.kind("ConfigMap"), obj)))
		})
	}
	group.Wait()
	for i, have := range answers {
		key := fmt.Sprintf("data.k%d", i)
		if want := fmt.Sprint(map[string]string{"one Update": "data data.k", "two Apply": key, "one Apply": key}); have != want {
			t.Errorf("server %d:\nhave %s\nwant %s", i, have, want)
		}
	}
	if have := fmt.Sprint(owners(test.WithManagedFields(test.kind("ConfigMap"), test.Get(test.kind("ConfigMap"), "default", "a")))); have !=
		fmt.Sprint(map[string]string{"one Update": "data data.k"}) {
		t.Errorf("the server itself: %s", have)
	}
}

// TestAppliedAgain checks that an apply which changed nothing is known again, and is not once something else has changed.
func TestAppliedAgain(t *testing.T) {
	apply := applyStep{does: "apply one StatefulSet", body: stsWith(`,"replicas":3`), want: "200"}
	other := applyStep{does: "apply two StatefulSet/status", body: `{"status":{"replicas":1}}`, want: "200"}
	first, second := apply, other
	first.want, first.bumped, second.bumped = "201", true, true
	test := play(t, []applyStep{first, second, apply, other, apply, apply, other})
	e := test.table(test.kind("StatefulSet")).get("default", "a")
	if len(e.settled) != 2 {
		t.Fatalf("%d applies are remembered, want 2", len(e.settled))
	}
	test.playStep("merge", applyStep{does: "merge three StatefulSet", body: `{"spec":{"replicas":4}}`, want: "200", bumped: true})
	apply.want = `409 conflict with "three" using apps/v1: .spec.replicas`
	test.playStep("apply", apply)
}

// TestPreparingCopies checks that what is done to an object on its way into the store leaves alone what the client sent, which
// shares everything below the top level of its fields.
func TestPreparingCopies(t *testing.T) {
	const labels = `"labels":{"a":"b"},"annotations":{"a":"b"}`
	const text = `{"metadata":{"name":"a","uid":"u",` + labels + `,"finalizers":["e.x/f"]},"spec":{"finalizers":["f"],` +
		`"template":{"metadata":{` + labels + `},"spec":{"tolerations":[{"key":"a"}],"containers":[{"name":"c","image":"i"}]}},` +
		`"tolerations":[{"key":"a"}],"containers":[{"name":"c"}],"selector":{"matchLabels":{"a":"b"}},"names":{"kind":"X"}},` +
		`"status":{"conditions":[{"type":"a"}]}}`
	for _, k := range GoldenKinds(V136).All() {
		if k.PrepareCreate == nil {
			continue
		}
		obj, err := k.Decode([]byte(text))
		if err != nil { // a Service selects by a plain map
			obj, err = k.Decode([]byte(strings.Replace(text, `{"matchLabels":{"a":"b"}}`, `{"a":"b"}`, 1)))
		}
		if err != nil {
			t.Fatal(err)
		}
		sent := k.shallowCopy(obj)
		want := generic(sent)
		k.PrepareCreate(obj)
		if diff := cmp.Diff(want, generic(sent)); diff != "" {
			t.Errorf("%s: PrepareCreate changes what the client sent:\n%s", k, diff)
		}
	}
}

// TestSchemas checks that there is a schema for every kind that a real server has one for.
func TestSchemas(t *testing.T) {
	for _, k := range GoldenKinds(V136).All() {
		if _, err := k.fields.manager(""); err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
		}
		// The one of CustomResourceDefinitions is not in client-go, and that in k8s.io/apiextensions-apiserver is empty.
		if text := k.fields.gap(); text != "" && k.Kind != "CustomResourceDefinition" {
			t.Error(text)
		}
	}
}

// TestApplyAliases applies to one object in two versions: who owns what in one does so in the other.
func TestApplyAliases(t *testing.T) {
	test := newTester(t)
	apply := func(manager, apiVersion, body string) *Response {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil {
			t.Fatal(err)
		}
		k := test.Kinds().ByGVK(gv.WithKind("HorizontalPodAutoscaler"))
		return test.Do(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", FieldManager: manager,
			PatchType: types.ApplyPatchType, PatchData: []byte(complete(k, body)),
		})
	}
	const target = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}`
	if r := apply("one", "autoscaling/v2", `{"spec":{"maxReplicas":3,`+target+`}}`); r.Code != 201 {
		t.Fatal(r.Err)
	}
	conflict := apply("two", "autoscaling/v1", `{"spec":{"maxReplicas":4}}`)
	if conflict.Code != 409 || !strings.Contains(conflict.Err.Error(), `conflict with "one": .spec.maxReplicas`) {
		t.Errorf("%d %v", conflict.Code, conflict.Err)
	}
	if r := apply("two", "autoscaling/v1", `{"spec":{"minReplicas":2,"targetCPUUtilizationPercentage":50}}`); r.Code != 200 {
		t.Error(r.Err)
	}
	// The same field is another one in the other version.
	if r := apply("three", "autoscaling/v2", `{"spec":{"minReplicas":3}}`); r.Code != 409 ||
		!strings.Contains(r.Err.Error(), `conflict with "two": .spec.minReplicas`) {
		t.Errorf("%d %v", r.Code, r.Err)
	}
}
