package modeltest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
)

// generator makes up requests. What it makes of a step depends on the stream of that step and on what has happened, so that a
// step stays much the same when others before it are left out.
type generator struct {
	random *rand.Rand // of the step
	model  *model
	memory []memory // of each client
}

// memory is what a client has seen. It is stale as soon as another client writes.
type memory struct {
	objects   map[key][]state
	revisions []int64
	tokens    []pageToken
}

// state is an object as a client saw it, and who owned what of it.
type state struct {
	obj    tree
	owners ownership
}

type pageToken struct {
	request request
	text    string
}

func newGenerator(m *model) *generator {
	g := &generator{model: m, memory: make([]memory, len(agents))}
	for i := range g.memory {
		g.memory[i].objects = map[key][]state{}
	}
	return g
}

// remembered is how many states of an object a client remembers.
const remembered = 4

func (g *generator) remember(client int, k key, s state) {
	seen := append(g.memory[client].objects[k], s)
	g.memory[client].objects[k] = seen[max(0, len(seen)-remembered):]
}

func (g *generator) n(n int) int { return g.random.IntN(n) }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.n(n) == 0 }

func choose[T any](g *generator, choices []T) T { return choices[g.n(len(choices))] }

func (g *generator) pick(choices ...string) string { return choose(g, choices) }

// maybe is one of the choices, or nothing.
func (g *generator) maybe(choices ...any) any {
	if n := g.n(len(choices) + 1); n > 0 {
		return choices[n-1]
	}
	return nil
}

func (g *generator) value() string { return g.pick("1", "2", "3") }

// some returns a few of the names, each with a value.
func (g *generator) some(names ...string) tree {
	t := tree{}
	for _, name := range names {
		if g.chance(2) {
			t[name] = g.value()
		}
	}
	return t
}

// items are named items, in the order of their names; nil for none.
func (g *generator) items() any {
	var items []any
	for _, name := range []string{"a", "b", "c"} {
		if g.chance(2) {
			item := tree{"name": name}
			set(item, g.maybe("1", "2"), "value")
			items = append(items, item)
		}
	}
	if items == nil {
		return nil
	}
	return items
}

func (g *generator) request() *request {
	r := &request{client: g.n(len(agents)), kind: choose(g, g.model.kinds), query: map[string]string{}}
	if r.kind.cluster && !g.chance(4) { // namespaces are for being there
		r.kind = choose(g, g.model.kinds)
	}
	r.name = g.pick("a", "a", "b", "c")
	if r.kind.cluster {
		r.name = g.pick("n1", "n2", "n3", "n4", "default")
	} else {
		r.namespace = g.pick("default", "default", "default", "default", "n1", "n1", "n2", "missing")
	}
	r.verb = g.pick("get", "list", "list", "create", "create", "create", "update", "update", "update", "update", "patch", "patch",
		"patch", "apply", "apply", "delete", "delete", "deletecollection")
	switch r.verb {
	case "get":
		g.readFrom(r)
		r.sub = g.subresource(r.kind)
	case "list":
		g.listing(r)
	case "create":
		g.writing(r)
		g.creating(r)
	case "update":
		g.writing(r)
		g.updating(r)
	case "patch":
		g.writing(r)
		g.patching(r)
	case "apply":
		g.writing(r)
		g.applying(r)
	case "delete":
		r.body = g.deleteOptions(r)
	case "deletecollection":
		if !g.chance(3) && !r.kind.cluster {
			r.verb, r.body = "delete", g.deleteOptions(r)
			break
		}
		r.name = ""
		r.body = g.deleteOptions(r)
		delete(r.body.(tree), "preconditions")
		g.selecting(r)
		if r.namespace == "" && !r.kind.cluster {
			r.namespace = "default"
		}
	}
	return r
}

// subresource is one that the kind has, or hardly ever one that it has not.
func (g *generator) subresource(k *kind) string {
	switch {
	case g.chance(4) && (k.status && !k.cluster || g.chance(10)):
		return "status"
	case k.scale && g.chance(5):
		return "scale"
	default:
		return ""
	}
}

