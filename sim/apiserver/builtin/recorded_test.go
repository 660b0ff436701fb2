package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// recorded is one write that a real API server answered.
type recorded struct {
	Case        string               `json:"case"`
	Kind        string               `json:"kind"`
	Verb        string               `json:"verb"`
	Subresource string               `json:"subresource"`
	Old         json.RawMessage      `json:"old"` // what was stored, for a PUT
	Body        json.RawMessage      `json:"body"`
	Code        int                  `json:"code"`
	Response    json.RawMessage      `json:"response"` // where the write succeeded
	Causes      []metav1.StatusCause `json:"causes"`   // where it was invalid
}

// recordings returns what was recorded of a version: testdata/recorded-*.json, from kube-apiserver 1.36.3 and 1.37.1. The
// recordings have placeholders for revisions, UIDs and times; they get values here.
func recordings(t *testing.T, version string) []recorded {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded-" + version + ".json")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`\$RV(\d+)`).ReplaceAll(text, []byte("$1"))
	text = regexp.MustCompile(`\$UID(\d+)`).ReplaceAll(text, []byte("uid-$1"))
	text = []byte(strings.ReplaceAll(string(text), "$TIME", "2030-01-02T03:04:05Z"))
	var cases []recorded
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// rules are the functions of a kind.
type rules struct {
	object           func() metav1.Object
	cluster          bool
	defaults         any
	prepare          any
	validate, status any
}

var kinds = map[string]rules{
	"StatefulSet": {object: newObject[appsv1.StatefulSet], defaults: builtin.DefaultStatefulSet,
		validate: builtin.ValidateStatefulSet, status: builtin.ValidateStatefulSetStatus},
	"Pod": {object: newObject[corev1.Pod], defaults: builtin.DefaultPod, prepare: builtin.PreparePod,
		validate: builtin.ValidatePod, status: builtin.ValidatePodStatus},
	"ConfigMap": {object: newObject[corev1.ConfigMap], defaults: builtin.DefaultConfigMap, validate: builtin.ValidateConfigMap},
	"Lease":     {object: newObject[coordinationv1.Lease], validate: builtin.ValidateLease},
}

func newObject[T any]() metav1.Object { return any(new(T)).(metav1.Object) }

// call calls a function of a kind, whose argument types only the table knows.
func call(f any, args ...any) field.ErrorList {
	if f == nil {
		return nil
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		if in[i] = reflect.ValueOf(arg); arg == nil {
			in[i] = reflect.Zero(reflect.TypeOf(f).In(i))
		}
	}
	out := reflect.ValueOf(f).Call(in)
	if len(out) == 0 {
		return nil
	}
	return out[0].Interface().(field.ErrorList)
}

func TestRecorded(t *testing.T) {
	for _, version := range []string{"1.36", "1.37"} {
		for i, c := range recordings(t, version) {
			t.Run(fmt.Sprintf("%s/%s#%d", version, c.Case, i), func(t *testing.T) { replay(t, c, version) })
		}
	}
}

// replay answers a recorded write as a server built on this package would.
func replay(t *testing.T, c recorded, version string) {
	k, ok := kinds[c.Kind]
	if !ok {
		t.Fatalf("no rules for %s", c.Kind)
	}
	obj, want := k.object(), k.object()
	decode(t, c.Body, obj)
	call(k.defaults, obj, version)
	var old any
	var oldMeta metav1.Object
	if c.Old != nil {
		oldMeta = k.object()
		old = oldMeta
		decode(t, c.Old, old)
		keepSystemFields(obj, oldMeta)
	} else {
		obj.SetNamespace("g")
		call(k.prepare, obj)
	}
	metadata := builtin.MetadataRules{Namespaced: !k.cluster, Name: builtin.ValidName(c.Kind)}
	main, status := builtin.MetadataChecks(schema.GroupKind{Kind: c.Kind})
	metadata.Checks = main
	if c.Subresource == "status" {
		metadata.Checks = status
	}
	errs := builtin.ValidateMetadata(obj, oldMeta, metadata, version)
	if c.Subresource == "status" {
		errs = append(errs, call(k.status, obj, old, version)...)
	} else {
		errs = append(errs, call(k.validate, obj, old, version)...)
	}
	if diff := cmp.Diff(withoutDiffs(c.Causes), withoutDiffs(causes(errs))); diff != "" {
		t.Errorf("causes (-recorded +ours):\n%s", diff)
	}
	if c.Response == nil {
		return
	}
	decode(t, c.Response, want)
	if c.Subresource == "status" {
		return
	}
	for _, part := range []string{"Spec", "Data"} {
		got, recorded := reflect.ValueOf(obj).Elem().FieldByName(part), reflect.ValueOf(want).Elem().FieldByName(part)
		if !got.IsValid() {
			continue
		}
		if diff := cmp.Diff(asJSON(t, recorded.Interface()), asJSON(t, got.Interface())); diff != "" {
			t.Errorf("%s (-recorded +ours):\n%s", part, diff)
		}
	}
	if pod, ok := obj.(*corev1.Pod); ok && c.Old == nil {
		if diff := cmp.Diff(want.(*corev1.Pod).Status, pod.Status); diff != "" {
			t.Errorf("status (-recorded +ours):\n%s", diff)
		}
	}
}

// keepSystemFields does what a server does before it validates an update.
func keepSystemFields(obj, old metav1.Object) {
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetNamespace(old.GetNamespace())
	if old.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	if obj.GetResourceVersion() == "" {
		obj.SetResourceVersion(old.GetResourceVersion())
	}
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
}

// withoutDiffs cuts the diffs off messages: ours are made from another form of the object.
func withoutDiffs(causes []metav1.StatusCause) []metav1.StatusCause {
	for i := range causes {
		causes[i].Message, _, _ = strings.Cut(causes[i].Message, "\n@@")
	}
	return causes
}

// causes puts errors into the form of a Status.
func causes(errs field.ErrorList) []metav1.StatusCause {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{}, "", errs).ErrStatus.Details.Causes
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func asJSON(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	decode(t, text, &tree)
	return tree
}
