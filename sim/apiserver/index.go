package apiserver

import (
	"iter"
	"slices"
	"sort"
)

// chunkSize is how many entries a chunk holds at most: so many are moved by an insertion, and copied by the first write to a
// chunk that a snapshot has too.
const chunkSize = 128

// index holds entries in the order of their storage keys. They lie in chunks, so that neither an insertion nor the first write
// after a snapshot costs more the more of them there are.
type index struct {
	chunks [][]entry // none is empty
	owned  []bool    // by chunk: whether nobody else holds it
	count  int
	shared bool // somebody else holds the list of chunks, and so all of them
}

// place is where an entry is, or would be.
type place struct{ chunk, at int }

// share returns the index for somebody else: from now on, both copy what they write to.
func (x *index) share() index {
	x.shared = true
	return *x
}

// find returns where the object is, or where it would be.
func (x *index) find(namespace, name string) (place, bool) {
	// The chunk is the last one that does not begin behind the key.
	chunk := sort.Search(len(x.chunks), func(i int) bool {
		first := &x.chunks[i][0]
		return compareKeys(first.namespace, first.name, namespace, name) > 0
	}) - 1
	if chunk < 0 {
		return place{}, false
	}
	entries := x.chunks[chunk]
	at := sort.Search(len(entries), func(i int) bool {
		return compareKeys(entries[i].namespace, entries[i].name, namespace, name) >= 0
	})
	return place{chunk, at}, at < len(entries) && entries[at].name == name && entries[at].namespace == namespace
}

// get returns the entry of an object, or nil. It is valid until the next write, and not to be written to.
func (x *index) get(namespace, name string) *entry {
	if p, ok := x.find(namespace, name); ok {
		return &x.chunks[p.chunk][p.at]
	}
	return nil
}

// writable returns the entry of an object that is there, to be written to. It is valid until the next write.
func (x *index) writable(namespace, name string) *entry {
	p, _ := x.find(namespace, name)
	return &x.own(p.chunk)[p.at]
}

// own returns a chunk that may be written to.
func (x *index) own(chunk int) []entry {
	if x.shared {
		x.chunks, x.owned, x.shared = slices.Clone(x.chunks), make([]bool, len(x.chunks)), false
	}
	if !x.owned[chunk] {
		x.chunks[chunk] = append(make([]entry, 0, chunkSize), x.chunks[chunk]...)
		x.owned[chunk] = true
	}
	return x.chunks[chunk]
}

// put stores an entry, in the place of the one of the same object if there is one.
func (x *index) put(e entry) {
	if len(x.chunks) == 0 {
		*x = index{chunks: [][]entry{append(make([]entry, 0, chunkSize), e)}, owned: []bool{true}, count: 1}
		return
	}
	p, found := x.find(e.namespace, e.name)
	entries := x.own(p.chunk)
	if found {
		entries[p.at] = e
		return
	}
	x.count++
	if len(entries) == chunkSize {
		x.split(p)
		p, _ = x.find(e.namespace, e.name)
		entries = x.chunks[p.chunk]
	}
	x.chunks[p.chunk] = slices.Insert(entries, p.at, e)
}

// split makes two chunks of a full one that is to take an entry: of two halves, unless the entry comes last, as it does where
// names count up.
func (x *index) split(p place) {
	entries := x.chunks[p.chunk]
	half := len(entries) / 2
	if p.at == len(entries) {
		half = len(entries) - 1
	}
	rest := append(make([]entry, 0, chunkSize), entries[half:]...)
	clear(entries[half:])
	x.chunks[p.chunk] = entries[:half]
	x.chunks = slices.Insert(x.chunks, p.chunk+1, rest)
	x.owned = slices.Insert(x.owned, p.chunk+1, true)
}

// remove forgets an object.
func (x *index) remove(namespace, name string) {
	p, found := x.find(namespace, name)
	if !found {
		return
	}
	x.count--
	entries := slices.Delete(x.own(p.chunk), p.at, p.at+1)
	x.chunks[p.chunk] = entries
	if len(entries) == 0 {
		x.chunks = slices.Delete(x.chunks, p.chunk, p.chunk+1)
		x.owned = slices.Delete(x.owned, p.chunk, p.chunk+1)
	}
}

// all returns all entries.
func (x *index) all() span { return span{chunks: x.chunks, end: place{chunk: len(x.chunks)}} }

// inNamespace returns the entries of a namespace; an empty one means all.
func (x *index) inNamespace(namespace string) span {
	if namespace == "" {
		return x.all()
	}
	s := x.all()
	s.begin, _ = x.find(namespace, "")
	s.end = x.after(namespace)
	return s
}

// after returns the place behind the entries of a namespace.
func (x *index) after(namespace string) place {
	beyond := func(e *entry) bool {
		return e.namespace != namespace && compareKeys(e.namespace, e.name, namespace, "") > 0
	}
	chunk := sort.Search(len(x.chunks), func(i int) bool { return beyond(&x.chunks[i][0]) }) - 1
	if chunk < 0 {
		return place{}
	}
	entries := x.chunks[chunk]
	return place{chunk, sort.Search(len(entries), func(i int) bool { return beyond(&entries[i]) })}
}

// span is a part of an index. It is valid until the next write to the index.
type span struct {
	chunks     [][]entry
	begin, end place // from the one up to the other, which is no part of it
}

// from returns the part of the span that begins at a place.
func (s span) from(p place) span {
	s.begin = p
	return s
}

// len returns how many entries the span has.
func (s span) len() int {
	count := s.end.at - s.begin.at
	for _, chunk := range s.chunks[s.begin.chunk:s.end.chunk] {
		count += len(chunk)
	}
	return count
}

// entries returns the entries in their order. They are not to be written to.
func (s span) entries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for c := s.begin.chunk; c <= s.end.chunk && c < len(s.chunks); c++ {
			chunk := s.chunks[c]
			first, last := 0, len(chunk)
			if c == s.begin.chunk {
				first = s.begin.at
			}
			if c == s.end.chunk {
				last = s.end.at
			}
			for i := first; i < last; i++ {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}
