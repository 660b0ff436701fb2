package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/google/go-cmp/cmp"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

func runOracle(t *testing.T, bin string, cases []strategyCase) []strategyAnswer {
	in, _ := json.Marshal(cases)
	cmd := exec.Command(bin)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []strategyAnswer
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

var creating = false

func mutate(v any, path string, set func(any), emit func(desc string)) {
	try := func(desc string, x any) { set(x); emit(path + "=" + desc); set(v) }
	switch x := v.(type) {
	case string:
		try("", "")
		try("Bad_Name!", "Bad_Name!")
		try("other", "other")
		try("-1", "-1")
	case float64:
		try("-1", float64(-1))
		try("0", float64(0))
		try("7", float64(7))
		try("70000", float64(70000))
	case bool:
		try("flip", !x)
	case []any:
		try("[]", []any{})
		if len(x) > 0 {
			try("dup", append(slices.Clone(x), x[0]))
			try("drop", slices.Clone(x[1:]))
			if len(x) > 1 {
				r := slices.Clone(x)
				slices.Reverse(r)
				try("reverse", r)
			}
		}
		for i := range x {
			mutate(x[i], fmt.Sprintf("%s[%d]", path, i), func(n any) { x[i] = n }, emit)
		}
	case map[string]any:
		if path != "" && path != ".metadata" {
			try("{}", map[string]any{})
		}
		keys := []string{}
		for k := range x {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			if path == "" && k == "metadata" {
				mutate(x[k], ".metadata", func(n any) { x[k] = n }, emit)
				continue
			}
			if path == "" && (k == "apiVersion" || k == "kind" || k == "status" && creating) || path == ".metadata" && (k == "namespace" || k == "uid" || k == "creationTimestamp" || k == "resourceVersion" || k == "name") {
				continue
			}
			old := x[k]
			delete(x, k)
			emit(path + "." + k + " deleted")
			x[k] = old
			mutate(old, path+"."+k, func(n any) { x[k] = n }, emit)
		}
		if path == ".metadata" && creating {
			for _, n := range []string{"A_b", "a.b", "a:b", strings.Repeat("a", 64)} {
				old := x["name"]
				x["name"] = n
				emit("name=" + n)
				x["name"] = old
			}
		}
	}
}

func TestOracleDev(t *testing.T) {
	dir := os.Getenv("SIM_ORACLE")
	if dir == "" {
		t.Skip()
	}
	only := regexp.MustCompile(os.Getenv("KIND"))
	files, _ := filepath.Glob("/tmp/bases/*.json")
	for _, v := range []struct {
		v   Version
		bin string
	}{{V136, dir + "/oracle36/oracle"}, {V137, dir + "/oracle37/oracle"}} {
		if w := os.Getenv("V"); w != "" && string(v.v) != w {
			continue
		}
		kinds := NewKinds(v.v)
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".json")
			if !only.MatchString(name) {
				continue
			}
			data, _ := os.ReadFile(f)
			bases := map[string]json.RawMessage{}
			if err := json.Unmarshal(data, &bases); err != nil {
				t.Fatal(f, err)
			}
			var cases []strategyCase
			bn := []string{}
			for b := range bases {
				bn = append(bn, b)
			}
			sort.Strings(bn)
			for _, b := range bn {
				cases = append(cases, strategyCase{Name: b, Create: bases[b]})
			}
			first := runOracle(t, v.bin, cases)
			for i, b := range bn {
				if first[i].Error != nil {
					t.Errorf("%s base %s: %s", name, b, first[i].Error.Message)
					continue
				}
				if b == "minimal" && len(bn) > 1 && os.Getenv("ALL") == "" {
					continue
				}
				var src any
				json.Unmarshal(bases[b], &src)
				creating = true
				mutate(src, "", func(any) {}, func(desc string) {
					d, _ := json.Marshal(src)
					cases = append(cases, strategyCase{Name: b + " create " + desc, Create: d})
				})
				var st any
				json.Unmarshal(first[i].Object, &st)
				stt := st.(map[string]any)
				delete(stt, "status")
				creating = false
				mutate(st, "", func(any) {}, func(desc string) {
					d, _ := json.Marshal(st)
					cases = append(cases, strategyCase{Name: b + " update " + desc, Create: bases[b], Op: "update", Update: d})
				})
			}
			if os.Getenv("STATUS") != "" {
				cases = nil
				stb, _ := os.ReadFile("/tmp/statuses.json")
				all := map[string]json.RawMessage{}
				if err := json.Unmarshal(stb, &all); err != nil {
					t.Fatal(err)
				}
				status, ok := all[name]
				if !ok {
					continue
				}
				wrap, _ := json.Marshal(map[string]any{"status": json.RawMessage(status)})
				for i, b := range bn {
					if first[i].Error != nil || b == "minimal" && len(bn) > 1 {
						continue
					}
					var st map[string]any
					json.Unmarshal(first[i].Object, &st)
					json.Unmarshal(wrap, &st)
					cases = append(cases, strategyCase{Name: b + " update .status=same", Create: bases[b], Op: "status", Status: wrap, Update: must(json.Marshal(st))})
					mutate(st["status"], "", func(any) {}, func(desc string) {
						d, _ := json.Marshal(st)
						cases = append(cases, strategyCase{Name: b + " update .status" + desc, Create: bases[b], Op: "status", Status: wrap, Update: d})
					})
					json.Unmarshal(first[i].Object, &st)
					json.Unmarshal(wrap, &st)
					s0 := st["status"]
					delete(st, "status")
					mutate(st, "", func(any) {}, func(desc string) {
						if strings.Count(desc, ".") > 2 {
							return
						}
						st["status"] = s0
						d, _ := json.Marshal(st)
						delete(st, "status")
						cases = append(cases, strategyCase{Name: b + " update (rest)" + desc, Create: bases[b], Op: "status", Status: wrap, Update: d})
					})
				}
			}
			want := runOracle(t, v.bin, cases)
			bad, objs, extra, missing, texts, causes := 0, 0, 0, 0, 0, 0
			p := strategyPlayer{kinds}
			for i, c := range cases {
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("%s %s %s: PANIC %v", v.v, name, c.Name, r)
						}
					}()
					got := p.play(t, c)
					w := want[i]
					if w.Error != nil && strings.HasPrefix(w.Error.Message, "PANIC") {
						return
					}
					switch {
					case w.Error != nil && strings.HasPrefix(w.Error.Message, "DECODE"):
						if got.Error == nil {
							extra++
							if os.Getenv("DECODE") != "" {
								t.Logf("%s %s %s: decoded; want %s", v.v, name, c.Name, w.Error.Message)
							}
						}
						return
					case w.Error == nil && got.Error != nil:
						extra++
						t.Logf("%s %s %s: REFUSED: %s", v.v, name, c.Name, got.Error.Message)
					case w.Error != nil && got.Error == nil:
						missing++
						t.Logf("%s %s %s: ACCEPTED, want %s", v.v, name, c.Name, w.Error.Message)
					case w.Error != nil && got.Error.Message != w.Error.Message:
						texts++
						t.Logf("%s %s %s: TEXT\n   got  %s\n   want %s", v.v, name, c.Name, got.Error.Message, w.Error.Message)
					case w.Error != nil && !reflect.DeepEqual(got.Error, w.Error):
						causes++
						if os.Getenv("CAUSES") != "" {
							t.Logf("%s %s %s: CAUSES %s", v.v, name, c.Name, cmp.Diff(w.Error, got.Error))
						}
					case w.Error == nil:
						if d := cmp.Diff(tree(t, maskPorts(w.Object)), tree(t, maskPorts(got.Object))); d != "" {
							objs++
							if objs < 6 {
								t.Logf("%s %s %s: OBJECT %s", v.v, name, c.Name, d)
							}
						}
					default:
						return
					}
					bad++
				}()
			}
			fmt.Printf("%s %-28s %5d cases: %d refused wrongly, %d accepted wrongly, %d texts, %d causes, %d objects\n", v.v, name, len(cases), extra, missing, texts, causes, objs)
		}
	}
}

var portMask = regexp.MustCompile(`"(nodePort|healthCheckNodePort)":\d+`)

func maskPorts(b json.RawMessage) json.RawMessage { return portMask.ReplaceAll(b, []byte(`"$1":1`)) }

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
