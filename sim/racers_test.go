package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// sleeper is a racer that notes when its passes begin, in seconds since it was started.
type sleeper struct {
	plan   func(queue sim.RacerQueue)
	passes []string
}

func (s *sleeper) Start(env sim.RacerEnv) {
	start := env.Now()
	s.plan(env.Queue("passes", 1, func(key string) sim.Task {
		s.passes = append(s.passes, fmt.Sprintf("%s at %.0f", key, env.Now().Sub(start).Seconds()))
		return nothing{}
	}))
}

type nothing struct{}

func (nothing) Next(*apiserver.Response) sim.Action { return sim.Done() }

// TestRacerQueue checks that the queue of a racer has the rules of client-go's: of two times of a key the earlier counts, and a
// time that a key waits for stays when the key is added besides.
func TestRacerQueue(t *testing.T) {
	const second = time.Second
	for name, tt := range map[string]struct {
		plan func(q sim.RacerQueue)
		want []string
	}{
		"an earlier time":        {func(q sim.RacerQueue) { q.AddAfter("a", 9*second); q.AddAfter("a", 5*second) }, []string{"a at 5"}},
		"a later time":           {func(q sim.RacerQueue) { q.AddAfter("a", 5*second); q.AddAfter("a", 9*second) }, []string{"a at 5"}},
		"at once, and at a time": {func(q sim.RacerQueue) { q.Add("a"); q.AddAfter("a", 5*second) }, []string{"a at 0", "a at 5"}},
		"at a time, and at once": {func(q sim.RacerQueue) { q.AddAfter("a", 5*second); q.Add("a") }, []string{"a at 0", "a at 5"}},
		"at a time that is past": {func(q sim.RacerQueue) { q.AddAfter("a", -second) }, []string{"a at 0"}},
		"twice at once":          {func(q sim.RacerQueue) { q.Add("a"); q.Add("a") }, []string{"a at 0"}},
		"two keys":               {func(q sim.RacerQueue) { q.AddAfter("a", 5*second); q.AddAfter("b", second) }, []string{"b at 1", "a at 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			var racer *sleeper
			run(t, &sim.Config{Name: "test", Kinds: apiserver.NewKinds(apiserver.V136), Unsettled: true,
				Racers: []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
					racer = &sleeper{plan: tt.plan}
					return racer
				}}}}, sim.Plan{})
			if !slices.Equal(racer.passes, tt.want) {
				t.Errorf("passes over %q, want %q", racer.passes, tt.want)
			}
		})
	}
}
