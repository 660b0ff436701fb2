package apiserver

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestIndex compares an index with a map over random writes: what it holds, in which order, by namespace and from any place,
// and that what it shared with somebody else stays as it was.
func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	namespaces := []string{"", "a", "a-b", "a0", "ab", "b"}
	x, want := index{}, map[string]entry{}
	var before index
	var wantBefore []entry
	for n := range 20_000 {
		name := fmt.Sprintf("n-%03d", random.IntN(300))
		if n < 2_000 {
			name = fmt.Sprintf("n-%05d", n) // names that count up
		}
		e := entry{namespace: namespaces[random.IntN(len(namespaces))], name: name, revision: int64(n)}
		if random.IntN(3) > 0 {
			x.put(e)
			want[e.namespace+"/"+e.name] = e
		} else {
			x.remove(e.namespace, e.name)
			delete(want, e.namespace+"/"+e.name)
		}
		if n%1_000 == 999 {
			sorted := sortedEntries(want)
			checkIndex(t, &x, sorted, namespaces)
			if wantBefore != nil {
				checkIndex(t, &before, wantBefore, namespaces)
			}
			before, wantBefore = x.share(), sorted
		}
	}
	for _, e := range sortedEntries(want) {
		x.remove(e.namespace, e.name)
	}
	checkIndex(t, &x, nil, namespaces)
	checkIndex(t, &before, wantBefore, namespaces)
}

func sortedEntries(of map[string]entry) []entry {
	var sorted []entry
	for _, e := range of {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name) })
	return sorted
}

func checkIndex(t *testing.T, x *index, want []entry, namespaces []string) {
	t.Helper()
	checkSpan(t, x.all(), want)
	if x.count != len(want) {
		t.Fatalf("the count is %d, want %d", x.count, len(want))
	}
	for _, namespace := range namespaces {
		if namespace == "" {
			continue
		}
		var inside []entry
		for _, e := range want {
			if e.namespace == namespace {
				inside = append(inside, e)
			}
		}
		checkSpan(t, x.inNamespace(namespace), inside)
	}
	for i := 0; i < len(want); i += 37 {
		if e := x.get(want[i].namespace, want[i].name); e == nil || e.revision != want[i].revision {
			t.Fatalf("%s/%s is %v, want revision %d", want[i].namespace, want[i].name, e, want[i].revision)
		}
		from, _ := x.find(want[i].namespace, want[i].name)
		checkSpan(t, x.all().from(from), want[i:])
	}
}

func checkSpan(t *testing.T, s span, want []entry) {
	t.Helper()
	var got []string
	for e := range s.entries() {
		got = append(got, fmt.Sprint(e.namespace, "/", e.name, "@", e.revision))
	}
	expected := make([]string, 0, len(want))
	for _, e := range want {
		expected = append(expected, fmt.Sprint(e.namespace, "/", e.name, "@", e.revision))
	}
	if !slices.Equal(got, expected) || s.len() != len(want) {
		t.Fatalf("%d entries (%d counted), want %d:\n%s\nwant\n%s", len(got), s.len(), len(want), strings.Join(got, " "),
			strings.Join(expected, " "))
	}
}
