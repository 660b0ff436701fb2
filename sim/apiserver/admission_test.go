package apiserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// admissionTester makes objects of JSON.
type admissionTester struct{ *tester }

func (a admissionTester) post(text string) *Response {
	a.Helper()
	var meta struct{ Kind string }
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		a.Fatal(err)
	}
	k := a.kind(meta.Kind)
	obj, err := k.Decode([]byte(`{"apiVersion":"` + k.GroupVersion().String() + `",` + text[1:]))
	if err != nil {
		a.Fatal(err)
	}
	return a.Do(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: obj})
}

func (a admissionTester) patch(kind, name, text string) *Response {
	return a.Do(&Request{
		Verb: schedule.Patch, Kind: a.kind(kind), Namespace: "default", Name: name,
		PatchType: types.MergePatchType, PatchData: []byte(text),
	})
}

// TestAdmission checks what the default plugins make of objects, and what they refuse, in the words of a real server:
// plugin/pkg/admission of k8s.io/kubernetes.
func TestAdmission(t *testing.T) {
	const pod = `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1"}]`
	const claim = `{"kind":"PersistentVolumeClaim","metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],` +
		`"storageClassName":"s","resources":{"requests":{"storage":"2Gi"}}}}`
	const limits = `{"kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":`
	tests := []struct {
		name  string
		given []string
		does  string
		want  string // the refusal, or a part of the object
	}{
		{"limits are filled in", []string{limits + `"Container","default":{"cpu":"2"},"defaultRequest":{"memory":"1Gi"}}]}}`}, pod + `}}`,
			`"annotations":{"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu, memory request for container c; cpu limit for ` +
				`container c"}`},
		{"below the minimum", []string{limits + `"Container","min":{"cpu":"2"}}]}}`},
			`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1",` +
				`"resources":{"requests":{"cpu":"1"}}}]}}`,
			`pods "p" is forbidden: minimum cpu usage per Container is 2, but request is 1`},
		{"above the maximum of a pod", []string{limits + `"Pod","max":{"cpu":"1"}}]}}`},
			pod + `}}`, `pods "p" is forbidden: maximum cpu usage per Pod is 1.  No limit is specified`},
		{"above the ratio", []string{limits + `"Container","maxLimitRequestRatio":{"cpu":"2"}}]}}`},
			`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1",` +
				`"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"3"}}}]}}`,
			`cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000`},
		{"a large claim", []string{limits + `"PersistentVolumeClaim","max":{"storage":"1Gi"}}]}}`}, claim,
			`persistentvolumeclaims "d" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`},
		{"no such priority", nil, pod + `,"priorityClassName":"high"}}`,
			`pods "p" is forbidden: no PriorityClass with name high was found`},
		{"a priority of its own", nil, pod + `,"priority":7}}`, `the integer value of priority (7) must not be provided in pod spec; ` +
			`priority admission controller computed 0 from the given PriorityClass name`},
		{"the priority of a class", []string{`{"kind":"PriorityClass","metadata":{"name":"high"},"value":9}`},
			pod + `,"priorityClassName":"high"}}`, `"priorityClassName":"high","priority":9,`},
		{"a second default", []string{`{"kind":"PriorityClass","metadata":{"name":"a"},"value":9,"globalDefault":true}`},
			`{"kind":"PriorityClass","metadata":{"name":"b"},"value":8,"globalDefault":true}`,
			`PriorityClass a is already marked as default. Only one default can exist`},
		{"no such runtime", nil, pod + `,"runtimeClassName":"r"}}`, `pod rejected: RuntimeClass "r" not found`},
		{"overhead", []string{`{"kind":"RuntimeClass","metadata":{"name":"r"},"handler":"h","overhead":{"podFixed":{"cpu":"1"}},` +
			`"scheduling":{"nodeSelector":{"a":"b"}}}`}, pod + `,"runtimeClassName":"r"}}`, `"nodeSelector":{"a":"b"}`},
		{"overhead of nothing", nil, pod + `,"overhead":{"cpu":"1"}}}`,
			`pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		{"the zone of its node", []string{`{"kind":"Node","metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z"}}}`},
			pod + `,"nodeName":"n"}}`, `"labels":{"topology.kubernetes.io/zone":"z"}`},
		{"protection", nil, claim, `"finalizers":["kubernetes.io/pvc-protection"]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := admissionTester{newTester(t)}
			a.ProtectClaims()
			for _, text := range test.given {
				if r := a.post(text); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			got := ""
			if r := a.post(test.does); r.Err != nil {
				got = r.Err.Error()
			} else if data, err := json.Marshal(r.Object); err == nil {
				got = string(data)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("have %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestAdmissionOfUpdates checks that a claim grows only if its class allows it, and that a pod keeps what it was given.
func TestAdmissionOfUpdates(t *testing.T) {
	a := admissionTester{newTester(t)}
	for _, text := range []string{
		`{"kind":"StorageClass","metadata":{"name":"s"},"provisioner":"p","allowVolumeExpansion":false}`,
		`{"kind":"PersistentVolumeClaim","metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],` +
			`"storageClassName":"s","resources":{"requests":{"storage":"2Gi"}}}}`,
		`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`,
	} {
		if r := a.post(text); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	const more = `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`
	refused := func(want string) {
		t.Helper()
		if r := a.patch("PersistentVolumeClaim", "d", more); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("have %v, want %s", r.Err, want)
		}
	}
	refused("") // the spec of a claim that is not bound does not change at all
	bind := Request{
		Verb: schedule.Patch, Kind: a.kind("PersistentVolumeClaim"), Namespace: "default", Name: "d", Subresource: "status",
		PatchType: types.MergePatchType, PatchData: []byte(`{"status":{"phase":"Bound","capacity":{"storage":"2Gi"}}}`),
	}
	a.do(&bind)
	refused("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	if r := a.patch("StorageClass", "s", `{"allowVolumeExpansion":true}`); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := a.patch("PersistentVolumeClaim", "d", more); r.Err != nil {
		t.Error(r.Err)
	}

	before := a.Get(a.kind("Pod"), "default", "p").(*corev1.Pod)
	r := a.patch("Pod", "p", `{"spec":{"tolerations":null,"priority":null,"preemptionPolicy":null}}`)
	if r.Err != nil || r.Committed != 0 {
		t.Fatalf("the pod changed: %v", r.Err)
	}
	after := r.Object.(*corev1.Pod)
	if len(after.Spec.Tolerations) != 2 || !slices.EqualFunc(after.Spec.Tolerations, before.Spec.Tolerations,
		func(a, b corev1.Toleration) bool { return a.Key == b.Key }) {
		t.Errorf("tolerations are %v", after.Spec.Tolerations)
	}
}
