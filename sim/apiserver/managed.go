package apiserver

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// Who owns which field of an object is told by its metadata.managedFields. A real server works that out on every write, which
// costs a hundred times what the rest of the write does here, and nearly nobody ever looks. So it is put off: with each commit
// the log only remembers who made it. From the moment somebody applies to a kind, or sends managedFields himself, its objects
// are tracked: those of an object are worked out from its own history when it is read or written next, and then stored with it
// and kept up to date.
//
// The library that does the work is the one of a real server, and it is called where that one calls it: with what the client
// sent, before the server resets, admits and validates anything. So that this can be made up for later, the log keeps what
// was sent where it differs from what was stored in a way the library would see.

// write is what the log remembers of who made a commit. There is one for every commit, so it is small.
type write struct {
	by *author
	at int64 // when, in seconds of the epoch
}

// author is who makes a write, and how. The writes of one who makes many share it.
type author struct {
	manager     string // the field manager of the request, or who sent it
	agent       bool   // manager is a User-Agent
	subresource string
	view        *Kind  // the version that the client used
	sent        Object // what the client sent, where it is not as good as what was stored
}

var (
	// itself makes the server's own writes, which change no ownership: a deletion mark, a binding.
	itself = &author{}
	// recorded makes writes whose managedFields are stored with the object.
	recorded = &author{}
)

// claim is what a write says about the ownership of fields.
type claim struct {
	write
	before  *ownership                  // of the object as it was, if the write is tracked
	entries []metav1.ManagedFieldsEntry // of the object as it will be, if the write is tracked
	untidy  string                      // what is stored empty of its metadata, as untidyMeta names it
}

// tracked reports whether managedFields are stored with the object.
func (c *claim) tracked() bool { return c.by == recorded }

// unowned is the ownership of a tracked object that nobody owns anything of, as that of most which were loaded.
var unowned = &ownership{tracked: true}

// ownership is what is known of the managedFields of a stored object. It is not changed.
type ownership struct {
	entries []metav1.ManagedFieldsEntry
	tracked bool   // they are stored with the object
	full    Object // the object with them, where they are not stored with it
	untidy  string // what is stored empty of its metadata, as untidyMeta names it
}

// TrackManagedFields makes the server work out the managedFields of every object on every write from now on, instead of when
// they matter. Answers and events then carry them always, and every write costs many times as much.
func (s *Server) TrackManagedFields() { s.tracking = true }

// applied notes that managedFields of a kind matter from now on.
func (s *Server) applied(k *Kind) { s.table(k).applied = true }

// showOwners puts objects that have been read into the form in which readers see them.
func (s *Server) showOwners(k *Kind, objects []Object) {
	if s.tracks(k.behind()) {
		for i := range objects {
			objects[i] = s.WithManagedFields(k, objects[i])
		}
	}
}

// WithManagedFields returns a stored object, or an earlier state of it, as a real server shows it: with its managedFields.
func (s *Server) WithManagedFields(k *Kind, obj Object) Object {
	behind := k.behind()
	t := s.table(behind)
	revision := revisionOf(obj)
	if e := t.get(obj.GetNamespace(), obj.GetName()); e != nil && e.revision == revision && k == behind {
		return behind.full(s.ownershipOf(behind, e), e.object)
	}
	i, found := slices.BinarySearchFunc(t.log, revision, byRevision)
	if !found {
		return obj // it was never stored
	}
	known := s.replay(behind, t, i)
	if known.tracked {
		return obj
	}
	return k.full(&known, obj)
}

// WithoutManagedFields returns an object as one who does not care for them wants to see it: the object itself, or a copy that
// shares everything else.
func (k *Kind) WithoutManagedFields(obj Object) Object {
	if obj == nil || len(obj.GetManagedFields()) == 0 {
		return obj
	}
	bare := k.shallowCopy(obj)
	bare.SetManagedFields(nil)
	return bare
}

// full returns a stored object with its managedFields.
func (k *Kind) full(known *ownership, stored Object) Object {
	if known.tracked || len(known.entries) == 0 {
		return stored
	}
	if known.full != nil {
		return known.full
	}
	obj := k.shallowCopy(stored)
	obj.SetManagedFields(known.entries)
	return obj
}

// ownershipOf returns the ownership of a stored object, and remembers it: the entry is another one afterwards.
func (s *Server) ownershipOf(k *Kind, e *entry) *ownership {
	if e.fields != nil {
		return e.fields
	}
	t := s.table(k)
	i, _ := slices.BinarySearchFunc(t.log, e.revision, byRevision)
	known := s.replay(k, t, i)
	known.full = k.full(&known, e.object)
	t.writable(e.namespace, e.name).fields = &known
	return &known
}

