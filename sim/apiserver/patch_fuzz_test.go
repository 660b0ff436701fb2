package apiserver

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// patchSeeds are patches that take every turn of the code, and every directive of strategic merge patches.
var patchSeeds = []string{
	`{}`, `null`, `[]`, `7`, `nonsense`, `{"metadata":null}`, `{"metadata":[]}`, `{"kind":"Other"}`, `{"apiVersion":"v2"}`,
	`{"spec":{"replicas":2}}`, `{"metadata":{"labels":null}}`, `[{"op":"replace","path":"/spec/size","value":3}]`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"b"}]}}}}`, `{"metadata":{"name":"b"}}`,
	`{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}}}`, `{"status":{"phase":1}}`,
	`[{"op":"copy","from":"/spec","path":"/status"}]`, `{"metadata":{"creationTimestamp":7,"finalizers":"x"}}`,
	`{"$patch":"replace"}`, `{"$patch":"bogus"}`, `{"$retainKeys":["metadata"]}`, `{"spec":{"$patch":"delete"}}`,
	`{"metadata":{"$deleteFromPrimitiveList/finalizers":["e.x/a"],"$setElementOrder/finalizers":["e.x/b","e.x/a"]}}`,
	`{"metadata":{"ownerReferences":[{"uid":"u","name":"x"},{"$patch":"delete","uid":"v"}],"labels":{"a":null,"b":"c"}}}`,
	`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"u"},` +
		`{"apiVersion":"v1","kind":"X","name":"x","uid":"u"}]}}`,
	`{"spec":{"list":[1,null,{"a":null,"b":[null]}],"free":{"x":null,"y":{"z":[{"q":null}]}},"float":1.0,"big":1e30}}`,
	`{"spec":{"free":[{"a":null}],"list":{"a":null}}}`, `{"spec":{"ports":[{"port":80,"name":"x"}],"clusterIP":""}}`,
	`{"data":{"k":null,"l":"m"},"immutable":true}`, `{"stringData":{"k":"v"}}`, `{"metadata":{"labels":{}},"spec":{"size":null}}`,
	`{"metadata":{"resourceVersion":"1"}}` + "\n" + `{"metadata":{"resourceVersion":"abc"}}`,
	`{"metadata":{"finalizers":["e.x/f","e.x/f"]}}` + "\n" + `{"metadata":{"finalizers":null}}`,
	`[{"op":"add","path":"/metadata/finalizers/-","value":"e.x/z"},{"op":"move","from":"/metadata/labels","path":"/spec/x"}]`,
	`[{"op":"test","path":"/metadata/name","value":"a"},{"op":"remove","path":"/spec"},{"op":"add","path":"/a~1b/-1","value":1}]`,
	`{"metadata":{"generateName":"a/b","deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":5}}`,
}

// FuzzPatch applies up to four patches of any content, one a line. None may panic, or write to anything that was ever
// stored, and the short ways to apply a patch must do what the long ways do.
func FuzzPatch(f *testing.F) {
	kinds := len(patchObjects())
	for i, patch := range patchSeeds {
		for kind := range kinds {
			f.Add(uint8(kind*3+i%3), []byte(patch))
			f.Add(uint8(kind*3+2), []byte(patch))
		}
	}
	f.Fuzz(func(t *testing.T, choice uint8, patches []byte) {
		w := &walk{tester: newTester(t), stored: map[Object]string{}}
		w.Server = NewServer(patchKinds(), func() time.Time { return w.time })
		obj := patchObjects()[int(choice/3)%kinds]
		k := w.Kinds().Of(obj)
		w.perform(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: obj})
		patchType := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}[choice%3]
		for i, patch := range bytes.SplitN(patches, []byte("\n"), 4) {
			stored := w.Get(k, "default", "a")
			checkShortcut(t, k, stored, patchType, patch)
			req := &Request{
				Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", PatchType: patchType, PatchData: patch,
			}
			if i%2 == 1 && k.HasStatus {
				req.Subresource = "status"
			}
			w.perform(req)
		}
		w.checkUnchanged()
	})
}

// checkShortcut checks that a patch leads to the same object, or the same error, as the long way does that a real server
// takes: through the JSON form of the whole object, or its form as maps.
func checkShortcut(t *testing.T, k *Kind, stored Object, patchType types.PatchType, patch []byte) {
	t.Helper()
	if stored == nil || k.Custom() && patchType == types.StrategicMergePatchType {
		return
	}
	short, shortErr := k.patched(stored, patchType, patch)
	long, longErr := longPatched(k, stored, patchType, patch)
	if diff := cmp.Diff(longErr, shortErr); diff != "" {
		t.Fatalf("%s: the short way fails in another way (-long +short):\n%s", patch, diff)
	}
	if longErr != nil {
		return
	}
	k.receive(short, -1)
	k.receive(long, -1)
	if diff := cmp.Diff(generic(long), generic(short)); diff != "" {
		t.Errorf("%s: the short way differs (-long +short):\n%s", patch, diff)
	}
}

func longPatched(k *Kind, stored Object, patchType types.PatchType, patch []byte) (Object, *statusError) {
	if patchType == types.StrategicMergePatchType {
		changes := map[string]any{}
		if err := kjson.Unmarshal(patch, &changes); err != nil {
			return nil, badRequest("%v", err)
		}
		obj := k.New()
		err := mergeStrategic(stored, changes, obj)
		obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
		return obj, err
	}
	return k.jsonPatched(stored, patchType, patch)
}

// patchKinds returns the kinds that patches are tried on: built-ins, a custom resource with a schema that has something of
// everything, and one without a schema.
var patchKinds = sync.OnceValue(func() *Kinds {
	text, err := os.ReadFile("testdata/gadgets.yaml")
	if err != nil {
		panic(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		panic(err)
	}
	kinds := loadKinds(V136, goldenCRDs()...)
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		panic(err)
	}
	free := schema.GroupVersionKind{Group: "golden.example.com", Version: "v1", Kind: "Free"}
	if _, err := kinds.AddType(free, "frees", true, false); err != nil {
		panic(err)
	}
	return kinds
})

// patchObjects returns an object named "a" of each of these kinds.
func patchObjects() []Object {
	quantities := corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}
	pod := newPod("a", "node1")
	pod.Spec.Containers[0].Resources.Limits = quantities
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "a"}, Ports: []corev1.ServicePort{{Name: "x", Port: 80}},
	}}
	secret := &corev1.Secret{Data: map[string][]byte{"k": []byte("v")}}
	set := newSet("a")
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*claim.DeepCopy()}
	set.Spec.VolumeClaimTemplates[0].Name = "data"
	objects := []Object{set, pod, newConfig("a"), secret, service, claim, newWidget("a")}
	for _, kind := range []string{"Gadget", "Free"} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "golden.example.com/v1", "kind": kind, "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{
				"size": int64(1), "float": 1.5, "null": nil, "list": []any{int64(1), map[string]any{"name": "x", "value": "y"}},
				"free": map[string]any{"x": map[string]any{"y": nil}, "z": []any{nil, map[string]any{}}},
			},
		}})
	}
	for _, obj := range objects {
		obj.SetName("a")
		obj.SetLabels(map[string]string{"a": "1"})
		obj.SetFinalizers([]string{"e.x/a", "e.x/b"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: "v"}})
	}
	return objects
}
