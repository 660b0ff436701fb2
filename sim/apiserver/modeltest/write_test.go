package modeltest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// place puts an object into the namespace of the request, and reports whether it may be there.
func (r *request) place(obj tree) bool {
	own := text(obj, "metadata", "namespace")
	if own != "" && own != r.namespace {
		return false
	}
	if r.namespace != "" {
		set(obj, r.namespace, "metadata", "namespace")
	}
	return true
}

// complete fills in the defaults of a kind.
func (k *kind) complete(obj tree) {
	obj["apiVersion"], obj["kind"] = k.apiVersion(), k.name
	if name := text(obj, "metadata", "name"); k.cluster && name != "" {
		set(obj, name, "metadata", "labels", "kubernetes.io/metadata.name")
	}
	if k.custom && fields(obj, "spec") == nil {
		return
	}
	if k.derive != nil {
		k.derive(obj)
	}
	fill(obj, k.defaults)
}

// admit refuses objects where there is no namespace, or one that ends.
func (m *model) admit(k *kind, namespace string) (want, bool) {
	if k.cluster {
		return want{}, true
	}
	for name, e := range m.objects {
		if name.kind.name == "Namespace" && name.name == namespace {
			return forbidden, get(e.obj, "metadata", "deletionTimestamp") == nil
		}
	}
	return notFound, false
}

func (m *model) create(r *request, got answer) want {
	obj := clone(r.body.(tree))
	if !r.place(obj) {
		return badRequest
	}
	r.kind.complete(obj)
	if refused, ok := m.admit(r.kind, r.namespace); !ok {
		return refused
	}
	return m.createNew(r, obj, got, func(obj tree) ownership { return m.changed(r, ownership{}, nil, obj) })
}

var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// createNew creates an object that has its defaults.
func (m *model) createNew(r *request, obj tree, got answer, owners func(tree) ownership) want {
	k := r.kind
	metadata := fields(obj, "metadata")
	delete(metadata, "selfLink")
	delete(metadata, "managedFields")
	if r.verb == "create" || m.version != apiserver.V136 { // an update or an apply could create an object in deletion
		delete(metadata, "deletionTimestamp")
		delete(metadata, "deletionGracePeriodSeconds")
	}
	uid := text(got.body, "metadata", "uid")
	metadata["uid"], metadata["creationTimestamp"] = uid, m.stamp()
	if k.counts != nil {
		metadata["generation"] = 1.0
	}
	readable := k.readable(obj)
	if k.status {
		delete(obj, "status")
	}
	after := owners(obj) // what the server adds belongs to nobody
	if !readable {
		after = ownership{}
	}
	generated := text(metadata, "name") == "" && text(metadata, "generateName") != ""
	if generated {
		metadata["name"] = text(got.body, "metadata", "name")
	}
	if k.begin != nil && fields(obj, "spec") != nil && r.sub == "" || k.cluster {
		k.begin(obj)
	}
	if k.cluster {
		set(obj, metadata["name"], "metadata", "labels", "kubernetes.io/metadata.name")
	}
	name := keyOf(k, obj)
	revision := text(metadata, "resourceVersion")
	set(metadata, nil, "resourceVersion")
	switch {
	case text(metadata, "name") == "" && !generated, !validMeta(obj, nil), !k.valid(obj, nil), k.needsSpec() && fields(obj, "spec") == nil:
		return invalid
	case revision != "" && revision != "0" && !r.dryRun():
		return broken
	case m.objects[name] != nil:
		w := exists
		if get(m.objects[name].obj, "metadata", "deletionTimestamp") != nil {
			w.message = "object is being deleted: "
		}
		w.message += k.qualified() + ` "` + name.name + `" already exists`
		return w
	}
	lacking := k.reread != nil && k.reread(obj)
	switch {
	case !uidForm.MatchString(uid), generated && !generatedFrom(text(metadata, "generateName"), name.name):
		return want{code: 201, message: "a UID and a name of the right form"}
	case r.dryRun():
		keep(metadata, tree{"resourceVersion": revision}, "resourceVersion")
		return want{code: 201, object: obj}
	case m.uids[uid]:
		return want{code: 201, message: "a UID that was never used"}
	}
	m.uids[uid] = true
	w := want{code: 201, object: m.commit(name, obj, after)}
	m.objects[name].lacking = lacking
	return w
}

