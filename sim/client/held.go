package client

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// A cache holds objects of its own, in the form that its informer has and as the program's transform made them. Event handlers
// and index functions are handed these very objects, and reads copy them: a handler that changes one has changed the cache. They
// are made when somebody gets hold of them. Until then a read copies what the server stores, which comes to the same.

// hold returns the object that the cache of an informer holds.
func (i *informers) hold(entry *informerEntry, stored apiserver.Object) (any, error) {
	i.mu.Lock()
	held, ok := entry.held[stored]
	i.mu.Unlock()
	if ok {
		return held, nil
	}
	held, err := i.decode(entry, stored)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if other, ok := entry.held[stored]; ok {
		return other, nil
	}
	entry.held[stored] = held
	return held, nil
}

// decode returns a new object as the informer's cache holds it.
func (i *informers) decode(entry *informerEntry, stored apiserver.Object) (any, error) {
	obj, err := i.codec.newCopy(entry.kind, stored, entry.form, false)
	if err != nil || entry.config.Transform == nil {
		return obj, err
	}
	key := client.ObjectKeyFromObject(obj)
	transformed, err := entry.config.Transform(obj)
	if err == nil {
		err = checkTransformed(key, transformed)
	}
	if err != nil {
		i.env.Gap(fmt.Sprintf("the transform of %s failed, which is not modelled: the object is cached as it is: %v", entry.kind, err))
		return i.codec.newCopy(entry.kind, stored, entry.form, false)
	}
	return transformed, nil
}

// checkTransformed checks that a transform returned something that a cache can keep where the object belongs: its key is that of
// what it returned.
func checkTransformed(key client.ObjectKey, transformed any) error {
	if v := reflect.ValueOf(transformed); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("it returned nil")
	}
	obj, ok := transformed.(client.Object)
	if !ok {
		return fmt.Errorf("it returned a %T, which has no name", transformed)
	}
	if now := client.ObjectKeyFromObject(obj); now != key {
		return fmt.Errorf("it made %s of %s", now, key)
	}
	return nil
}

// heldAlready returns the object that the cache holds if anybody got hold of it, or if it may differ from what is stored.
func (i *informers) heldAlready(entry *informerEntry, stored apiserver.Object) (any, error) {
	if entry.config.Transform != nil {
		return i.hold(entry, stored)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return entry.held[stored], nil
}

// aliases reports whether a read hands out the cache's own objects.
func (e *informerEntry) aliases(option *bool) bool {
	return option != nil && *option || e.config.UnsafeDisableDeepCopy != nil && *e.config.UnsafeDisableDeepCopy
}

// readInto fills out with what the cache holds; CacheReader.Get of pkg/cache/internal/cache_reader.go.
func (i *informers) readInto(entry *informerEntry, stored apiserver.Object, out client.Object, alias bool) error {
	if !alias {
		held, err := i.heldAlready(entry, stored)
		if err != nil {
			return err
		}
		if held == nil {
			return i.codec.copyInto(entry.kind, stored, out, true)
		}
	}
	obj, err := i.read(entry, stored, alias)
	if err != nil {
		return err
	}
	from, to := reflect.ValueOf(obj), reflect.ValueOf(out)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("cache had type %s, but %s was asked for", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// read returns what the cache holds, or a copy of it that has apiVersion and kind.
func (i *informers) read(entry *informerEntry, stored apiserver.Object, alias bool) (runtime.Object, error) {
	held, err := i.heldAlready(entry, stored)
	switch {
	case err != nil:
		return nil, err
	case held == nil && !alias:
		return i.codec.newCopy(entry.kind, stored, entry.form, true)
	case held == nil:
		if held, err = i.hold(entry, stored); err != nil {
			return nil, err
		}
	}
	obj, ok := held.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("cache contained %T, which is not an Object", held)
	}
	if !alias {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(entry.kind.GroupVersionKind)
	}
	return obj, nil
}

// labelsOf returns the labels of an object as the cache has it.
func (i *informers) labelsOf(entry *informerEntry, stored apiserver.Object) (labels.Set, error) {
	held, err := i.heldAlready(entry, stored)
	if err != nil || held == nil {
		return stored.GetLabels(), err
	}
	accessor, err := meta.Accessor(held)
	if err != nil {
		return nil, err
	}
	return accessor.GetLabels(), nil
}
