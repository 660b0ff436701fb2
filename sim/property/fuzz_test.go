package property_test

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// FuzzCompile checks that no rule makes Compile, a run or its verdicts panic, that errors lie in the rule, and that the
// same run judged twice comes out the same.
func FuzzCompile(f *testing.F) {
	for _, rule := range []string{
		`chi.?status.?status.orValue("") != "Completed" || (sts != null && sts.spec.replicas > 0)`,
		`pods.filter(p, p.metadata.labels["a/b"] == "c").all(p, p.spec.nodeName == sts.metadata.name)`,
		`sts.metadata.labels.map(k, v, k + v) == [] && any.x[?1].orValue(dyn(2)) == 3u`,
		`request.object == null || response.code in [200, 409]`,
		`has(sts.spec.replica)`, `sts.spec.containers[-1] == b"\xff"`, "\n\n  nope", `sts ==`, ``, "\x00", `true ? false : sts`,
		`[1].exists(sts, pods.exists(pods, pods == sts))`, `{"a": sts}["a"].spec == any`,
		`optional.of(sts).?spec.?replicas.value() == 1`,
	} {
		f.Add(rule)
	}
	kinds := testKinds(f)
	c := newCluster()
	c.put("StatefulSet", statefulSet("web", 1))
	c.put("ClickHouseInstallation", completed(f))
	f.Fuzz(func(t *testing.T, rule string) {
		set, errs := property.Compile(kinds, testVariables, []property.Definition{
			{Name: "always", Type: property.Always, Rule: rule},
			{Name: "eventually", Type: property.Eventually, Rule: rule, Within: time.Second},
			{Name: "request", Type: property.Request, Rule: rule, Match: create},
		})
		for _, err := range errs {
			if err.Line > 0 && utf8.ValidString(rule) && err.Column > utf8.RuneCountInString(rule)+1 {
				t.Errorf("%v lies beyond the rule", err)
			}
			_ = err.Error()
		}
		if set == nil && len(errs) == 0 {
			t.Fatal("neither a set nor an error")
		}
		// The same rule may be well-typed for a request and not for the state, so judge what compiles alone.
		request, _ := property.Compile(kinds, testVariables, []property.Definition{
			{Name: "request", Type: property.Request, Rule: rule, Match: create},
		})
		for _, s := range []*property.Set{set, request} {
			if first, second := judge(s, c), judge(s, c); first != second {
				t.Errorf("two runs differ:\n%s\n%s", first, second)
			}
		}
	})
}

// judge tells a short run and returns all that is said about it.
func judge(set *property.Set, c *cluster) string {
	m := set.NewMonitor(c)
	event := schedule.Event{Actor: "operator", Verb: schedule.Create, Kind: "StatefulSet", Name: "web"}
	m.Start(0)
	m.Before(1, event)
	m.Committed(1, "StatefulSet")
	m.After(1, event, &apiserver.Request{Object: statefulSet("web", 1)}, &apiserver.Response{Code: 409})
	m.Terminal(2)
	text := property.Signature(m.Verdicts())
	for _, v := range m.Verdicts() {
		text += "\n" + describe(v)
	}
	return text
}
