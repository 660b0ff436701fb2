package reports

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}

func items(of ...map[string]any) []any {
	list := make([]any, len(of))
	for i, item := range of {
		list[i] = item
	}
	return list
}

// TestChangedFields checks that a change is told by where it is, however deep and however far behind in a value.
func TestChangedFields(t *testing.T) {
	long := strings.Repeat("0123456789", 10)
	ready := func(status, reason, at string) map[string]any {
		return map[string]any{"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": at}
	}
	synced := map[string]any{"type": "Synced", "status": "True"}
	tests := []struct {
		name          string
		before, after any
		want          []string
	}{
		{"nothing", "a", "a", nil},
		{"number", int64(1), int64(0), []string{"f 1 → 0"}},
		{"absent", nil, "a", []string{`f absent → "a"`}},
		{"beyond the cut", long + "a" + long, long + "b" + long,
			[]string{`f …890123456789a01234567890123456789012345… → …890123456789b01234567890123456789012345…`}},
		{"longer in the end", long, long + "!", []string{
			`f …23456789012345678901234567890123456789" → …23456789012345678901234567890123456789!"`}},
		{"condition", items(synced, ready("True", "Fine", "1")), items(ready("False", "Bad", "2"), synced), []string{
			`f[Ready].status "True" → "False"`, `f[Ready].reason "Fine" → "Bad"`, `f[Ready].lastTransitionTime "1" → "2"`}},
		{"condition lost", items(synced, ready("True", "Fine", "1")), items(ready("True", "Fine", "1")),
			[]string{`f[Synced].status "True" → absent`}},
		{"condition new", items(), items(synced), []string{`f[Synced].status absent → "True"`}},
		{"containers", items(map[string]any{"name": "a", "image": long + "1"}), items(map[string]any{"name": "a", "image": long + "2"}),
			[]string{`f[a].image …`}},
		{"variable", items(map[string]any{"name": "LEVEL", "value": "1"}), items(map[string]any{"name": "LEVEL", "value": "2"}),
			[]string{`f[LEVEL].value "1" → "2"`}},
		{"owner", items(map[string]any{"kind": "Widget", "name": "w", "uid": "1"}),
			items(map[string]any{"kind": "Widget", "name": "w", "uid": "2"}), []string{`f[w].uid "1" → "2"`}},
		{"by index", items(map[string]any{"port": int64(80)}), items(map[string]any{"port": int64(81)}), []string{"f[0].port 80 → 81"}},
		{"plain list", []any{"a"}, []any{"a", "b"}, []string{`f ["a"] → ["a","b"]`}},
		{"twice the same key", items(synced, synced), items(synced), []string{
			`f …e":"Synced"},{"status":"True","type":"S… → …e":"Synced"}]`}},
	}
	for _, test := range tests {
		var got []string
		for _, c := range changedFields(object(map[string]any{"f": test.before}), object(map[string]any{"f": test.after})) {
			got = append(got, c.String())
		}
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: changes are %q, want %q", test.name, got, test.want)
		}
	}
}

// FuzzChange checks that two values which differ never look the same.
func FuzzChange(f *testing.F) {
	f.Add("shop:1", "shop:2")
	f.Add(strings.Repeat("a", 100)+"1", strings.Repeat("a", 100)+"2")
	f.Add(strings.Repeat("a", 100), strings.Repeat("a", 101))
	f.Fuzz(func(t *testing.T, before, after string) {
		if valueText(before) == valueText(after) {
			return
		}
		from, to, _ := strings.Cut(strings.TrimPrefix(change{"f", before, after}.String(), "f "), " → ")
		if !strings.Contains(before+after, " → ") && from == to {
			t.Errorf("%q and %q are both told as %s", before, after, from)
		}
	})
}
