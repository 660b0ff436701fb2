package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// relistEvery is how often an informer lists again that may not watch: the longest pause of client-go's reflector between two
// attempts (k8s.io/client-go/tools/cache/reflector.go, v0.36.0, NewReflectorWithOptions). Its jitter of up to as much again
// is left out.
const relistEvery = 30 * time.Second

// rights say what an informer's reflector may do.
type rights struct{ list, watch bool }

// Restricted reports whether there is anything that the process may not do: an informer may then never have its list.
func (env *Env) Restricted() bool { return env.process.config.Access != nil }

// follow waits until the process may follow a kind, as client-go's reflector does: it asks for a watch that begins with what
// exists, and falls back to a list. It reports whether the reflector may watch. Roles do not change in the course of a run, so
// that who may do neither waits for ever: that a real reflector asks again and again makes no difference to anybody. It
// returns the context's error if that ends.
func (env *Env) follow(ctx context.Context, kind *apiserver.Kind, s cache.Selector) (watches bool, err error) {
	may := env.rights(kind, s)
	if !may.watch {
		if err := env.refused(ctx, schedule.Watch, kind, s); err != nil || may.list {
			return false, err
		}
		if err := env.refused(ctx, schedule.List, kind, s); err != nil {
			return false, err
		}
		never := schedule.Event{Verb: schedule.Sync, Kind: kind.Name(), Namespace: s.Namespace}
		return false, env.process.park(ctx, &op{event: never, ready: func() bool { return false }})
	}
	if !may.list {
		env.Gap(fmt.Sprintf("%s may watch %s but not list it: that is enough for a client-go from v0.35 on, whose watches begin with what "+
			"exists, at a server that streams lists; any other never gets a list", env.process.name, kind.Name()))
	}
	return true, nil
}

// rights returns what the process may do to follow a kind.
func (env *Env) rights(kind *apiserver.Kind, s cache.Selector) rights {
	access := env.process.config.Access
	if access == nil {
		return rights{true, true}
	}
	name := ""
	if s.Fields != nil {
		name, _ = s.Fields.RequiresExactMatch(metav1.ObjectNameField)
	}
	may := func(verb string) bool {
		return access.Check(rbac.Attributes{
			Verb: verb, Resource: kind.Resource, Group: kind.Group, Version: kind.Version, Namespace: s.Namespace, Name: name,
		}) == nil
	}
	return rights{list: may("list"), watch: may("watch")}
}

// refused makes a request of a reflector that is refused. The error is the context's: a connection that breaks instead of the
// refusal is no better for the reflector.
func (env *Env) refused(ctx context.Context, verb schedule.Verb, kind *apiserver.Kind, s cache.Selector) error {
	_, err := env.Do(ctx, &apiserver.Request{
		Verb: verb, Kind: kind, Namespace: s.Namespace, LabelSelector: s.Labels, FieldSelector: s.Fields,
	})
	if ctx.Err() == nil {
		return nil
	}
	return err
}

// nextList returns when an informer that may not watch lists again: its reflector begins anew every time that it is refused.
func (e *engine) nextList() time.Duration {
	return later(e.clock.Truncate(relistEvery), relistEvery)
}

// denied notes that the roles of a process lack a right.
func (e *engine) denied(v *visit) {
	e.history.Denied = history.MergeDenials(e.history.Denied, []history.Denial{{
		Actor: v.event.Actor, Rule: v.response.Denied.Missing(), Requests: 1, Record: v.record,
	}})
}

// explained adds to the error that a process ends with what it was refused, if that is something.
func (e *engine) explained(p *process, err error) error {
	var missing []string
	for _, d := range e.history.Denied {
		if d.Actor == p.name {
			missing = append(missing, d.Rule)
		}
	}
	if len(missing) == 0 {
		return err
	}
	slices.Sort(missing)
	return fmt.Errorf("%w; its roles lack %s", err, strings.Join(missing, "; "))
}
