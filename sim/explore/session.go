package explore

import (
	"context"

	"github.com/stalemate-dev/stalemate/sim"
)

// Session explores a scenario unit by unit. It is used by one goroutine at a time.
//
// An exploration is opened in each process that takes part in it, with equal options. What its units come to is put together with
// [Merge]; the findings of the whole are those of [Part.Result], whichever process did which unit, and in which order:
//
//	session, err := explore.Open(ctx, config, options)
//	...
//	whole := explore.Merge(sweeps, seeds, more)
//	for _, unit := range whole.Pending() { // what is to be shrunk
//		part, err := session.Do(ctx, unit)
//		...
//		whole = explore.Merge(whole, part)
//	}
//	result := whole.Result()
type Session struct {
	x *explorer
}

// Open makes the world of a scenario, and runs its default order, see [Run] for the errors. Of the options Runs, For, Clock,
// Progress and Found mean nothing to a session.
func Open(ctx context.Context, config *sim.Config, options Options) (*Session, error) {
	return nil, nil
}

// World returns the world that the session explores.
func (s *Session) World() *sim.World { return s.x.world }

// Do does a unit. Its errors are those of [Run]; a unit that it returns an error for has come to nothing, and the session can go on
// with others.
func (s *Session) Do(ctx context.Context, unit Unit) (*Part, error) {
	return nil, nil
}