func (g *generator) writing(r *request) {
	if g.chance(12) {
		r.query["dryRun"] = "All"
	}
	if g.chance(6) {
		r.query["fieldManager"] = "epsilon"
	}
}

// revision is one that a client has seen, or none, or a strange one.
func (g *generator) revision(client int) string {
	seen := g.memory[client].revisions
	if len(seen) > 0 && !g.chance(4) {
		return strconv.FormatInt(choose(g, seen), 10)
	}
	return g.pick("", "0", strconv.FormatInt(g.model.revision, 10))
}

func (g *generator) readFrom(r *request) {
	if g.chance(3) {
		setQuery(r, "resourceVersion", g.revision(r.client))
	}
	if g.chance(60) {
		setQuery(r, "resourceVersion", strconv.FormatInt(g.model.revision+1+int64(g.n(3)), 10))
	}
}

func setQuery(r *request, name, value string) {
	if value != "" {
		r.query[name] = value
	}
}

func (g *generator) selecting(r *request) {
	if g.chance(3) && !r.kind.cluster {
		r.namespace = ""
	}
	if g.chance(3) {
		r.query["labelSelector"] = g.pick("x=1", "x!=1", "x", "!x", "x in (2)", "x=1,y=1", "y notin (1)")
	}
	if g.chance(3) {
		choices := []string{"metadata.name=a", "metadata.name!=a", "metadata.namespace=default"}
		for _, name := range sortedNames(anyValues(r.kind.selectors)) {
			value := map[string]string{"status.phase": "Running", "spec.nodeName": "node1", "spec.color": "red"}[name]
			choices = append(choices, name+"="+value, name+"!="+value, name+"=")
		}
		if g.chance(10) {
			choices = []string{"spec.nothing=x"}
		}
		r.query["fieldSelector"] = choose(g, choices)
	}
}

func anyValues(m map[string]string) tree {
	t := tree{}
	for name, value := range m {
		t[name] = value
	}
	return t
}

func (g *generator) listing(r *request) {
	if tokens := g.memory[r.client].tokens; len(tokens) > 0 && g.chance(2) { // the next page
		t := choose(g, tokens)
		client := r.client
		*r = t.request
		r.client, r.query = client, map[string]string{"continue": t.text}
		for _, name := range []string{"labelSelector", "fieldSelector", "limit"} {
			setQuery(r, name, t.request.query[name])
		}
		if g.chance(20) {
			setQuery(r, "resourceVersion", g.revision(r.client))
		}
		return
	}
	r.name = ""
	g.selecting(r)
	g.readFrom(r)
	if g.chance(3) {
		r.query["limit"] = g.pick("1", "2", "3")
	}
	if g.chance(4) {
		r.query["resourceVersionMatch"] = g.pick("Exact", "NotOlderThan")
	}
}

// fresh is a new object, with some metadata.
func (g *generator) fresh(r *request) tree {
	obj := clone(r.kind.fresh(g))
	obj["apiVersion"], obj["kind"] = r.kind.apiVersion(), r.kind.name
	set(obj, r.name, "metadata", "name")
	if g.chance(3) {
		set(obj, g.some("x", "y"), "metadata", "labels")
	}
	if g.chance(4) {
		set(obj, []any{g.finalizer()}, "metadata", "finalizers")
	}
	return obj
}

func (g *generator) finalizer() string { return g.pick("e.x/f", "e.x/g") }

