package modeltest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// owner is who owns fields: a manager, by one way to write, through one subresource.
type owner struct{ manager, way, sub string }

// ownership is who owns which fields, of those that the model knows. It is not changed.
type ownership map[owner]map[string]bool

// has reports whether anybody owns a field.
func (o ownership) has(path string) bool {
	for _, paths := range o {
		if paths[path] {
			return true
		}
	}
	return false
}

// writer is who makes a change that is no apply.
func (r *request) writer() owner { return owner{r.manager(), "Update", r.sub} }

// paths returns the fields of an object that somebody can own, with their values. Those that applies are about are told apart as
// a real server does; of the others it matters that somebody owns them.
func (k *kind) paths(obj tree) map[string]any {
	found := map[string]any{}
	for name, value := range obj {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			for _, inner := range []string{
				"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds",
			} {
				flatten(found, "metadata."+inner, bare(get(value, inner), false))
			}
		default:
			if !k.custom {
				value = bare(value, name == "status")
			}
			flatten(found, name, value)
		}
	}
	return found
}

// flatten collects the leaves of a value. The items of a list that has names are leaves of their own too.
func flatten(found map[string]any, at string, value any) {
	switch v := value.(type) {
	case nil:
	case tree:
		if len(v) == 0 {
			found[at] = true
		}
		for name, field := range v {
			flatten(found, at+"."+name, field)
		}
	case []any:
		for _, item := range v {
			inner := fmt.Sprintf("%s[%s]", at, itemName(item))
			found[inner] = true
			if _, ok := item.(tree); ok {
				flatten(found, inner, item)
			}
		}
	default:
		found[at] = v
	}
}

// itemName tells the items of a list apart.
func itemName(item any) string {
	switch v := item.(type) {
	case tree:
		return text(v, "name") + text(v, "uid")
	default:
		return fmt.Sprint(v)
	}
}

// difference returns the fields that are new or other than before, and those that are gone.
func difference(before, after map[string]any) (changed, removed map[string]bool) {
	changed, removed = map[string]bool{}, map[string]bool{}
	for path, value := range after {
		if old, ok := before[path]; !ok || !reflect.DeepEqual(old, value) {
			changed[path] = true
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			removed[path] = true
		}
	}
	return changed, removed
}

// updated returns who owns what after a change: who changes a field owns it, and nobody else. Where nobody owns anything of an
// object that exists, it stays so.
func (o ownership) updated(by owner, before, after map[string]any) ownership {
	if len(o) == 0 && before != nil {
		return o
	}
	changed, removed := difference(before, after)
	result := o.taken(by, changed, removed)
	if len(changed) > 0 || result[by] != nil {
		mine := maps.Clone(result[by])
		if mine == nil {
			mine = map[string]bool{}
		}
		maps.Copy(mine, changed)
		result[by] = mine
	}
	return result.tidy()
}

// taken returns who owns what when somebody changes fields.
func (o ownership) taken(by owner, changed, removed map[string]bool) ownership {
	result := ownership{}
	for who, paths := range o {
		left := map[string]bool{}
		for path := range paths {
			if !removed[path] && (who == by || !changed[path]) {
				left[path] = true
			}
		}
		result[who] = left
	}
	return result
}

func (o ownership) tidy() ownership {
	maps.DeleteFunc(o, func(_ owner, paths map[string]bool) bool { return len(paths) == 0 })
	return o
}

func (o ownership) same(other ownership) bool { return reflect.DeepEqual(o, other) }

// apply merges what a manager wants into an object.
func (m *model) apply(r *request, got answer) want {
	config := clone(r.body.(tree))
	e := m.objects[r.key()]
	by := owner{r.manager(), "Apply", r.sub}
	wanted := r.wanted(config)
	if e == nil {
		return m.applyNew(r, config, got, by, wanted)
	}
	owners := maps.Clone(e.owners)
	if len(owners) == 0 {
		owners = ownership{{"before-first-apply", "Update", ""}: pathSet(r.kind.paths(e.obj))}
	}
	owners[by] = pathSet(wanted)
	obj := r.merged(config, e, owners, e.owners[by])
	order(list(obj, "spec", "named"), list(got.body, "spec", "named"))
	before, after := r.kind.paths(e.obj), r.kind.paths(obj)
	changed, removed := difference(before, after)
	conflicts := 0
	for who, paths := range owners {
		for path := range paths {
			if who != by && changed[path] {
				conflicts++
			}
		}
	}
	if conflicts > 0 && r.query["force"] == "" {
		w := conflicted
		w.causes = conflicts
		return w
	}
	if !r.place(obj) || text(obj, "metadata", "name") != r.name {
		return badRequest
	}
	r.kind.complete(obj)
	if w, ok := r.checkRevision(obj, e); !ok {
		return w
	}
	return m.settle(r, obj, e, func(tree) ownership { return owners.taken(by, changed, removed).tidy() })
}

