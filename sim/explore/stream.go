package explore

import (
	"math/bits"
	"time"

	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/schedule"
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

// permutation returns the numbers from 0 to n-1 in random order.
func (s *Stream) permutation(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := s.Below(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}

// delays is the number of lengths a delay may have: a millisecond doubled up to so many times, about a minute, which is
// more than the usual intervals of polls and grace periods.
const delays = 17

// delay returns how late a call is.
func (s *Stream) delay() time.Duration { return time.Millisecond << s.Below(delays) }

// streams are the streams of one run. Every purpose and event has its own, so that a call more or less does not shift what
// happens to the others.
type streams struct {
	seed   int64
	prefix string
	byName map[string]*Stream
}

func newStreams(seed int64, prefix string) streams {
	return streams{seed: seed, prefix: prefix, byName: map[string]*Stream{}}
}

// named returns the stream of a name.
func (s *streams) named(name string) *Stream {
	stream := s.byName[name]
	if stream == nil {
		stream = NewStream(s.seed, s.prefix+"/"+name)
		s.byName[name] = stream
	}
	return stream
}

// of returns the stream of a purpose at an event.
func (s *streams) of(purpose string, event schedule.Event) *Stream {
	return s.named(purpose + "/" + event.String())
}
