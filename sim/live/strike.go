package live

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// strike is a fault of the schedule, as the gate plays it.
type strike struct {
	fault  schedule.Fault
	struck bool
}

func newStrike(f schedule.Fault) *strike { return &strike{fault: reactors.Complete(f)} }

// playable returns why a fault cannot be played in front of a real server, and nothing if it can.
func playable(f schedule.Fault) string {
	switch f.Type {
	case schedule.WebhookDenial, schedule.WebhookFailure:
		return "it acts between the API server and a webhook, where there is no gate"
	case schedule.LateDelete:
		return "it needs a write by somebody else within the request"
	case schedule.Wedge:
		return "it holds a request until the faults heal, which only virtual time makes bearable"
	case schedule.Conflict:
		if reactors.Complete(f).Means == schedule.CompetingWrite {
			return "it needs a write by somebody else within the request"
		}
	default:
	}
	return ""
}

// before is how long the fault holds its step back.
func (s *strike) before() time.Duration {
	switch f := &s.fault; {
	case f.Type == schedule.Delay && f.Point != schedule.AfterCommit, f.Type == schedule.CacheLag:
		return f.For
	default:
		return 0
	}
}

// crashes reports whether the fault ends the process, at this point of a request.
func (s *strike) crashes(at schedule.Point) bool {
	return (s.fault.Type == schedule.Crash || s.fault.Type == schedule.Upgrade) && s.fault.Point == at
}

// carriedOut reports whether the server carries the request out all the same.
func (s *strike) carriedOut() bool {
	switch s.fault.Type {
	case schedule.LostResponse, schedule.AppliedTwice, schedule.Delay:
		return true
	default:
		return s.crashes(schedule.AfterCommit)
	}
}

// answer returns what the client gets in place of the server's answer, nothing if that is the server's.
func (s *strike) answer(c *call, actor string) (*answer, error) {
	if s.fault.Type == schedule.LostResponse && s.fault.Means != schedule.RequestTimeout {
		verb := string(c.Verb)
		return nil, &url.Error{Op: verb[:1] + strings.ToLower(verb[1:]), URL: pathOf(c.Kind, c.Namespace, c.Name, c.Subresource), Err: io.EOF}
	}
	err := reactors.Refusal(s.fault, actor, c.Request)
	if err == nil {
		return nil, nil
	}
	a := refuse(err)
	if s.fault.Layer == schedule.Client {
		a.header.Del("Retry-After") // what client-go has tried again in vain is over
	}
	return a, nil
}

func (s *strike) String() string { return fmt.Sprintf("fault %s", s.fault) }
