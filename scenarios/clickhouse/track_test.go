package clickhouse

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestTrack explores every row of the track record.
func TestTrack(t *testing.T) { simtrack.Test(t, Track(), Register) }

// BenchmarkTrack measures what it takes to find each bug.
func BenchmarkTrack(b *testing.B) { simtrack.Benchmark(b, Track(), Register) }