func (k *kind) needsSpec() bool {
	return !k.custom && k.fresh != nil && k.valid != nil && k.status && !k.cluster
}

func generatedFrom(base, name string) bool {
	suffix, ok := strings.CutPrefix(name, base)
	return ok && len(suffix) == 5
}

func (m *model) update(r *request, got answer) want {
	obj := clone(r.body.(tree))
	if !r.place(obj) || text(obj, "metadata", "name") != r.name {
		return badRequest
	}
	r.kind.complete(obj)
	e := m.objects[r.key()]
	if e == nil && (!r.kind.createOnUpdate || r.sub != "" && r.sub != "status") {
		return absent(r.key())
	}
	uid := text(obj, "metadata", "uid")
	if uid != "" && (e == nil || uid != text(e.obj, "metadata", "uid")) {
		return conflicted
	}
	if e != nil {
		return m.replace(r, obj, e)
	}
	if strings.Trim(text(obj, "metadata", "resourceVersion"), "0123456789") != "" {
		return broken
	}
	if refused, ok := m.admit(r.kind, r.namespace); !ok {
		return refused
	}
	if !r.dryRun() {
		set(obj, nil, "metadata", "resourceVersion")
	}
	return m.createNew(r, obj, got, func(obj tree) ownership {
		if r.sub == "status" {
			return ownership{}.updated(r.writer(), nil, r.written(clone(obj)), m.now())
		}
		return m.changed(r, ownership{}, nil, obj)
	})
}

// replace puts an object in the place of the one there is.
func (m *model) replace(r *request, obj tree, e *entry) want {
	if w, ok := r.checkRevision(obj, e); !ok {
		return w
	}
	return m.settle(r, obj, e, func(obj tree) ownership { return m.changed(r, e.owners, r.kind.paths(e.obj), obj) })
}

// changed returns who owns what of an object after a request that is no apply, by who did before: by what the client says of that,
// if he says it.
func (m *model) changed(r *request, owners ownership, before map[string]any, obj tree) ownership {
	if r.owners != nil && r.sub == "" {
		owners = r.owners
	}
	return owners.read().updated(r.writer(), before, r.kind.paths(obj), m.now())
}

// checkRevision compares the revision that an object was made from with what there is.
func (r *request) checkRevision(obj tree, e *entry) (want, bool) {
	revision, stored := text(obj, "metadata", "resourceVersion"), text(e.obj, "metadata", "resourceVersion")
	switch {
	case revision == stored:
	case strings.Trim(revision, "0123456789") != "":
		return broken, false
	case strings.Trim(revision, "0") == "" && !r.kind.unconditional:
		return invalid, false
	case strings.Trim(revision, "0") != "":
		return lost(r.key()), false
	}
	set(obj, stored, "metadata", "resourceVersion")
	return want{}, true
}

