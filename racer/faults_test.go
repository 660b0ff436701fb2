package racer

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// recordings are the recordings of 1.36 that come with the package, by their file names.
func recordings(t *testing.T) iter.Seq2[string, *trace] {
	t.Helper()
	files, err := filepath.Glob("testdata/traces-1.36/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	return func(yield func(string, *trace) bool) {
		for _, file := range files {
			recorded, err := readTrace(file, apiserver.V136)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(filepath.Base(file), recorded) {
				return
			}
		}
	}
}

// TestFaults plays the scripts of the recordings with a server that fails a quarter of the controllers' requests for a
// while, half of those only after they were committed. What is left in the end is what was recorded: no failure may make a
// controller forget what it was about to do.
func TestFaults(t *testing.T) {
	for file, recorded := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			for seed := range uint64(20) {
				d := newDriver(t, apiserver.V136)
				d.random = rand.New(rand.NewPCG(seed, 1))
				d.refuse = faults(d, rand.New(rand.NewPCG(seed, 2)), 60)
				d.play(recorded, cast{}).compare(t, fmt.Sprintf("seed %d", seed), recorded)
			}
		})
	}
}

// TestBrokenWatches plays the scripts of the recordings with watches that break now and then, so that the controllers miss
// deletions and intermediate states and are told of what has not changed. What is left in the end is what was recorded; the one
// exception that there is, see TestDependentRecreatedInAGap, takes more chance than these seeds have.
func TestBrokenWatches(t *testing.T) {
	for file, recorded := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			broken := 0
			for seed := range uint64(20) {
				d := newDriver(t, apiserver.V136)
				d.random = rand.New(rand.NewPCG(seed, 1))
				random := rand.New(rand.NewPCG(seed, 5))
				d.breaks = func() bool {
					breaks := random.IntN(5) == 0
					if breaks {
						broken++
					}
					return breaks
				}
				d.play(recorded, cast{}).compare(t, fmt.Sprintf("seed %d", seed), recorded)
			}
			if broken == 0 {
				t.Error("no watch broke")
			}
		})
	}
}

// faults makes up to a number of requests fail at random. Conflicts are injected too, but only for what can conflict.
func faults(d *driver, random *rand.Rand, left int) func(string, *apiserver.Request) *apiserver.Response {
	return func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "test" || left == 0 || random.IntN(4) != 0 {
			return nil
		}
		left--
		err := newStatusError(500, metav1.StatusReasonInternalError)
		switch random.IntN(5) {
		case 0:
			err = newStatusError(504, metav1.StatusReasonTimeout)
		case 1:
			err = newStatusError(429, metav1.StatusReasonTooManyRequests)
		case 2:
			if r.Lock() != "" {
				err = newStatusError(409, metav1.StatusReasonConflict)
			}
		}
		if err.ErrStatus.Code >= 500 && random.IntN(2) == 0 {
			d.server.Do(r)
		}
		return &apiserver.Response{Code: int(err.ErrStatus.Code), Err: err}
	}
}