func (g *generator) creating(r *request) {
	obj := g.fresh(r)
	if r.kind.cluster && g.chance(2) {
		set(obj, nil, "metadata", "finalizers")
	}
	switch g.n(14) {
	case 0:
		set(obj, nil, "metadata", "name")
		set(obj, "gen-", "metadata", "generateName")
	case 1:
		g.wrong(r.kind, obj)
	case 2:
		set(obj, "5", "metadata", "resourceVersion")
	case 3:
		set(obj, "elsewhere", "metadata", "namespace")
	case 4:
		set(obj, "00000000-1111-2222-3333-444444444444", "metadata", "uid")
		set(obj, 7.0, "metadata", "generation")
		set(obj, "2001-01-01T00:00:00Z", "metadata", "deletionTimestamp")
	case 5:
		if old := g.known(r); old.obj != nil { // once more what was there
			obj = clone(old.obj)
			set(obj, nil, "metadata", "resourceVersion")
			g.claiming(r, obj, old)
			r.body = obj
			return
		}
	}
	if r.kind.cluster {
		set(obj, nil, "metadata", "namespace")
	}
	if len(r.kind.statuses) > 0 && g.chance(3) && r.kind.status {
		obj["status"] = choose(g, r.kind.statuses)(g)
	}
	r.body = obj
}

// known is a state of the object that the client has seen, mostly the last one; nil for none.
func (g *generator) known(r *request) state {
	seen := g.memory[r.client].objects[r.key()]
	switch {
	case len(seen) == 0:
		return state{}
	case g.chance(5):
		return choose(g, seen)
	default:
		return seen[len(seen)-1]
	}
}

// wrong makes an object one that may be refused.
func (g *generator) wrong(k *kind, obj tree) {
	if len(k.bad) > 0 && g.chance(2) && (fields(obj, "spec") != nil || k.name == "ConfigMap") {
		choose(g, k.bad)(g, obj)
		return
	}
	switch g.n(3) {
	case 0:
		set(obj, "not a label", "metadata", "labels", "x")
	case 1:
		set(obj, []any{ownerReference("u1", true), ownerReference("u2", true)}, "metadata", "ownerReferences")
	case 2:
		set(obj, []any{ownerReference("", false)}, "metadata", "ownerReferences")
	}
}

func ownerReference(uid string, controller bool) tree {
	return tree{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, "controller": controller}
}

func (g *generator) updating(r *request) {
	old := g.known(r)
	obj := clone(old.obj)
	r.sub = g.subresource(r.kind)
	if r.sub == "scale" {
		r.body = g.scale(r, obj)
		return
	}
	if obj == nil || g.chance(12) {
		obj, old = g.fresh(r), state{}
	}
	if r.sub == "status" && len(r.kind.statuses) > 0 && !g.chance(4) {
		obj["status"] = choose(g, r.kind.statuses)(g)
	} else {
		for range 1 + g.n(2) {
			g.edit(r.kind, obj)
		}
	}
	switch g.n(12) {
	case 0, 1:
		set(obj, nil, "metadata", "resourceVersion")
	case 2:
		set(obj, g.pick("0", "1", "999999999", "abc"), "metadata", "resourceVersion")
	case 3:
		set(obj, nil, "metadata", "uid")
		set(obj, nil, "metadata", "resourceVersion")
	case 4:
		set(obj, "00000000-1111-2222-3333-444444444444", "metadata", "uid")
	case 5:
		set(obj, g.pick("b", "elsewhere"), "metadata", g.pick("name", "namespace"))
	case 6: // as if it were made from what is there now
		if e := g.model.objects[r.key()]; e != nil {
			keep(obj, e.obj, "metadata", "resourceVersion")
			keep(obj, e.obj, "metadata", "uid")
		}
	}
	g.claiming(r, obj, old)
	if r.kind.cluster {
		set(obj, nil, "metadata", "namespace")
	}
	r.body = obj
}

