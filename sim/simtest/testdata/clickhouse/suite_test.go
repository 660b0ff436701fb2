package clickhouse_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/stalemate-dev/stalemate/sim/simtest"
	. "github.com/stalemate-dev/stalemate/sim/simtest/simgomega"
)

func TestSuite(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "ClickHouse")
}

var _ = Describe("recreate", Label("sim"), func() {
	DescribeTable("leaves no host behind", func(seed int64) {
		result := simtest.Explore(GinkgoT(), simtest.Scenario(recreate), reconcilers(), simtest.Seed(seed))
		AddReportEntry("exploration", result, ReportEntryVisibilityFailureOrVerbose)
		Expect(result).To(Converge())
	},
		EntryDescription("seed=%d"),
		Entry(nil, int64(1)),
		Entry(nil, int64(2)),
	)

	It("is explored in the same way each time", func() {
		Expect(func() *simtest.Exploration {
			return simtest.Explore(GinkgoT(), simtest.Scenario(recreate), reconcilers(), simtest.Runs(5))
		}).To(BeReproducible())
	})
})