// settle commits an update, if it is valid and changes anything. The owners are those of the fields afterwards.
func (m *model) settle(r *request, obj tree, e *entry, owners func(tree) ownership) want {
	k, old := r.kind, e.obj
	readable := k.readable(obj)
	if r.sub == "status" {
		obj = k.onlyStatus(obj, old)
	} else if k.status {
		keep(obj, old, "status")
	}
	after := owners(obj) // what the client asks for counts, even if it does not get it
	if !readable {
		after = ownership{}
	}
	k.keepSystem(obj, old)
	if r.sub == "status" {
		if k.graceful {
			k.update(obj, old)
		}
	} else {
		if k.update != nil {
			k.update(obj, old)
		}
		if k.counts != nil && k.counts(obj, old) {
			set(obj, number(old, "metadata", "generation")+1, "metadata", "generation")
		}
	}
	if k.cluster {
		set(obj, r.name, "metadata", "labels", "kubernetes.io/metadata.name")
	}
	if !validMeta(obj, old) || !k.valid(obj, old) || k.needsSpec() && fields(obj, "spec") == nil {
		return invalid
	}
	if k.finished(obj, old) {
		if !r.dryRun() {
			m.commit(r.key(), nil, nil)
		}
		return okay(obj)
	}
	lacking := k.reread != nil && k.reread(obj)
	switch {
	case same(obj, old) && after.same(e.owners) && lacking == e.lacking:
		return okay(old)
	case r.dryRun():
		return okay(obj)
	default:
		w := okay(m.commit(r.key(), obj, after))
		m.objects[r.key()].lacking = lacking
		return w
	}
}

// finished reports whether an update takes the last finalizer of an object that waits for nothing else.
func (k *kind) finished(obj, old tree) bool {
	return get(old, "metadata", "deletionTimestamp") != nil && len(list(obj, "metadata", "finalizers")) == 0 &&
		number(old, "metadata", "deletionGracePeriodSeconds") == 0 && !k.cluster
}

// readable reports whether a custom resource is of the types that its schema says. Who sends another makes nobody own anything of it
// any more, though what is wrong be in a part that the write leaves alone.
func (k *kind) readable(obj tree) bool {
	for _, path := range [][]string{{"spec", "size"}, {"status", "count"}} {
		if _, ok := get(obj, path...).(string); ok && k.custom {
			return false
		}
	}
	return true
}

// keepSystem carries over the metadata that clients do not write.
func (k *kind) keepSystem(obj, old tree) {
	for _, name := range []string{"generation", "creationTimestamp"} {
		keep(obj, old, "metadata", name)
	}
	if get(old, "metadata", "deletionTimestamp") != nil {
		keep(obj, old, "metadata", "deletionTimestamp")
	}
	for _, name := range []string{"uid", "deletionGracePeriodSeconds"} {
		if value := get(obj, "metadata", name); value == nil || value == "" {
			keep(obj, old, "metadata", name)
		}
	}
}

// onlyStatus is the object that a write to the status subresource makes.
func (k *kind) onlyStatus(obj, old tree) tree {
	if k.statusKeeps == "all" {
		kept := clone(old)
		keep(kept, obj, "status")
		return kept
	}
	keep(obj, old, "spec")
	if k.statusKeeps != "spec" {
		keep(obj, old, "metadata", k.statusKeeps)
	}
	if k.graceful {
		keep(obj, old, "metadata", "deletionTimestamp")
	}
	return obj
}

var labelForm = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)

// validMeta checks metadata; old is nil for a new object.
func validMeta(obj, old tree) bool {
	for _, value := range fields(obj, "metadata", "labels") {
		if !labelForm.MatchString(value.(string)) {
			return false
		}
	}
	controllers := 0
	for _, o := range list(obj, "metadata", "ownerReferences") {
		if get(o, "controller") == true {
			controllers++
		}
		if text(o, "uid") == "" {
			return false
		}
	}
	if controllers > 1 {
		return false
	}
	if old == nil {
		return true
	}
	for _, name := range []string{"uid", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if !equal(get(obj, "metadata", name), get(old, "metadata", name)) {
			return false
		}
	}
	if get(old, "metadata", "deletionTimestamp") == nil {
		return true
	}
	for _, f := range list(obj, "metadata", "finalizers") {
		if !slices.Contains(list(old, "metadata", "finalizers"), f) {
			return false
		}
	}
	return true
}

func (m *model) patch(r *request) want {
	if r.patch == "strategic" && r.kind.custom {
		return failure(415, "UnsupportedMediaType")
	}
	e := m.objects[r.key()]
	if e == nil {
		return absent(r.key())
	}
	obj, ok := r.patched(e.obj)
	if !ok {
		return failure(422, "*")
	}
	if !r.place(obj) || text(obj, "metadata", "name") != r.name {
		return badRequest
	}
	r.kind.complete(obj)
	return m.replace(r, obj, e)
}

