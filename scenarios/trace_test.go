package scenarios

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func someTrace() *schedule.Trace {
	get := schedule.Event{
		Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Get, Kind: "Pod", Namespace: "default", Name: "a",
		Occurrence: 1,
	}
	again, back := get, get
	again.Occurrence = 3
	back.Return = true
	return &schedule.Trace{
		Steps:     []schedule.Event{get, back, again, {Verb: schedule.Advance}},
		Latencies: []schedule.Latency{{At: get, For: 1}, {At: again, Repeat: 3, For: -1}},
		Orders:    []schedule.Permutation{{At: back, Repeat: 1, Order: []int{1, 0}}},
		Ties:      []schedule.Tie{{Step: 2, Index: 1}},
	}
}

func mustEncode(t testing.TB, trace *schedule.Trace) string {
	t.Helper()
	text, err := encodeTrace(trace)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTraceRoundTrip(t *testing.T) {
	for name, trace := range map[string]*schedule.Trace{"some": someTrace(), "empty": {}} {
		text := mustEncode(t, trace)
		got, err := decodeTrace(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trace, got); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		for line := range strings.Lines(text) {
			if len(line) > traceWidth+1 {
				t.Errorf("%s: a line of %d characters", name, len(line))
			}
		}
	}
}

// TestLongTrace checks that nothing is written that cannot be read.
func TestLongTrace(t *testing.T) {
	trace := &schedule.Trace{Orders: []schedule.Permutation{{Order: make([]int, maxTrace)}}}
	if _, err := encodeTrace(trace); err == nil {
		t.Error("a trace that is too long is written")
	}
}

// TestDamagedTrace cuts and changes a trace at every place: it is refused, or is another trace, and nothing panics.
func TestDamagedTrace(t *testing.T) {
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(mustEncode(t, someTrace()), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range data {
		if _, err := decodeTrace(base64.StdEncoding.EncodeToString(data[:cut])); err == nil {
			t.Errorf("the first %d of %d bytes are a trace", cut, len(data))
		}
		damaged := bytes.Clone(data)
		damaged[cut] ^= 1
		_, _ = decodeTrace(base64.StdEncoding.EncodeToString(damaged))
	}
}

// FuzzTrace reads parts of a trace of any content.
func FuzzTrace(f *testing.F) {
	for _, trace := range []*schedule.Trace{someTrace(), {}} {
		data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(mustEncode(f, trace), "\n", ""))
		if err != nil {
			f.Fatal(err)
		}
		var plain bytes.Buffer
		if _, err := plain.ReadFrom(flate.NewReader(bytes.NewReader(data[1:]))); err != nil {
			f.Fatal(err)
		}
		f.Add(plain.Bytes())
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		d := &traceDecoder{rest: plain, last: map[int]int{}}
		trace := d.trace()
		if d.failed {
			return
		}
		again, err := decodeTrace(mustEncode(t, trace))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trace, again); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
