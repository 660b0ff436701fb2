// Package fidelity says what of Kubernetes the simulation does as Kubernetes does it, and what not: behaviour by behaviour, each
// with the tests that show it, and kind by kind. docs/fidelity.md is made of it, and a test keeps both true: what is said to
// be modelled must have a case that shows it.
package fidelity

import (
	"fmt"
	"strings"
)

// Status says how much of a behaviour is modelled.
type Status string

// How much of a behaviour is modelled.
const (
	Modelled    Status = "modelled"
	Partly      Status = "partly"
	NotModelled Status = "not modelled"
)

// Row is one behaviour of Kubernetes that an operator can observe.
type Row struct {
	// ID stays the same when rows come and go: S is for the API server, C for clients, caches, queues and processes, N for what
	// is commonly believed to be otherwise, R for what roles allow, K for the controllers of a control plane.
	ID string
	// Behaviour says what a real cluster does.
	Behaviour string
	Status    Status
	// Missing says what is left out of a behaviour that is modelled partly, and why one is not modelled.
	Missing string
	// Differs says in what the modelled versions of Kubernetes differ; empty if they do not.
	Differs string
	// Cases are the tests that show the behaviour; see [Case].
	Cases []Case
}

// Case names a test that shows a behaviour: "golden:NAME" is a recording of a real API server in sim/apiserver/testdata, and
// "FOLDER.TestName" or "FOLDER.TestName/SUBTEST" is a Go test in a folder of the module. Of a subtest, only what the source
// has as a string can be named.
type Case string

// recordingPrefix begins the name of a recording.
const recordingPrefix = "golden:"

// Recording returns the name of the recording that the case is; false if it is a Go test.
func (c Case) Recording() (name string, ok bool) {
	return strings.CutPrefix(string(c), recordingPrefix)
}

// Test returns the folder, the function and the subtest of the Go test that the case is. The subtest may be empty.
func (c Case) Test() (folder, function, subtest string, err error) {
	for _, begin := range []string{".Test", ".Fuzz", ".Example"} {
		folder, rest, found := strings.Cut(string(c), begin)
		if !found {
			continue
		}
		name, subtest, _ := strings.Cut(rest, "/")
		return folder, strings.TrimPrefix(begin, ".") + name, subtest, nil
	}
	return "", "", "", fmt.Errorf("case %q: want golden:NAME or FOLDER.TestName", c)
}

// Area is a group of rows.
type Area struct {
	Title string
	Rows  []Row
}

// Areas returns all rows, in the order of the page.
func Areas() []Area {
	return []Area{
		{"Against common belief", beliefs},
		{"Revisions, writes and conflicts", writes},
		{"metadata.generation, status, and writes that change nothing", generations},
		{"Deletion", deletions},
		{"Garbage collection", collection},
		{"Fields that do not change, and defaults", fixed},
		{"Server-side apply and patches", patches},
		{"Reading and watching", reads},
		{"Subresources, admission, custom resources and namespaces", extensions},
		{"Errors and their retries", failures},
		{"Rights", rights},
		{"Caches and informers", caches},
		{"Queues and reconciles", queues},
		{"Processes", processes},
		{"Other controllers, and nodes", others},
	}
}

func recordings(names ...string) []Case {
	cases := make([]Case, len(names))
	for i, name := range names {
		cases[i] = Case(recordingPrefix + name)
	}
	return cases
}
