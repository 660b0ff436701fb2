package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// breaker breaks watches, as a fault says.
type breaker struct{ fault schedule.Fault }

var _ sim.Streamer = breaker{}

func (breaker) Before(*sim.Door) {}
func (breaker) After(*sim.Door)  {}

func (b breaker) Deliver(s *sim.Stream) {
	if b.fault.Type == schedule.Relist {
		s.Relist(b.fault.For)
	} else {
		s.Lag(b.fault.For)
	}
}

func newBreaker(fault schedule.Fault) (sim.Reactor, error) { return breaker{fault}, nil }

// spectator is a racer that follows a kind, and writes down what it is told and when.
type spectator struct {
	kind  string
	begin time.Time
	told  []string
	view  *cache.View
}

func (s *spectator) Start(env sim.RacerEnv) {
	s.begin = env.Now()
	s.view = env.Informer(env.Kind(s.kind), func(d cache.Delta) {
		line := fmt.Sprintf("%s %s %s", env.Now().Sub(s.begin).Round(time.Second), d.Type, d.Object.GetName())
		switch {
		case d.Unknown:
			line += " unknown"
		case d.Initial:
			line += " initial"
		case d.Type == apiserver.Modified:
			line = fmt.Sprintf("%s from %s", line, d.Old.GetLabels()["n"])
		}
		s.told = append(s.told, fmt.Sprintf("%s %s", line, d.Object.GetLabels()["n"]))
	})
}

// changer is a script that makes changes, one a minute.
type changer struct {
	env     sim.RacerEnv
	changes []change
	next    int
}

// change creates an object, labels it, or deletes it if the label is empty.
type change struct{ kind, name, label string }

func (c *changer) Start(env sim.RacerEnv) {
	c.env = env
	env.Queue("changes", 1, func(string) sim.Task { return c }).AddAfter("all", time.Minute)
}

func (c *changer) Next(response *apiserver.Response) sim.Action {
	if response != nil && c.next < len(c.changes) {
		return sim.Wait(time.Minute)
	}
	if c.next == len(c.changes) {
		return sim.Done()
	}
	change := c.changes[c.next]
	c.next++
	obj := configMap(change.name)
	r := &apiserver.Request{Kind: c.env.Kind(change.kind), Namespace: "default", Name: change.name}
	if change.kind == "Secret" {
		r.Object = &corev1.Secret{ObjectMeta: obj.ObjectMeta}
	} else {
		r.Object = obj
	}
	r.Object.SetLabels(map[string]string{"n": change.label})
	switch change.label {
	case "":
		r.Verb, r.Object = schedule.Delete, nil
	case "1":
		r.Verb, r.Name = schedule.Create, ""
	default:
		r.Verb = schedule.Update
	}
	return sim.Call(r)
}

// watched is a scenario in which two racers follow ConfigMaps and one Secrets, while a script changes them.
func watched(spectators map[string]*spectator, changes ...change) *sim.Config {
	config := &sim.Config{
		Name: "watched", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: testScheme, NewReactor: newBreaker,
		Given: []apiserver.Object{configMap("given")}, Unsettled: true,
	}
	for _, name := range []string{"one", "two", "secrets"} {
		kind := "ConfigMap"
		if name == "secrets" {
			kind = "Secret"
		}
		config.Racers = append(config.Racers, sim.RacerConfig{Name: name, New: func() sim.Racer {
			spectators[name] = &spectator{kind: kind}
			return spectators[name]
		}})
	}
	config.Racers = append(config.Racers, sim.RacerConfig{Name: "script", WithScript: true,
		New: func() sim.Racer { return &changer{changes: changes} }})
	return config
}

// delivery names the n-th delivery of a ConfigMap to a racer.
func delivery(racer, name string, n int) schedule.Event {
	return schedule.Event{Actor: racer, Verb: schedule.Deliver, Kind: "ConfigMap", Namespace: "default", Name: name, Occurrence: n}
}

func watchFault(t schedule.FaultType, at schedule.Event, lasts time.Duration) schedule.Fault {
	return schedule.Fault{Type: t, At: at, Params: schedule.Params{For: lasts}}
}

