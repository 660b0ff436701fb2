package client_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine of a run outlives it, but those of the tests that plant some, and one of a
// library.
func TestMain(m *testing.M) {
	const here = "github.com/stalemate-dev/stalemate/sim/client_test."
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(here+"TestLeakedGoroutines.func1.1"),
		goleak.IgnoreAnyFunction(here+"TestLeakedGoroutines.func1.2"),
		goleak.IgnoreAnyFunction(here+"TestWokenGoroutine.func1.1.2"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"), // see inBubble
	)
}
