// Package simgomega has Gomega matchers for scenarios, for suites that are written with Ginkgo:
//
//	It("survives status races", func() {
//		result := simtest.Explore(GinkgoT(), simtest.Scenario("recreate.yaml"), simtest.Registry(registry))
//		Expect(result).To(simgomega.Converge())
//	})
//
// Failure messages are the report of what was found, and end with a line that finds it again. Ginkgo's own seed orders
// the specs; it is not that of the exploration, which is simtest.Seed or -sim.seed.
package simgomega

import (
	"fmt"
	"slices"

	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// Converge matches a *simtest.Exploration that passed: all properties held in every execution, and something can be
// said.
func Converge() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(e *simtest.Exploration) (bool, error) {
		return e.Verdict() == reports.Passed, nil
	}).WithTemplate("Expected {{.Actual}}\n{{.To}} converge\n\n{{.Actual.Report}}")
}

// HoldAlways matches a *simtest.Exploration in every execution of which the property held, whatever became of the
// others. It is an error if there is no such property, if it cannot be evaluated, and if it was never looked at.
func HoldAlways(property string) types.GomegaMatcher {
	return gcustom.MakeMatcher(func(e *simtest.Exploration) (bool, error) {
		named := func(p history.PropertyCoverage) bool { return p.Property.Name == property }
		properties := e.Coverage.Properties
		i := slices.IndexFunc(properties, named)
		switch {
		case i < 0:
			return false, fmt.Errorf("%s has no property %q", e.Scenario, property)
		case properties[i].Invalid > 0:
			return false, fmt.Errorf("property %s is invalid: %s", property, properties[i].Error)
		case properties[i].Evaluations == 0:
			return false, fmt.Errorf("property %s was never looked at", property)
		}
		return properties[i].Broken == 0, nil
	}).WithTemplate("Expected {{.Actual}}\n{{.To}} hold {{.Data}} in every execution\n\n{{.Actual.Report}}", property)
}

// BeReproducible matches a func() *simtest.Exploration that comes to the same history hash when it is called twice:
// neither the operator nor the test depends on the wall clock, on global randomness, or on the order of a map.
//
//	Expect(func() *simtest.Exploration { return simtest.Explore(GinkgoT(), scenario) }).To(BeReproducible())
func BeReproducible() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(explore func() *simtest.Exploration) (bool, error) {
		first, second := explore(), explore()
		return first.Hash == second.Hash, nil
	}).WithTemplate("Expected two explorations {{.To}} come to the same history hash")
}
