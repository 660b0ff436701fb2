package builtin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FuzzMetadataUpdate checks that an update of metadata is refused exactly where the library refuses it. Ours does not look
// at what the update leaves alone, so the old metadata must be valid, as all that is stored is.
func FuzzMetadataUpdate(f *testing.F) {
	const valid = `{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","creationTimestamp":"2030-01-01T00:00:00Z",` +
		`"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e.x/f"],` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"v","controller":true}]`
	for _, change := range []string{
		``, `,"labels":{"-":"b"}`, `,"labels":{"a":"-"}`, `,"annotations":{"C D":"e"}`, `,"finalizers":["e.x/f","f"]`, `,"finalizers":null`,
		`,"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"v"},{"apiVersion":"","kind":"","name":"","uid":""}]`,
		`,"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"v","controller":true},` +
			`{"apiVersion":"v1","kind":"Y","name":"y","uid":"w","controller":true}]`,
		`,"ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"x","uid":"v"}]`, `,"generateName":"a/b"`, `,"name":"b"`,
		`,"uid":"w"`, `,"uid":""`, `,"namespace":""`, `,"deletionTimestamp":"2030-01-01T00:00:00Z"`, `,"generation":-1`,
		`,"deletionGracePeriodSeconds":1`, `,"creationTimestamp":null`, `,"resourceVersion":""`, `,"managedFields":[{"operation":"x"}]`,
	} {
		f.Add([]byte(valid+`}`), []byte(valid+change+`}`))
		f.Add([]byte(valid+`,"deletionTimestamp":"2030-01-01T00:00:00Z","deletionGracePeriodSeconds":0}`), []byte(valid+change+`}`))
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		old, meta := &metav1.ObjectMeta{}, &metav1.ObjectMeta{}
		if json.Unmarshal(before, old) != nil || json.Unmarshal(after, meta) != nil {
			return
		}
		root := field.NewPath("metadata")
		if len(apivalidation.ValidateObjectMeta(old, true, path.ValidatePathSegmentName, root)) > 0 {
			return
		}
		meta.ResourceVersion = old.ResourceVersion // the server has set it by then
		want := apivalidation.ValidateObjectMeta(meta, true, path.ValidatePathSegmentName, root)
		want = append(want, apivalidation.ValidateObjectMetaUpdate(meta.DeepCopy(), old.DeepCopy(), root)...)
		got := ValidateMetadata(meta, old, MetadataRules{Namespaced: true}, "1.37")
		if diff := cmp.Diff(texts(withoutOwners(want)), texts(withoutOwners(got))); diff != "" {
			t.Errorf("errors (-library +ours):\n%s", diff)
		}
		if len(withoutOwners(want)) == 0 && (len(want) == 0) != (len(got) == 0) {
			t.Errorf("the library says %v, ours says %v", want, got)
		}
	})
}

// withoutOwners leaves out the errors about owner references, whose words differ between the versions.
func withoutOwners(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(errs), func(e *field.Error) bool {
		return strings.HasPrefix(e.Field, "metadata.ownerReferences")
	})
}

// texts returns the texts of errors, sorted and without repeats.
func texts(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
