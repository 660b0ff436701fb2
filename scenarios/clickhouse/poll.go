package clickhouse

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The operator's poll settings, as its default configuration has them.
const (
	pollInterval = 5 * time.Second
	pollTimeout  = 300 * time.Second
	// pollNotFoundTimeout is how long a poll puts up with an object that is not there.
	pollNotFoundTimeout = 30 * time.Second
)

// poll calls check now and then every 5 s, until it is done or 300 s have passed. NotFound is tolerated for 30 s; any
// other error ends the poll at once. A poll whose context ends is over without an error, as in the original: its caller
// is about to notice by itself.
func poll(ctx context.Context, what string, check func(context.Context) (done bool, err error)) error {
	start := time.Now()
	for ctx.Err() == nil {
		done, err := check(ctx)
		switch {
		case apierrors.IsNotFound(err):
			if time.Since(start) >= pollNotFoundTimeout {
				return err
			}
		case err != nil:
			return err
		case done:
			return nil
		}
		if time.Since(start) >= pollTimeout {
			return fmt.Errorf("poll(%s) - wait timeout", what)
		}
		sleep(ctx, pollInterval)
	}
	return nil
}

// sleep pauses until d has passed or the context has ended.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
