package modeltest

import (
	"slices"
	"time"
)

// The finalizers of the garbage collector.
const (
	orphanFinalizer     = "orphan"
	foregroundFinalizer = "foregroundDeletion"
)

func (m *model) delete(r *request) want {
	options, _ := r.body.(tree)
	if !validOptions(options) {
		return invalid
	}
	e := m.objects[r.key()]
	if e == nil {
		return absent(r.key())
	}
	if uid := text(options, "preconditions", "uid"); uid != "" && uid != text(e.obj, "metadata", "uid") {
		return conflicted
	}
	if revision := text(options, "preconditions", "resourceVersion"); revision != "" &&
		revision != text(e.obj, "metadata", "resourceVersion") {
		return conflicted
	}
	if r.kind.cluster {
		return m.deleteNamespace(r, e, options)
	}
	dryRun := options["dryRun"] != nil || r.dryRun()
	obj, outcome := m.marked(r.kind, e.obj, options)
	switch outcome {
	case "pending":
		return r.deleted(e.obj, true)
	case "now":
		return m.remove(r, dryRun)
	}
	if same(obj, e.obj) {
		obj = e.obj
	} else if !dryRun {
		obj = m.commit(r.key(), obj, e.owners)
	}
	if outcome == "stays" {
		return okay(obj)
	}
	return m.remove(r, dryRun) // marked as being deleted, and then removed
}

// remove takes an object out.
func (m *model) remove(r *request, dryRun bool) want {
	if dryRun {
		return want{code: 200}
	}
	return r.deleted(m.commit(r.key(), nil, nil), true)
}

// deleted is the answer to a delete that is not one of marking: some kinds show the object.
func (r *request) deleted(obj tree, show bool) want {
	if !r.kind.returnsDeleted || !show {
		return want{code: 200}
	}
	return okay(obj)
}

func validOptions(options tree) bool {
	policy := text(options, "propagationPolicy")
	if policy != "" && options["orphanDependents"] != nil {
		return false
	}
	return slices.Contains([]string{"", "Background", "Foreground", "Orphan"}, policy)
}

// marked returns an object as a delete leaves it, and what comes next: it "stays", it goes when it is "marked", it goes "now", or
// its end is "pending" already.
func (m *model) marked(k *kind, old, options tree) (tree, string) {
	obj := clone(old)
	graceful, pending := m.grace(k, obj, options)
	if pending {
		return old, "pending"
	}
	set(obj, k.finalizers(obj, options), "metadata", "finalizers")
	waiting := len(list(obj, "metadata", "finalizers")) > 0
	switch {
	case !graceful && !waiting:
		return nil, "now"
	case !graceful:
		if end := text(obj, "metadata", "deletionTimestamp"); end == "" {
			m.end(obj, m.now(), 0)
		} else {
			set(obj, 0.0, "metadata", "deletionGracePeriodSeconds")
			if parseTime(end).After(m.now()) {
				set(obj, m.stamp(), "metadata", "deletionTimestamp")
			}
		}
		return obj, "stays"
	case waiting || number(obj, "metadata", "deletionGracePeriodSeconds") > 0:
		return obj, "stays"
	default:
		return obj, "marked"
	}
}

