package modeltest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// owner is who owns fields: a manager, by one way to write, through one subresource.
type owner struct {
	manager, way, sub string

	again bool // a second entry of an owner that has one, of which whoever reads it next knows nothing
}

// share is what somebody owns.
type share struct {
	paths map[string]bool
	at    int64 // when he took the last of it, in seconds; zero if that is not told
}

// ownership is who owns which fields, of those that the model knows. It is not changed.
type ownership map[owner]share

// has reports whether anybody owns a field.
func (o ownership) has(path string) bool {
	for _, s := range o {
		if s.paths[path] {
			return true
		}
	}
	return false
}

// read is the ownership as the next write finds it.
func (o ownership) read() ownership {
	kept := maps.Clone(o)
	maps.DeleteFunc(kept, func(who owner, _ share) bool { return who.again })
	return kept
}

// writer is who makes a change that is no apply.
func (r *request) writer() owner { return owner{manager: r.manager(), way: "Update", sub: r.sub} }

// paths returns the fields of an object that somebody can own, with their values. Those that applies are about are told apart as
// a real server does; of the others it matters that somebody owns them. What holds others is there too, with a slash at its end.
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
			if !k.custom && value != nil { // it is there always, like those in it
				maps.DeleteFunc(found, func(path string, _ any) bool { return structs[path] })
			}
		}
	}
	return found
}

// structs are there in every object of a built-in kind that has them.
var structs = map[string]bool{
	"spec/": true, "status/": true, "spec.template/": true, "spec.template.metadata/": true, "spec.template.spec/": true,
	"spec.updateStrategy/": true, "spec.strategy/": true,
}

// flatten collects the leaves of a value. The items of a list that has names are leaves of their own too.
func flatten(found map[string]any, at string, value any) {
	switch v := value.(type) {
	case nil:
	case tree:
		if len(v) == 0 {
			found[at] = true
			return
		}
		if !strings.HasSuffix(at, "]") {
			found[at+"/"] = true
		}
		for name, field := range v {
			flatten(found, at+"."+name, field)
		}
	case []any:
		found[at+"/"] = true
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
func (o ownership) updated(by owner, before, after map[string]any, now time.Time) ownership {
	if len(o) == 0 && before != nil {
		return o
	}
	changed, removed := difference(before, after)
	result := o.taken(by, changed, removed)
	if len(changed) > 0 {
		mine := share{paths: maps.Clone(changed), at: now.Unix()}
		maps.Copy(mine.paths, result[by].paths)
		result[by] = mine
	}
	return result.tidy()
}

// taken returns who owns what when somebody changes fields.
func (o ownership) taken(by owner, changed, removed map[string]bool) ownership {
	result := ownership{}
	for who, s := range o {
		left := map[string]bool{}
		for path := range s.paths {
			if !removed[path] && (who == by || !changed[path]) {
				left[path] = true
			}
		}
		result[who] = share{left, s.at}
	}
	return result
}

func (o ownership) tidy() ownership {
	maps.DeleteFunc(o, func(_ owner, s share) bool { return len(s.paths) == 0 })
	return o
}

// same reports whether two are stored the same: times do not count, but the order that they make does.
func (o ownership) same(other ownership) bool {
	return slices.EqualFunc(o.order(), other.order(), func(a, b owner) bool {
		return a == b && maps.Equal(o[a].paths, other[b].paths)
	})
}

// order returns the owners in the order in which they are stored.
func (o ownership) order() []owner {
	return slices.SortedFunc(maps.Keys(o), func(a, b owner) int {
		return cmp.Or(strings.Compare(a.way, b.way), cmp.Compare(o[a].at, o[b].at),
			strings.Compare(a.manager, b.manager), strings.Compare(a.sub, b.sub))
	})
}

// apply merges what a manager wants into an object.
func (m *model) apply(r *request, got answer) want {
	config := clone(r.body.(tree))
	e := m.objects[r.key()]
	by := owner{manager: r.manager(), way: "Apply", sub: r.sub}
	wanted := r.wanted(config)
	if e == nil {
		return m.applyNew(r, config, got, by, wanted)
	}
	owners := e.owners.read()
	if len(owners) == 0 {
		first := owner{manager: "before-first-apply", way: "Update", sub: r.sub}
		owners = ownership{first: {pathSet(r.written(clone(e.obj))), m.now().Unix()}}
	}
	last := owners[by]
	owners[by] = share{pathSet(wanted), last.at}
	obj := r.merged(config, e, owners, last.paths)
	order(list(obj, "spec", "named"), list(got.body, "spec", "named"))
	before, after := r.kind.paths(e.obj), r.kind.paths(obj)
	changed, removed := difference(before, after)
	if len(changed)+len(removed) > 0 {
		owners[by] = share{pathSet(wanted), m.now().Unix()}
	}
	conflicts := 0
	for who, s := range owners {
		for path := range s.paths {
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
		return ownership{by: {pathSet(wanted), m.now().Unix()}}.tidy()
	})
}

func pathSet(paths map[string]any) map[string]bool {
	found := map[string]bool{}
	for path := range paths {
		found[path] = true
	}
	return found
}

// written returns the fields of an object that the subresource writes; what it does not write is left out of the object.
func (r *request) written(obj tree) map[string]any {
	switch {
	case r.sub == "status":
		maps.DeleteFunc(obj, func(name string, _ any) bool { return name != "status" && name != "metadata" })
		if r.kind.statusKeeps == "all" {
			for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
				set(obj, nil, "metadata", name)
			}
		}
	case r.kind.status:
		delete(obj, "status")
	}
	return r.kind.paths(obj)
}

// wanted returns the fields that a configuration is about.
func (r *request) wanted(config tree) map[string]any {
	wanted := r.written(config)
	maps.DeleteFunc(wanted, func(path string, _ any) bool { return holds(path) })
	return wanted
}

// holds reports whether a path is of what holds others.
func holds(path string) bool { return strings.HasSuffix(path, "/") }

// merged returns the object with the configuration in it, and without what the manager wanted the last time, does not want any
// more, and nobody else does.
func (r *request) merged(config tree, e *entry, owners ownership, last map[string]bool) tree {
	named := mergeItems(list(e.obj, "spec", "named"), list(config, "spec", "named"))
	obj := clone(mergePatch(e.obj, config).(tree))
	if r.kind.custom && len(named) > 0 {
		set(obj, named, "spec", "named")
	}
	owned := map[string]bool{}
	for _, s := range owners {
		for path := range s.paths {
			owned[path] = !holds(path)
		}
	}
	for path := range last {
		if owned[path] || holds(path) {
			continue
		}
		prune(obj, path, owned)
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
func prune(obj tree, path string, owned map[string]bool) {
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
	case len(items) == 1 && anyBelow(owned, "spec.named["): // recorded: then the list is null, which is not valid
		fields(obj, "spec")["named"] = nil
	case len(items) == 1:
		set(obj, nil, "spec", "named")
	default:
		set(obj, slices.Delete(items, at, at+1), "spec", "named")
	}
}

// anyBelow reports whether a set has a path with a prefix.
func anyBelow(paths map[string]bool, prefix string) bool {
	for path, has := range paths {
		if has && strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
