package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// bySeedOnly are options under which the bug of twoStep is found by seed only.
var bySeedOnly = explore.Options{Seed: 1, Revealed: -1}

func opened(t *testing.T, config *sim.Config, options explore.Options) *explore.Session {
	t.Helper()
	session, err := explore.Open(t.Context(), config, options)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func done(t *testing.T, session *explore.Session, unit explore.Unit) *explore.Part {
	t.Helper()
	part, err := session.Do(t.Context(), unit)
	if err != nil {
		t.Fatalf("%s: %v", unit.String(), err)
	}
	return part
}

// night explores as workers do: units of so many seeds in generations, and then what is to be shrunk.
type night struct {
	shard, shards    int
	seeds, inUnit    int
	unitsAtOnce      int
	withoutSweeps    bool
	session          *explore.Session
	parts, shrinking int
}

// explore returns what all units came to. Every part goes through JSON, as between processes.
func (n *night) explore(t *testing.T) *explore.Part {
	t.Helper()
	whole := explore.Merge()
	if !n.withoutSweeps {
		whole = explore.Merge(transported(t, done(t, n.session, explore.Unit{Kind: explore.SweepUnit})))
	}
	for at := 0; at < n.seeds; {
		known, seen := whole.Known(), whole.Seen()
		parts := []*explore.Part{whole}
		for range n.unitsAtOnce {
			count := min(n.inUnit, (n.seeds-at-n.shard+n.shards-1)/n.shards)
			unit := explore.Unit{Kind: explore.SeedUnit, First: int64(1 + at + n.shard), Step: int64(n.shards), Count: count,
				Known: known, Seen: seen}
			if at += n.inUnit * n.shards; count <= 0 {
				break
			}
			parts = append(parts, transported(t, done(t, n.session, unit)))
			n.parts++
			if at >= n.seeds {
				break
			}
		}
		slices.Reverse(parts)
		whole = explore.Merge(parts...)
	}
	for _, unit := range whole.Pending() {
		n.shrinking++
		whole = explore.Merge(transported(t, done(t, n.session, unit)), whole)
	}
	if left := whole.Pending(); len(left) > 0 {
		t.Errorf("%d units are pending after all have been done", len(left))
	}
	swept := 0
	for _, f := range whole.Failures {
		swept += min(f.Place, 1)
	}
	if got, most := len(whole.Bodies().Findings), swept+len(whole.Shrunk); got > most {
		t.Errorf("the whole has %d histories, of %d that sweeps found and %d that were shrunk", got, swept, len(whole.Shrunk))
	}
	return whole
}

// transported returns a part as another process has it: from its JSON and its bodies.
func transported(t *testing.T, part *explore.Part) *explore.Part {
	t.Helper()
	text, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	received := &explore.Part{}
	if err := json.Unmarshal(text, received); err != nil {
		t.Fatal(err)
	}
	if err := received.Attach(part.Bodies()); err != nil {
		t.Fatal(err)
	}
	if got := jsonOf(t, received); got != string(text) {
		t.Fatalf("after a round trip a part is %s, want %s", got, text)
	}
	return received
}

func jsonOf(t rapid.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// findingsOf says what findings there are, with all that decides which ones.
func findingsOf(r *history.Result) []string {
	var texts []string
	for i := range r.Findings {
		f := &r.Findings[i]
		text := fmt.Sprintf("%q by %s, seed %d, execution %d, and %d more", f.Signature, f.Strategy, f.Seed, f.Execution, f.Also)
		if s := f.Schedule; s != nil {
			text += fmt.Sprintf(", %v %v %v, from %d, minimal %v, expects %x, trace of %d", s.Constraints, s.Faults, s.Latencies,
				s.Origin.Size, s.Origin.Minimal, s.Expect.Hash, len(s.Trace.Steps))
		}
		texts = append(texts, text)
	}
	return texts
}

// TestSessionIsRun checks that units come to the findings and to the coverage that one exploration of all comes to.
func TestSessionIsRun(t *testing.T) {
	sweep := sweepCanaries[0]
	for _, test := range []struct {
		name    string
		config  func(*testing.T) *sim.Config
		options explore.Options
		seeds   int
	}{
		{"default order", func(t *testing.T) *sim.Config {
			return defaultOrderCanaries[0].config(t, defaultOrderCanaries[0].buggy)
		},
			explore.Options{Seed: 1}, 30},
		{"sweep", func(t *testing.T) *sim.Config { return sweep.config(t, sweep.buggy) }, explore.Options{Seed: 1}, 60},
		{"revealed", func(t *testing.T) *sim.Config { return twoStep(t, true) }, explore.Options{Seed: 1}, 60},
		{"by seed", func(t *testing.T) *sim.Config { return twoStep(t, true) }, bySeedOnly, 400},
		{"nothing", func(t *testing.T) *sim.Config { return twoStep(t, false) }, bySeedOnly, 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := night{shards: 1, seeds: test.seeds, inUnit: 40, unitsAtOnce: 2, session: opened(t, test.config(t), test.options)}
			got := n.explore(t).Result()
			options := test.options
			options.Runs = test.seeds
			want := explored(t, test.config(t), options)
			if diff := cmp.Diff(findingsOf(want), findingsOf(got)); diff != "" {
				t.Errorf("findings of a run (-) and of units (+):\n%s", diff)
			}
			if diff := cmp.Diff(jsonOf(t, want.Coverage), jsonOf(t, got.Coverage)); diff != "" {
				t.Errorf("coverage of a run (-) and of units (+):\n%s", diff)
			}
			if got.Default.Hash != want.Default.Hash || got.Scenario != want.Scenario || got.Seed != want.Seed {
				t.Errorf("the default run is %x of %s, want %x of %s", got.Default.Hash, got.Scenario, want.Default.Hash, want.Scenario)
			}
		})
	}
}

// TestShards checks that shards, once they are merged, have the findings of one exploration of all seeds, whatever the size of units
// and however many there are at once, and that nothing is left to shrink then.
func TestShards(t *testing.T) {
	session := opened(t, twoStep(t, true), bySeedOnly)
	one := night{shards: 1, seeds: 400, inUnit: 50, unitsAtOnce: 4, session: session}
	whole := one.explore(t)
	want := findingsOf(whole.Result())
	if len(want) == 0 || one.shrinking == 0 {
		t.Fatalf("%d findings, %d shrunk", len(want), one.shrinking)
	}
	for shards := 2; shards <= 3; shards++ {
		merged, executions := explore.Merge(), 0
		for shard := range shards {
			n := night{shard: shard, shards: shards, seeds: 400, inUnit: 30, unitsAtOnce: 1 + shard, withoutSweeps: shard != 1,
				session: opened(t, twoStep(t, true), bySeedOnly)}
			part := n.explore(t)
			executions += part.Tally.Executions
			merged = explore.Merge(part, merged)
		}
		result := merged.Result()
		if diff := cmp.Diff(want, findingsOf(result)); diff != "" {
			t.Errorf("findings of one exploration (-) and of %d shards (+):\n%s", shards, diff)
		}
		if len(merged.Pending()) > 0 {
			t.Errorf("%d shards leave %v pending", shards, merged.Pending())
		}
		if executions != whole.Tally.Executions || result.Hash != whole.Tally.Hash {
			t.Errorf("%d shards: %d executions, hash %x; want %d, %x", shards, executions, result.Hash, whole.Tally.Executions,
				whole.Tally.Hash)
		}
		if diff := cmp.Diff(jsonOf(t, whole.Result().Coverage), jsonOf(t, result.Coverage)); diff != "" {
			t.Errorf("coverage of one exploration (-) and of %d shards (+):\n%s", shards, diff)
		}
	}
}

// TestMerge checks that what parts come to does not depend on the order in which they are merged, nor on what is merged first.
func TestMerge(t *testing.T) {
	session := opened(t, twoStep(t, true), bySeedOnly)
	parts := []*explore.Part{done(t, session, explore.Unit{Kind: explore.SweepUnit})}
	for first := int64(1); first <= 400; first += 50 {
		parts = append(parts, done(t, session, explore.Unit{Kind: explore.SeedUnit, First: first, Count: 50}))
	}
	for _, unit := range explore.Merge(parts...).Pending() {
		parts = append(parts, done(t, session, unit))
	}
	before := jsonOf(t, parts)
	whole := explore.Merge(parts...)
	want, findings := jsonOf(t, whole), findingsOf(whole.Result())
	if len(findings) == 0 || len(parts) < 8 || len(whole.Novel) < 2 {
		t.Fatalf("%d findings and %d novel runs in %d parts", len(findings), len(whole.Novel), len(parts))
	}
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.Permutation(parts).Draw(t, "parts")
		for len(left) > 1 {
			at := rapid.IntRange(0, len(left)-2).Draw(t, "at")
			n := rapid.IntRange(1, len(left)-at).Draw(t, "n")
			left = slices.Replace(slices.Clone(left), at, at+n, explore.Merge(left[at:at+n]...))
		}
		merged := explore.Merge(left...)
		if got := jsonOf(t, merged); got != want {
			t.Fatalf("merged part is %s, want %s", got, want)
		}
		if diff := cmp.Diff(findings, findingsOf(merged.Result())); diff != "" {
			t.Fatalf("findings differ:\n%s", diff)
		}
	})
	if jsonOf(t, parts) != before {
		t.Error("merging has changed the parts")
	}
}

