package apiserver

import (
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tidyRawMeta brings the metadata of a custom resource into the form in which it is stored, in place: what remains of it
// after it was read into a metav1.ObjectMeta, so that empty labels are no labels. The error says what could not be read;
// unstructuredSchemaCoercer in pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver.
//
// Nearly all metadata has that form already. Only what has not is sent through JSON.
func tidyRawMeta(u *unstructured.Unstructured) error {
	if m, ok := u.Object["metadata"].(map[string]any); ok && isTidyMeta(m) {
		return nil
	}
	decoded, found, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return err
	}
	if !found {
		u.Object["metadata"] = map[string]any{}
		return nil
	}
	return objectmeta.SetObjectMeta(u.Object, decoded)
}

// dropMalformedMeta drops from the metadata of a custom resource what cannot be read, as is done to the outcome of an apply.
func dropMalformedMeta(u *unstructured.Unstructured) {
	if m, ok := u.Object["metadata"].(map[string]any); !ok || isTidyMeta(m) {
		return
	}
	if decoded, found, err := objectmeta.GetObjectMeta(u.Object, true); err == nil && found {
		_ = objectmeta.SetObjectMeta(u.Object, decoded) // which was just read
	}
}

// isTidyMeta reports whether metadata is in the form in which it is stored. It may say no where the answer is yes.
func isTidyMeta(m map[string]any) bool {
	for name, value := range m {
		tidy := false
		switch name {
		case "name", "generateName", "namespace", "uid", "resourceVersion":
			text, ok := value.(string)
			tidy = ok && text != ""
		case "creationTimestamp", "deletionTimestamp":
			tidy = isTidyTime(value)
		case "generation":
			n, ok := value.(int64)
			tidy = ok && n != 0
		case "deletionGracePeriodSeconds":
			_, tidy = value.(int64)
		case "labels", "annotations":
			tidy = isTidyMap(value)
		case "finalizers":
			tidy = isTidyList(value, func(item any) bool { _, ok := item.(string); return ok })
		case "ownerReferences":
			tidy = isTidyList(value, isTidyOwner)
		case "managedFields":
			tidy = isTidyList(value, isTidyEntry)
		}
		if !tidy {
			return false
		}
	}
	return true
}

func isTidyTime(value any) bool {
	text, _ := value.(string)
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && len(text) == len("2006-01-02T15:04:05Z") && !t.IsZero()
}

func isTidyMap(value any) bool {
	entries, _ := value.(map[string]any)
	for _, entry := range entries {
		if _, ok := entry.(string); !ok {
			return false
		}
	}
	return len(entries) > 0
}

func isTidyList(value any, isTidy func(item any) bool) bool {
	items, _ := value.([]any)
	for _, item := range items {
		if !isTidy(item) {
			return false
		}
	}
	return len(items) > 0
}

func isTidyEntry(value any) bool {
	entry, _ := value.(map[string]any)
	for name, v := range entry {
		tidy := false
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			text, ok := v.(string)
			tidy = ok && text != ""
		case "time":
			tidy = isTidyTime(v)
		case "fieldsV1":
			_, tidy = v.(map[string]any)
		}
		if !tidy {
			return false
		}
	}
	return len(entry) > 0
}

func isTidyOwner(value any) bool {
	reference, _ := value.(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, ok := reference[name].(string); !ok {
			return false
		}
	}
	flags := 0
	for _, name := range []string{"controller", "blockOwnerDeletion"} {
		if _, ok := reference[name].(bool); ok {
			flags++
		}
	}
	return len(reference) == 4+flags
}
