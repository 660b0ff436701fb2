package apiserver

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// entry is one stored object.
type entry struct {
	namespace, name string
	revision        int64
	object          Object
	fields          *ownership   // who owns the fields of the object; nil until somebody asks
	settled         []repetition // what has been applied to it and changed nothing
	lacking         bool         // it is stored in another form than it is read in: see Kind.reread
}

// table holds the objects and the event log of one kind.
type table struct {
	index
	log     []Event
	writes  []write // who made the events of the log
	applied bool    // somebody applied to the kind, so that managedFields are kept up to date
}

// compareKeys compares storage keys, "namespace/name". It differs from comparing namespaces and then names only where one
// namespace begins with the other: '-' sorts before '/'.
func compareKeys(namespaceA, nameA, namespaceB, nameB string) int {
	if namespaceA == namespaceB {
		return strings.Compare(nameA, nameB)
	}
	if rest, ok := strings.CutPrefix(namespaceA, namespaceB); ok {
		return strings.Compare(rest, "/")
	}
	if rest, ok := strings.CutPrefix(namespaceB, namespaceA); ok {
		return strings.Compare("/", rest)
	}
	return strings.Compare(namespaceA, namespaceB)
}

// store stores an object.
func (t *table) store(obj Object, revision int64, fields *ownership) {
	t.put(entry{namespace: obj.GetNamespace(), name: obj.GetName(), revision: revision, object: obj, fields: fields})
}

// at returns the entries as they were at a revision, by undoing the events after it.
func (t *table) at(revision int64) *index {
	if len(t.log) == 0 || t.log[len(t.log)-1].Revision <= revision {
		return &t.index
	}
	past := table{index: t.share()}
	for _, event := range slices.Backward(t.log) {
		if event.Revision <= revision {
			break
		}
		if event.Prev == nil {
			past.remove(event.Object.GetNamespace(), event.Object.GetName())
		} else {
			past.store(event.Prev, revisionOf(event.Prev), nil)
		}
	}
	return &past.index
}

// revisionOf returns the revision of a stored object.
func revisionOf(obj Object) int64 {
	revision, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return revision
}

// table returns the table of a kind.
func (s *Server) table(k *Kind) *table {
	for len(s.tables) <= k.order {
		s.tables = append(s.tables, &table{})
	}
	return s.tables[k.order]
}

// commit stores a new state of an object, nil for none, at the next revision, as a write of the server's own which changes
// nothing about who owns its fields. The object belongs to the store from here.
func (s *Server) commit(k *Kind, obj, prev Object) int64 {
	var fields *ownership
	if obj != nil && prev != nil {
		if e := s.table(k).get(prev.GetNamespace(), prev.GetName()); e.fields != nil && e.fields.tracked {
			fields = e.fields
		}
	}
	return s.commitWrite(k, obj, prev, write{by: itself}, fields)
}

// commitClaim stores a new state of an object as the write of a client.
func (s *Server) commitClaim(k *Kind, obj, prev Object, c claim) int64 {
	if !c.tracked() {
		return s.commitWrite(k, obj, prev, c.write, nil)
	}
	fields := unowned
	if len(c.entries) > 0 {
		fields = &ownership{entries: c.entries, tracked: true, untidy: c.untidy}
	}
	return s.commitWrite(k, obj, prev, c.write, fields)
}

func (s *Server) commitWrite(k *Kind, obj, prev Object, w write, fields *ownership) int64 {
	s.revision++
	t := s.table(k)
	event := Event{Revision: s.revision, Type: Modified, Object: obj, Prev: prev}
	switch obj {
	case nil:
		event.Type = Deleted
		event.Object = k.shallowCopy(prev)
		event.Object.SetResourceVersion(strconv.FormatInt(s.revision, 10))
		t.remove(prev.GetNamespace(), prev.GetName())
		s.homeless = s.homeless || k.order == namespaceOrder
	default:
		if prev == nil {
			event.Type = Added
		}
		obj.SetResourceVersion(strconv.FormatInt(s.revision, 10))
		t.store(obj, s.revision, fields)
	}
	t.log = append(t.log, event)
	t.writes = append(t.writes, w)
	return s.revision
}

// Get returns the stored object, or nil. It is immutable.
func (s *Server) Get(k *Kind, namespace, name string) Object {
	if e := s.table(k.behind()).get(namespace, name); e != nil {
		return k.shown(e.object)
	}
	return nil
}

// List returns the stored objects of a kind in the order of their storage keys; an empty namespace means all. They are
// immutable, the slice is the caller's.
func (s *Server) List(k *Kind, namespace string) []Object {
	found := s.table(k.behind()).inNamespace(namespace)
	objects := make([]Object, 0, found.len())
	for e := range found.entries() {
		objects = append(objects, k.shown(e.object))
	}
	s.showOwners(k, objects)
	return objects
}

// Log returns the events of a kind, those before the snapshot the server started from included. The slice only ever grows
// at its end, so an index into it is a cursor.
func (s *Server) Log(k *Kind) []Event {
	if k.Alias != nil {
		return s.aliasLog(k)
	}
	return s.table(k).log
}

// Revision returns the revision of the latest commit.
func (s *Server) Revision() int64 { return s.revision }

// Compact forgets what was before a revision, as etcd does every five minutes: watches from before it and lists at a
// revision before it are then answered with 410 Expired. The logs that [Server.Log] returns are kept.
func (s *Server) Compact(revision int64) { s.compacted = max(s.compacted, min(revision, s.revision)) }

// Snapshot is the state of a server at a moment.
type Snapshot struct {
	kinds     *Kinds
	tables    []table
	revision  int64
	compacted int64
	uids      map[string]int
	names     map[string]int
	gaps      map[string]bool
	switches
}

// Snapshot returns the present state. Objects are shared, not copied.
func (s *Server) Snapshot() *Snapshot {
	snapshot := &Snapshot{
		kinds: s.kinds, tables: make([]table, len(s.tables)), revision: s.revision, compacted: s.compacted,
		uids: s.uids.flatten(), names: s.names.flatten(), gaps: maps.Clone(s.gaps), switches: s.switches,
	}
	for i, t := range s.tables {
		snapshot.tables[i] = table{index: t.share(), log: slices.Clip(t.log), writes: slices.Clip(t.writes), applied: t.applied}
	}
	return snapshot
}

// NewServer returns a server that goes on from the snapshot with the given clock. It costs a few allocations, whatever the
// size of the snapshot, and may be called from several goroutines at once.
func (s *Snapshot) NewServer(now Clock) *Server {
	server := &Server{
		kinds: s.kinds, now: now, tables: make([]*table, len(s.tables)), revision: s.revision, compacted: s.compacted,
		uids: counter{base: s.uids}, names: counter{base: s.names}, gaps: maps.Clone(s.gaps), switches: s.switches,
	}
	tables := slices.Clone(s.tables)
	for i := range tables {
		server.tables[i] = &tables[i]
	}
	return server
}