// replay works out the ownership of an object after an event from what happened to it until then.
func (s *Server) replay(k *Kind, t *table, event int) ownership {
	known := ownership{}
	var live Object
	for _, i := range t.history(event) {
		w, e := &t.writes[i], &t.log[i]
		switch {
		case e.Type == Deleted:
			return known // it shows what was there before
		case w.by == recorded:
			known = ownership{entries: e.Object.GetManagedFields(), tracked: true}
		case w.by != itself:
			sent := e.Object
			if w.by.sent != nil {
				sent = w.by.sent
			}
			known.entries = s.updated(k, *w, live, known.entries, sent, nil)
		}
		live = e.Object
	}
	return known
}

// history returns the indexes of the events of an object up to one of them, from its creation or from when it was tracked.
func (t *table) history(event int) []int {
	indexes := []int{event}
	for t.log[event].Prev != nil && t.writes[event].by != recorded {
		event, _ = slices.BinarySearchFunc(t.log, revisionOf(t.log[event].Prev), byRevision)
		indexes = append(indexes, event)
	}
	slices.Reverse(indexes)
	return indexes
}

// claim says who owns the fields of an object that takes the place of a stored one, and takes the managedFields that the
// client sent out of it. It is called with what was sent, before anything of it is reset.
func (s *Server) claim(req *Request, subresource string, obj Object, e *entry) claim {
	k := req.Kind
	if req.applied != nil {
		return *req.applied
	}
	sent := takeManagedFields(k, obj, e.object)
	c := claim{write: s.writeOf(req, subresource)}
	tracked := s.tracks(k) || e.fields != nil && e.fields.tracked
	if sent == nil && !tracked && (subresource != "scale" || !req.view().sameReplicas(obj, req.shown(e.object))) {
		c.send(k.beforeResets(obj, e.object, subresource))
		return c
	}
	if sent != nil {
		s.applied(k)
	}
	c.before = s.ownershipOf(k, e)
	c.entries = s.updated(k, c.write, e.object, c.before.entries, obj, sent)
	c.by = recorded
	return c
}

// claimNew does so for an object that did not exist.
func (s *Server) claimNew(req *Request, obj Object) claim {
	k := req.Kind
	sent := takeManagedFields(k, obj, nil)
	c := claim{write: s.writeOf(req, req.Subresource)}
	if sent == nil && !s.tracks(k) {
		if k.PrepareCreate != nil || k.admit != nil || k.Custom() && k.HasStatus && rawContent(obj)["status"] != nil {
			c.send(k.shallowCopy(obj))
		}
		return c
	}
	c.entries = s.updated(k, c.write, nil, nil, obj, sent)
	c.by = recorded
	return c
}

// tracks reports whether the objects of a kind are tracked with every write.
func (s *Server) tracks(k *Kind) bool { return s.tracking || s.table(k).applied }

// writeOf notes who makes a request.
func (s *Server) writeOf(req *Request, subresource string) write {
	by := author{manager: req.FieldManager, subresource: subresource, view: req.view()}
	if by.manager == "" {
		by.manager, by.agent = req.UserAgent, true
	}
	if s.author == nil || *s.author != by { // many writes in a row have one author
		s.author = s.authors[by]
	}
	if s.author == nil {
		fresh := by
		if s.authors == nil {
			s.authors = map[author]*author{}
		}
		s.author, s.authors[by] = &fresh, &fresh
	}
	return write{by: s.author, at: s.now().Unix()}
}

// send notes what the client sent, nil for what is going to be stored.
func (w *write) send(obj Object) {
	if obj != nil {
		by := *w.by
		by.sent = obj
		w.by = &by
	}
}

// beforeResets returns a copy of what a client sent where the server resets it in a way that the ownership of its fields shows;
// else nil.
func (k *Kind) beforeResets(obj, stored Object, subresource string) Object {
	switch {
	case k.movesDeletion(obj, stored):
		return k.shallowCopy(obj)
	case k.Custom():
		if subresource == "status" && hasMore(rawContent(obj)) || k.HasStatus && k.resets(obj, stored, subresource) {
			return k.shallowCopy(obj)
		}
		return nil
	case subresource == "status" && k.PrepareStatus != nil, subresource == "" && k.PrepareUpdate != nil:
		return k.shallowCopy(obj)
	default:
		return nil
	}
}

// hasMore reports whether a custom resource has more than a spec and a status.
func hasMore(content map[string]any) bool {
	for name := range content {
		switch name {
		case "apiVersion", "kind", "metadata", "spec", "status":
		default:
			return true
		}
	}
	return false
}