// claiming notes what the managedFields of an object say that was made from an old state: who owned what then, if they are not
// made to say something else.
func (g *generator) claiming(r *request, obj tree, old state) {
	entries := list(obj, "metadata", "managedFields")
	if len(entries) > 0 {
		r.owners = old.owners
	}
	switch g.n(16) {
	case 0:
		entries, r.owners = []any{}, ownership{}
		if r.kind.custom { // of which it was recorded to say nothing, unlike of a built-in kind
			r.owners = nil
		}
	case 1:
		entries, r.owners = []any{tree{}}, ownership{}
	case 2:
		if len(entries) > 0 {
			entries[0].(tree)["operation"] = "Sideways" // they cannot be read, so they say nothing
			r.owners = nil
		}
	case 3:
		if len(entries) > 1 {
			r.owners = r.owners.without(entries)
			entries = entries[1:]
		}
	case 4:
		zeta := owner{manager: "zeta", way: "Update"}
		if _, ok := r.owners[zeta]; ok {
			break
		}
		entries = append(entries, tree{
			"manager": "zeta", "operation": "Update", "apiVersion": r.kind.apiVersion(), "fieldsType": "FieldsV1",
			"fieldsV1": parse(`{"f:metadata": {"f:labels": {"f:x": {}}}}`),
		})
		r.owners = maps.Clone(r.owners)
		if r.owners == nil {
			r.owners = ownership{}
		}
		r.owners[zeta] = share{map[string]bool{"metadata.labels.x": true}, 0}
	}
	if entries != nil {
		set(obj, entries, "metadata", "managedFields")
	}
}

// without leaves out the first of the entries of an ownership.
func (o ownership) without(entries []any) ownership {
	named := func(entry any) owner {
		return owner{manager: text(entry, "manager"), way: text(entry, "operation"), sub: text(entry, "subresource")}
	}
	first := named(entries[0])
	first.again = slices.ContainsFunc(entries[1:], func(entry any) bool { return named(entry) == first })
	rest := maps.Clone(o)
	delete(rest, first)
	return rest
}

func (g *generator) scale(r *request, obj tree) tree {
	scale := tree{"metadata": tree{"name": r.name}, "spec": tree{"replicas": float64(g.n(5) - 1)}}
	if obj != nil && g.chance(2) {
		keep(scale, obj, "metadata", "resourceVersion")
	}
	if obj != nil && g.chance(4) {
		keep(scale, obj, "metadata", "uid")
	}
	return scale
}