// TestUnitsStandAlone checks that what a unit comes to does not depend on what its session did before.
func TestUnitsStandAlone(t *testing.T) {
	units := []explore.Unit{
		{Kind: explore.SweepUnit}, {Kind: explore.SeedUnit, First: 7, Step: 3, Count: 30}, {Kind: explore.SeedUnit, First: 100, Count: 20},
	}
	shared := opened(t, twoStep(t, true), bySeedOnly)
	for _, unit := range units {
		want := jsonOf(t, done(t, shared, unit))
		if again := jsonOf(t, done(t, shared, unit)); again != want {
			t.Errorf("%s: a second time it is %s, want %s", unit.String(), again, want)
		}
		if alone := jsonOf(t, done(t, opened(t, twoStep(t, true), bySeedOnly), unit)); alone != want {
			t.Errorf("%s: alone it is %s, want %s", unit.String(), alone, want)
		}
	}
}

// counted is a program whose starts are counted.
type counted struct {
	sim.Program
	starts *int
}

func (c counted) Start(ctx context.Context, env *sim.Env) error {
	*c.starts++
	return c.Program.Start(ctx, env)
}

// TestBefore checks that every execution is announced before it is made, in its order and with what is known of it.
func TestBefore(t *testing.T) {
	starts := 0 // an operator starts once in each execution, as there are no crashes
	config := twoStep(t, true)
	config.Processes[0].Program = counted{config.Processes[0].Program, &starts}
	var announced []explore.Execution
	opened := false
	options := bySeedOnly
	options.Before = func(e explore.Execution) error {
		if opened && starts != len(announced) {
			t.Fatalf("%d executions were announced, and %d made before %+v", len(announced), starts, e)
		}
		announced = append(announced, e)
		return nil
	}
	session, err := explore.Open(t.Context(), config, options)
	if err != nil {
		t.Fatal(err)
	}
	opened = true
	whole := explore.Merge()
	for _, unit := range []explore.Unit{{Kind: explore.SweepUnit}, {Kind: explore.SeedUnit, First: 1, Count: 400}} {
		announced, starts = nil, 0
		part := done(t, session, unit)
		whole = explore.Merge(whole, part)
		exploring := 0
		for i, e := range announced {
			if e.Number != i+1 || e.Strategy == "" {
				t.Errorf("%s: execution %d is announced as %+v", unit.String(), i+1, e)
			}
			if e.Purpose == explore.Exploring {
				exploring++
			}
			if s := e.Schedule(); e.Strategy == explore.Sweep && s.Size() != 1 || s.Origin.Seed != e.Seed {
				t.Errorf("%s: the schedule of %+v is %+v", unit.String(), e, s)
			}
		}
		if exploring != part.Tally.Executions || starts != len(announced) {
			t.Errorf("%s: %d executions count and %d were made; announced were %d of %d", unit.String(), part.Tally.Executions, starts,
				exploring, len(announced))
		}
	}
	for _, unit := range whole.Pending() {
		announced, starts = nil, 0
		done(t, session, unit)
		if len(announced) < 3 || starts != len(announced) || announced[0].Purpose != explore.Recording ||
			announced[1].Purpose != explore.Pinning || announced[2].Purpose != explore.Shrinking {
			t.Errorf("%s: %d executions were made, announced were %+v", unit.String(), starts, announced)
		}
	}
	enough := errors.New("enough")
	options.Before = func(explore.Execution) error { return enough }
	if _, err := explore.Open(t.Context(), config, options); !errors.Is(err, enough) {
		t.Errorf("error is %v, want that of the hook", err)
	}
}

