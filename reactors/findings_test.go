package reactors_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestTwoFaultsTwoFindings checks that two faults which break one property are two findings, whether it comes out in two ways
// or in the same one, and that a third, which breaks nothing, is none.
func TestTwoFaultsTwoFindings(t *testing.T) {
	one := []property.Definition{terminal("one child", "size(children) == 1")}
	tests := []struct {
		name   string
		act    action
		faults []schedule.FaultType
	}{
		{"in two ways", func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
			err := createNamed(numbered)(ctx, deps, app) // two children, if an answer is lost
			if apierrors.IsForbidden(err) {
				return nil // none
			}
			return err
		}, []schedule.FaultType{schedule.Forbidden, schedule.LostResponse}},
		{"in the same way", createWithin(heal, func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }),
			[]schedule.FaultType{schedule.Forbidden, schedule.Invalid}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scenario{given: []apiserver.Object{configMap(nil)}, properties: one}
			config := s.config(t, always(test.act))
			for _, faultType := range append(slices.Clone(test.faults), schedule.ServiceUnavailable) {
				config.Faults.Rules = append(config.Faults.Rules, sim.FaultRule{Name: string(faultType),
					Match: schedule.Selector{Actor: "operator"}, Faults: []schedule.Fault{{Type: faultType}}})
			}
			result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 20})
			if err != nil {
				t.Fatal(err)
			}
			var found []schedule.FaultType
			for _, finding := range result.Findings {
				if finding.Schedule == nil || len(finding.Schedule.Faults) != 1 || finding.Schedule.Size() != 1 {
					t.Fatalf("%s is brought about by %+v, want one fault", finding.Signature, finding.Schedule)
				}
				found = append(found, finding.Schedule.Faults[0].Type)
				if broken := brokenNames(finding.Run); !slices.Equal(broken, []string{"one child"}) {
					t.Errorf("%s breaks %q", finding.Schedule.Faults[0], broken)
				}
			}
			slices.Sort(found)
			if !slices.Equal(found, test.faults) {
				t.Errorf("findings by %q, want one by each of %q", found, test.faults)
			}
		})
	}
}

// TestCanariesAreFound checks that an exploration with a rule for a canary's fault finds that it is enough for its bug, and that
// it leaves the twin alone.
func TestCanariesAreFound(t *testing.T) {
	for _, c := range allCanaries {
		for _, faultType := range c.by {
			t.Run(c.name+"/"+string(faultType), func(t *testing.T) {
				found := c.explored(t, c.buggy, faultType)
				if !slices.ContainsFunc(found.Findings, func(f history.Finding) bool {
					return f.Schedule != nil && f.Schedule.Size() == 1 && len(f.Schedule.Faults) == 1 && f.Schedule.Faults[0].Type == faultType
				}) {
					t.Errorf("the fault alone is none of %d findings in %d executions", len(found.Findings), found.Coverage.Executions)
				}
				for _, finding := range c.explored(t, c.fixed, faultType).Findings {
					t.Errorf("%s: the twin fails by %v %v%s", finding.Strategy, finding.Schedule.Faults, finding.Schedule.Constraints,
						steps(finding.Run))
				}
			})
		}
	}
}

func (c *canary) explored(t *testing.T, o operator, faultType schedule.FaultType) *history.Result {
	t.Helper()
	config := c.config(t, o)
	rule := sim.FaultRule{Name: "rule", Faults: slices.DeleteFunc(everyFault(), func(f schedule.Fault) bool { return f.Type != faultType })}
	if faultType != schedule.Delay && faultType != schedule.Wedge {
		rule.Match.Actor = "operator"
	}
	config.Faults.Rules = []sim.FaultRule{rule}
	result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 20})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestCanariesNeedTheirFault checks that an exploration of orders alone finds nothing, but for what may be late in an order, too:
// a step of somebody else, for as long as a constraint holds it.
func TestCanariesNeedTheirFault(t *testing.T) {
	for _, c := range allCanaries {
		if slices.Contains(c.by, schedule.Delay) && len(c.racers) > 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			result, err := explore.Run(t.Context(), c.config(t, c.buggy), explore.Options{Seed: 1, Runs: 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range result.Findings {
				t.Errorf("%s: it fails by %v%s", finding.Strategy, finding.Schedule.Constraints, steps(finding.Run))
			}
		})
	}
}
