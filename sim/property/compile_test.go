package property_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var testVariables = []property.Variable{
	{Name: "chi", Kind: "ClickHouseInstallation", Namespace: "default", ObjectName: "a"},
	{Name: "sts", Kind: "StatefulSet", Namespace: "default", ObjectName: "web"},
	{Name: "pods", Kind: "Pod", Namespace: "default", Labels: map[string]string{"app": "web"}},
	{Name: "any", Kind: "Anything", ObjectName: "a"},
}

func TestCompileRuleErrors(t *testing.T) {
	tests := []struct{ rule, want string }{
		{`sts.spec.replica > 0`, `1:9: undefined field 'replica' in apps/v1.StatefulSetSpec, did you mean 'replicas'?`},
		{`sts.?spec.?replica.orValue(0) > 0`, `1:10: undefined field 'replica' in apps/v1.StatefulSetSpec, did you mean 'replicas'?`},
		{`has(sts.stattus)`, `1:4: undefined field 'stattus' in apps/v1.StatefulSet, did you mean 'status'?`},
		{`pods.exists(p, p.spec.nodename == "n")`, `1:22: undefined field 'nodename' in core/v1.PodSpec, did you mean 'nodeName'?`},
		{`chi.status.phase == ""`, `1:11: undefined field 'phase' in ClickHouseInstallation.status`},
		{`chi.metadata.labels == ""`, `1:21: found no matching overload for '_==_' applied to '(map(string, string), string)'`},
		{`sts.metadata.generation == "2"`, `1:25: found no matching overload for '_==_' applied to '(int, string)'`},
		{`sts.metadata.creationTimestamp == "2031-01-01T12:00:00Z"`,
			`1:32: found no matching overload for '_==_' applied to '(timestamp, string)'`},
		{"sts != null &&\n  sts.spec.replicas == \"1\" &&\n  stss == null",
			"2:21: found no matching overload for '_==_' applied to '(int, string)'\n" +
				"3:3: undeclared reference to 'stss', did you mean 'sts'?"},
		{`"ünïcödé" == "x" && nope`, `1:21: undeclared reference to 'nope'`},
		{`sts.spec.replicas`, `1:1: a rule must be a bool, this is of type int`},
		{`any.spec.ready`, `1:1: a rule must be a bool, this is of type dyn: compare it, or convert it with bool()`},
		{`sts ==`, `1:7: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', ` +
			`'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}`},
		{`request.name == "web"`, `1:1: undeclared reference to 'request': only rules with a match have it`},
		{`pod.size() > 0`, `1:1: undeclared reference to 'pod', did you mean 'pods'?`},
		{`nosuch(sts)`, `1:7: undeclared reference to 'nosuch'`},
		{`pods.all(p, p.metadata.name.matches("("))`, "1:37: invalid matches argument"},
		{`Pod{} == null`, `1:4: undeclared reference to 'Pod'`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			set, errs := property.Compile(testKinds(t), testVariables,
				[]property.Definition{{Name: "p", Type: property.Always, Rule: test.rule}})
			var got []string
			for _, err := range errs {
				if err.List != "properties" || err.Index != 0 || err.Field != "rule" {
					t.Errorf("misplaced: %v", err)
				}
				got = append(got, fmt.Sprintf("%d:%d: %s", err.Line, err.Column, err.Message))
			}
			if strings.Join(got, "\n") != test.want || set != nil {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), test.want)
			}
		})
	}
}

