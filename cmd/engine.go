package cmd

import (
	"context"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// engine is what the command drives.
type engine interface {
	// holdsSchedule reports whether a file holds a schedule, and not a scenario. Its errors are the user's to mend.
	holdsSchedule(path string) (bool, error)
	// load reads and checks a scenario file. It stands for one scenario, or for one of each combination of its matrix, in
	// order. Its errors are the user's to mend.
	load(path string) ([]scenario, error)
	// loadSchedule reads and checks a schedule file, with the scenario that it names. Its errors are the user's to mend.
	loadSchedule(path string) (recording, error)
	// reconcilers, racers, faults and detectors list what scenarios may name.
	reconcilers() []entry
	racers() []entry
	faults() []entry
	detectors() []entry
}

// scenario is a scenario that was loaded.
type scenario interface {
	// entry is its combination of the values of a matrix, as "name=value" and in the matrix's order; nil without a matrix.
	entry() []string
	// prepare applies the overrides, which map names of controllers to names of reconcilers. Its errors are the user's to
	// mend.
	prepare(overrides map[string]string) (exploration, error)
}

// encoder writes schedules of one scenario.
type encoder interface {
	// encode returns the content that a file is to have, which names the scenario as it is seen from there. An empty name keeps
	// that of the file which the schedule is made of.
	encode(file, name string, s *schedule.Schedule) ([]byte, error)
}

// exploration is a scenario that is ready to be explored.
type exploration interface {
	encoder
	// header returns what is known before anything has run.
	header() history.Header
	// explore runs it. The result has everything but the header and the command line. There is none if the context ends it.
	// An error is a usageError where the scenario must be mended, and else an internal one.
	explore(ctx context.Context, o options) (*history.Result, error)
}

// recording is a schedule file that was loaded.
type recording interface {
	// prepare applies overrides like those of a scenario, on top of those that the file has.
	prepare(overrides map[string]string) (replayer, error)
}

// replayer is a schedule that is ready to be replayed.
type replayer interface {
	encoder
	// header is like that of an exploration.
	header() history.Header
	// scenario is the path of the scenario's file.
	scenario() string
	schedule() *schedule.Schedule
	// replay runs the schedule: by its trace, if exact, and else by its elements. Errors are like those of an exploration.
	replay(exact bool) (*history.Replay, error)
	// run runs another schedule of the scenario, by its elements.
	run(s *schedule.Schedule) (*history.Replay, error)
	// differ says where two runs under the schedule went apart; it is empty if they did not.
	differ(first, second *history.History) string
	// shrink makes the schedule smaller, which fails by its elements or by its trace.
	shrink(ctx context.Context) (*schedule.Schedule, error)
}

// options say how far an exploration goes.
type options struct {
	seed   int64
	runs   int           // random walks
	budget time.Duration // of real time; if set, it takes the place of runs
	// progress is called after every execution, and finding for each new finding, at once.
	progress func(progress)
	finding  func(*history.Finding)
}

// progress is how far an exploration has come.
type progress struct {
	strategy   string
	executions int // in all
	done       int // of the strategy
	total      int // that the strategy will run, zero if not known
	findings   int
}

// entry is a name that scenarios may use, and what it is.
type entry struct{ name, doc string }
