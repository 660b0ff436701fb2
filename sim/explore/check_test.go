package explore

import (
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// TestPartIsChecked checks that a part which no unit comes to is an error when it is read.
func TestPartIsChecked(t *testing.T) {
	for _, test := range []struct {
		part Part
		want string
	}{
		{Part{}, ""},
		{Part{Units: -1}, "none below zero"},
		{Part{Tally: Tally{Executions: -1}}, "none below zero"},
		{Part{Tally: Tally{Strategies: []history.StrategyResult{{Name: "luck"}}}}, `no strategy "luck"`},
		{Part{Tally: Tally{Strategies: []history.StrategyResult{{Name: DefaultOrder, Executions: -1}}}}, "no counts below zero"},
		{Part{Tally: Tally{Properties: []history.PropertyCoverage{{}}}}, "properties"},
		{Part{Failures: []Failure{{Count: -1}}}, "failures"},
		{Part{Failures: []Failure{{Count: 1, Place: -1}}}, "failures"},
	} {
		err := test.part.Attach(&history.Result{})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.part, err, test.want)
		}
	}
}