func TestCompileDefinitionErrors(t *testing.T) {
	create := &schedule.Selector{Verbs: []schedule.Verb{schedule.Create}}
	tests := []struct {
		name        string
		definitions []property.Definition
		want        string
	}{
		{"no name", []property.Definition{{Type: property.Always, Rule: "true"}}, `properties[0].name: a property needs a name`},
		{"duplicate name", []property.Definition{
			{Name: "p", Type: property.Always, Rule: "true"}, {Name: "p", Type: property.Terminal, Rule: "true"},
		}, `properties[1].name: duplicate name "p", first used by properties[0]`},
		{"unknown type", []property.Definition{{Name: "p", Type: "Never", Rule: "true"}},
			`properties[0].type: unknown type "Never", use one of Always, Terminal, Eventually, Sometimes, Request`},
		{"no type", []property.Definition{{Name: "p", Rule: "true"}},
			`properties[0].type: unknown type "", use one of Always, Terminal, Eventually, Sometimes, Request`},
		{"no rule", []property.Definition{{Name: "p", Type: property.Always, Rule: " \n"}},
			`properties[0].rule: a property needs a rule`},
		{"within on the wrong type", []property.Definition{{Name: "p", Type: property.Always, Rule: "true", Within: time.Minute}},
			`properties[0].within: type Always takes no within; it is for Eventually`},
		{"no within", []property.Definition{{Name: "p", Type: property.Eventually, Rule: "true"}},
			`properties[0].within: type Eventually needs a within; what must only hold in the end is Terminal`},
		{"negative within", []property.Definition{{Name: "p", Type: property.Eventually, Rule: "true", Within: -time.Minute}},
			`properties[0].within: -1m0s is negative`},
		{"request without match", []property.Definition{{Name: "p", Type: property.Request, Rule: "true"}},
			`properties[0].match: type Request needs a match`},
		{"match on the wrong type", []property.Definition{{Name: "p", Type: property.Terminal, Rule: "true", Match: create}},
			`properties[0].match: type Terminal takes no match; it is for Request and Sometimes`},
		{"unknown kind", []property.Definition{{Name: "p", Type: property.Request, Rule: "true",
			Match: &schedule.Selector{Kind: "Gadget"}}}, `properties[0].match.kind: unknown kind "Gadget"`},
		{"no request", []property.Definition{{Name: "p", Type: property.Sometimes, Rule: "true",
			Match: &schedule.Selector{Verbs: []schedule.Verb{schedule.Dequeue}}}},
			`properties[0].match.verbs: "Dequeue" is no request to the API server`},
		{"negative occurrence", []property.Definition{{Name: "p", Type: property.Request, Rule: "true",
			Match: &schedule.Selector{Occurrence: -1}}},
			`properties[0].match.occurrence: -1 is negative; occurrences count from 1`},
		{"ill-typed request", []property.Definition{{Name: "p", Type: property.Request, Match: create,
			Rule: `request.name == 1 || response.code == "409" || request.nam == ""`}}, "" +
			"properties[0].rule:1:14: found no matching overload for '_==_' applied to '(string, int)'\n" +
			"properties[0].rule:1:36: found no matching overload for '_==_' applied to '(int, string)'\n" +
			"properties[0].rule:1:55: undefined field 'nam' in request, did you mean 'name'?"},
		{"ill-typed body", []property.Definition{{Name: "p", Type: property.Request, Rule: `request.object.spec.replica == 1`,
			Match: &schedule.Selector{Kind: "StatefulSet"}}},
			`properties[0].rule:1:20: undefined field 'replica' in apps/v1.StatefulSetSpec, did you mean 'replicas'?`},
		{"several at once", []property.Definition{
			{Name: "p", Type: property.Request, Within: time.Second, Rule: "nope"},
			{Name: "q", Type: property.Always, Rule: "nope"},
		}, "properties[0].within: type Request takes no within; it is for Eventually\n" +
			"properties[0].match: type Request needs a match\n" +
			"properties[0].rule:1:1: undeclared reference to 'nope'\n" +
			"properties[1].rule:1:1: undeclared reference to 'nope'"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set, errs := property.Compile(testKinds(t), testVariables, test.definitions)
			if got := joinErrors(errs); got != test.want || set != nil {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestCompileVariableErrors(t *testing.T) {
	variable := func(name string) property.Variable {
		return property.Variable{Name: name, Kind: "Pod", ObjectName: "web"}
	}
	tests := []struct {
		name     string
		variable property.Variable
		want     string
	}{
		{"no name", variable(""), `variables[1].name: a variable needs a name`},
		{"no identifier", variable("old-sts"), `variables[1].name: "old-sts" cannot be used in rules: ` +
			`a name holds letters, digits and underscores and starts with no digit`},
		{"digit", variable("2nd"), `variables[1].name: "2nd" cannot be used in rules: ` +
			`a name holds letters, digits and underscores and starts with no digit`},
		{"reserved", variable("namespace"), `variables[1].name: "namespace" is a reserved word of rules`},
		{"keyword", variable("true"), `variables[1].name: "true" is a reserved word of rules`},
		{"type", variable("string"), `variables[1].name: "string" is a reserved word of rules`},
		{"request", variable("request"), `variables[1].name: "request" is a reserved word of rules`},
		{"duplicate", variable("first"), `variables[1].name: duplicate name "first"`},
		{"no kind", property.Variable{Name: "x", ObjectName: "a"}, `variables[1].kind: variable "x" binds no kind`},
		{"unknown kind", property.Variable{Name: "x", Kind: "Gadget"}, `variables[1].kind: unknown kind "Gadget"`},
		{"labels of an object", property.Variable{Name: "x", Kind: "Pod", ObjectName: "a", Labels: map[string]string{"a": "b"}},
			`variables[1].labels: variable "x" binds one object by its name; labels are for lists`},
		{"bad label", property.Variable{Name: "x", Kind: "Pod", Labels: map[string]string{"a b": "b"}},
			`variables[1].labels: key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', ` +
				`regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// The rule reads x, which must not fail once more because x could not be bound.
			_, errs := property.Compile(testKinds(t), []property.Variable{variable("first"), test.variable},
				[]property.Definition{{Name: "p", Type: property.Always, Rule: `first == null`}})
			if got := joinErrors(errs); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	_, errs := property.Compile(testKinds(t), []property.Variable{{Name: "x", Kind: "Gadget", ObjectName: "a"}},
		[]property.Definition{{Name: "p", Type: property.Always, Rule: `x.spec.anything == 1`}})
	if got, want := joinErrors(errs), `variables[0].kind: unknown kind "Gadget"`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func joinErrors(errs []property.Error) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func TestSet(t *testing.T) {
	definitions := []property.Definition{
		{Name: "b", Type: property.Always, Rule: "sts == null", Message: "there is a set"},
		{Name: "a", Type: property.Terminal, Rule: "true"},
	}
	set := compile(t, testVariables, definitions...)
	if got, want := fmt.Sprint(set.Kinds()), "[Anything ClickHouseInstallation Pod StatefulSet]"; got != want {
		t.Errorf("Kinds() = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(set.Variables()), fmt.Sprint(testVariables); got != want {
		t.Errorf("Variables() = %s, want %s", got, want)
	}
	definitions[1].Message = "true" // the rule stands in for a message
	if got, want := fmt.Sprint(set.Definitions()), fmt.Sprint(definitions); got != want {
		t.Errorf("Definitions() = %s, want %s", got, want)
	}
	var none *property.Set
	m := none.NewMonitor(newCluster())
	m.Start(0)
	m.Committed(1, "Pod")
	m.Terminal(2)
	if len(m.Verdicts())+len(none.Definitions())+len(none.Variables())+len(none.Kinds()) > 0 {
		t.Error("a nil set is not empty")
	}
}

// exampleFile is what testdata/examples holds of a scenario.
type exampleFile struct {
	Variables []struct {
		Name         string
		Object, List *struct {
			Kind, Name string
			Labels     map[string]string
		}
		At string
	}
	Properties []struct {
		Name, Rule string
		Type       property.Type
		Within     string
		Match      *struct {
			Actor, Kind string
			Verb        schedule.Verb
		}
	}
}

func (f exampleFile) compile(t *testing.T, kinds property.Kinds) *property.Set {
	t.Helper()
	var variables []property.Variable
	for _, v := range f.Variables {
		variable := property.Variable{Name: v.Name, AtStart: v.At == "Start"}
		if v.Object != nil {
			variable.Kind, variable.ObjectName = v.Object.Kind, v.Object.Name
		} else {
			variable.Kind, variable.Labels = v.List.Kind, v.List.Labels
		}
		variables = append(variables, variable)
	}
	var definitions []property.Definition
	for _, p := range f.Properties {
		d := property.Definition{Name: p.Name, Type: p.Type, Rule: p.Rule}
		if p.Within != "" {
			d.Within, _ = time.ParseDuration(p.Within)
		}
		if p.Match != nil {
			d.Match = &schedule.Selector{Actor: p.Match.Actor, Kind: p.Match.Kind, Verbs: []schedule.Verb{p.Match.Verb}}
		}
		definitions = append(definitions, d)
	}
	set, errs := property.Compile(kinds, variables, definitions)
	if len(errs) > 0 {
		t.Fatal(joinErrors(errs))
	}
	return set
}

// TestExamples compiles the rules that operator developers wrote as they would like to, and evaluates them with every
// bound object absent, once with the schemas of the custom resources and once without.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("testdata/examples/*.json")
	if err != nil || len(paths) != 4 {
		t.Fatal(paths, err)
	}
	untyped := testKinds(t)
	for name, kind := range untyped {
		kind.Schema = nil
		untyped[name] = kind
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file exampleFile
		if err := json.Unmarshal(raw, &file); err != nil {
			t.Fatal(path, err)
		}
		for form, kinds := range map[string]kindTable{"typed": testKinds(t), "untyped": untyped} {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json")+"/"+form, func(t *testing.T) {
				m := file.compile(t, kinds).NewMonitor(newCluster())
				m.Start(0)
				for i, p := range file.Properties {
					if p.Match == nil {
						continue
					}
					event := schedule.Event{Actor: p.Match.Actor, Verb: p.Match.Verb, Kind: p.Match.Kind, Name: "x", Occurrence: i}
					m.Before(1, event)
					m.After(1, event, &apiserver.Request{Verb: event.Verb, Name: "x"}, &apiserver.Response{Code: 409})
				}
				m.Settled(1)
				m.Terminal(2)
				for i, v := range m.Verdicts() {
					if v.Evaluations == 0 || v.Status == property.Invalid {
						t.Errorf("%s: %s after %d evaluations: %s", file.Properties[i].Name, v.Status, v.Evaluations, v.Error)
					}
				}
			})
		}
	}
}