// TestSkip checks that executions which are to be skipped are not made, and that all others are what they were.
func TestSkip(t *testing.T) {
	var numbers []int
	options := bySeedOnly
	options.Before = func(e explore.Execution) error {
		numbers = append(numbers, e.Number)
		return nil
	}
	session := opened(t, twoStep(t, true), options)
	units := []explore.Unit{{Kind: explore.SweepUnit}, {Kind: explore.SeedUnit, First: 1, Count: 400}}
	units = append(units, explore.Merge(done(t, session, units[0]), done(t, session, units[1])).Pending()...)
	if len(units) < 3 {
		t.Fatal("nothing is to be shrunk")
	}
	for _, unit := range units {
		numbers = nil
		whole := done(t, session, unit)
		made := len(numbers)
		for _, skip := range []int{made, made / 2, 6} {
			unit.Skip = []int{skip}
			numbers = nil
			part := done(t, session, unit)
			if slices.Contains(numbers, skip) || part.Tally.Skipped != 1 {
				t.Errorf("%s: without %d executions %v were made, %d skipped", unit.String(), skip, numbers, part.Tally.Skipped)
			}
			if !slices.Equal(numbers[:skip-1], upTo(skip-1)) {
				t.Errorf("%s: without %d executions %v were made", unit.String(), skip, numbers)
			}
			if unit.Kind != explore.ShrinkUnit && (len(numbers) > made || part.Tally.Executions < whole.Tally.Executions-1) {
				t.Errorf("%s: without %d there are %d executions, and were %d", unit.String(), skip, part.Tally.Executions,
					whole.Tally.Executions)
			}
		}
	}
	sweeps := units[0]
	sweeps.Skip = []int{6}
	if account := done(t, session, sweeps).Tally.Strategies[1]; account.Name != explore.Sweep || account.Complete {
		t.Errorf("a sweep of which an execution was skipped is %+v", account)
	}
	sweeps.Skip = []int{1}
	if part, err := session.Do(t.Context(), sweeps); err == nil {
		t.Errorf("without its default order a scenario comes to %+v", part)
	}
	// What cannot be shrunk is not pending again, and stays as it was met.
	shrink := units[2]
	shrink.Skip = []int{1}
	part := explore.Merge(done(t, session, units[1]), done(t, session, shrink))
	if slices.ContainsFunc(part.Pending(), func(u explore.Unit) bool { return *u.Origin == *shrink.Origin }) {
		t.Errorf("%s is pending again", shrink.String())
	}
	if findings := part.Result().Findings; len(findings) == 0 || findings[0].Schedule.Trace == nil {
		t.Errorf("the finding that could not be shrunk is lost: %+v", findings)
	}
}

