package canon_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// builtins returns the Go types of all built-in objects, sorted by kind.
func builtins() []reflect.Type {
	known := scheme.Scheme.AllKnownTypes()
	var kinds []schema.GroupVersionKind
	for gvk, t := range known {
		_, object := reflect.TypeAssert[metav1.Object](reflect.New(t))
		if object && gvk.Version != runtime.APIVersionInternal {
			kinds = append(kinds, gvk)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	types := make([]reflect.Type, len(kinds))
	for i, gvk := range kinds {
		types[i] = known[gvk]
	}
	return types
}

// filler fills objects with values that survive JSON. With full set it leaves nothing empty.
func filler(seed int64, full bool) *randfill.Filler {
	f := randfill.NewWithSeed(seed).MaxDepth(30).NumElements(1, 2)
	if !full {
		f = f.NilChance(0.4).NumElements(0, 2)
	} else {
		f = f.NilChance(0)
	}
	return f.Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(1+c.Int63n(5000), resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(1+c.Int63n(1e9), c.Int63n(1e9)) },
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = time.Unix(1+c.Int63n(1e9), c.Int63n(1e9)) },
		func(v *intstr.IntOrString, c randfill.Continue) {
			if c.Bool() {
				*v = intstr.FromInt32(c.Int31())
			} else {
				*v = intstr.FromString(c.String(5))
			}
		},
		func(e *runtime.RawExtension, c randfill.Continue) {
			*e = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"a":%d}`, c.Int31n(3))}
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(fmt.Sprintf(`{"f:a":{"n":%d}}`, c.Int31n(3)))
		},
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", c.Int63()) },
		func(*runtime.Object, randfill.Continue) {},
	)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return string(text)
}

func TestEqualAgreesWithJSON(t *testing.T) {
	const seeds = 6
	equal, different := 0, 0
	for _, typ := range builtins() {
		for seed := range int64(seeds) {
			a := reflect.New(typ).Interface().(runtime.Object)
			filler(seed, false).Fill(a)
			others := map[string]runtime.Object{
				"another": reflect.New(typ).Interface().(runtime.Object), "a copy": a.DeepCopyObject(),
				"decoded": reflect.New(typ).Interface().(runtime.Object), "emptied": a.DeepCopyObject(), "mutated": a.DeepCopyObject(),
			}
			filler(seed+seeds, false).Fill(others["another"])
			if err := json.Unmarshal([]byte(encode(t, a)), others["decoded"]); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewSource(seed))
			visit(reflect.ValueOf(others["emptied"]).Elem(), "", func(v reflect.Value, _ string) { swapNilAndEmpty(v, r) })
			visit(reflect.ValueOf(others["mutated"]).Elem(), "", func(v reflect.Value, _ string) {
				if r.Intn(40) == 0 {
					change(v)
				}
			})
			for name, b := range others {
				want := encode(t, a) == encode(t, b)
				if got := canon.Equal(a, b); got != want {
					t.Errorf("%v seed %d: Equal to %s is %v, JSON says %v\n%s\n%s", typ, seed, name, got, want, encode(t, a), encode(t, b))
				}
				if want && canon.Hash(a) != canon.Hash(b) {
					t.Errorf("%v seed %d: equal to %s but hashes differ", typ, seed, name)
				}
				if want {
					equal++
				} else {
					different++
				}
			}
		}
	}
	if equal < 100 || different < 100 {
		t.Errorf("the test compared %d equal and %d different pairs, which says little", equal, different)
	}
}

// TestEveryFieldCounts changes each leaf of a filled object of each kind and looks for the change.
func TestEveryFieldCounts(t *testing.T) {
	for _, typ := range builtins() {
		a := reflect.New(typ).Interface().(runtime.Object)
		filler(1, true).Fill(a)
		b := a.DeepCopyObject()
		hash := canon.Hash(a)
		visit(reflect.ValueOf(b).Elem(), "", func(v reflect.Value, path string) {
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			if !change(v) {
				return
			}
			if canon.Equal(a, b) {
				t.Errorf("%v: a change of %s is not seen by Equal", typ, path)
			}
			wantSame := strings.Contains(path, ".ResourceVersion") || strings.Contains(path, ".ManagedFields")
			switch v.Interface().(type) {
			case metav1.Time, metav1.MicroTime:
				wantSame = true
			}
			if same := canon.Hash(b) == hash; same != wantSame {
				t.Errorf("%v: after a change of %s the hash is the same: %v", typ, path, same)
			}
			v.Set(old)
		})
		if !canon.Equal(a, b) {
			t.Errorf("%v: the test did not restore its object", typ)
		}
	}
}

// visit calls f for every value below v that can be set.
func visit(v reflect.Value, path string, f func(v reflect.Value, path string)) {
	switch v.Interface().(type) {
	case metav1.Time, metav1.MicroTime, resource.Quantity, intstr.IntOrString, runtime.RawExtension, metav1.FieldsV1, []byte:
		f(v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
		return
	case reflect.Pointer:
		f(v, path)
		if !v.IsNil() {
			visit(v.Elem(), path, f)
		}
		return
	case reflect.Slice:
		f(v, path)
		for i := range v.Len() {
			visit(v.Index(i), path+"[]", f)
		}
		return
	}
	f(v, path)
}

// change changes a value into another with another encoding; false if it knows none.
func change(v reflect.Value) bool {
	switch x := v.Addr().Interface().(type) {
	case *metav1.Time:
		x.Time = x.Add(time.Second)
	case *metav1.MicroTime:
		x.Time = x.Add(time.Microsecond)
	case *resource.Quantity:
		x.Add(resource.MustParse("1m"))
	case *intstr.IntOrString:
		*x = intstr.FromString(x.String() + "x")
	case *runtime.RawExtension:
		x.Raw = []byte(`{"b":1}`)
	case *metav1.FieldsV1:
		x.SetRawString(`{"f:b":{}}`)
	case *[]byte:
		*x = append([]byte("x"), *x...)
	default:
		return changeKind(v)
	}
	return true
}

func changeKind(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.SetZero()
		}
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		grown := reflect.MakeMap(v.Type())
		for entries := v.MapRange(); entries.Next(); {
			grown.SetMapIndex(entries.Key(), entries.Value())
		}
		grown.SetMapIndex(reflect.ValueOf("another").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		v.Set(grown)
	default:
		return false
	}
	return true
}

func swapNilAndEmpty(v reflect.Value, r *rand.Rand) {
	if k := v.Kind(); k != reflect.Slice && k != reflect.Map || v.Len() > 0 || r.Intn(2) == 0 {
		return
	}
	switch {
	case !v.IsNil():
		v.SetZero()
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	default:
		v.Set(reflect.MakeMap(v.Type()))
	}
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

// values is a pair of values, and what is to be found of them.
type values struct {
	name     string
	a, b     any
	equal    bool
	sameHash bool
}

func checkValues(t *testing.T, tests []values) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := canon.Equal(test.a, test.b); got != test.equal {
				t.Errorf("Equal is %v", got)
			}
			if got := canon.Equal(test.b, test.a); got != test.equal {
				t.Errorf("Equal is %v the other way round", got)
			}
			if got := canon.Hash(test.a) == canon.Hash(test.b); got != test.sameHash {
				t.Errorf("hashes are the same: %v", got)
			}
		})
	}
}

func TestTypedValues(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 600_700_800, time.UTC)
	big := quantity("1")
	big.ToDec()
	node := &corev1.Node{}
	encoded := &runtime.RawExtension{Raw: []byte(encode(t, node))}
	checkValues(t, []values{
		{"nil", nil, nil, true, true},
		{"nil and typed nil", nil, (*corev1.Pod)(nil), true, true},
		{"typed nil and nil", (*corev1.Pod)(nil), (*corev1.Pod)(nil), true, true},
		{"numbers by themselves", int64(1), 1.0, true, true},
		{"lists by themselves", []any{"a"}, []any{"b"}, false, false},
		{"typed lists by themselves", []string{"a"}, []string{"a"}, true, true},
		{"other types", &corev1.Pod{}, &corev1.Service{}, false, true},
		{"typed and unstructured", &corev1.Pod{}, map[string]any{}, false, false},
		{"part of an object", &corev1.PodSpec{NodeName: "a"}, &corev1.PodSpec{NodeName: "b"}, false, false},
		{"labels nil and empty", &map[string]string{}, new(map[string]string), true, true},
		{"required list nil and empty", &corev1.PodSpec{Containers: []corev1.Container{}}, &corev1.PodSpec{}, false, true},
		{"omitted list nil and empty", &corev1.PodSpec{Volumes: []corev1.Volume{}}, &corev1.PodSpec{}, true, true},
		{"nil and empty struct", &corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{}}, &corev1.PodSpec{}, false, false},
		{"neighbours", &corev1.PodSpec{Hostname: "a"}, &corev1.PodSpec{Subdomain: "a"}, false, false},
		{"time within its second", &metav1.Time{Time: at}, &metav1.Time{Time: at.Truncate(time.Second)}, true, true},
		{"time in another zone", &metav1.Time{Time: at}, &metav1.Time{Time: at.In(time.FixedZone("x", 3600))}, true, true},
		{"another time", &metav1.Time{Time: at}, &metav1.Time{Time: at.Add(time.Second)}, false, true},
		{"no time", &metav1.Time{Time: at}, &metav1.Time{}, false, false},
		{"micro time", &metav1.MicroTime{Time: at}, &metav1.MicroTime{Time: at.Truncate(time.Microsecond)}, true, true},
		{"another micro time", &metav1.MicroTime{Time: at}, &metav1.MicroTime{Time: at.Truncate(time.Millisecond)}, false, true},
		{"quantity units", quantity("1Gi"), quantity("1024Mi"), true, true},
		{"quantity forms", quantity("1Gi"), quantity("1073741824"), true, true},
		{"quantity in thousandths", quantity("1500m"), quantity("1.5"), true, true},
		{"quantity as a decimal", quantity("1000m"), big, true, true},
		{"huge quantities", quantity("9223372036854775807000"), quantity("9223372036854775807k"), true, true},
		{"tiny quantities", quantity("1n"), quantity("0.000000001"), true, true},
		{"other quantities", quantity("1n"), quantity("2n"), false, false},
		{"raw JSON", &runtime.RawExtension{Raw: []byte(`{"a": 1}`)}, &runtime.RawExtension{Raw: []byte(`{"a":1}`)}, true, true},
		{"no raw JSON", &runtime.RawExtension{Raw: []byte(`null`)}, &runtime.RawExtension{}, true, true},
		{"raw object", &runtime.RawExtension{Object: node}, encoded, true, true},
	})
}

func TestTreeValues(t *testing.T) {
	type object = map[string]any
	checkValues(t, []values{
		{"unstructured and its tree", &unstructured.Unstructured{Object: object{"a": "b"}}, object{"a": "b"}, true, true},
		{"int and float", object{"a": int64(3)}, object{"a": 3.0}, true, true},
		{"float with a fraction", object{"a": int64(3)}, object{"a": 3.5}, false, false},
		{"int and string", object{"a": int64(3)}, object{"a": "3"}, false, false},
		{"large float", object{"a": float64(1 << 60)}, object{"a": int64(1152921504606847000)}, true, true},
		{"negative zero", object{"a": int64(0)}, object{"a": negativeZero()}, false, false},
		{"null and missing", object{"a": nil}, object{}, false, false},
		{"null and nil map", object{"a": nil}, object{"a": object(nil)}, true, true},
		{"empty and nil map", object{"a": object{}}, object{"a": object(nil)}, false, false},
		{"lists", object{"a": []any{"x", "y"}}, object{"a": []any{"y", "x"}}, false, false},
		{"unstructured revision", object{"metadata": object{"resourceVersion": "1"}},
			object{"metadata": object{"resourceVersion": "2"}}, false, true},
		{"spec revision", object{"spec": object{"resourceVersion": "1"}}, object{"spec": object{"resourceVersion": "2"}}, false, false},
		{"unstructured time", object{"t": "2030-01-02T03:04:05Z"}, object{"t": "2031-01-02T03:04:05.25+01:00"}, false, true},
		{"time or not", object{"t": "2030-01-02T03:04:05Z"}, object{"t": "2030-01-02T03:04:05 o'clock"}, false, false},
		{"time in an annotation", object{"metadata": object{"annotations": object{"t": "2030-01-02T03:04:05Z"}}},
			object{"metadata": object{"annotations": object{"t": "2031-01-02T03:04:05Z"}}}, false, false},
	})
}

func negativeZero() float64 { zero := 0.0; return -zero }

// TestHashIsStable pins hashes: they are written to files and compared by other processes.
func TestHashIsStable(t *testing.T) {
	tests := []struct {
		name string
		v    any
		want uint64
	}{
		{"unstructured", map[string]any{"a": "b", "c": []any{int64(1), true, nil}}, 0xa1fda234eb0ba15d},
		{"typed", &corev1.ConfigMap{Data: map[string]string{"a": "b"}}, 0xc91979c3114d279d},
	}
	for _, test := range tests {
		if got := canon.Hash(test.v); got != test.want {
			t.Errorf("%s: hash is %#x, want %#x", test.name, got, test.want)
		}
	}
}

// TestHashOfGrownType checks that a field which a later version of a library adds changes no hash while it is not set.
func TestHashOfGrownType(t *testing.T) {
	type today struct {
		Name string            `json:"name"`
		Data map[string]string `json:"data,omitempty"`
	}
	type tomorrow struct {
		Name  string            `json:"name"`
		Extra *int              `json:"extra,omitempty"`
		Data  map[string]string `json:"data,omitempty"`
	}
	data := map[string]string{"a": "b"}
	if canon.Hash(&today{"x", data}) != canon.Hash(&tomorrow{Name: "x", Data: data}) {
		t.Error("a field that is not set changes the hash")
	}
	if canon.Hash(&today{Name: "x"}) == canon.Hash(&today{}) {
		t.Error("a field that is set does not change the hash")
	}
}

// TestMapOrder hashes a map many times: Go iterates it in another order each time.
func TestMapOrder(t *testing.T) {
	labels, tree := map[string]string{}, map[string]any{}
	for i := range 50 {
		labels[fmt.Sprint("k", i)], tree[fmt.Sprint("k", i)] = fmt.Sprint(i), int64(i)
	}
	typed, untyped := canon.Hash(&labels), canon.Hash(tree)
	for range 100 {
		if canon.Hash(&labels) != typed || canon.Hash(tree) != untyped {
			t.Fatal("the hash depends on the order of a map")
		}
	}
}

func TestHasher(t *testing.T) {
	hash := func(f func(*canon.Hasher)) uint64 {
		var h canon.Hasher
		f(&h)
		return h.Sum()
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
	hashes := []uint64{
		hash(func(h *canon.Hasher) {}),
		hash(func(h *canon.Hasher) { h.Int(0) }),
		hash(func(h *canon.Hasher) { h.Int(0); h.Int(0) }),
		hash(func(h *canon.Hasher) { h.Int(1) }),
		hash(func(h *canon.Hasher) { h.String("") }),
		hash(func(h *canon.Hasher) { h.String("a"); h.String("b") }),
		hash(func(h *canon.Hasher) { h.String("b"); h.String("a") }),
		hash(func(h *canon.Hasher) { h.String("ab") }),
		hash(func(h *canon.Hasher) { h.Object(pod) }),
	}
	for i, h := range hashes {
		if slices.Contains(hashes[:i], h) {
			t.Errorf("hash %d occurs twice", i)
		}
	}
	if got := testing.AllocsPerRun(100, func() {
		hash(func(h *canon.Hasher) { h.Object(pod); h.String("x"); h.Int(1) })
	}); got > 0 {
		t.Errorf("%v allocations for one hash", got)
	}
}

// statefulSet is an object of the size operators make them.
func statefulSet() *appsv1.StatefulSet {
	labels := map[string]string{"app": "web", "app.kubernetes.io/managed-by": "operator"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "3f1c", ResourceVersion: "17", Generation: 3, Labels: labels,
			Annotations:       map[string]string{"example.com/hash": "0f343b0931126a20f133d67c2b018a3b"},
			CreationTimestamp: metav1.Unix(2e9, 0),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: "77"}},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{}, DNSPolicy: corev1.DNSClusterFirst,
					Containers: []corev1.Container{{
						Name: "web", Image: "example.com/web:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
						Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"cpu": *quantity("500m"), "memory": *quantity("1Gi")},
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": *quantity("10Gi")}},
				},
			}},
		},
		Status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, CurrentRevision: "web-6c5d", UpdateRevision: "web-6c5d"},
	}
}

func BenchmarkEqual(b *testing.B) {
	x := statefulSet()
	y := x.DeepCopy()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(x)
	if err != nil {
		b.Fatal(err)
	}
	other := runtime.DeepCopyJSON(content)
	b.Run("statefulset/canon", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !canon.Equal(x, y) {
				b.Fatal("not equal")
			}
		}
	})
	b.Run("statefulset/semantic", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !equality.Semantic.DeepEqual(x, y) {
				b.Fatal("not equal")
			}
		}
	})
	b.Run("unstructured/canon", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !canon.Equal(content, other) {
				b.Fatal("not equal")
			}
		}
	})
	b.Run("unstructured/semantic", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !equality.Semantic.DeepEqual(content, other) {
				b.Fatal("not equal")
			}
		}
	})
}

func BenchmarkHash(b *testing.B) {
	x := statefulSet()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(x)
	if err != nil {
		b.Fatal(err)
	}
	for name, v := range map[string]any{"statefulset": x, "unstructured": content} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				canon.Hash(v)
			}
		})
	}
}

func Example() {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", ResourceVersion: "7", Labels: map[string]string{}}}
	after := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", ResourceVersion: "9"}}
	fmt.Println(canon.Equal(&before.Labels, &after.Labels), canon.Equal(before, after), canon.Hash(before) == canon.Hash(after))
	// Output: true false true
}
