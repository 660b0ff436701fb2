package explore

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// BenchmarkMarks measures what it takes to see what is new in a run of a hundred steps.
func BenchmarkMarks(b *testing.B) {
	var records []history.Record
	for range 25 {
		records = append(records, read("a", "x"), write("a", "x"), read("b", "x"), write("b", "x"))
	}
	h := run(records...)
	u := newUnitWork(Unit{})
	b.ReportAllocs()
	for b.Loop() {
		u.mark(Origin{}, h)
	}
}
