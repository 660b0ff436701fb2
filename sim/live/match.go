package live

import "fmt"

// matcher is a matcher of results for Gomega, which this package does not import: Gomega takes whatever has these methods.
type matcher struct{ outcome Outcome }

// BeConfirmed returns a matcher for Gomega that a finding was confirmed:
//
//	Expect(live.Confirm(ctx, finding, live.Options{})).To(live.BeConfirmed())
func BeConfirmed() interface {
	Match(actual any) (bool, error)
	FailureMessage(actual any) string
	NegatedFailureMessage(actual any) string
} {
	return matcher{Confirmed}
}

// Match reports whether a result has the outcome.
func (m matcher) Match(actual any) (bool, error) {
	result, ok := actual.(*Result)
	if !ok || result == nil {
		return false, fmt.Errorf("BeConfirmed wants a *live.Result, not a %T", actual)
	}
	if result.Outcome == NotApplicable {
		return false, fmt.Errorf("nothing can be said of it:\n%s", result)
	}
	return result.Outcome == m.outcome, nil
}

// FailureMessage says what was wanted.
func (m matcher) FailureMessage(actual any) string {
	return fmt.Sprintf("Expected the finding to be %s:\n%s", m.outcome, actual)
}

// NegatedFailureMessage says what was not.
func (m matcher) NegatedFailureMessage(actual any) string {
	return fmt.Sprintf("Expected the finding not to be %s:\n%s", m.outcome, actual)
}
