package modeltest

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// length is how many steps a sequence has.
const length = 400

// kindsTables are the kinds tables of the servers, by version.
var kindsTables = sync.OnceValue(func() map[apiserver.Version]*apiserver.Kinds {
	loaded, err := crd.Load([]byte(definitions))
	if err != nil {
		panic(err)
	}
	tables := map[apiserver.Version]*apiserver.Kinds{}
	for _, version := range []apiserver.Version{apiserver.V136, apiserver.V137} {
		tables[version] = apiserver.NewKinds(version)
		for _, definition := range loaded {
			if _, err := tables[version].AddCRD(definition); err != nil {
				panic(err)
			}
		}
	}
	return tables
})

// versionOf returns the version that a seed is played against: they take turns.
func versionOf(seed uint64) apiserver.Version {
	if seed%2 == 1 {
		return apiserver.V137
	}
	return apiserver.V136
}

// newLocal returns a server for a seed.
func newLocal(seed uint64) *handler.Local {
	return handler.NewLocal(apiserver.NewServer(kindsTables()[versionOf(seed)], time.Now))
}

// honest is the server as it is.
func honest(seed uint64) subject {
	local := newLocal(seed)
	return subject{RoundTripper: handler.New(local), version: versionOf(seed), use: local.Use}
}

// TestModel makes requests at random to the server and to the model. SIM_RUNS sets how many, SIM_SEED with which sequence they
// begin; SIM_STEPS plays single steps of that sequence.
func TestModel(t *testing.T) {
	requests, seed := environment(t, "SIM_RUNS", 8000), uint64(environment(t, "SIM_SEED", 1))
	if steps := os.Getenv("SIM_STEPS"); steps != "" {
		s := sequence{seed: seed}
		for step := range strings.SplitSeq(steps, ",") {
			n, err := strconv.Atoi(step)
			if err != nil {
				t.Fatal(err)
			}
			s.steps = append(s.steps, n)
		}
		if wrong := play(t, s, honest); wrong != nil {
			t.Fatal(report(s, wrong))
		}
		return
	}
	for made := 0; made < requests; made += length {
		s := every(seed, length)
		if wrong := play(t, s, honest); wrong != nil {
			t.Fatal(report(shrink(t, s, wrong, honest)))
		}
		seed++
	}
}

// environment returns the number in an environment variable.
func environment(t *testing.T, name string, otherwise int) int {
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
