package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	_ "github.com/stalemate-dev/stalemate/sim/apiserver/crd/cel" // the definitions have rules
	"github.com/stalemate-dev/stalemate/sim/live/assets"
	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

var definitions = []string{testdata + "widgets.yaml", testdata + "recorded-crds.yaml"}

//go:embed testdata/differences.yaml
var differencesFile []byte

// loadExceptions returns the differences that are known.
func loadExceptions() ([]*exception, error) {
	var all []*exception
	if err := yaml.UnmarshalStrict(differencesFile, &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		match, err := regexp.Compile(e.Match)
		if err != nil {
			return nil, err
		}
		if e.match = match; strings.TrimSpace(e.Why) == "" {
			return nil, errors.New("differences.yaml: " + e.Match + " has no reason")
		}
	}
	return all, nil
}

// newKinds returns the kinds of our server.
func newKinds() (*apiserver.Kinds, error) {
	kinds := apiserver.NewKinds(apiserver.V136)
	for _, file := range definitions {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all, err := crd.Load(text)
		if err != nil {
			return nil, err
		}
		for _, definition := range all {
			if _, err := kinds.AddCRD(definition); err != nil {
				return nil, err
			}
		}
	}
	return kinds, nil
}

// addresses are those of Services. By default envtest has 254 of them.
const addresses = "10.96.0.0/12"

// length is how many requests a sequence has, watches and what ends them aside.
const length = 20

// TestDifferences plays random sequences of requests against a real server and ours, and compares the answers by what they mean.
// SIM_RUNS sets how many, SIM_SEED with which they begin. A difference is shrunk, and written to the folder SIM_CASES, if that is set,
// as a case that can be added to the recordings.
func TestDifferences(t *testing.T) {
	runs, first := number(t, "SIM_RUNS", 300), uint64(number(t, "SIM_SEED", 1))
	kinds, err := loadKinds()
	if err != nil {
		t.Fatal(err)
	}
	d := newDuel(t)
	found := d.playAll(t, kinds, first, runs)
	t.Logf("%d sequences, %d requests", runs, d.made.Load())
	if panics := d.panics.Load(); panics > 0 {
		t.Logf("%d requests made the real server panic", panics)
	}
	for _, e := range d.known {
		if hits := e.hits.Load(); hits > 0 {
			t.Logf("known, %d times: %s", hits, strings.TrimSpace(e.Why))
		}
	}
	signatures := map[string][]*finding{}
	for _, f := range found {
		signatures[f.signature] = append(signatures[f.signature], f)
	}
	names := make([]string, 0, len(signatures))
	for name := range signatures {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(signatures[b]) - len(signatures[a]) })
	for i, name := range names {
		t.Errorf("%d times: %s", len(signatures[name]), d.describe(t.Context(), signatures[name][0], i < number(t, "SIM_SHRINK", 20)))
	}
}

func newDuel(t *testing.T) *duel {
	t.Helper()
	known, err := loadExceptions()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := newKinds()
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{"service-cluster-ip-range": addresses}
	return &duel{real: start(t, controlplane.Options{APIServerFlags: flags}, definitions...), kinds: ours, known: known}
}

// number returns the number in an environment variable.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, want a number", name, value)
	}
	return n
}

// playAll plays sequences on some goroutines and returns what was found and is not known.
func (d *duel) playAll(t *testing.T, kinds []*kind, first uint64, runs int) []*finding {
	t.Helper()
	seeds := make(chan uint64)
	var mu sync.Mutex
	var found []*finding
	var group sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for seed := range seeds {
				f, err := d.try(t.Context(), seed, sequence(kinds, seed, length))
				switch {
				case err != nil:
					t.Errorf("seed %d: %v", seed, err)
				case f != nil && f.known == nil && d.steady(t.Context(), f):
					mu.Lock()
					found = append(found, f)
					mu.Unlock()
				}
			}
		})
	}
	for i := range runs {
		seeds <- first + uint64(i)
	}
	close(seeds)
	group.Wait()
	slices.SortFunc(found, func(a, b *finding) int { return int(a.seed) - int(b.seed) })
	return found
}

// try plays a sequence. A panic of our server is an error.
func (d *duel) try(ctx context.Context, seed uint64, steps []step) (f *finding, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("our server panicked: %v\n%s", value, debug.Stack())
		}
	}()
	return d.play(ctx, seed, steps)
}

// describe shows a finding, cut down if that is asked for.
func (d *duel) describe(ctx context.Context, f *finding, shrink bool) string {
	if shrink {
		f = d.shrink(ctx, f)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\nplay it again with SIM_SEED=%d SIM_RUNS=1; requests:\n", f.signature, f.difference, f.seed)
	for _, st := range f.steps {
		fmt.Fprintf(&b, "  %s\n", st)
	}
	folder := os.Getenv("SIM_CASES")
	if folder == "" {
		return b.String()
	}
	name := fmt.Sprintf("seed-%d", f.seed)
	c, err := f.asCase(name, "v"+assets.Version)
	if err == nil {
		var data []byte
		if data, err = json.MarshalIndent(c, "", " "); err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".json"), append(data, '\n'), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "no case was written: %v\n", err)
	}
	return b.String()
}