// resets reports whether a write to a custom resource or its status has another status or spec, which the server resets: nobody
// looks at it but the library, which may not be able to read it. Then nobody owns anything of the object any more. Recorded from
// kube-apiserver v1.36.3; UpdateNoErrors of internal/fieldmanager.go.
func (k *Kind) resets(obj, stored Object, subresource string) bool {
	name := "status"
	if subresource == "status" {
		name = "spec"
	}
	return !canon.Equal(rawContent(obj)[name], rawContent(stored)[name])
}

// takeManagedFields takes the managedFields that a client sent out of an object. It returns nil if there are none, or if
// they are those of the stored object, which is the same.
func takeManagedFields(k *Kind, obj, stored Object) []metav1.ManagedFieldsEntry {
	if !k.Custom() {
		m := objectMeta(obj)
		sent := m.ManagedFields
		m.ManagedFields = nil
		if sent == nil || stored != nil && len(sent) > 0 && sameEntries(sent, objectMeta(stored).ManagedFields) {
			return nil
		}
		return sent
	}
	m := rawMeta(obj)
	sent, ok := m["managedFields"]
	if !ok {
		return nil
	}
	if stored != nil && canon.Equal(sent, rawMeta(stored)["managedFields"]) {
		delete(m, "managedFields")
		return nil
	}
	entries := obj.GetManagedFields()
	delete(m, "managedFields")
	return entries
}

func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return len(a) == len(b) && (&a[0] == &b[0] || canon.Equal(&a, &b))
}

// putManagedFields stores managedFields with an object.
func putManagedFields(k *Kind, obj Object, entries []metav1.ManagedFieldsEntry) {
	if k.Custom() {
		delete(rawMeta(obj), "managedFields")
	}
	if len(entries) == 0 {
		entries = nil
	}
	obj.SetManagedFields(entries)
}

// keepManagedFields stores the managedFields of another object with an object.
func keepManagedFields(k *Kind, obj, from Object) {
	if !k.Custom() {
		objectMeta(obj).ManagedFields = objectMeta(from).ManagedFields
		return
	}
	if value, ok := rawMeta(from)["managedFields"]; ok {
		rawMeta(obj)["managedFields"] = value
	} else {
		delete(rawMeta(obj), "managedFields")
	}
}

// settleFields gives an object the managedFields that its write claims. If they and the rest of it are as stored, but for the
// times, it gets the stored ones, so that the write is none; pkg/endpoints/handlers/fieldmanager/equality.go
// IgnoreManagedFieldsTimestampsTransformer. It reports whether the object is as stored.
func (c *claim) settleFields(k *Kind, obj, stored Object) bool {
	if sameButTimes(c.entries, c.before.entries) {
		keepManagedFields(k, obj, stored)
		if canon.Equal(obj, stored) {
			return true
		}
	}
	if len(c.entries)+len(c.before.entries) > 0 {
		putManagedFields(k, obj, c.entries)
	}
	return false
}

// rewrites reports whether a write that changes nothing is stored all the same, as it stores something empty in the metadata of a
// custom resource or replaces it. An apply compares what it is going to store with an object that was read, which has nothing empty:
// so each is a new revision, though nobody sees a difference. Recorded from kube-apiserver v1.36.3 and v1.37.1; GuaranteedUpdate of
// pkg/storage/etcd3/store.go.
func (c *claim) rewrites() bool { return c.untidy != "" || c.before.untidy != "" }

// changesOwners reports whether a write of which nothing is left, as the server reset what it would have changed, still changes
// who owns what: then it is stored all the same. Recorded from kube-apiserver v1.36.3 with a deletionTimestamp that a client sent,
// and with fields whose feature gate is off.
func (s *Server) changesOwners(k *Kind, stored Object, c claim) bool {
	if c.by.sent == nil || canon.Equal(c.by.sent, stored) {
		return false
	}
	e := s.table(k).get(stored.GetNamespace(), stored.GetName())
	before := s.ownershipOf(k, e).entries
	return !sameButTimes(s.updated(k, c.write, stored, before, c.by.sent, nil), before)
}

func sameButTimes(a, b []metav1.ManagedFieldsEntry) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		x.Time, y.Time = nil, nil
		return canon.Equal(&x, &y)
	})
}

