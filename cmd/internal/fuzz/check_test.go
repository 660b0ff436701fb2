package fuzz

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// TestNightIsChecked checks that a night which no exploration writes is an error, and nothing worse.
func TestNightIsChecked(t *testing.T) {
	target := func(text string) string {
		return fmt.Sprintf(`{"kind":"Night","apiVersion":"%s","shards":2,"has":[1],"targets":[%s]}`, corpusVersion, text)
	}
	night := func(text string) string {
		return fmt.Sprintf(`{"kind":"Night","apiVersion":"%s",%s}`, corpusVersion, text)
	}
	for _, test := range []struct{ text, want string }{
		{"", "not the result of an exploration"},
		{target("") + target(""), "or more than one"},
		{target("") + "garbage", "or more than one"},
		{`{"kind":"Result","apiVersion":"stalemate.dev/v1alpha1","runs":[]}`, `found kind "Result"`},
		{`{"kind":"Night","apiVersion":"v9"}`, `of version "v9"`},
		{night(`"shards":"x"`), "not as 'fuzz' writes it"},
		{night(`"shards":0,"has":[1]`), "shards: 0"},
		{night(`"shards":2`), "of no shard"},
		{night(`"shards":2,"has":[3]`), "shard 3"},
		{night(`"shards":2,"has":[1,1]`), "shard 1"},
		{night(`"shards":2,"has":[1],"elapsed":-1`), "none below zero"},
		{target(`null`), "targets[0]: it lacks its part"},
		{target(`{"name":"a"}`), "targets[0]: it lacks its part"},
		{target(`{"name":"../../evil","part":{}}`), `name "../../evil"`},
		{target(`{"name":"","part":{}}`), `name ""`},
		{target(`{"name":"a","part":{},"deaths":[null]}`), "a: deaths[0]"},
		{target(`{"name":"a","part":{},"deaths":[{"kind":"../x"}]}`), "a: deaths[0]"},
		{target(`{"name":"a","part":{},"skipped":[null]}`), "a: skipped"},
		{target(`{"name":"a","part":{},"failed":{}}`), "a: failed"},
		{target(`{"name":"a","part":{},"cpu":-1}`), "a: cpu"},
		{target(`{"name":"a","part":{},"killed":-1}`), "a: killed"},
		{target(`{"name":"a","part":{}}`), "a: result"},
	} {
		if _, err := DecodeNight(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}

// TestMergeVersions checks that shards of different versions of a scenario do not take the places of each other's findings.
func TestMergeVersions(t *testing.T) {
	shard := func(n int, digest string) *Night {
		return &Night{Shards: 2, Has: []int{n}, Targets: []*NightTarget{{Target: &Target{Name: "a", Digest: digest}}}}
	}
	if _, err := Merge(shard(1, "one"), shard(2, "two")); err == nil || !strings.Contains(err.Error(), "different versions") {
		t.Errorf("the error is %v", err)
	}
}

// TestMissing checks that shards which are missing are named.
func TestMissing(t *testing.T) {
	for _, test := range []struct {
		night Night
		want  string
	}{
		{Night{Shards: 2, Has: []int{1, 2}}, ""},
		{Night{Shards: 3, Has: []int{2}}, "shard 1 of 3, shard 3 of 3"},
	} {
		if got := strings.Join(test.night.Missing(), ", "); got != test.want {
			t.Errorf("of %v there are missing: %s, want %s", test.night.Has, got, test.want)
		}
	}
	many := Night{Shards: 1000, Has: []int{1}}
	if got := many.Missing(); len(got) != maxMissing+1 {
		t.Errorf("there are named: %q", got)
	}
}

// TestNamesDiffer checks that no two targets have one name, whatever their scenarios are called.
func TestNamesDiffer(t *testing.T) {
	c := &catalog{}
	for _, name := range []string{"a", "a", "a 2", "canary", "a"} {
		c.targets = append(c.targets, &Target{header: history.Header{Scenario: name}, scenario: &scenarios.Scenario{}})
	}
	c.number()
	var names []string
	for _, target := range c.targets {
		names = append(names, target.Name)
	}
	if got, want := strings.Join(names, " "), "a a-2 a-2-2 canary-2 a-3"; got != want {
		t.Errorf("the names are %s, want %s", got, want)
	}
}

// TestRecordIsDamaged checks that a target whose record cannot be used is explored anew.
func TestRecordIsDamaged(t *testing.T) {
	for _, content := range []string{"", "{", "[]", `{"deaths":[null]}`, `{"skipped":[null]}`} {
		dir := t.TempDir()
		target := &Target{Name: "a", Digest: "d"}
		open := func() *ledger {
			l, err := openLedger(target, 0, &plan{1, 1, 1, 1}, dir, []string{"some.yaml"})
			if err != nil {
				t.Fatalf("%s: %v", content, err)
			}
			return l
		}
		first := open()
		write(t, filepath.Join(first.dir, recordFile), content)
		write(t, filepath.Join(first.dir, wholeFile), "{}")
		if again := open(); len(again.Deaths)+len(again.Skipped) > 0 || len(again.Corpus) != 1 {
			t.Errorf("%s: the record is %+v", content, again.record)
		}
		if _, err := os.Stat(filepath.Join(first.dir, wholeFile)); err == nil {
			t.Errorf("%s: what was done is still there", content)
		}
	}
}

// TestBlackBoxIsDamaged checks that whatever a full disk leaves of a black box is an error at most.
func TestBlackBoxIsDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "box")
	for _, content := range []string{"", "1", "1 0", "1 5\n{}", "00000000000000000001 -000000005\n{}", "00000000000000000001 0000000005\n{}"} {
		write(t, file, content)
		if f, err := readBlackBox(file); err == nil {
			t.Errorf("%q: no error, and %v", content, f)
		}
	}
}

// TestLimits checks that numbers with which seeds would overflow are an error, as are directories that two explorations share.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Runs = math.MaxInt }, "--runs 9223372036854775807"},
		{func(o *Options) { o.Shards = math.MaxInt }, "want 100000 shards at most"},
		{func(o *Options) { o.Seed = math.MaxInt }, "--seed 9223372036854775807"},
		{func(o *Options) {
			lock, err := lockFolder(o.Out)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Close() })
		}, "another exploration is at work"},
	} {
		o := options(t, writeScenario(t, t.TempDir(), "nothing"))
		o.Out = t.TempDir()
		test.change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
