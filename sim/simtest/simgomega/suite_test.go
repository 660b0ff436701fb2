package simgomega_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/simtest"
	. "github.com/stalemate-dev/stalemate/sim/simtest/simgomega"
)

func TestSuite(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Matchers in a suite")
}

var _ = Describe("recreating a host", func() {
	explore := func(reconciler string) *simtest.Exploration {
		registry := &scenarios.Registry{}
		clickhouse.Register(registry)
		return simtest.Explore(GinkgoT(), simtest.Scenario("../../../scenarios/clickhouse/recreate.yaml"),
			simtest.Registry(registry), simtest.Replace("operator", reconciler), simtest.Runs(5))
	}

	DescribeTable("converges with what was fixed", func(reconciler string) {
		Expect(explore(reconciler)).To(Converge())
	},
		EntryDescription("%s"),
		Entry(nil, "clickhouse/patch-a"),
		Entry(nil, "clickhouse/v0.27.1"),
	)

	It("does not converge with the bug", func() {
		Expect(explore("clickhouse/buggy")).NotTo(SatisfyAny(Converge(), HoldAlways("completed-means-scaled-up")))
	})
})