// updated returns the managedFields of an object after a write that was no apply. Live is the object before, nil for none,
// and sent is what the client said the managedFields are, nil for nothing.
func (s *Server) updated(
	k *Kind, w write, live Object, entries []metav1.ManagedFieldsEntry, obj Object, sent []metav1.ManagedFieldsEntry,
) []metav1.ManagedFieldsEntry {
	if live != nil && len(entries) == 0 && sent == nil {
		return nil // what is not tracked stays so until somebody applies: internal/skipnonapplied.go
	}
	view := w.by.view
	manager, err := view.fields.manager(w.by.subresource)
	if err != nil {
		s.gap(err.Error() + ": the ownership of its fields is not modelled")
		return nil
	}
	obj = view.shown(obj)
	switch {
	case live == nil:
		live = view.New()
	case w.by.subresource == "scale" || len(k.fields.aliases) > 0: // other versions take the whole
		live = view.bare(live)
	default:
		live, obj = k.trim(view.bare(live), obj)
	}
	var result []metav1.ManagedFieldsEntry
	atTime(w.at, func(shift int64) {
		before := &subject{Object: live, entries: shifted(entries, shift)}
		after := &subject{Object: obj, entries: shifted(sent, shift)}
		if w.by.subresource == "scale" {
			result, err = view.scaled(manager, before, after, w.by.name())
		} else if _, err = manager.Update(before, after, w.by.name()); err == nil {
			result = after.entries
		}
		result = shifted(result, -shift)
	})
	if err != nil {
		return nil // UpdateNoErrors of internal/fieldmanager.go
	}
	return result
}

// scaled returns the managedFields of an object after a write to its scale subresource; scaleUpdatedObjectInfo in
// pkg/registry/apps/statefulset/storage/storage.go of k8s.io/kubernetes.
func (k *Kind) scaled(
	manager *managedfields.FieldManager, before, after *subject, name string,
) ([]metav1.ManagedFieldsEntry, error) {
	return k.throughScale(before, func(live *subject) (*subject, error) {
		changed := &subject{Object: k.scaleSubject(after.Object)}
		_, err := manager.Update(live, changed, name)
		return changed, err
	})
}

// throughScale shows the ownership of an object as that of its Scale, and writes back what becomes of it.
func (k *Kind) throughScale(
	before *subject, change func(live *subject) (*subject, error),
) ([]metav1.ManagedFieldsEntry, error) {
	handler := managedfields.NewScaleHandler(before.entries, k.GroupVersion(), k.fields.replicas())
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, err
	}
	changed, err := change(&subject{Object: k.scaleSubject(before.Object), entries: entries})
	if err != nil {
		return nil, err
	}
	return handler.ToParent(changed.entries)
}

// sameReplicas reports whether a write to the scale subresource changes nothing. Unlike any other that changes nothing it may
// still change who owns what: a manager that owns the replicas by an Update of the object gets an entry of its own for them.
func (k *Kind) sameReplicas(obj, stored Object) bool {
	wanted, _, _ := k.Scale.Read(obj)
	have, _, _ := k.Scale.Read(stored)
	return wanted == have
}

// scaleSubject returns the Scale of an object, of which only the replicas matter to ownership. Without a UID it would be taken
// for a new one, whose ownership is always tracked.
func (k *Kind) scaleSubject(obj Object) Object {
	replicas, _, _ := k.Scale.Read(obj)
	return &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
}

// bare returns a stored object in the form of the kind, without managedFields.
func (k *Kind) bare(stored Object) Object {
	obj := k.shown(stored)
	if k.Custom() {
		if _, ok := rawMeta(obj)["managedFields"]; !ok {
			return obj
		}
		bare := k.shallowCopy(obj)
		delete(rawMeta(bare), "managedFields")
		return bare
	}
	if objectMeta(obj).ManagedFields == nil {
		return obj
	}
	bare := k.shallowCopy(obj)
	objectMeta(bare).ManagedFields = nil
	return bare
}

// name returns the name under which a write owns fields; managerOrUserAgent in pkg/endpoints/handlers/create.go.
func (a *author) name() string {
	if !a.agent {
		return a.manager
	}
	product, _, _ := strings.Cut(a.manager, "/")
	var name bytes.Buffer
	for _, r := range product {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > metavalidation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}

// atTime calls the library, which stamps what it changes with the time of the machine, and orders and merges entries by their
// times. The call has to move the times that it hands to the library by a number of seconds, and those it gets back by as
// many the other way: then now is now in the library too, to the second. It is made again if a second passed meanwhile.
func atTime(now int64, call func(shift int64)) {
	for {
		wall := time.Now().Unix() //nolint:forbidigo // the library's own clock
		call(wall - now)
		if time.Now().Unix() == wall { //nolint:forbidigo // the library's own clock
			return
		}
	}
}

// shifted returns entries with all times moved by a number of seconds.
func shifted(entries []metav1.ManagedFieldsEntry, seconds int64) []metav1.ManagedFieldsEntry {
	moved := slices.Clone(entries)
	for i := range moved {
		if at := moved[i].Time; at != nil {
			t := metav1.NewTime(time.Unix(at.Unix()+seconds, 0).UTC())
			moved[i].Time = &t
		}
	}
	return moved
}
