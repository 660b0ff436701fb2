package sim

import (
	"math/rand"
	"os"
)

// seedGlobalRand puts the generator behind the functions of package math/rand into a fixed state at the begin of a run.
// client-go draws from it: the jitter of wait.Backoff, and with it retry.RetryOnConflict, which nearly every operator uses,
// so that a run with a single 409 would be another one each time. Since Go 1.24 such a seed is ignored unless GODEBUG says
// otherwise, which it does here for no longer than it takes.
//
// The functions of math/rand/v2 cannot be seeded. Runs in parallel share the generator.
func seedGlobalRand() {
	const debug = "GODEBUG"
	before, set := os.LookupEnv(debug)
	setting := "randseednop=0"
	if before != "" {
		setting = before + "," + setting
	}
	if os.Setenv(debug, setting) != nil {
		return
	}
	rand.Seed(1) //nolint:staticcheck,forbidigo // client-go draws from this generator, and takes no other
	if set {
		_ = os.Setenv(debug, before)
	} else {
		_ = os.Unsetenv(debug)
	}
}
