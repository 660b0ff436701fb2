package cmd

import (
	"context"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// engine is what the command drives.
type engine interface {
	// load reads and checks a scenario. Its errors are the user's to mend.
	load(path string) (scenario, error)
	// reconcilers and racers list what scenarios may name.
	reconcilers() []entry
	racers() []entry
}

// scenario is a scenario that was loaded.
type scenario interface {
	// prepare applies the overrides, which map names of controllers to names of reconcilers. Its errors are the user's to
	// mend.
	prepare(overrides map[string]string) (exploration, error)
}

// exploration is a scenario that is ready to be explored.
type exploration interface {
	// header returns a result with only what is known before anything has run: names, and the scenario's variables.
	header() history.Result
	// explore runs it. The result has everything but what the header has, and the command line. There is none if the
	// context ends it. An error is a usageError where the scenario must be mended, and else an internal one.
	explore(ctx context.Context, o options) (*history.Result, error)
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
