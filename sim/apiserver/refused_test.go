package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// refusal is a request that a real server refuses.
type refusal struct {
	kind string
	req  Request
	code int
	want string // a part of the message
}

var refusedWrites = []refusal{
	{"ConfigMap", Request{Verb: schedule.Create}, 400, "the request for ConfigMap has no object"},
	{"Pod", Request{Verb: schedule.Create, Object: newConfig("x")}, 400, "Pod: the object is a *v1.ConfigMap, want *v1.Pod"},
	{"ConfigMap", Request{Verb: schedule.Create, Object: newConfig("")}, 422, "metadata.name: Required value"},
	{"ConfigMap", Request{Verb: schedule.Create, Object: newConfig("a/b")}, 422, `metadata.name: Invalid value: "a/b"`},
	{"ConfigMap", Request{Verb: schedule.Create, Object: newConfig(strings.Repeat("a", 254))}, 422,
		"must be no more than 253 characters"},
	{"StatefulSet", Request{Verb: schedule.Create, Object: newSet(strings.Repeat("a", 64))}, 422,
		"must be no more than 63 characters"},
	{"ConfigMap", Request{Verb: schedule.Update, Object: newConfig("")}, 400,
		"the name of the object ( based on URL) was undeterminable: name must be provided"},
	{"ConfigMap", Request{Verb: schedule.Create, Object: editedConfig(func(c *corev1.ConfigMap) { c.Namespace = "other" })}, 400,
		"the namespace of the provided object does not match the namespace sent on the request"},
	{"ConfigMap", Request{Verb: schedule.Update, Name: "a", Object: editedConfig(func(c *corev1.ConfigMap) { c.Namespace = "other" })},
		400, "the namespace of the provided object does not match the namespace sent on the request"},
	{"ConfigMap", Request{Verb: schedule.Update, Name: "a", Object: editedConfig(func(c *corev1.ConfigMap) {
		c.ResourceVersion = "-1"
	})}, 500, `strconv.ParseUint: parsing "-1": invalid syntax`},
	{"ConfigMap", Request{Verb: schedule.Update, Name: "a", Object: editedConfig(func(c *corev1.ConfigMap) {
		c.ResourceVersion = "18446744073709551616"
	})}, 500, `strconv.ParseUint: parsing "18446744073709551616": value out of range`},
	{"ConfigMap", deleting(metav1.DeleteOptions{
		OrphanDependents: new(true), PropagationPolicy: new(metav1.DeletePropagationOrphan),
	}), 422, "orphanDependents and deletionPropagation cannot be both set"},
	{"ConfigMap", deleting(metav1.DeleteOptions{DryRun: []string{"Some"}}), 422, `dryRun: Unsupported value: ["Some"]`},
	{"ConfigMap", deleting(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}}), 409,
		"the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"},
	{"Lease", Request{Verb: schedule.DeleteCollection, Delete: metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletionPropagation("Bogus")),
	}}, 422, `propagationPolicy: Unsupported value: "Bogus"`},
	{"Namespace", Request{Verb: schedule.DeleteCollection}, 405, "the server does not allow this method"},
}

var refusedLists = []refusal{
	{"ConfigMap", listing("abc", "", ""), 400, `invalid resource version: resourceVersion: Invalid value: "abc"`},
	{"ConfigMap", listing("", "Exact", ""), 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"},
	{"ConfigMap", listing("0", "Exact", ""), 422, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
	{"ConfigMap", listing("1", "Bogus", ""), 422, `resourceVersionMatch: Unsupported value: "Bogus"`},
	{"ConfigMap", listing("999", "NotOlderThan", ""), 504, "Too large resource version: 999"},
	{"ConfigMap", listing("", "", "?"), 400, "invalid continue token: continue key is not valid: illegal base64 data"},
	{"ConfigMap", listing("", "", continueToken{"v2", 1, "a"}.encode()), 400, "does not recognize this encoded version v2"},
	{"ConfigMap", listing("", "", continueToken{"meta.k8s.io/v1", 0, "a"}.encode()), 400, "incorrect encoded start resourceVersion"},
	{"ConfigMap", listing("", "", continueToken{"meta.k8s.io/v1", 1, ""}.encode()), 400, "encoded start key empty"},
	{"ConfigMap", listing("", "", continueToken{"meta.k8s.io/v1", 1, "../x"}.encode()), 400, "continue key is not valid: ../x"},
	{"ConfigMap", listing("", "", continueToken{"meta.k8s.io/v1", 999, "a"}.encode()), 504, "Too large resource version: 999"},
	{"ConfigMap", listing("7", "", continueToken{"meta.k8s.io/v1", 1, "a"}.encode()), 400,
		"specifying resource version is not allowed when using continue"},
}

var refusedSubresources = []refusal{
	{"Pod", Request{Verb: schedule.Create, Name: "a", Subresource: "status", Object: newPod("a", "")}, 405,
		"the server does not allow this method on the requested resource"},
	{"ConfigMap", Request{Verb: schedule.Update, Name: "a", Subresource: "status", Object: newConfig("a")}, 404,
		"the server could not find the requested resource"},
	{"ConfigMap", Request{Verb: schedule.Get, Name: "a", Subresource: "nothing"}, 404, "could not find the requested resource"},
	{"StatefulSet", Request{Verb: schedule.Update, Name: "a", Subresource: "scale", Object: &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1},
	}}, 422, `Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`},
	{"StatefulSet", Request{Verb: schedule.Update, Name: "a", Subresource: "scale", Object: newSet("a")}, 400, "want *v1.Scale"},
	{"StatefulSet", Request{Verb: schedule.Delete, Name: "a", Subresource: "scale"}, 405, "not supported"},
	{"Pod", binding(corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}), 400,
		"name in URL does not match name in Binding object"},
	{"Pod", binding(corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}}), 500, "target.name: Required value"},
	{"Pod", binding(corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Pod", Name: "n"}}), 500,
		`target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`},
}

