package apiserver

import (
	"testing"
	"time"
)

// BenchmarkNewKinds is the price of a kinds table, which every scenario and every simtest client makes.
func BenchmarkNewKinds(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewKinds(V136)
	}
}

// BenchmarkNewServer is the price of an empty server, which every run makes.
func BenchmarkNewServer(b *testing.B) {
	b.ReportAllocs()
	kinds, now := NewKinds(V136), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		NewServer(kinds, func() time.Time { return now })
	}
}
