package cel

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestInOrder checks that an object comes before its fields, and the items of a list in their order.
func TestInOrder(t *testing.T) {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for _, at := range []*field.Path{spec.Child("items").Index(10), spec.Child("items").Index(9).Child("a"), spec, nil} {
		errs = append(errs, field.Invalid(at, "x", "is wrong"))
	}
	want := []string{"<nil>", "spec", "spec.items[9].a", "spec.items[10]"}
	for i, err := range inOrder(errs, 1) {
		if err.Field != want[i] {
			t.Errorf("error %d is about %s, want %s", i, err.Field, want[i])
		}
	}
}