func (m *model) applyNew(r *request, config tree, got answer, by owner, wanted map[string]any) want {
	switch {
	case r.sub != "":
		return absent(r.key())
	case text(config, "metadata", "uid") != "":
		return conflicted
	case !r.place(config), text(config, "metadata", "name") != r.name:
		return badRequest
	}
	r.kind.complete(config)
	if refused, ok := m.admit(r.kind, r.namespace); !ok {
		return refused
	}
	if !r.dryRun() {
		set(config, nil, "metadata", "resourceVersion")
	}
	return m.createNew(r, config, got, func(tree) ownership {
		return ownership{by: pathSet(wanted)}.tidy()
	})
}

func pathSet(paths map[string]any) map[string]bool {
	found := map[string]bool{}
	for path := range paths {
		found[path] = true
	}
	return found
}

// wanted returns the fields that a configuration is about; what the subresource does not write is left out of it.
func (r *request) wanted(config tree) map[string]any {
	switch {
	case r.sub == "status":
		maps.DeleteFunc(config, func(name string, _ any) bool { return name != "status" && name != "metadata" })
		set(config, nil, "metadata", "labels")
		set(config, nil, "metadata", "annotations")
	case r.kind.status:
		delete(config, "status")
	}
	return r.kind.paths(config)
}

// merged returns the object with the configuration in it, and without what the manager wanted the last time, does not want any
// more, and nobody else does.
func (r *request) merged(config tree, e *entry, owners ownership, last map[string]bool) tree {
	named := mergeItems(list(e.obj, "spec", "named"), list(config, "spec", "named"))
	obj := clone(mergePatch(e.obj, config).(tree))
	if r.kind.custom && len(named) > 0 {
		set(obj, named, "spec", "named")
	}
	owned := map[string]bool{}
	for _, paths := range owners {
		maps.Copy(owned, paths)
	}
	for path := range last {
		if owned[path] {
			continue
		}
		prune(obj, path)
		// With the last field that anybody owns goes what is around it, even what nobody owns: defaults.
		top, _, _ := strings.Cut(path, ".")
		if !anyBelow(owned, top+".") && top != "metadata" {
			delete(obj, top)
		}
	}
	return obj
}

// order puts named items into the order in which the server has them: where new ones go among the others is for it to say.
func order(items, like []any) {
	place := func(item any) int {
		return slices.IndexFunc(like, func(i any) bool { return text(i, "name") == text(item, "name") })
	}
	slices.SortStableFunc(items, func(a, b any) int { return place(a) - place(b) })
}

// mergeItems merges lists of named items.
func mergeItems(items, more []any) []any {
	merged := clone(items)
	for _, item := range more {
		at := slices.IndexFunc(merged, func(i any) bool { return text(i, "name") == text(item, "name") })
		if at < 0 {
			merged = append(merged, clone(item))
		} else {
			merged[at] = mergePatch(merged[at], item)
		}
	}
	return merged
}

// prune takes a field out of an object. An item goes with all that is in it, even what others own: the library keeps an item only
// for those who own it as a whole.
func prune(obj tree, path string) {
	rest, ok := strings.CutPrefix(path, "spec.named[")
	if !ok {
		set(obj, nil, strings.SplitN(path, ".", 3)...)
		return
	}
	name, field, _ := strings.Cut(rest, "]")
	items := list(obj, "spec", "named")
	at := slices.IndexFunc(items, func(i any) bool { return text(i, "name") == name })
	switch {
	case at < 0 || field == ".name":
	case field != "":
		delete(items[at].(tree), strings.TrimPrefix(field, "."))
	case len(items) == 1:
		set(obj, nil, "spec", "named")
	default:
		set(obj, slices.Delete(items, at, at+1), "spec", "named")
	}
}

// anyBelow reports whether a set has a path with a prefix.
func anyBelow(paths map[string]bool, prefix string) bool {
	for path := range paths {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
