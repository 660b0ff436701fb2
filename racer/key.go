package racer

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// key returns the name of an object as a work queue's key: "namespace/name", or "name" for a cluster-scoped object.
func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// keyOf returns the key of an object.
func keyOf(obj metav1.Object) string { return key(obj.GetNamespace(), obj.GetName()) }

// splitKey returns the namespace, empty for a cluster-scoped object, and the name in a key.
func splitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}