// edit changes an object.
func (g *generator) edit(k *kind, obj tree) {
	switch g.n(12) {
	case 0, 1:
		set(obj, g.maybe("1", "2"), "metadata", "labels", g.pick("x", "y"))
	case 2:
		set(obj, g.maybe("1", "2"), "metadata", "annotations", g.pick("n", "o"))
	case 3, 4:
		set(obj, g.maybe([]any{"e.x/f"}, []any{"e.x/f", "e.x/g"}), "metadata", "finalizers")
	case 5:
		set(obj, g.maybe([]any{ownerReference("u1", g.chance(2))}), "metadata", "ownerReferences")
	case 6:
		g.wrong(k, obj)
	case 7:
		if get(obj, "metadata", "deletionGracePeriodSeconds") == nil {
			set(obj, "2001-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		} else {
			set(obj, nil, "metadata", "deletionTimestamp")
		}
	case 8:
		set(obj, 99.0, "metadata", "generation")
	default:
		if len(k.edits) > 0 {
			choose(g, k.edits)(g, obj)
		}
	}
}

// patchable drops from an edited copy what makes it differ in ways that a patch does not mean.
func (g *generator) patching(r *request) {
	r.sub = g.subresource(r.kind)
	r.patch = g.pick("merge", "merge", "merge", "json", "strategic")
	if r.sub == "scale" {
		r.patch = "merge"
		r.body = tree{"spec": tree{"replicas": float64(g.n(5) - 1)}}
		return
	}
	if r.patch == "json" {
		r.body = g.operations(r)
		return
	}
	change := tree{}
	switch g.n(8) {
	case 0, 1:
		set(change, tree{g.pick("x", "y"): g.maybe("1", "2")}, "metadata", "labels")
	case 2:
		set(change, tree{"n": g.maybe("1", "2")}, "metadata", "annotations")
	case 3:
		set(change, []any{g.finalizer()}, "metadata", "finalizers")
		if g.chance(3) && r.patch == "merge" {
			change = tree{"metadata": tree{"finalizers": nil}}
		}
	case 4:
		set(change, "00000000-1111-2222-3333-444444444444", "metadata", "uid")
	case 5:
		set(change, g.pick("b", "elsewhere"), "metadata", g.pick("name", "namespace"))
	default:
		if len(r.kind.edits) > 0 {
			choose(g, r.kind.edits)(g, change)
		}
	}
	if len(r.kind.statuses) > 0 && (r.sub == "status" || g.chance(8)) {
		change["status"] = choose(g, r.kind.statuses)(g)
	}
	if g.chance(4) {
		if old := g.known(r).obj; old != nil {
			keep(change, old, "metadata", "resourceVersion")
		}
	}
	if r.kind.cluster {
		set(change, nil, "metadata", "namespace")
	}
	if g.chance(12) {
		g.claiming(r, change, state{})
	}
	r.body = change
}

// operations are a JSON patch.
func (g *generator) operations(r *request) []any {
	var ops []any
	if old := g.known(r).obj; old != nil && g.chance(2) {
		ops = append(ops, tree{"op": "test", "path": "/metadata/resourceVersion", "value": text(old, "metadata", "resourceVersion")})
	}
	switch g.n(5) {
	case 0:
		ops = append(ops, tree{"op": "remove", "path": "/metadata/finalizers"})
	case 1:
		ops = append(ops, tree{"op": "add", "path": "/metadata/labels", "value": g.some("x", "y")})
	case 2:
		ops = append(ops, tree{"op": "replace", "path": "/metadata/name", "value": g.pick("a", "b")})
	case 3:
		ops = append(ops, tree{"op": "add", "path": "/metadata/annotations", "value": tree{"a/b": "1"}},
			tree{"op": "test", "path": "/metadata/annotations/a~1b", "value": g.pick("1", "2")})
	default:
		ops = append(ops, tree{"op": "add", "path": "/metadata/finalizers", "value": []any{g.finalizer()}})
	}
	return ops
}

func (g *generator) applying(r *request) {
	config := tree{}
	if r.kind.config != nil {
		config = r.kind.config(g)
	}
	if r.kind.custom && g.chance(4) {
		r.sub = "status"
		config = tree{"status": tree{"count": float64(g.n(3))}}
		set(config, g.maybe("1", "2"), "status", "phase")
	}
	if labels := g.some("x", "y"); len(labels) > 0 && g.chance(2) {
		set(config, labels, "metadata", "labels")
	}
	if config, _ = bare(config, false).(tree); config == nil {
		config = tree{}
		set(config, g.value(), "metadata", "labels", "x")
	}
	config["apiVersion"], config["kind"] = r.kind.apiVersion(), r.kind.name
	set(config, r.name, "metadata", "name")
	if r.query["fieldManager"] == "" {
		r.query["fieldManager"] = agents[r.client]
	}
	if g.chance(3) {
		r.query["force"] = "true"
	}
	if old := g.known(r).obj; old != nil && g.chance(6) {
		keep(config, old, "metadata", g.pick("resourceVersion", "uid"))
	}
	r.body = config
}

func (g *generator) deleteOptions(r *request) tree {
	options := tree{}
	if g.chance(4) {
		options["gracePeriodSeconds"] = float64(g.n(5) - 1)
	}
	if g.chance(3) {
		options["propagationPolicy"] = g.pick("Background", "Background", "Foreground", "Orphan", "Sideways")
	}
	if g.chance(12) {
		options["dryRun"] = []any{"All"}
	}
	if old := g.known(r).obj; old != nil && g.chance(3) {
		name := g.pick("uid", "resourceVersion")
		set(options, get(old, "metadata", name), "preconditions", name)
	}
	if g.chance(20) {
		set(options, "00000000-1111-2222-3333-444444444444", "preconditions", "uid")
	}
	if !slices.Contains([]string{"Job", "Pod"}, r.kind.name) && g.chance(2) {
		delete(options, "propagationPolicy")
	}
	return options
}
