package fuzz

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestPlanSharesSeeds checks that the units of all shards together have each seed once.
func TestPlanSharesSeeds(t *testing.T) {
	for _, runs := range []int{0, 1, 7, 100, 1601, 5000} {
		for _, shards := range []int{1, 2, 5} {
			var seeds []int64
			for shard := 1; shard <= shards; shard++ {
				p := plan{seed: 10, runs: runs, shard: shard, shards: shards}
				for n := range p.units() {
					unit := p.unit(n)
					for i := range unit.Count {
						seeds = append(seeds, unit.First+int64(i)*unit.Step)
					}
				}
			}
			slices.Sort(seeds)
			for i, seed := range seeds {
				if seed != int64(10+i) {
					t.Fatalf("%d runs in %d shards: the %d-th seed is %d", runs, shards, i, seed)
				}
			}
			if len(seeds) != runs {
				t.Errorf("%d runs in %d shards have %d seeds", runs, shards, len(seeds))
			}
		}
	}
}

func TestBlackBox(t *testing.T) {
	name := filepath.Join(t.TempDir(), "box")
	if count := boxCount(name); count != 0 {
		t.Errorf("no black box was written %d times", count)
	}
	box, err := openBlackBox(name)
	if err != nil {
		t.Fatal(err)
	}
	long := &flight{Number: 1, Strategy: explore.PCT, Seed: 7, Schedule: &schedule.Schedule{Skip: make([]int, 100)}}
	short := &flight{Number: 2, Purpose: explore.Exploring, Schedule: &schedule.Schedule{}}
	for n, want := range []*flight{long, short, nil} {
		if err := box.begin(want); err != nil {
			t.Fatal(err)
		}
		got, err := readBlackBox(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if count := boxCount(name); count != int64(n+1) {
			t.Errorf("written %d times, want %d", count, n+1)
		}
	}
	if err := os.Truncate(name, headerSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readBlackBox(name); err == nil || !strings.Contains(err.Error(), "ends after 1 of") {
		t.Errorf("a black box that is cut off: %v", err)
	}
}

// TestDeathsAreBounded checks that of deaths that are one finding only the first has all that a report needs, whichever came first.
func TestDeathsAreBounded(t *testing.T) {
	l := &ledger{Target: &Target{}}
	w := &slotWorker{supervisor: &supervisor{}}
	for _, number := range []int{5, 3, 9} {
		f := flight{Number: number, Schedule: &schedule.Schedule{}}
		w.keepDeath(l, &Death{Kind: Panic, Where: "there", Output: "stacks", Unit: keySweeps, Flight: f, Schedule: f.Schedule, Skipped: true})
	}
	for _, d := range l.Deaths {
		first := d.Flight.Number == 3
		if (d.Output != "") != first || (d.Schedule != nil) != first || (d.Flight.Schedule != nil) != first {
			t.Errorf("the death of execution %d is %+v", d.Flight.Number, d)
		}
	}
	if got := l.skip(keySweeps); !slices.Equal(got, []int{3, 5, 9}) {
		t.Errorf("left out are %v", got)
	}
}

func TestPanicOf(t *testing.T) {
	const output = `some words
panic: runtime error: invalid memory address [recovered]
	panic: again
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x7c]

goroutine 19 [running, synctest bubble 3]:
panic({0x1, 0x2})
	/go/src/runtime/panic.go:700 +0x132
example.com/op.(*Reconciler).poll(0xc000012345)
	/src/op/poll.go:12 +0x1d
`
	want := "runtime error: invalid memory address [recovered], in example.com/op.(*Reconciler).poll at /src/op/poll.go:12"
	if got := panicOf(output); got != want {
		t.Errorf("the panic is %q, want %q", got, want)
	}
}

func TestTail(t *testing.T) {
	last := &tail{most: 4}
	for _, text := range []string{"ab", "cdefghij", "k"} {
		if _, err := last.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := last.String(); !strings.HasSuffix("abcdefghijk", got) || len(got) < 4 || len(got) > 8 {
		t.Errorf("the last of it is %q", got)
	}
	last.begin(3)
	_, _ = last.Write([]byte("lmnop"))
	if got := last.String(); got != "lmn" {
		t.Errorf("the first of it is %q", got)
	}
}

func TestLeftOut(t *testing.T) {
	for path, want := range map[string]bool{
		".": false, "a/b.yaml": false, ".git/a.yaml": true, "a/_b/c.yaml": true, "a/testdata": false, "a/testdata/b.yaml": true,
		"a/testdata/schedules/b.yaml": false, "testdata/broken": true,
	} {
		if got := leftOut(strings.Split(path, "/")); got != want {
			t.Errorf("%s is left out: %v", path, got)
		}
	}
}

// TestProgramChanges checks that what another program came to is forgotten, and that what is not finished is taken up.
func TestProgramChanges(t *testing.T) {
	dir := t.TempDir()
	open := func(program string) (*campaign, bool) {
		t.Helper()
		c, forgotten, err := openCampaign(dir, "c", program)
		if err != nil {
			t.Fatal(err)
		}
		return c, forgotten
	}
	first, _ := open("one")
	if err := first.spend(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openCampaign(dir, "c", "one"); err == nil || !strings.Contains(err.Error(), "another exploration is at work") {
		t.Errorf("two explorations at a time: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, forgotten := open("one")
	if second.Spent != time.Minute || forgotten {
		t.Errorf("the same program has spent %s, and forgot: %v", second.Spent, forgotten)
	}
	if err := second.close(); err != nil {
		t.Fatal(err)
	}
	third, forgotten := open("two")
	if third.Spent != 0 || !forgotten {
		t.Errorf("another program has spent %s, and forgot: %v", third.Spent, forgotten)
	}
	if err := third.close(); err != nil {
		t.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	s := Status{Elapsed: 90 * time.Second, For: time.Hour, Targets: 3, Swept: 2, Executions: 900, Findings: 1, Deaths: 2}
	want := "1m30s of 1h0m0s: 900 runs (10/s), 2 of 3 targets swept, 1 findings, 0 in what is known to be broken, 2 process findings"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
