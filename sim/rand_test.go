package sim_test

import (
	"context"
	"math/rand"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
)

// TestRetryOnConflict checks that client-go's own retries, whose jitter is drawn from the global generator, are the same in
// each run: the operator writes with a revision that is out of date, and tries again.
func TestRetryOnConflict(t *testing.T) {
	t.Setenv("GODEBUG", "madvdontneed=1")
	conflicts := 0
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, stale *corev1.ConfigMap) (ctrl.Result, error) {
		if stale.Data["value"] == "second" {
			return ctrl.Result{}, nil
		}
		if err := set(ctx, c, stale.DeepCopy(), "first"); err != nil {
			return ctrl.Result{}, err
		}
		tries := 0
		return ctrl.Result{}, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if tries++; tries == 4 {
				if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(stale), stale); err != nil {
					return err
				}
			}
			err := set(ctx, c, stale, "second")
			if err != nil {
				conflicts++
			}
			return err
		})
	}, configMap("a"))
	first := run(t, config, sim.Plan{})
	if conflicts != 3 {
		t.Fatalf("%d conflicts, want 3", conflicts)
	}
	rand.Float64() // as a test beside may do
	for range 5 {
		if again := run(t, config, sim.Plan{}); again.Hash != first.Hash {
			t.Fatalf("two runs have hashes %x and %x", first.Hash, again.Hash)
		}
	}
	if got := os.Getenv("GODEBUG"); got != "madvdontneed=1" {
		t.Errorf("GODEBUG is %q after a run, want what it was", got)
	}
}