func editedConfig(edit func(*corev1.ConfigMap)) Object {
	obj := newConfig("a")
	edit(obj)
	return obj
}

func deleting(options metav1.DeleteOptions) Request {
	return Request{Verb: schedule.Delete, Name: "a", Delete: options}
}

func listing(revision, match, token string) Request {
	return Request{
		Verb: schedule.List, ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatch(match), Continue: token,
	}
}

func binding(b corev1.Binding) Request {
	return Request{Verb: schedule.Create, Name: "a", Subresource: "binding", Object: &b}
}

// TestRefused makes requests that a real server refuses, and compares code and message. No recording has them: the texts
// are those of the source, k8s.io/apiserver v0.36.3.
func TestRefused(t *testing.T) {
	for _, tt := range slices.Concat(refusedWrites, refusedLists, refusedSubresources) {
		t.Run(fmt.Sprintf("%s %s %s", tt.req.Verb, tt.kind, tt.want), func(t *testing.T) {
			w := newHostile(t)
			tt.req.Kind, tt.req.Namespace = w.kind(tt.kind), "default"
			response := w.perform(&tt.req)
			if response.Err == nil || response.Code != tt.code || !strings.Contains(response.Err.ErrStatus.Message, tt.want) {
				t.Errorf("%d %v, want %d %s", response.Code, response.Err, tt.code, tt.want)
			}
		})
	}
}

// newHostile returns a server with an object named "a" of several kinds.
func newHostile(t *testing.T) *walk {
	w := &walk{tester: newTester(t), stored: map[Object]string{}}
	for _, obj := range []Object{newConfig("a"), newPod("a", ""), newSet("a"), newWidget("a")} {
		w.perform(&Request{Verb: schedule.Create, Kind: w.Kinds().Of(obj), Namespace: "default", Object: obj})
	}
	return w
}

