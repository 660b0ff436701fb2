package crd

import "testing"

// TestRestrictedHeader checks what a schema says of the apiVersion and kind that every object has. Recorded from kube-apiserver v1.36.3.
func TestRestrictedHeader(t *testing.T) {
	definitions, err := Load([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.com}
spec:
  group: example.com
  names: {kind: Limit, plural: limits}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string, maxLength: 3}
          kind: {type: string, enum: [Other]}
`))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"apiVersion": "example.com/v1", "kind": "Limit", "metadata": map[string]any{"name": "a"}}
	const want = `[apiVersion: Too long: may not be more than 3 bytes, kind: Unsupported value: "Limit": supported values: "Other"]`
	if errs := definitions[0].Validate(object, nil); errs.ToAggregate() == nil || errs.ToAggregate().Error() != want {
		t.Errorf("%v, want %s", errs, want)
	}
	if errs := definitions[0].Validate(object, object); len(errs) > 0 {
		t.Errorf("an update is refused for what it leaves as it was: %v", errs)
	}
}
