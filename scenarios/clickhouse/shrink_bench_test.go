package clickhouse

import (
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/shrink"
)

// BenchmarkShrink shrinks what random walks, PCT and selective PCT find in the scenarios and variants that have bugs, and
// prints what comes of it:
//
//   - median-elements, most-elements: the constraints, faults and latencies that are left;
//   - median-executions, most-executions: the runs it took;
//   - failures: how many runs were shrunk, of 200 for each scenario and variant.
func BenchmarkShrink(b *testing.B) {
	for b.Loop() {
		var elements, executions []float64
		for _, file := range []string{"recreate.yaml", "recreate-scaled.yaml", "recreate-errors.yaml"} {
			for _, v := range variants {
				for _, r := range shrunk(b, file, v.name, 200) {
					elements = append(elements, float64(r.Schedule.Size()))
					executions = append(executions, float64(r.Executions))
				}
			}
		}
		if len(elements) == 0 {
			b.Fatal("no run fails")
		}
		slices.Sort(elements)
		slices.Sort(executions)
		b.ReportMetric(elements[len(elements)/2], "median-elements")
		b.ReportMetric(elements[len(elements)-1], "most-elements")
		b.ReportMetric(executions[len(executions)/2], "median-executions")
		b.ReportMetric(executions[len(executions)-1], "most-executions")
		b.ReportMetric(float64(len(elements)), "failures")
	}
}

// shrunk shrinks those of the runs by the first seeds that fail.
func shrunk(b *testing.B, file, reconciler string, seeds int64) []*shrink.Result {
	b.Helper()
	registry := &scenarios.Registry{}
	Register(registry)
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
	if err != nil {
		b.Fatal(err)
	}
	config, err := scenario.Config(registry, map[string]string{"operator": reconciler})
	if err != nil {
		b.Fatal(err)
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		b.Fatal(err)
	}
	survey, err := explore.NewSurvey(world)
	if err != nil {
		b.Fatal(err)
	}
	var results []*shrink.Result
	for seed := range seeds {
		result, err := explore.ShrinkSeed(b.Context(), world, survey, seed, shrink.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if result != nil {
			results = append(results, result)
		}
	}
	return results
}