// TestWatchFaults checks what the racer whose watch a fault strikes at is told, and when; another one that follows the same
// kind, and one of another kind, must not notice.
func TestWatchFaults(t *testing.T) {
	changes := []change{ // at minutes 1 to 7
		{"ConfigMap", "a", "1"}, {"ConfigMap", "a", "2"}, {"Secret", "s", "1"}, {"ConfigMap", "b", "1"}, {"ConfigMap", "a", "3"},
		{"ConfigMap", "a", ""}, {"ConfigMap", "b", ""},
	}
	standard := []string{"0s ADDED given initial ", "1m0s ADDED a 1", "2m0s MODIFIED a from 1 2", "4m0s ADDED b 1",
		"5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}
	tests := []struct {
		name   string
		faults []schedule.Fault
		heal   time.Duration
		told   []string
		end    time.Duration // of the run, less the horizon
	}{
		{"no fault", nil, 0, standard, 7 * time.Minute},
		{"a fault elsewhere", []schedule.Fault{watchFault(schedule.Relist, delivery("one", "c", 1), time.Hour)}, 0, standard, 7 * time.Minute},
		{"lag", []schedule.Fault{watchFault(schedule.CacheLag, delivery("one", "a", 2), 150*time.Second)}, 0, []string{
			"0s ADDED given initial ", "1m0s ADDED a 1", "4m30s MODIFIED a from 1 2", "4m30s ADDED b 1",
			"5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"drop", []schedule.Fault{watchFault(schedule.WatchDrop, delivery("one", "b", 1), time.Hour)}, 0, []string{
			"0s ADDED given initial ", "1m0s ADDED a 1", "2m0s MODIFIED a from 1 2", "1h4m0s ADDED b 1",
			"1h4m0s MODIFIED a from 2 3", "1h4m0s DELETED a 3", "1h4m0s DELETED b 1"}, 64 * time.Minute},
		{"one after the other", []schedule.Fault{watchFault(schedule.CacheLag, delivery("one", "a", 1), 30*time.Second),
			watchFault(schedule.CacheLag, delivery("one", "a", 2), 30*time.Second)}, 0, []string{
			"0s ADDED given initial ", "1m30s ADDED a 1", "2m30s MODIFIED a from 1 2", "4m0s ADDED b 1",
			"5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"both at once", []schedule.Fault{watchFault(schedule.Relist, delivery("one", "a", 1), 30*time.Second),
			watchFault(schedule.CacheLag, delivery("one", "a", 1), 90*time.Second)}, 0, []string{
			"0s ADDED given initial ", "2m30s ADDED a 2", "2m30s MODIFIED given from  ", "4m0s ADDED b 1",
			"5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"both, the longer first", []schedule.Fault{watchFault(schedule.CacheLag, delivery("one", "a", 1), 90*time.Second),
			watchFault(schedule.Relist, delivery("one", "a", 1), 30*time.Second)}, 0, []string{"0s ADDED given initial ", "2m30s ADDED a 2",
			"2m30s MODIFIED given from  ", "4m0s ADDED b 1", "5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"relist", []schedule.Fault{watchFault(schedule.Relist, delivery("one", "b", 1), 150*time.Second)}, 0, []string{
			"0s ADDED given initial ", "1m0s ADDED a 1", "2m0s MODIFIED a from 1 2", "6m30s DELETED a unknown 2",
			"6m30s ADDED b 1", "6m30s MODIFIED given from  ", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"relist at once", []schedule.Fault{watchFault(schedule.Relist, delivery("one", "a", 3), 0)}, 0, []string{
			"0s ADDED given initial ", "1m0s ADDED a 1", "2m0s MODIFIED a from 1 2", "4m0s ADDED b 1",
			"5m0s MODIFIED a from 2 3", "5m0s MODIFIED b from 1 1", "5m0s MODIFIED given from  ", "6m0s DELETED a 3",
			"7m0s DELETED b 1"}, 7 * time.Minute},
		{"healed lag", []schedule.Fault{watchFault(schedule.CacheLag, delivery("one", "a", 2), sim.Forever)}, 270 * time.Second,
			[]string{"0s ADDED given initial ", "1m0s ADDED a 1", "4m30s MODIFIED a from 1 2", "4m30s ADDED b 1",
				"5m0s MODIFIED a from 2 3", "6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"healed relist", []schedule.Fault{watchFault(schedule.Relist, delivery("one", "a", 1), time.Hour)}, 330 * time.Second,
			[]string{"0s ADDED given initial ", "5m30s ADDED a 3", "5m30s ADDED b 1", "5m30s MODIFIED given from  ",
				"6m0s DELETED a 3", "7m0s DELETED b 1"}, 7 * time.Minute},
		{"for ever", []schedule.Fault{watchFault(schedule.CacheLag, delivery("one", "a", 2), sim.Forever)}, 0,
			[]string{"0s ADDED given initial ", "1m0s ADDED a 1"}, 7 * time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spectators := map[string]*spectator{}
			config := watched(spectators, changes...)
			config.Faults.HealAfter = test.heal
			h := run(t, config, sim.Plan{Faults: test.faults})
			if h.Outcome != history.Terminal {
				t.Fatalf("the run ended %s: %s", h.Outcome, h.Reason)
			}
			if got := (h.End - h.Horizon).Round(time.Second); got != test.end {
				t.Errorf("the run became quiet at %s, want %s", got, test.end)
			}
			for name, want := range map[string][]string{
				"one": test.told, "two": standard, "secrets": {"3m0s ADDED s 1"},
			} {
				if got := spectators[name].told; !slices.Equal(got, want) {
					t.Errorf("%s was told\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
				}
			}
		})
	}
}

// TestWatchFaultRecords checks what the history says of faults at watches: the step that was held back or that is a new list,
// for how long, what made it possible, and that the events after a new list have the names they have without it.
func TestWatchFaultRecords(t *testing.T) {
	changes := []change{{"ConfigMap", "a", "1"}, {"ConfigMap", "a", "2"}, {"ConfigMap", "a", "3"}, {"ConfigMap", "a", "4"}}
	tests := []struct {
		fault schedule.FaultType
		at    schedule.Event
		event string
		cause string // the event that Cause names
		held  time.Duration
		last  string // the delivery at the end
	}{
		{schedule.WatchDrop, delivery("one", "a", 2), "one Deliver ConfigMap default/a #2",
			"script(all) Update ConfigMap default/a #1", 90 * time.Second, "one Deliver ConfigMap default/a #4"},
		{schedule.Relist, delivery("one", "a", 2), "one Sync ConfigMap #2",
			"script(all) Update ConfigMap default/a #2", 90 * time.Second, "one Deliver ConfigMap default/a #4"},
	}
	for _, test := range tests {
		config := watched(map[string]*spectator{}, changes...)
		h := run(t, config, sim.Plan{Faults: []schedule.Fault{watchFault(test.fault, test.at, test.held)}})
		result := h.Faults[0]
		if !result.Struck || result.Record < 0 {
			t.Fatalf("%s: the result is %+v", test.fault, result)
		}
		last := ""
		for i, r := range h.Records {
			if r.Fault != "" != (i == result.Record) {
				t.Errorf("%s: record %d, %s, has fault %q", test.fault, i, r.Event, r.Fault)
			}
			if r.Event.Actor == "one" {
				last = r.Event.String()
			}
		}
		r := h.Records[result.Record]
		if r.Fault != test.fault || r.Event.String() != test.event || r.Held.Round(time.Second) != test.held {
			t.Errorf("%s: the record is %s with %s, held %s", test.fault, r.Event, r.Fault, r.Held)
		}
		if got := h.Records[r.Cause].Event.String(); got != test.cause {
			t.Errorf("%s: its cause is %s, want %s", test.fault, got, test.cause)
		}
		if last != test.last {
			t.Errorf("%s: the last delivery is %s, want %s", test.fault, last, test.last)
		}
	}
}

// TestHeldAndLagging checks a delivery that a fault and a constraint both keep back.
func TestHeldAndLagging(t *testing.T) {
	changes := []change{{"ConfigMap", "a", "1"}, {"ConfigMap", "a", "2"}}
	waits := schedule.Event{Actor: "script", Key: "all", Verb: schedule.Update, Kind: "ConfigMap", Namespace: "default", Name: "a",
		Occurrence: 1}
	for lag, want := range map[time.Duration]string{30 * time.Second: "2m0s ADDED a 1", 90 * time.Second: "2m30s ADDED a 1"} {
		spectators := map[string]*spectator{}
		at := delivery("one", "a", 1)
		h := run(t, watched(spectators, changes...), sim.Plan{
			Constraints: []schedule.Constraint{{Event: at, Waits: waits}},
			Faults:      []schedule.Fault{watchFault(schedule.CacheLag, at, lag)},
		})
		if got := spectators["one"].told[1]; got != want || !h.Constraints[0].Matched {
			t.Errorf("with a lag of %s it was told %q, want %q; the constraint is %+v", lag, got, want, h.Constraints[0])
		}
	}
}

// TestOwnStreamer checks that a scenario's own reactor is asked about every delivery, once, by its name.
func TestOwnStreamer(t *testing.T) {
	own := &ownStreamer{}
	config := watched(map[string]*spectator{}, change{"ConfigMap", "a", "1"}, change{"ConfigMap", "a", "2"}, change{"Secret", "s", "1"})
	config.Reactors = []func() sim.Reactor{func() sim.Reactor { return own }}
	h := run(t, config, sim.Plan{})
	var delivered []string
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Deliver {
			delivered = append(delivered, r.Event.String())
		}
	}
	slices.Sort(own.asked)
	slices.Sort(delivered)
	if !slices.Equal(own.asked, delivered) || len(delivered) != 5 {
		t.Errorf("asked about\n%s\ndelivered was\n%s", strings.Join(own.asked, "\n"), strings.Join(delivered, "\n"))
	}
}

type ownStreamer struct {
	breaker
	asked []string
}

func (s *ownStreamer) Deliver(stream *sim.Stream) {
	s.asked = append(s.asked, stream.Event().String())
	if stream.Event().Actor == "one" {
		stream.Lag(10 * time.Second)
	}
}

// TestLagSettles checks that the span of an Eventually counts from the end of a lag, and that an operator which is told only
// then has all the time it wants: also if a horizon has passed in between.
func TestLagSettles(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	properties, errs := property.Compile(coreKinds{kinds}, written.variables, written.definitions)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Labels["n"] != "2" || cm.Data != nil {
			return ctrl.Result{}, nil
		}
		if cm.Annotations["seen"] == "" {
			time.Sleep(5 * time.Second)
		}
		return ctrl.Result{}, set(ctx, c, cm, "x")
	}, configMap("a"))
	config.Kinds, config.Properties, config.NewReactor = kinds, properties, newBreaker
	config.Racers = []sim.RacerConfig{{Name: "script", WithScript: true, New: func() sim.Racer {
		return &changer{changes: []change{{"ConfigMap", "a", "2"}}}
	}}}
	at := delivery("operator", "a", 1)
	at.Incarnation = 1
	for _, lag := range []time.Duration{0, time.Minute, 3 * time.Hour} {
		var faults []schedule.Fault
		if lag > 0 {
			faults = append(faults, watchFault(schedule.CacheLag, at, lag))
		}
		h := run(t, config, sim.Plan{Faults: faults})
		if v := h.Verdicts[0]; v.Status != property.Held || h.Outcome != history.Terminal {
			t.Errorf("lag %s: %s is %s (%s), the run ended %s", lag, v.Property.Name, v.Status, v.Note, h.Outcome)
		}
		if len(faults) > 0 && !h.Faults[0].Struck {
			t.Errorf("lag %s: the fault did not strike", lag)
		}
	}
}

