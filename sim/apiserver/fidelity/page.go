package fidelity

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// Versions are the versions of Kubernetes that are modelled, the default first.
var Versions = []apiserver.Version{apiserver.V136, apiserver.V137}

const intro = `# Fidelity

What the simulation does as Kubernetes does it, and what not. A finding is worth what the simulated cluster is worth, and so is a pass.

- [What a pass does not cover](#what-a-pass-does-not-cover)
- [Behaviour](#behaviour): row by row, with the tests that show it
- [Kinds](#kinds): what each built-in kind is like, and what of it is left out

This page is made from the tables of [sim/apiserver/fidelity](../sim/apiserver/fidelity) and from the kinds that the simulated API
server has; a test fails when a row says "modelled" and no case shows it. Cases in *italics* are recordings of real API servers, which
are played against ours; the others are Go tests of this repository, by folder and name, as in
` + "`go test ./sim/client -run 'TestTwins/by_label'`" + `.
The twins play one story twice, on the simulated manager and on controller-runtime's own. All of the server is also checked against an
independent model, with random requests (` + "`sim/apiserver/modeltest`" + `).

`

const notCovered = `
## What a pass does not cover

A verdict names what its runs touched that is not modelled, under *touched, but not modelled*, as far as the server can tell: kinds
without a definition, match conditions, conversion webhooks, subresources that are missing and the like. What it cannot tell is what
would have happened on a real cluster and did not happen here. A pass says nothing of:

- **orders and faults that were not tried.** The report says which were; one run in another order is another run.
- **controllers that the scenario does not name.** A cluster has all of kube-controller-manager. Here a StatefulSet gets Pods only
  where there is a StatefulSetController among the racers, and a Deployment where there is a DeploymentController.
- **load and scale**: priority and fairness, limits of size and number other than those below, time that a machine takes.
- **what is written below as not modelled or partly**. These rows are not modelled at all:

`

// Page returns docs/fidelity.md.
func Page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString(summary())
	b.WriteString(notCovered)
	for row := range rows() {
		if row.Status == NotModelled {
			fmt.Fprintf(&b, "  - %s Here: %s.\n", row.Behaviour, row.Missing)
		}
	}
	b.WriteString("\n## Behaviour\n")
	for _, area := range Areas() {
		fmt.Fprintf(&b, "\n### %s\n\n| what a cluster does | here | shown by |\n|---|---|---|\n", area.Title)
		for _, row := range area.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(row.Behaviour), cell(row.state()), caseList(row.Cases))
		}
	}
	b.WriteString(kindsSection())
	return b.String()
}

