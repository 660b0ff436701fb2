package clickhouse

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// BenchmarkRun measures whole runs in the default order.
//
//   - calls/cpu-s: the requests of all actors for each second of CPU time;
//   - schedules/cpu-s: runs for each second of CPU time;
//   - floor-ratio: the time of what no harness can avoid, the copies and goroutine handoffs that the operator's own calls
//     force, divided by the time of the run. 1 would be a harness that costs nothing.
func BenchmarkRun(b *testing.B) {
	for _, file := range orderFiles {
		b.Run(strings.TrimSuffix(file, ".yaml"), func(b *testing.B) { benchmarkRun(b, file) })
	}
}

func benchmarkRun(b *testing.B, file string) {
	registry := &scenarios.Registry{}
	Register(registry)
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
	if err != nil {
		b.Fatal(err)
	}
	config, err := scenario.Config(registry, nil)
	if err != nil {
		b.Fatal(err)
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	requests, runs := 0, 0
	var last *history.History
	begin := cpuTime()
	for b.Loop() {
		if last, err = world.Run(sim.Plan{}); err != nil {
			b.Fatal(err)
		}
		requests += last.Requests
		runs++
	}
	spent := cpuTime() - begin
	b.ReportMetric(float64(requests)/spent.Seconds(), "calls/cpu-s")
	b.ReportMetric(float64(runs)/spent.Seconds(), "schedules/cpu-s")
	b.ReportMetric(floor(last, runs).Seconds()/spent.Seconds(), "floor-ratio")
}

// floor measures what the operator's calls of a run force, as often as the run was executed: for each call one handoff
// to its goroutine, for each object read one copy, and for each object written one copy in and one out.
func floor(h *history.History, runs int) time.Duration {
	var calls [][]apiserver.Object
	for _, r := range h.Records {
		if r.Event.Incarnation == 0 || !r.Event.Verb.IsRequest() {
			continue
		}
		var copied []apiserver.Object
		if r.After != nil {
			copied = append(copied, r.After)
			if r.Event.Verb.IsWrite() {
				copied = append(copied, r.After)
			}
		}
		for range 1 + r.Repeats {
			calls = append(calls, copied)
		}
	}
	begin := cpuTime()
	for range runs {
		synctest.Test(new(testing.T), func(*testing.T) { handOff(calls) })
	}
	return cpuTime() - begin
}

func handOff(calls [][]apiserver.Object) {
	grant := make(chan struct{}, 1)
	go func() {
		for _, copied := range calls {
			<-grant
			for _, obj := range copied {
				_ = obj.DeepCopyObject()
			}
		}
	}()
	for range calls {
		synctest.Wait()
		grant <- struct{}{}
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