// shuffler is a strategy that takes the default order, and deals lists out at random.
type shuffler struct{ random *rand.Rand }

func (shuffler) Choose([]sim.Choice) int                 { return 0 }
func (shuffler) Delay(schedule.Event) time.Duration      { return 0 }
func (s shuffler) Permute(_ schedule.Event, n int) []int { return s.random.Perm(n) }

// TestRelistOrder checks that a strategy says in which order a new list is told of, but that deletions come first.
func TestRelistOrder(t *testing.T) {
	changes := []change{{"ConfigMap", "a", "1"}, {"ConfigMap", "b", "1"}, {"ConfigMap", "c", "1"}, {"ConfigMap", "d", "1"},
		{"ConfigMap", "a", ""}, {"ConfigMap", "b", ""}}
	orders := map[string]bool{}
	for seed := range uint64(100) {
		told := func() []string {
			spectators := map[string]*spectator{}
			run(t, watched(spectators, changes...), sim.Plan{
				Strategy: shuffler{rand.New(rand.NewPCG(seed, 4))},
				Faults:   []schedule.Fault{watchFault(schedule.Relist, delivery("one", "a", 2), 150*time.Second)},
			})
			return spectators["one"].told[5:]
		}
		first := told()
		if again := told(); !slices.Equal(first, again) {
			t.Fatalf("seed %d: told %q, and then %q", seed, first, again)
		}
		for i, line := range first {
			if strings.Contains(line, "DELETED") != (i < 2) {
				t.Fatalf("seed %d: told %q", seed, first)
			}
		}
		orders[strings.Join(first, ", ")] = true
	}
	if len(orders) != 12 {
		t.Errorf("there are %d orders of 2 deletions and 3 updates, want 2! times 3!", len(orders))
	}
}
