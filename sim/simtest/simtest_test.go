package simtest

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func theWorld(t *testing.T) *World {
	t.Helper()
	return worldOf(t, "recreate.yaml")
}

func worldOf(t *testing.T, file string) *World {
	t.Helper()
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	return NewWorld(t, Scenario("../../scenarios/clickhouse/"+file), Registry(registry))
}

// TestWorldWithFaults checks that faults strike on the courses that have them, and that the line of a course stands for it.
func TestWorldWithFaults(t *testing.T) {
	w := worldOf(t, "recreate-errors.yaml")
	faults, _ := w.Faults()
	if len(faults) < 10 {
		t.Fatalf("there are %d faults", len(faults))
	}
	broken := 0
	for i, fault := range faults {
		if i%5 != 0 {
			continue
		}
		c := Course{Schedule: schedule.Schedule{Faults: []schedule.Fault{fault}}}
		h, err := w.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Faults[0].Struck {
			t.Errorf("%s did not strike", fault)
		}
		if h.Failed() {
			broken++
		}
		again, err := parseCourse(c.inline())
		if err != nil {
			t.Fatal(err)
		}
		if replayed, err := w.Run(again); err != nil || replayed.Hash != h.Hash {
			t.Errorf("%s\ndoes not stand for\n%s: %v", c.inline(), c, err)
		}
	}
	if broken == 0 {
		t.Error("no fault broke anything")
	}
}

// TestPinnedCourse checks that a course with choices is written as a schedule that breaks the same.
func TestPinnedCourse(t *testing.T) {
	w := theWorld(t)
	late := schedule.Latency{At: w.Reorders()[0].Event, For: time.Minute} // the write that is to come too late
	c := Course{Schedule: schedule.Schedule{Latencies: []schedule.Latency{late}}, Choices: []Choice{{At: 2, Take: 1}}}
	h, err := w.Run(c)
	if err != nil || !h.Failed() {
		t.Fatalf("nothing is broken on the course: %v", err)
	}
	s, err := w.pin(c, h)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Run(Course{Schedule: *s})
	if err != nil || explore.Signature(again) != explore.Signature(h) || s.Trace != nil {
		t.Errorf("the schedule %v breaks\n%s\nand not\n%s: %v", s, explore.Signature(again), explore.Signature(h), err)
	}
}

// TestWorld checks what a world offers, and that a course does what it says, each time.
func TestWorld(t *testing.T) {
	w := theWorld(t)
	if faults, atMost := w.Faults(); len(faults) != 0 || atMost != 1 {
		t.Errorf("the faults are %v, at most %d; want none, and one at most", faults, atMost)
	}
	if names, bound := w.Requests(); len(names) == 0 || bound != 2*time.Minute {
		t.Errorf("%d requests may be late by up to %s, want some and 2m0s", len(names), bound)
	}
	run := func(c Course) *history.History {
		t.Helper()
		h, err := w.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := run(Course{}); h.Hash != w.Default().Hash || h.Failed() {
		t.Errorf("the empty course is not the default order")
	}
	for _, c := range []Course{
		{Schedule: schedule.Schedule{Constraints: w.Reorders()[:1]}},
		{Choices: []Choice{{At: 0, Take: 1}}},
		{Choices: []Choice{{At: w.Choices() - 1, Take: 1}}},
	} {
		if h := run(c); h.Hash == w.Default().Hash || h.Hash != run(c).Hash {
			t.Errorf("%s: the run is the default one, or another each time", c)
		}
	}
}

// TestSettings checks how flags and variables go together.
func TestSettings(t *testing.T) {
	for _, test := range []struct {
		arguments string
		variables map[string]string
		want      settings
		err       string
	}{
		{want: settings{}},
		{arguments: "-sim.seed=-3 -sim.runs=0 -sim.v -sim.replay=f -sim.report=d",
			want: settings{seed: -3, verbose: true, replay: "f", report: "d"}},
		{arguments: "-sim.v=false", want: settings{}},
		{variables: map[string]string{"SIM_SEED": "3", "SIM_FOR": "2m", "SIM_V": "1", "SIM_REPLAY": "f", "SIM_REPORT": "d"},
			want: settings{seed: 3, budget: 2 * time.Minute, verbose: true, replay: "f", report: "d"}},
		{arguments: "-sim.seed=1", variables: map[string]string{"SIM_SEED": "2"}, want: settings{seed: 1}},
		{arguments: "-sim.for=1s", variables: map[string]string{"SIM_RUNS": "2"}, want: settings{budget: time.Second}},
		{arguments: "-sim.seed=1", variables: map[string]string{"SIM_SEED": "x", "SIM_RUNS": ""}, want: settings{seed: 1}},
		{variables: map[string]string{"SIM_RUNS": "many"}, err: `SIM_RUNS="many": want a number of runs, 0 for none`},
		{variables: map[string]string{"SIM_RUNS": "1", "SIM_FOR": "1s"}, err: "two ways to end"},
		{arguments: "-sim.seed=1.5", err: `invalid value "1.5" for flag -sim.seed: want a whole number`},
		{arguments: "-sim.for=0s", err: "want a time such as 30s or 2h"},
		{arguments: "-sim.v=perhaps", err: "want true or false"},
		{arguments: "-sim.report=", err: "want the name of a folder"},
	} {
		s := newSettings()
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		flags.SetOutput(&strings.Builder{})
		s.register(flags)
		err := flags.Parse(strings.Fields(test.arguments))
		if err == nil {
			err = s.complete(func(name string) (string, bool) { text, ok := test.variables[name]; return text, ok })
		}
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q %v: error is %v, want %q", test.arguments, test.variables, err, test.err)
			}
			continue
		}
		got := settings{seed: s.seed, runs: s.runs, budget: s.budget, replay: s.replay, report: s.report, verbose: s.verbose}
		same := got.seed == test.want.seed && got.runs == test.want.runs && got.budget == test.want.budget &&
			got.replay == test.want.replay && got.report == test.want.report && got.verbose == test.want.verbose
		if err != nil || !same {
			t.Errorf("%q %v: %+v: %v", test.arguments, test.variables, got, err)
		}
	}
}

// named is a test of some name.
type named struct {
	TB
	name string
}

// Name implements TB.
func (n named) Name() string { return n.name }

func TestLine(t *testing.T) {
	short := ""
	if testing.Short() {
		short = "-short "
	}
	for _, test := range []struct{ name, argument, want string }{
		{"TestA", "-sim.seed=1", "go test ./sim/simtest -run '^TestA$' " + short + "-sim.seed=1"},
		{"TestA/b=1,2/c", "-sim.seed=1", "go test ./sim/simtest -run '^TestA$/^b=1,2$/^c$' " + short + "-sim.seed=1"},
		{"TestA/(a|b)*'s", "-sim.seed=1", `go test ./sim/simtest -run '^TestA$/^\(a\|b\)\*'\''s$' ` + short + "-sim.seed=1"},
		{"FuzzA", `-sim.replay={"choices":[[1,2]]}`, `go test ./sim/simtest -run '^FuzzA$' ` + short + `'-sim.replay={"choices":[[1,2]]}'`},
	} {
		if got := line(named{t, test.name}, test.argument); got != test.want {
			t.Errorf("the line of %s is\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}
