package explore

import (
	"math/bits"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// Stream is a stream of random numbers with a name: the same seed and name give the same numbers, whatever other streams
// are drawn from. It is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
type Stream struct{ state uint64 }

// NewStream returns the stream of a name.
func NewStream(seed int64, name string) *Stream {
	var h canon.Hasher
	h.Int(seed)
	h.String(name)
	return &Stream{state: h.Sum()}
}

// Next returns the next 64 bits.
func (s *Stream) Next() uint64 {
	s.state += 0x9E3779B97F4A7C15
	z := s.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Below returns a number from 0 to n-1. The bias is below n/2^64.
func (s *Stream) Below(n int) int {
	high, _ := bits.Mul64(s.Next(), uint64(n))
	return int(high)
}
