package explore_test

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/explore"
)

// BenchmarkUnit measures a unit of runs by seed, and what the hook before each execution costs that encodes what is about to run, and
// the marks of what runs showed.
func BenchmarkUnit(b *testing.B) {
	unit := explore.Unit{Kind: explore.SeedUnit, First: 1, Count: 100}
	for _, bench := range []struct {
		name   string
		before func(explore.Execution) error
	}{
		{"plain", nil},
		{"announced", func(e explore.Execution) error { return json.NewEncoder(io.Discard).Encode(e.Schedule()) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			options := bySeedOnly
			options.Before = bench.before
			session, err := explore.Open(b.Context(), twoStep(b, true), options)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.Do(b.Context(), unit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
