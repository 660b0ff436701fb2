package modeltest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// model is what an API server holds and answers, by the rules.
type model struct {
	version   apiserver.Version
	now       func() time.Time
	kinds     []*kind
	revision  int64
	first     int64 // the revision the model begins with
	compacted int64
	objects   map[key]*entry
	log       map[*kind][]event
	uids      map[string]bool
	tokens    map[string]token // where the lists go on of which the server gave out tokens
}

// key names an object.
type key struct {
	kind            *kind
	namespace, name string
}

// entry is an object and who owns its fields.
type entry struct {
	obj    tree
	owners ownership

	lacking bool // it is stored without the defaults it is read with
}

// event is one commit.
type event struct {
	revision int64
	what     string // ADDED, MODIFIED or DELETED
	obj      tree   // after it; of a delete, the last state at the revision of the delete
	prev     tree   // before it; nil if there was none
	owners   ownership
}

// token is where a list goes on.
type token struct {
	revision int64 // of the first page; -1 for the latest
	after    key   // the last object that was told
}

// request is one request, before it is made an HTTP request.
type request struct {
	client          int
	verb            string // get, list, create, update, patch, apply, delete, deletecollection
	kind            *kind
	namespace, name string
	sub             string // status or scale
	patch           string // merge, json or strategic
	body            any    // of a delete its options
	query           map[string]string
	owners          ownership // what the managedFields in the body say; nil if they say nothing
}

func (r *request) key() key { return key{r.kind, r.namespace, r.name} }

func (r *request) dryRun() bool { return r.query["dryRun"] != "" }

// manager is who makes a change, for the ownership of fields.
func (r *request) manager() string {
	return cmp.Or(r.query["fieldManager"], agents[r.client])
}

// agents are the clients' programs.
var agents = []string{"alpha", "beta", "gamma", "delta"}

// answer is what a server says.
type answer struct {
	code int
	body tree
}

// want is what the model foretells of an answer.
type want struct {
	code    int
	reason  string
	object  tree   // the object that is returned; nil if a Status is, or if there is nothing to say about it
	items   []tree // of a list
	list    bool
	listed  int64 // the revision of the list
	more    *token
	left    int64 // how many objects are left; -1 if that is not told
	message string
	causes  int // how many causes it names; zero if there is nothing to say about it
}

func failure(code int, reason string) want { return want{code: code, reason: reason} }

var (
	badRequest = failure(400, "BadRequest")
	forbidden  = failure(403, "Forbidden")
	notFound   = failure(404, "NotFound")
	conflicted = failure(409, "Conflict")
	exists     = failure(409, "AlreadyExists")
	gone       = failure(410, "Expired")
	invalid    = failure(422, "Invalid")
	broken     = failure(500, "")
	tooEarly   = failure(504, "Timeout")
)

// lost is a race lost for an object.
func lost(k key) want {
	w := conflicted
	w.message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to "+
		"the latest version and try again", k.kind.qualified(), k.name)
	return w
}

func absent(k key) want {
	w := notFound
	w.message = fmt.Sprintf("%s %q not found", k.kind.qualified(), k.name)
	return w
}

func (k *kind) qualified() string {
	if k.group == "" {
		return k.resource
	}
	return k.resource + "." + k.group
}

func okay(obj tree) want { return want{code: 200, object: obj} }

// do does what a request asks for and says what the answer must be. What a server chooses itself, UIDs and generated names, is
// read from its answer.
func (m *model) do(r *request, got answer) want {
	switch {
	case r.sub == "scale" && r.kind.scale:
		return m.scale(r, got)
	case r.sub == "status" && r.kind.status, r.sub == "":
	default:
		return failure(404, "NotFound")
	}
	switch r.verb {
	case "get":
		return m.get(r)
	case "list":
		return m.list(r, got)
	case "create":
		return m.create(r, got)
	case "update":
		return m.update(r, got)
	case "patch":
		return m.patch(r)
	case "apply":
		return m.apply(r, got)
	case "delete":
		return m.delete(r)
	case "deletecollection":
		return m.deleteCollection(r, got)
	}
	panic("no verb " + r.verb)
}

// commit puts an object in its place, nil to remove it, and returns it as it is stored.
func (m *model) commit(k key, obj tree, owners ownership) tree {
	m.revision++
	prev := m.objects[k]
	e := event{revision: m.revision, what: "MODIFIED", obj: obj, owners: owners}
	if prev != nil {
		e.prev = prev.obj
	}
	switch {
	case obj == nil:
		e.what, e.obj, e.owners = "DELETED", clone(prev.obj), prev.owners
		delete(m.objects, k)
	case prev == nil:
		e.what = "ADDED"
		fallthrough
	default:
		m.objects[k] = &entry{obj: obj, owners: owners}
	}
	set(e.obj, strconv.FormatInt(m.revision, 10), "metadata", "resourceVersion")
	m.log[k.kind] = append(m.log[k.kind], e)
	return e.obj
}

// adopt takes an object over as the server shows it, once it was found to be the one that was foretold: the model does not care
// how what is empty is stored, but whether a write changes anything depends on it.
func (m *model) adopt(k key, obj tree) {
	e := m.objects[k]
	if e == nil || !same(e.obj, obj) { // a dry run
		return
	}
	obj = clone(obj)
	delete(fields(obj, "metadata"), "managedFields")
	log := m.log[k.kind]
	if last := &log[len(log)-1]; last.obj["metadata"] != nil && reflect.ValueOf(last.obj).Pointer() == reflect.ValueOf(e.obj).Pointer() {
		last.obj = obj
	}
	e.obj = obj
}

// ownersOf returns who owned what of an object as it is shown; nil if it was never stored so.
func (m *model) ownersOf(k key, obj tree) ownership {
	revision, _ := parseRevision(text(obj, "metadata", "resourceVersion"))
	for _, e := range slices.Backward(m.log[k.kind]) {
		if e.revision == revision && keyOf(k.kind, e.obj) == k {
			return e.owners
		}
	}
	return nil
}

// at returns the objects of a kind at a revision, in the order of their keys.
func (m *model) at(k *kind, revision int64) []tree {
	state := map[key]tree{}
	if revision >= m.revision {
		for name, e := range m.objects {
			if name.kind == k {
				state[name] = e.obj
			}
		}
	} else {
		for _, e := range m.log[k] {
			if e.revision > revision {
				break
			}
			name := keyOf(k, e.obj)
			if e.what == "DELETED" {
				delete(state, name)
			} else {
				state[name] = e.obj
			}
		}
	}
	objects := slices.Collect(maps.Values(state))
	slices.SortFunc(objects, func(a, b tree) int { return keyOf(k, a).compare(keyOf(k, b)) })
	return objects
}

func keyOf(k *kind, obj tree) key {
	return key{k, text(obj, "metadata", "namespace"), text(obj, "metadata", "name")}
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// stamp is the time as objects show it.
func (m *model) stamp() string { return m.now().UTC().Format(time.RFC3339) }
