package reactors

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Refusal returns the answer that a fault puts in place of the server's to a request of an actor, and nil for a fault that answers
// nothing itself. Whether the server carries the request out before is the fault's: for a LostResponse and an AppliedTwice it does.
// It is for those who play faults in front of a real server.
func Refusal(f schedule.Fault, actor string, r *apiserver.Request) *apierrors.StatusError {
	f = Complete(f)
	t := targetOfRequest(actor, r)
	switch row := rows[f.Type]; {
	case row == nil:
		return nil
	case f.Type == schedule.Conflict && f.Means == schedule.CompetingWrite:
		return nil
	case row.build != nil:
		return row.build(&t, f)
	case f.Type == schedule.AppliedTwice:
		return t.serverTimeout(f)
	case f.Type == schedule.LostResponse && f.Means == schedule.RequestTimeout:
		return t.timeout(f)
	default:
		return nil
	}
}
