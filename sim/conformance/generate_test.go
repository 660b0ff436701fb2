package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// step is a request as the generator has it. What depends on answers is left open: both servers fill it with what they said.
//
// In texts, ${rv:KEY:N} is the resourceVersion of the N-th last state of an object that was seen, ${uid:KEY:N} its UID, ${name:KEY}
// the last name that was made for a key, ${list:N} the revision of the N-th last list, ${continue} the last token, and $NS the
// namespace.
type step struct {
	Verb        string
	Path        string
	Query       url.Values
	ContentType string
	Accept      string
	Agent       string
	Body        any    // nil for none
	Raw         string // a body that is no JSON
	// Base is the key of an object whose last state is the body, with Body as a merge patch upon it. Where it was never seen, the
	// Body alone is sent.
	Base string
	// Key is what the request is about, and what its answer is remembered by.
	Key string
}

const (
	mergePatch     = "application/merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// generator makes up requests. They depend on the seed alone.
type generator struct {
	random *rand.Rand
	seed   uint64
	kinds  []*kind // of all
	mine   []*kind // that this sequence is about
	made   int     // generated names
}

// sequence returns the requests of a seed.
func sequence(kinds []*kind, seed uint64, length int) []step {
	g := &generator{random: rand.New(rand.NewPCG(seed, 0)), seed: seed, kinds: kinds}
	for range 1 + g.n(3) {
		g.mine = append(g.mine, choose(g, kinds))
	}
	steps := []step{g.list(g.mine[0])}
	for range length - 1 {
		steps = append(steps, g.step())
	}
	return append(steps, g.watches()...)
}

func (g *generator) n(n int) int { return g.random.IntN(n) }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.n(n) == 0 }

func choose[T any](g *generator, choices []T) T { return choices[g.n(len(choices))] }

func (g *generator) pick(choices ...string) string { return choose(g, choices) }

// name returns one of few names. Of objects outside of namespaces it is the sequence's own.
func (g *generator) name(k *kind) string {
	name := g.pick("x", "x", "x", "y")
	if k.Cluster {
		name += "-$NS"
	}
	return name
}

