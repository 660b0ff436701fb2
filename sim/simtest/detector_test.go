package simtest

import (
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// TestDetector checks which detectors a test has: those of a file without a word of them, what the scenario says, and before that
// what the test says.
func TestDetector(t *testing.T) {
	for _, test := range []struct {
		name      string
		scenario  *detect.Set
		options   []Option
		on        []detect.Type
		off       []detect.Type
		isRefused bool
	}{
		{name: "nothing said", on: []detect.Type{detect.Livelock, detect.Orphans}, off: []detect.Type{detect.Divergence}},
		{name: "none", scenario: &detect.Set{}, off: detect.Types()},
		{name: "switched", options: []Option{Detector(detect.Orphans, false), Detector(detect.Divergence, true)},
			on: []detect.Type{detect.Livelock, detect.Divergence}, off: []detect.Type{detect.Orphans}},
		{name: "one of none", scenario: &detect.Set{}, options: []Option{Detector(detect.Orphans, true)},
			on: []detect.Type{detect.Orphans}, off: []detect.Type{detect.Livelock}},
		{name: "unknown", options: []Option{Detector("Livelok", false)}, isRefused: true},
	} {
		o, err := newOptions(test.options)
		if (err != nil) != test.isRefused {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.isRefused {
			continue
		}
		config, err := o.configured(&sim.Config{Detectors: test.scenario})
		if err != nil {
			t.Fatal(err)
		}
		has := func(name detect.Type) bool {
			return slices.ContainsFunc(config.Detectors.Definitions(), func(d property.Definition) bool { return d.Name == string(name) })
		}
		for _, name := range test.on {
			if !has(name) {
				t.Errorf("%s: %s is off", test.name, name)
			}
		}
		for _, name := range test.off {
			if has(name) {
				t.Errorf("%s: %s is on", test.name, name)
			}
		}
	}
}