// rows are those of all areas.
func rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, area := range Areas() {
			for _, row := range area.Rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// summary counts the rows, and names the versions.
func summary() string {
	count := map[Status]int{}
	for row := range rows() {
		count[row.Status]++
	}
	versions := make([]string, len(Versions))
	for i, v := range Versions {
		versions[i] = string(v)
	}
	return fmt.Sprintf("Of the %d rows below %d are modelled, %d partly, and %d not. The versions are Kubernetes %s;\n"+
		"where they differ, the row says so.\n", count[Modelled]+count[Partly]+count[NotModelled], count[Modelled], count[Partly],
		count[NotModelled], strings.Join(versions, " and "))
}

// state says in words how much of a row is modelled.
func (r *Row) state() string {
	text := string(r.Status)
	switch r.Status {
	case Partly:
		text += "; not: " + r.Missing
	case NotModelled:
		text = "**" + text + "**: " + r.Missing
	case Modelled:
	}
	if r.Differs != "" {
		text += ". By version: " + r.Differs
	}
	return text
}

// cell makes a text fit for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// caseList names cases, Go tests by their folders.
func caseList(cases []Case) string {
	var names []string
	last := ""
	for _, c := range cases {
		if name, ok := c.Recording(); ok {
			names, last = append(names, "*"+name+"*"), ""
			continue
		}
		folder, function, subtest, err := c.Test()
		if err != nil {
			names = append(names, string(c)) // the test of this package fails
			continue
		}
		name := function
		if subtest != "" {
			name += "/" + subtest
		}
		if folder != last {
			name = "`" + folder + "` " + name
		}
		names, last = append(names, name), folder
	}
	return strings.Join(names, ", ")
}

// kindsSection is the part of the page about kinds.
func kindsSection() string {
	var b strings.Builder
	b.WriteString("\n## Kinds\n\n" + kindsIntro + "\n| kind | scope | subresources | generation counts | a PUT | a " +
		"delete | field selectors |\n" +
		"|---|---|---|---|---|---|---|\n")
	tables := make([][]*apiserver.Kind, len(Versions))
	for i, version := range Versions {
		tables[i] = apiserver.NewKinds(version).All()
	}
	gaps := map[string][]string{}
	for i, k := range tables[0] {
		columns := columnsOf(k)
		for v := 1; v < len(tables); v++ {
			for c, other := range columnsOf(tables[v][i]) {
				if other != columns[c] {
					columns[c] += fmt.Sprintf("; in %s: %s", Versions[v], other)
				}
			}
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(columns, " | "))
		for _, gap := range k.NotModelled {
			gaps[gap] = append(gaps[gap], k.Name())
		}
	}
	b.WriteString("\n" + otherKinds + "\n### What is left out of kinds\n\n| kinds | not modelled |\n|---|---|\n")
	for _, gap := range slices.SortedFunc(maps.Keys(gaps), func(a, b string) int {
		return cmp.Or(strings.Compare(gaps[a][0], gaps[b][0]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(gaps[gap], ", "), cell(gap))
	}
	return b.String()
}

const kindsIntro = `The built-in kinds. A PUT *needs* a resourceVersion, or is *free* to leave it out; it *creates* what is missing, or
is 404.
`

const otherKinds = `Kubernetes' other kinds are not there: requests for them are 404, and a scenario that has objects of them is not loaded.

A custom resource follows its CustomResourceDefinition: generation counts all but metadata and, where it is a
subresource, status; a PUT needs a resourceVersion, and one of what is missing is 404; a delete is Background. So does a kind that nobody
defined, but that a scenario has objects of or the operator Go types: as one that is namespaced, and that has a status subresource unless
its Go type has no status. The verdict names it.
`

// columnsOf says what a kind is like.
func columnsOf(k *apiserver.Kind) []string {
	scope := "cluster"
	if k.Namespaced {
		scope = "namespace"
	}
	name := fmt.Sprintf("%s `%s`", k.Kind, k.GroupVersion())
	if k.Alias != nil {
		name += fmt.Sprintf(" (the same objects as `%s`)", k.Alias.Of.GroupVersion())
	}
	put := "free"
	if !k.UnconditionalUpdate {
		put = "needs"
	}
	if k.CreateOnUpdate {
		put += ", creates"
	}
	return []string{
		name, scope, subresourcesOf(k), generationOf(k), put, string(k.DefaultPropagation) + graceOf(k),
		strings.Join(slices.Sorted(maps.Keys(k.Fields)), ", "),
	}
}

func graceOf(k *apiserver.Kind) string {
	if k.Graceful != nil {
		return ", with grace"
	}
	return ""
}

func subresourcesOf(k *apiserver.Kind) string {
	var names []string
	if k.HasStatus {
		kept := map[apiserver.StatusReset]string{
			apiserver.ResetSpec: "status", apiserver.ResetSpecAndOwners: "status (keeps owners)",
			apiserver.ResetSpecAndLabels: "status (keeps labels)", apiserver.ResetAllButStatus: "status (and nothing else)",
		}
		names = append(names, kept[k.StatusKeeps])
	}
	if k.Scale != nil {
		names = append(names, "scale")
	}
	return strings.Join(names, ", ")
}

// generationOf says what metadata.generation counts.
func generationOf(k *apiserver.Kind) string {
	return map[apiserver.GenerationRule]string{
		apiserver.GenerationNone: "nothing", apiserver.GenerationSpec: "spec",
		apiserver.GenerationSpecAndAnnotations: "spec and annotations",
		apiserver.GenerationCustom:             "all but metadata and status", apiserver.GenerationContent: "all but metadata",
		apiserver.GenerationContentAndLabels: "all but metadata, and labels", apiserver.GenerationOnce: "nothing, from 1 on",
		apiserver.GenerationLate: "spec, from 0 on",
	}[k.Generation]
}
