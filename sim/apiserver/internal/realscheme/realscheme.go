// Package realscheme tells of the scheme in which a real server looks up built-ins what its messages say.
package realscheme

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is what a real server calls its scheme in messages: pkg/api/legacyscheme/scheme.go of k8s.io/kubernetes v1.36.
const Name = "pkg/api/legacyscheme/scheme.go:30"

// Unconvertible says that an object cannot be made one of another kind.
func Unconvertible(obj runtime.Object, want schema.GroupVersionKind) error {
	internal := "core"
	if want.Group != "" {
		internal, _, _ = strings.Cut(want.Group, ".")
	}
	return fmt.Errorf("converting (%s) to (%s.%s): unknown conversion", reflect.TypeOf(obj).Elem(), internal, want.Kind)
}