// TestRefusedPatches makes patches that a real server refuses.
func TestRefusedPatches(t *testing.T) {
	const undecodable = "json: cannot unmarshal"
	for _, tt := range []struct {
		kind      string
		patchType types.PatchType
		patch     string
		code      int
		want      string
	}{
		{"ConfigMap", types.JSONPatchType, `{}`, 400, "error decoding patch: " + undecodable + " object into Go value of type []"},
		{"ConfigMap", types.JSONPatchType, `[{"op":7}]`, 400, undecodable + " number into Go struct field jsonPatchOp.op of type string"},
		{"ConfigMap", types.JSONPatchType, `[{"op":"bogus","path":"/data"}]`, 422, ""},
		{"ConfigMap", types.JSONPatchType, `[{"op":"move","from":"/nothing","path":"/data"}]`, 422, ""},
		{"ConfigMap", types.JSONPatchType, "[" + strings.Repeat(`{"op":"test"},`, 10_000) + `{"op":"test"}]`, 413,
			"The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"ConfigMap", types.MergePatchType, `null`, 400, "Invalid JSON Patch"},
		{"ConfigMap", types.MergePatchType, `[]`, 400, "error decoding patch: " + undecodable},
		{"ConfigMap", types.MergePatchType, `{"metadata":null}`, 400, "undeterminable: name must be provided"},
		{"ConfigMap", types.MergePatchType, `{"metadata":{"uid":"u"}}`, 422, `metadata.uid: Invalid value: "u": field is immutable`},
		{"ConfigMap", types.MergePatchType, `{"metadata":{"generateName":"a/b"}}`, 422, `metadata.generateName: Invalid value: "a/b"`},
		{"Widget", types.MergePatchType, `{"metadata":{"generateName":"a/b"}}`, 422, `metadata.generateName: Invalid value: "a/b"`},
		{"ConfigMap", types.MergePatchType, `{"data":7}`, 422, `}": ` + undecodable + " number into Go struct field ConfigMap.data"},
		{"Widget", types.MergePatchType, `{"metadata":{"labels":"x"}}`, 422, `}": ` + undecodable + " string into Go struct field"},
		{"Widget", types.MergePatchType, `{"metadata":{"labels":{"a":1}}}`, 422, undecodable},
		{"Widget", types.MergePatchType, `{"metadata":{"finalizers":[1]}}`, 422, undecodable},
		{"Widget", types.MergePatchType, `{"metadata":{"creationTimestamp":7}}`, 422, "json: "},
		{"Widget", types.MergePatchType, `{"metadata":{"generation":"x"}}`, 422, undecodable},
		{"Widget", types.MergePatchType, `{"metadata":[]}`, 422, undecodable},
		{"Widget", types.MergePatchType, `{"metadata":{"resourceVersion":null}}`, 422,
			`widgets.golden.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
		{"Widget", types.StrategicMergePatchType, `{}`, 415, "the body of the request was in an unknown format"},
		{"Widget", "", `{}`, 415, "the body of the request was in an unknown format"},
		{"StatefulSet", types.StrategicMergePatchType, `{"$patch":"replace"}`, 400, "undeterminable: name must be provided"},
		{"StatefulSet", types.StrategicMergePatchType, `{"$patch":"bogus"}`, 500, "unknown patch type: bogus"},
		{"StatefulSet", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}`, 500,
			"does not contain declared merge key: name"},
		{"StatefulSet", types.StrategicMergePatchType, `{"spec":{"replicas":"x"}}`, 422, "unrecognized type: int32"},
		{"StatefulSet", types.StrategicMergePatchType, `{"metadata":{"name":"b"}}`, 400,
			"the name of the object (b) does not match the name on the URL (a)"},
	} {
		t.Run(fmt.Sprintf("%s %s %.60s", tt.kind, tt.patchType, tt.patch), func(t *testing.T) {
			w := newHostile(t)
			response := w.perform(&Request{
				Verb: schedule.Patch, Kind: w.kind(tt.kind), Namespace: "default", Name: "a",
				PatchType: tt.patchType, PatchData: []byte(tt.patch),
			})
			if response.Err == nil || response.Code != tt.code || !strings.Contains(response.Err.ErrStatus.Message, tt.want) {
				t.Errorf("%d %v, want %d %s", response.Code, response.Err, tt.code, tt.want)
			}
			w.checkUnchanged()
		})
	}
}

// TestNoChange makes writes that change nothing: a real server answers 200, and there is no event.
func TestNoChange(t *testing.T) {
	patch := func(patchType types.PatchType, text string) Request {
		return Request{Verb: schedule.Patch, PatchType: patchType, PatchData: []byte(text)}
	}
	for _, tt := range []struct {
		kind string
		req  Request
	}{
		{"StatefulSet", patch(types.StrategicMergePatchType, `{}`)},
		{"StatefulSet", patch(types.StrategicMergePatchType, `null`)},
		{"StatefulSet", patch(types.StrategicMergePatchType, `{"kind":"Other","apiVersion":"v9"}`)},
		{"StatefulSet", patch(types.StrategicMergePatchType, `{"unknown":1,"status":{"replicas":7}}`)},
		{"StatefulSet", patch(types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["e.x/f"]}}`)},
		{"StatefulSet", patch(types.MergePatchType, `{"metadata":{"labels":{},"generation":9,"creationTimestamp":null}}`)},
		{"StatefulSet", patch(types.MergePatchType, `{"metadata":{"resourceVersion":null,"uid":null}}`)},
		{"StatefulSet", patch(types.JSONPatchType, `[]`)},
		{"StatefulSet", patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"a"}]`)},
		{"Widget", patch(types.MergePatchType, `{"metadata":{"labels":{},"annotations":null,"finalizers":[],"unknown":7}}`)},
		{"Widget", patch(types.MergePatchType, `{"metadata":{"ownerReferences":[],"uid":"","generateName":null}}`)},
		{"Widget", patch(types.MergePatchType, `{"spec":{"size":1.0,"unknown":{"x":null}},"status":{"phase":"x"}}`)},
		{"Widget", patch(types.MergePatchType, `{"spec":{"unknown":[null]}}`)},
		{"Widget", patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{}}]`)},
	} {
		t.Run(fmt.Sprintf("%s %s %s", tt.kind, tt.req.PatchType, tt.req.PatchData), func(t *testing.T) {
			w := newHostile(t)
			tt.req.Kind, tt.req.Namespace, tt.req.Name = w.kind(tt.kind), "default", "a"
			if response := w.perform(&tt.req); response.Code != 200 || response.Committed != 0 {
				t.Errorf("%d %v, committed at %d, want 200 and no commit", response.Code, response.Err, response.Committed)
			}
		})
	}
}

// TestResourceVersionOfNewObject checks that only a number is refused, which is all that the storage layer looks for.
func TestResourceVersionOfNewObject(t *testing.T) {
	for version, code := range map[string]int{"": 201, "0": 201, "abc": 201, "-1": 201, "5": 500} {
		obj := newConfig("b")
		obj.ResourceVersion = version
		w := newHostile(t)
		req := &Request{Verb: schedule.Create, Kind: w.kind("ConfigMap"), Namespace: "default", Object: obj}
		if response := w.perform(req); response.Code != code {
			t.Errorf("resourceVersion %q: %d %v, want %d", version, response.Code, response.Err, code)
		}
	}
}
