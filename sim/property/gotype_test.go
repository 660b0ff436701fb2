package property_test

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// gadget is a custom resource that is known by its Go type, with what built-ins seldom have.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	*gadgetExtra      // nil: its fields are absent
	gadgetInline      `json:",inline"`

	Timeout metav1.Duration       `json:"timeout"`
	At      metav1.MicroTime      `json:"at,omitzero"`
	Small   uint8                 `json:"small"`
	Ratio   float32               `json:"ratio"`
	Address netip.Addr            `json:"address"`
	Any     any                   `json:"any,omitempty"`
	Pair    [2]int                `json:"pair"`
	Tree    *gadgetTree           `json:"tree,omitempty"`
	ByRank  map[int]string        `json:"byRank,omitempty"`
	Raw     *runtime.RawExtension `json:"raw,omitempty"`
	Zero    gadgetInline          `json:"zero,omitzero"`
	Name    string                `json:"name"` // shadows nothing: that of metadata is one level down
	Secret  string                `json:"-"`
	NoTag   bool
}

type gadgetExtra struct {
	Extra string `json:"extra"`
}

type gadgetInline struct {
	Inlined string `json:"inlined,omitempty"`
	Name    string `json:"name,omitempty"` // hidden by the outer name
}

type gadgetTree struct {
	Value    string       `json:"value"`
	Children []gadgetTree `json:"children,omitempty"`
}

// DeepCopyObject implements runtime.Object; nothing here copies.
func (g *gadget) DeepCopyObject() runtime.Object { return g }

// TestGoTypes checks what rules see of a Go type, as it is stored and as JSON.
func TestGoTypes(t *testing.T) {
	stored := &gadget{
		ObjectMeta:   metav1.ObjectMeta{Name: "g"},
		gadgetInline: gadgetInline{Inlined: "in", Name: "inner"},
		Timeout:      metav1.Duration{Duration: 90 * time.Second},
		At:           metav1.NewMicroTime(time.Date(2031, 1, 1, 0, 0, 0, 5000, time.UTC)),
		Small:        200, Ratio: 0.5, Address: netip.MustParseAddr("10.0.0.1"), Any: map[string]any{"a": 1},
		Pair: [2]int{1, 2}, ByRank: map[int]string{1: "one"}, Raw: &runtime.RawExtension{Raw: []byte(`{"b":[true]}`)},
		Tree: &gadgetTree{Value: "root", Children: []gadgetTree{{Value: "leaf"}}}, Name: "outer", Secret: "s",
	}
	asJSON := fromJSON(t, `{"apiVersion": "example.com/v1", "kind": "gadget", "metadata": {"name": "g"}, "inlined": "in",
		"timeout": "1m30s", "at": "2031-01-01T00:00:00.000005Z", "small": 200, "ratio": 0.5, "address": "10.0.0.1",
		"any": {"a": 1}, "pair": [1, 2], "byRank": {"1": "one"}, "raw": {"b": [true]}, "name": "outer", "NoTag": false,
		"tree": {"value": "root", "children": [{"value": "leaf"}]}}`)
	kinds := kindTable{"gadget": builtin[gadget]("example.com", "v1")}
	for _, rule := range []string{
		`x.apiVersion == "example.com/v1" && x.kind == "gadget" && x.metadata.name == "g" && x.name == "outer"`,
		`!has(x.extra) && x.inlined == "in" && !has(x.zero) && !x.NoTag`,
		`x.timeout == duration("90s") && x.at > timestamp("2031-01-01T00:00:00Z")`,
		`x.small == 200 && x.ratio == 0.5 && x.address == "10.0.0.1" && ip(x.address).family() == 4`,
		`x.any.a == 1 && x.pair == [1, 2] && x.raw.b[0] && x.byRank["1"] == "one"`,
		`x.tree.children[0].value == "leaf" && !has(x.tree.children[0].children)`,
		`x.tree.children.all(c, c != x.tree) && x.tree == x.tree && x.tree.?children.orValue([]).size() == 1`,
		`type(x.raw) == map && type(x.tree) != type(x.metadata) && dyn(x.tree) != dyn("x") && dyn(x.raw) != dyn(1)`,
		`x.raw == {"b": [true]} && {"b": [true]} == x.raw && "b" in x.raw && dyn(x.tree) != dyn(x.raw)`,
	} {
		set, errs := property.Compile(kinds, []property.Variable{{Name: "x", Kind: "gadget", ObjectName: "g"}},
			[]property.Definition{{Name: "p", Type: property.Always, Rule: rule}})
		if len(errs) > 0 {
			t.Error(rule, errs)
			continue
		}
		for form, obj := range map[string]apiserver.Object{"stored": stored, "unstructured": asJSON} {
			c := newCluster()
			c.put("gadget", obj)
			m := set.NewMonitor(c)
			m.Start(0)
			if v := m.Verdicts()[0]; v.Status != property.Held {
				t.Errorf("%s: %s: %s %s %v", rule, form, v.Status, v.Error, v.Values)
			}
		}
	}
	for _, rule := range []string{`x.Secret == "s"`, `x.gadgetInline == null`} {
		_, errs := property.Compile(kinds, []property.Variable{{Name: "x", Kind: "gadget", ObjectName: "g"}},
			[]property.Definition{{Name: "p", Type: property.Always, Rule: rule}})
		if len(errs) != 1 {
			t.Errorf("%s compiles", rule)
		}
	}
}