// patched applies a patch. It fails if a test of it does, or if it names what is not there.
func (r *request) patched(old tree) (tree, bool) {
	switch r.patch {
	case "merge":
		return clone(mergePatch(old, r.body).(tree)), true
	case "strategic":
		return clone(strategicPatch(old, r.body.(tree))), true
	}
	obj := clone(old)
	for _, op := range r.body.([]any) {
		path := strings.Split(strings.TrimPrefix(text(op, "path"), "/"), "/")
		for i := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
		}
		parent := get(obj, path[:len(path)-1]...)
		switch text(op, "op") {
		case "test":
			if !equal(get(obj, path...), get(op, "value")) {
				return nil, false
			}
		case "remove":
			if get(obj, path...) == nil {
				return nil, false
			}
			set(obj, nil, path...)
		default:
			if _, ok := parent.(tree); !ok {
				return nil, false
			}
			set(obj, clone(get(op, "value")), path...)
		}
	}
	return obj, true
}

// scale reads or writes the number of replicas.
func (m *model) scale(r *request, _ answer) want {
	e := m.objects[r.key()]
	if e == nil {
		return absent(r.key())
	}
	scale := scaleOf(e.obj)
	switch r.verb {
	case "get":
		return okay(scale)
	case "update":
		scale = clone(r.body.(tree))
	case "patch":
		scale = mergePatch(scale, r.body).(tree)
	}
	uid := text(scale, "metadata", "uid")
	switch {
	case !r.place(scale), text(scale, "metadata", "name") != r.name:
		return badRequest
	case uid != "" && uid != text(e.obj, "metadata", "uid"):
		return conflicted
	case number(scale, "spec", "replicas") < 0:
		return invalid
	}
	obj := clone(e.obj)
	set(obj, number(scale, "spec", "replicas"), "spec", "replicas")
	set(obj, text(scale, "metadata", "resourceVersion"), "metadata", "resourceVersion")
	if w, ok := r.checkRevision(obj, e); !ok {
		return w
	}
	main := *r
	main.sub = ""
	w := m.settle(&main, obj, e, func(obj tree) ownership { return e.owners.read().scaled(r.writer(), e.obj, obj) })
	if w.object != nil {
		w.object = scaleOf(w.object)
	}
	return w
}

// scaled returns who owns what after a change of the replicas through the scale subresource, as was recorded.
func (o ownership) scaled(by owner, old, obj tree) ownership {
	const path = "spec.replicas"
	only := map[string]bool{path: true}
	wanted := number(obj, "spec", "replicas")
	switch {
	case wanted == number(old, "spec", "replicas"):
	case wanted == 0: // which a Scale does not show
		return o.taken(by, nil, only).tidy()
	case !o.has(path): // once nobody owns them, a Scale makes nobody own them
		return o
	default:
		result := o.taken(by, only, nil)
		result[by] = share{only, 0}
		return result.tidy()
	}
	// Nobody takes them, and those who own them by an Update get an entry of their own for them, which does not tell the time.
	result := maps.Clone(o)
	for who, s := range o {
		if who.way != "Update" || !s.paths[path] {
			continue
		}
		delete(result, who)
		if rest := maps.Clone(s.paths); len(rest) > 1 {
			delete(rest, path)
			result[who] = share{rest, s.at}
			who.again = true
		}
		result[who] = share{only, 0}
	}
	return result
}

func scaleOf(obj tree) tree {
	metadata := tree{}
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		keep(metadata, fields(obj, "metadata"), name)
	}
	spec := tree{}
	if n := number(obj, "spec", "replicas"); n != 0 {
		spec["replicas"] = n
	}
	return tree{
		"metadata": metadata, "spec": spec,
		"status": tree{"replicas": number(obj, "status", "replicas"), "selector": "app=x"},
	}
}

func parseRevision(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
}