func (g *generator) step() step {
	k := choose(g, g.mine)
	name := g.name(k)
	s := step{Path: k.collection() + "/" + name, Key: k.key(name), Query: url.Values{}}
	if g.chance(12) {
		s.Query.Set("dryRun", "All")
	}
	if g.chance(6) {
		s.Query.Set("fieldManager", g.pick("one", "two"))
	}
	if g.chance(10) {
		s.Query.Set("fieldValidation", g.pick("Strict", "Strict", "Ignore", "Warn"))
	}
	s.Agent = g.pick("alpha/1.0", "alpha/1.0", "beta/2.0")
	switch n := g.n(100); {
	case n < 20:
		g.create(&s, k, name)
	case n < 40:
		g.update(&s, k, name)
	case n < 54:
		g.patch(&s, k)
	case n < 60:
		g.operations(&s, k)
	case n < 70:
		g.apply(&s, k, name)
	case n < 80:
		g.remove(&s)
	case n < 83:
		g.removeAll(&s, k)
	case n < 88:
		g.subresource(&s, k, name)
	case n < 94:
		s.Verb, s.Query = http.MethodGet, url.Values{}
		g.status(&s, k, 4)
		if g.chance(6) {
			s.Accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
	default:
		return g.list(k)
	}
	return s
}

// status makes the request one to the status, once in n times.
func (g *generator) status(s *step, k *kind, n int) bool {
	if len(k.Statuses) == 0 && !g.chance(10) || !g.chance(n) {
		return false
	}
	s.Path += "/status"
	return true
}

// object returns an object of a kind, changed a little.
func (g *generator) object(k *kind, name string) tree {
	obj := merge(tree{"apiVersion": k.apiVersion(), "kind": k.Kind, "metadata": tree{"name": name}}, k.Body)
	for range g.n(3) {
		obj = merge(obj, g.change(k))
	}
	if g.chance(4) && len(k.Statuses) > 0 {
		obj = merge(obj, tree{"status": choose(g, k.Statuses)})
	}
	return merge(obj, tree{"metadata": g.metadata(k, name)})
}

// change returns a change of an object that need not make sense.
func (g *generator) change(k *kind) tree {
	if len(k.Changes) == 0 {
		return tree{}
	}
	return choose(g, k.Changes)
}

var unused = "00000000-1111-2222-3333-444444444444"

// metadata returns some.
func (g *generator) metadata(k *kind, name string) tree {
	m := tree{}
	key := k.key(name)
	if g.chance(3) {
		m["labels"] = tree{g.pick("a", "b"): g.pick("x", "y")}
	}
	if g.chance(5) {
		m["annotations"] = tree{g.pick("a", "b"): g.pick("x", "y")}
	}
	if g.chance(5) {
		finalizers := []any{}
		for range g.n(3) {
			finalizers = append(finalizers, g.pick("example.com/a", "example.com/b", "foregroundDeletion", "orphan"))
		}
		m["finalizers"] = finalizers
	}
	if g.chance(12) {
		m["uid"] = g.pick(unused, "${uid:"+key+":0}", "${uid:"+key+":1}")
	}
	if g.chance(20) {
		m["deletionTimestamp"] = "2030-01-01T00:00:00Z"
	}
	if g.chance(20) {
		m["generation"] = g.n(9)
	}
	if g.chance(40) {
		m["creationTimestamp"] = g.pick("2001-01-01T00:00:00Z", "soon")
	}
	if g.chance(40) {
		m["labels"] = tree{"a": "not a label"}
	}
	if g.chance(60) {
		m["managedFields"] = []any{}
	}
	if g.chance(14) {
		owners := []any{}
		for range g.n(3) {
			owner := tree{"apiVersion": "v1", "kind": "ConfigMap", "name": g.pick("o", "x"), "uid": g.pick("u1", "u2", "")}
			if g.chance(2) {
				owner["controller"] = true
			}
			if g.chance(2) {
				owner["blockOwnerDeletion"] = true
			}
			owners = append(owners, owner)
		}
		m["ownerReferences"] = owners
	}
	return m
}

// revision is one that a client may send for an object.
func (g *generator) revision(key string) string {
	return g.pick("", "0", "1", "999999999", "abc", "${rv:"+key+":0}", "${rv:"+key+":0}", "${rv:"+key+":1}", "${rv:"+key+":2}")
}

func (g *generator) create(s *step, k *kind, name string) {
	obj := g.object(k, name)
	switch g.n(16) {
	case 0:
		delete(obj["metadata"].(tree), "name")
		g.made++ // in lists they are in the order of their names
		prefix := fmt.Sprintf("gen-%d-", g.made)
		set(obj, prefix, "metadata", "generateName")
		s.Key = k.key(prefix)
	case 1:
		set(obj, g.revision(s.Key), "metadata", "resourceVersion")
	case 2:
		set(obj, g.pick("elsewhere", "$NS"), "metadata", "namespace")
	case 3:
		delete(obj, g.pick("apiVersion", "kind", "metadata"))
	case 4:
		obj["bogus"] = 1
	}
	s.Verb, s.Path, s.Body = http.MethodPost, k.collection(), obj
	if g.chance(80) {
		s.Body, s.Raw = nil, g.pick("", "[]", "null", "{", `{"kind": 1}`, "nonsense")
	}
}

func (g *generator) update(s *step, k *kind, name string) {
	s.Verb = http.MethodPut
	status := g.status(s, k, 3)
	if g.chance(3) { // an object made anew
		obj := g.object(k, name)
		if g.chance(2) {
			set(obj, g.revision(s.Key), "metadata", "resourceVersion")
		}
		s.Body = obj
		return
	}
	s.Base = s.Key // one that was read
	change := tree{"apiVersion": k.apiVersion(), "kind": k.Kind, "metadata": tree{"name": name}}
	if status && len(k.Statuses) > 0 {
		change["status"] = choose(g, k.Statuses)
	}
	if !status || g.chance(4) {
		change = merge(change, g.change(k))
	}
	if g.chance(3) {
		change = merge(change, tree{"metadata": g.metadata(k, name)})
	}
	switch g.n(10) {
	case 0:
		set(change, nil, "metadata", "resourceVersion")
	case 1:
		set(change, g.revision(s.Key), "metadata", "resourceVersion")
	case 2:
		set(change, nil, "metadata", "finalizers")
	case 3:
		set(change, nil, "metadata", g.pick("labels", "uid", "creationTimestamp", "generation", "deletionTimestamp", "ownerReferences"))
	}
	s.Body = change
}

func (g *generator) patch(s *step, k *kind) {
	s.Verb, s.ContentType = http.MethodPatch, g.pick(mergePatch, mergePatch, strategicPatch)
	status := g.status(s, k, 4)
	change := tree{}
	if g.chance(2) {
		change = merge(change, g.change(k))
	}
	if (status || g.chance(5)) && len(k.Statuses) > 0 {
		change["status"] = choose(g, k.Statuses)
	}
	if g.chance(2) {
		change = merge(change, tree{"metadata": g.metadata(k, "x")})
	}
	if g.chance(6) {
		change = merge(change, tree{"metadata": tree{g.pick("labels", "finalizers", "annotations", "ownerReferences"): nil}})
	}
	if g.chance(8) {
		set(change, g.revision(s.Key), "metadata", "resourceVersion")
	}
	if g.chance(30) {
		change["bogus"] = 1
	}
	if s.ContentType == strategicPatch && g.chance(5) {
		if metadata, ok := change["metadata"].(tree); ok {
			delete(metadata, "finalizers") // a real server goes through the fields of a patch in a random order
		}
		change = merge(change, choose(g, []tree{
			{"metadata": tree{"$deleteFromPrimitiveList/finalizers": []any{"example.com/a"}}},
			{"metadata": tree{"labels": tree{"$patch": "replace", "b": "z"}}},
			{"metadata": tree{"finalizers": []any{"example.com/b"}, "$setElementOrder/finalizers": []any{"example.com/b", "example.com/a"}}},
			{"spec": tree{"template": tree{"spec": tree{"containers": []any{tree{"name": "c", "$patch": "delete"}}}}}},
			{"spec": tree{"template": tree{"spec": tree{"containers": []any{tree{"name": "d", "image": "d:1"}}}}}},
			{"spec": tree{"$patch": "delete"}},
		}))
	}
	s.Body = change
}

// operations are a JSON patch.
func (g *generator) operations(s *step, k *kind) {
	s.Verb, s.ContentType = http.MethodPatch, jsonPatch
	g.status(s, k, 6)
	ops := []any{}
	for range 1 + g.n(2) {
		ops = append(ops, choose(g, []tree{
			{"op": "add", "path": "/metadata/labels", "value": tree{"a": "j"}},
			{"op": "add", "path": "/metadata/finalizers", "value": []any{"example.com/a"}},
			{"op": "remove", "path": "/metadata/finalizers"},
			{"op": "remove", "path": "/metadata/finalizers/0"},
			{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/b"},
			{"op": "replace", "path": "/metadata/labels/a", "value": "r"},
			{"op": "test", "path": "/metadata/labels/a", "value": "x"},
			{"op": "test", "path": "/metadata/resourceVersion", "value": "${rv:" + s.Key + ":0}"},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": "${rv:" + s.Key + ":1}"},
			{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
			{"op": "move", "from": "/metadata/annotations", "path": "/metadata/labels"},
			{"op": "replace", "path": "/spec/replicas", "value": g.n(4)},
			{"op": "remove", "path": "/spec"},
			{"op": "replace", "path": "/metadata/name", "value": "z"},
			{"op": "jump", "path": "/metadata"},
		}))
	}
	s.Body = ops
}

func (g *generator) apply(s *step, k *kind, name string) {
	s.Verb, s.ContentType = http.MethodPatch, applyPatch
	g.status(s, k, 6)
	if !g.chance(20) {
		s.Query.Set("fieldManager", g.pick("one", "two"))
	}
	if g.chance(2) {
		s.Query.Set("force", "true")
	}
	obj := tree{"apiVersion": k.apiVersion(), "kind": k.Kind, "metadata": merge(tree{"name": name}, g.metadata(k, name))}
	delete(obj["metadata"].(tree), "generation")
	if g.chance(10) {
		set(obj, g.revision(s.Key), "metadata", "resourceVersion")
	}
	if !g.chance(3) {
		obj = merge(obj, k.Body)
	}
	for range g.n(3) {
		obj = merge(obj, g.change(k))
	}
	if g.chance(5) && len(k.Statuses) > 0 {
		obj["status"] = choose(g, k.Statuses)
	}
	s.Body = obj
}

// deletion returns the options of a delete, nil for none.
func (g *generator) deletion(key string) any {
	o := tree{}
	if g.chance(2) {
		o["propagationPolicy"] = g.pick("Background", "Foreground", "Orphan")
	}
	if g.chance(6) {
		o["gracePeriodSeconds"] = []any{0, 1, 30, -1}[g.n(4)]
	}
	if g.chance(6) {
		set(o, g.pick("${uid:"+key+":0}", "${uid:"+key+":1}", unused), "preconditions", "uid")
	}
	if g.chance(8) {
		set(o, g.pick("${rv:"+key+":0}", "${rv:"+key+":1}"), "preconditions", "resourceVersion")
	}
	if g.chance(14) {
		o["dryRun"] = []any{"All"}
	}
	if g.chance(40) {
		o["orphanDependents"] = g.chance(2)
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

func (g *generator) remove(s *step) {
	s.Verb = http.MethodDelete
	for _, name := range []string{"fieldManager", "fieldValidation"} {
		s.Query.Del(name)
	}
	s.Body = g.deletion(s.Key)
}

func (g *generator) removeAll(s *step, k *kind) {
	g.remove(s)
	s.Path, s.Key = k.collection(), ""
	if options, ok := s.Body.(tree); ok {
		delete(options, "preconditions")
	}
	if k.Cluster {
		s.Query.Set("fieldSelector", "metadata.name="+g.name(k))
	} else if g.chance(2) {
		s.Query.Set("labelSelector", g.pick("a=x", "a!=x", "b"))
	}
}

// subresource makes a request to scale, binding or eviction, or one that the kind does not have.
func (g *generator) subresource(s *step, k *kind, name string) {
	key := s.Key
	s.Key = ""
	switch {
	case k.Resource == "pods" && g.chance(2):
		s.Verb, s.Path = http.MethodPost, s.Path+"/binding"
		s.Body = tree{
			"apiVersion": "v1", "kind": "Binding", "metadata": tree{"name": name},
			"target": tree{"kind": "Node", "name": g.pick("node1", "node2")},
		}
	case k.Resource == "pods":
		s.Verb, s.Path = http.MethodPost, s.Path+"/eviction"
		body := tree{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": tree{"name": name}}
		if options := g.deletion(key); options != nil {
			body["deleteOptions"] = options
		}
		s.Body = body
	case !k.Scale && g.chance(3):
		s.Verb, s.Path = g.pick(http.MethodGet, http.MethodPut), s.Path+"/"+g.pick("scale", "nothing")
		s.Query = url.Values{}
	case !k.Scale:
		s.Key = key
		s.Verb, s.Query = http.MethodGet, url.Values{}
	default:
		g.scale(s, name, key)
	}
}

func (g *generator) scale(s *step, name, key string) {
	s.Path += "/scale"
	switch g.n(4) {
	case 0:
		s.Verb, s.Query = http.MethodGet, url.Values{}
	case 1:
		s.Verb, s.ContentType = http.MethodPatch, g.pick(mergePatch, strategicPatch)
		s.Body = tree{"spec": tree{"replicas": g.n(5) - 1}}
	case 2:
		s.Verb, s.ContentType = http.MethodPatch, applyPatch
		s.Query.Set("fieldManager", g.pick("one", "two"))
		if g.chance(2) {
			s.Query.Set("force", "true")
		}
		s.Body = tree{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": tree{"name": name}, "spec": tree{"replicas": g.n(4)},
		}
	default:
		s.Verb = http.MethodPut
		metadata := tree{"name": name, "namespace": "$NS"}
		if g.chance(2) {
			metadata["resourceVersion"] = g.revision(key)
		}
		if g.chance(5) {
			metadata["uid"] = g.pick(unused, "${uid:"+key+":0}")
		}
		s.Body = tree{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": tree{"replicas": g.n(5) - 1},
		}
	}
}

func (g *generator) list(k *kind) step {
	s := step{Verb: http.MethodGet, Path: k.collection(), Query: url.Values{}, Agent: "alpha/1.0"}
	if k.Cluster {
		s.Query.Set("fieldSelector", "metadata.name="+g.name(k))
		return s
	}
	if g.chance(4) {
		s.Query.Set("limit", g.pick("1", "2"))
		if g.chance(2) {
			s.Query.Set("continue", "${continue}")
			return s
		}
	}
	if g.chance(3) {
		s.Query.Set("labelSelector", g.pick("a=x", "a!=x", "a", "!a", "a in (x,z)", "a=x,b=y"))
	}
	if g.chance(4) {
		choices := append([]string{"metadata.name=x", "metadata.name!=x", "metadata.namespace=$NS"}, k.Fields...)
		if g.chance(10) {
			choices = []string{"spec.nothing=x"}
		}
		s.Query.Set("fieldSelector", choose(g, choices))
	}
	if g.chance(12) {
		s.Query.Set("resourceVersion", "${list:0}")
		s.Query.Set("resourceVersionMatch", g.pick("Exact", "NotOlderThan"))
	}
	return s
}

// watches ends a sequence with watches of what has happened. To each there is an object that is created before, so that it can be seen
// that nothing more comes.
func (g *generator) watches() []step {
	var ends, watches []step
	for _, k := range g.mine {
		if k.Cluster || !g.chance(2) {
			continue
		}
		end := merge(tree{"apiVersion": k.apiVersion(), "kind": k.Kind, "metadata": tree{
			"name": sentinel, "labels": tree{"a": "x", "b": "y"},
		}}, k.Body)
		ends = append(ends, step{
			Verb: http.MethodPost, Path: k.collection(), Body: end, Agent: "alpha/1.0", Key: k.key(sentinel), Query: url.Values{},
		})
		w := step{Verb: "WATCH", Path: k.collection(), Query: url.Values{"watch": {"1"}}, Agent: "alpha/1.0"}
		name := g.name(k)
		switch g.n(6) {
		case 0:
			w.Query.Set("resourceVersion", "${rv:"+k.key(name)+":"+fmt.Sprint(g.n(3))+"}")
		case 1:
			w.Query.Set("sendInitialEvents", "true")
			w.Query.Set("resourceVersionMatch", "NotOlderThan")
			w.Query.Set("allowWatchBookmarks", "true")
		default:
			w.Query.Set("resourceVersion", "${list:first}")
		}
		if g.chance(3) {
			w.Query.Set("labelSelector", g.pick("a=x", "b", "b!=z"))
		}
		if g.chance(8) {
			w.Query.Set("fieldSelector", "metadata.name!=x")
		}
		watches = append(watches, w)
	}
	return append(ends, watches...)
}

// sentinel is the name of an object after which nothing is expected on a watch.
const sentinel = "zz-end"

// merge returns a with the merge patch b applied, but for its nulls, which stay: a merge patch may be made of it. Neither is changed.
func merge(a, b tree) tree {
	out := maps.Clone(a)
	if out == nil {
		out = tree{}
	}
	for name, value := range b {
		inner, isTree := value.(tree)
		old, wasTree := out[name].(tree)
		switch {
		case isTree && wasTree:
			out[name] = merge(old, inner)
		case isTree:
			out[name] = merge(nil, inner)
		default:
			out[name] = value
		}
	}
	return out
}

// set puts a value into an object, which must be the caller's own as far as the path goes.
func set(obj tree, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := obj[name].(tree)
		if !ok {
			inner = tree{}
			obj[name] = inner
		}
		obj = inner
	}
	obj[path[len(path)-1]] = value
}

// String shows a step in a line.
func (s step) String() string {
	path := s.Path
	if len(s.Query) > 0 {
		query, _ := url.QueryUnescape(s.Query.Encode())
		path += "?" + query
	}
	line := strings.Join(strings.Fields(strings.Join([]string{s.Verb, path, s.ContentType, s.Accept}, " ")), " ")
	if s.Base != "" {
		line += " (what was last seen, with)"
	}
	if s.Body != nil {
		data, _ := json.Marshal(s.Body)
		line += " " + string(data)
	}
	return line + s.Raw
}