func upTo(n int) []int {
	var numbers []int
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// TestCorpus checks that the novel runs of an exploration, executed again as a corpus, show again what they showed, and that a failure
// of the corpus is shrunk as one by seed is.
func TestCorpus(t *testing.T) {
	session := opened(t, twoStep(t, true), bySeedOnly)
	seeds := done(t, session, explore.Unit{Kind: explore.SeedUnit, First: 1, Count: 400})
	var schedules []*schedule.Schedule
	for _, n := range seeds.Novel {
		schedules = append(schedules, n.Schedule)
	}
	for _, f := range explore.Merge(seeds).Bodies().Findings {
		schedules = append(schedules, f.Schedule)
	}
	unit := explore.Unit{Kind: explore.ScheduleUnit, Schedules: schedules}
	corpus := transported(t, done(t, session, unit))
	if corpus.Tally.Executions != len(schedules) {
		t.Errorf("%d executions of %d schedules", corpus.Tally.Executions, len(schedules))
	}
	want := seeds.Seen()
	got := corpus.Seen()
	missing := slices.DeleteFunc(slices.Clone(want), func(m explore.Mark) bool { return slices.Contains(got, m) })
	if len(want) < 10 || len(missing) > len(want)/20 {
		t.Errorf("of %d marks the corpus does not show %d", len(want), len(missing))
	}
	unit.Seen = got
	if again := done(t, session, unit); len(again.Novel) > 0 {
		t.Errorf("a second time there are novel runs: %+v", again.Novel)
	}
	pending := corpus.Pending()
	if len(pending) == 0 {
		t.Fatal("nothing of the corpus is to be shrunk")
	}
	whole := corpus
	for _, unit := range pending {
		whole = explore.Merge(whole, transported(t, done(t, session, unit)))
	}
	for _, f := range whole.Result().Findings {
		if f.Schedule.Size() > 2 || !f.Schedule.Origin.Minimal || f.Execution < 1 || f.Execution > len(schedules) {
			t.Errorf("finding of the corpus is %s, execution %d: %v %v", f.Strategy, f.Execution, f.Schedule.Constraints, f.Schedule.Faults)
		}
		checkReplays(t, twoStep(t, true), f.Schedule)
	}
}

// TestUnits checks what units are refused, and that one which is interrupted comes to nothing.
func TestUnits(t *testing.T) {
	session := opened(t, twoStep(t, false), bySeedOnly)
	for _, unit := range []explore.Unit{
		{Kind: "Nothing"}, {Kind: explore.ShrinkUnit}, {Kind: explore.ShrinkUnit, Origin: &explore.Origin{Strategy: explore.Sweep}},
		{Kind: explore.ShrinkUnit, Origin: &explore.Origin{Strategy: explore.Corpus}},
		{Kind: explore.ShrinkUnit, Origin: &explore.Origin{Strategy: explore.PCT, Seed: 1}}, // does not fail
	} {
		if part, err := session.Do(t.Context(), unit); err == nil || part != nil {
			t.Errorf("%s: part is %+v, error %v", unit.String(), part, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, kind := range []explore.UnitKind{explore.SweepUnit, explore.SeedUnit} {
		if part, err := session.Do(ended, explore.Unit{Kind: kind, First: 1, Count: 3}); !errors.Is(err, context.Canceled) || part != nil {
			t.Errorf("%s: part is %+v, error %v", kind, part, err)
		}
	}
	for _, test := range []struct {
		unit explore.Unit
		want string
	}{
		{explore.Unit{Kind: explore.SweepUnit}, "Sweeps"},
		{explore.Unit{Kind: explore.SeedUnit, First: 3, Count: 1}, "1 seed from 3"},
		{explore.Unit{Kind: explore.SeedUnit, First: 3, Step: 2, Count: 10}, "10 seeds from 3 in steps of 2"},
		{explore.Unit{Kind: explore.ScheduleUnit, Schedules: make([]*schedule.Schedule, 2)}, "2 schedules"},
		{explore.Unit{Kind: explore.ShrinkUnit, Origin: &explore.Origin{Strategy: explore.PCT, Seed: 4}}, "shrink PCT, seed 4"},
		{explore.Unit{Kind: explore.ShrinkUnit, Origin: &explore.Origin{Strategy: explore.Corpus, Execution: 4}},
			"shrink corpus, execution 4"},
	} {
		if got := test.unit.String(); got != test.want {
			t.Errorf("unit is %q, want %q", got, test.want)
		}
	}
}

// TestAttach checks that histories are put back to the part that they are of only.
func TestAttach(t *testing.T) {
	c := sweepCanaries[0]
	part := done(t, opened(t, c.config(t, c.buggy), explore.Options{}), explore.Unit{Kind: explore.SweepUnit})
	bodies := part.Bodies()
	if len(bodies.Findings) == 0 || part.Attach(bodies) != nil {
		t.Fatalf("bodies are %+v", bodies)
	}
	few, many, other := *bodies, *bodies, *bodies
	few.Findings = nil
	many.Findings = slices.Concat(bodies.Findings, bodies.Findings)
	other.Findings = slices.Clone(bodies.Findings)
	other.Findings[0].Seed++
	for name, wrong := range map[string]*history.Result{"too few": &few, "too many": &many, "another's": &other} {
		if err := part.Attach(wrong); err == nil {
			t.Errorf("%s findings are attached", name)
		}
	}
}