// end says that an object ends, for the first time.
func (m *model) end(obj tree, at time.Time, grace float64) {
	set(obj, at.UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
	set(obj, grace, "metadata", "deletionGracePeriodSeconds")
	if n := number(obj, "metadata", "generation"); n > 0 {
		set(obj, n+1, "metadata", "generation")
	}
}

// grace begins or shortens the time that an object has left.
func (m *model) grace(k *kind, obj, options tree) (graceful, pending bool) {
	if !k.graceful {
		return false, false
	}
	asked, isAsked := options["gracePeriodSeconds"].(float64)
	if isAsked && asked < 0 {
		asked = 1
	}
	end := text(obj, "metadata", "deletionTimestamp")
	if end == "" {
		phase := text(obj, "status", "phase")
		switch {
		case text(obj, "spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed":
			asked = 0
		case !isAsked:
			asked = number(obj, "spec", "terminationGracePeriodSeconds")
		}
		m.end(obj, m.now().Add(time.Duration(asked)*time.Second), asked)
		return true, false
	}
	current := number(obj, "metadata", "deletionGracePeriodSeconds")
	switch {
	case current == 0:
		return false, false
	case !isAsked || asked >= current:
		return false, true
	}
	earlier := parseTime(end).Add(time.Duration(asked-current) * time.Second)
	if now := m.now().UTC(); earlier.Before(now.Truncate(time.Second)) {
		earlier, asked = now, min(asked, 1)
	}
	set(obj, earlier.Format(time.RFC3339), "metadata", "deletionTimestamp")
	set(obj, asked, "metadata", "deletionGracePeriodSeconds")
	return true, false
}

func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

// finalizers are those of an object that is deleted: its own, and the one that tells the garbage collector what to do.
func (k *kind) finalizers(obj, options tree) any {
	old := list(obj, "metadata", "finalizers")
	policy := text(options, "propagationPolicy")
	switch orphan, ok := options["orphanDependents"].(bool); {
	case ok && orphan:
		policy = "Orphan"
	case ok:
		policy = "Background"
	case policy != "":
	case slices.Contains(old, any(orphanFinalizer)):
		policy = "Orphan"
	case slices.Contains(old, any(foregroundFinalizer)):
		policy = "Foreground"
	case k.orphans:
		policy = "Orphan"
	}
	collector := map[string]any{"Orphan": orphanFinalizer, "Foreground": foregroundFinalizer}[policy]
	if collector != nil && slices.Contains(old, collector) && !slices.Contains(old, otherCollector(collector)) {
		return old
	}
	var finalizers []any
	for _, f := range old {
		if f != orphanFinalizer && f != foregroundFinalizer {
			finalizers = append(finalizers, f)
		}
	}
	if collector != nil {
		finalizers = append(finalizers, collector)
	}
	if finalizers == nil {
		return nil
	}
	return finalizers
}

func otherCollector(finalizer any) any {
	if finalizer == orphanFinalizer {
		return foregroundFinalizer
	}
	return orphanFinalizer
}

// deleteNamespace lets a namespace end, which takes a controller.
func (m *model) deleteNamespace(r *request, e *entry, options tree) want {
	switch {
	case slices.Contains([]string{"default", "kube-system", "kube-public"}, r.name):
		return forbidden
	case get(e.obj, "metadata", "deletionTimestamp") != nil:
		return okay(e.obj)
	}
	obj := clone(e.obj)
	set(obj, m.stamp(), "metadata", "deletionTimestamp")
	set(obj, "Terminating", "status", "phase")
	if finalizers := namespaceFinalizers(e.obj, options); len(finalizers) > 0 {
		set(obj, finalizers, "metadata", "finalizers")
	}
	if options["dryRun"] == nil {
		obj = m.commit(r.key(), obj, e.owners)
	}
	return okay(obj)
}

// namespaceFinalizers are those of a namespace that is deleted: without a policy, what it has counts, and no default of a kind.
func namespaceFinalizers(obj, options tree) []any {
	finalizers := slices.Clone(list(obj, "metadata", "finalizers"))
	policy := text(options, "propagationPolicy")
	if orphan, ok := options["orphanDependents"].(bool); ok && orphan {
		policy = "Orphan"
	} else if ok {
		policy = "Foreground"
	}
	if policy == "" {
		return finalizers
	}
	for _, collector := range []struct{ policy, finalizer string }{{"Orphan", orphanFinalizer}, {"Foreground", foregroundFinalizer}} {
		at := slices.Index(finalizers, any(collector.finalizer))
		switch wanted := policy == collector.policy; {
		case wanted && at < 0:
			finalizers = append(finalizers, collector.finalizer)
		case !wanted && at >= 0:
			finalizers = slices.Delete(finalizers, at, at+1)
		}
	}
	return finalizers
}

// deleteCollection deletes all that a list shows.
func (m *model) deleteCollection(r *request, got answer) want {
	options, _ := r.body.(tree)
	if r.kind.cluster {
		return failure(405, "MethodNotAllowed")
	}
	if !validOptions(options) {
		return invalid
	}
	w := m.list(r, got)
	if w.code != 200 {
		return w
	}
	for _, obj := range w.items {
		one := &request{client: r.client, kind: r.kind, namespace: r.namespace, name: text(obj, "metadata", "name"), body: r.body}
		if deleted := m.delete(one); deleted.code != 200 {
			return deleted
		}
	}
	return want{code: 200}
}
