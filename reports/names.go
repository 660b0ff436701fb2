package reports

import (
	"fmt"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// actors says what the actors of a result are: "kcm" is a "StatefulSetController".
type actors map[string]string

// newActors reads the pairs "actor=what it is" of a result.
func newActors(r *history.Result) actors {
	a := actors{}
	for _, list := range [][]string{r.Racers, r.Reconcilers} {
		for _, pair := range list {
			name, what, _ := strings.Cut(pair, "=")
			a[name] = what
		}
	}
	return a
}

// full returns the name of an event's actor with what it is: "kcm (StatefulSetController)".
func (a actors) full(e schedule.Event) string {
	if what := a[e.Actor]; what != "" && what != e.Actor {
		return doer(e) + " (" + what + ")"
	}
	return doer(e)
}

// did names an event as a noun, with its actor: "status write to StatefulSet default/web by kcm (StatefulSetController)",
// "delivery of StatefulSet default/web to operator".
func (a actors) did(e schedule.Event) string {
	if e.Verb == schedule.Deliver {
		return "delivery of " + e.Object() + " to " + a.full(e)
	}
	return deed(e) + " by " + a.full(e)
}

// doer names who acts in an event: the actor, with the controller where it has several.
func doer(e schedule.Event) string { return controllerName(e.Actor, e.Controller) }

// controllerName names a controller: "operator", or "operator/config-sync" where the actor has several.
func controllerName(actor, controller string) string {
	if controller == "" {
		return actor
	}
	return actor + "/" + controller
}

// underTest returns the names of the processes under test, in the result's order.
func underTest(r *history.Result) []string {
	var names []string
	for _, pair := range r.Reconcilers {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}

// deed names what an event does, as a noun: "status write to StatefulSet default/web", "Get of Pod default/web-0".
func deed(e schedule.Event) string {
	main := e
	main.Subresource = ""
	switch {
	case e.Subresource == "status" && e.Verb.IsWrite():
		return "status write to " + main.Object()
	case e.Verb.IsRequest() || e.Verb.IsRead():
		return string(e.Verb) + " of " + e.Object()
	case e.Object() == "":
		return strings.ToLower(string(e.Verb)) + " step"
	default:
		return strings.ToLower(string(e.Verb)) + " step of " + e.Object()
	}
}

// answer names the server's answer to a request, as the actor saw it: "200", "409 Conflict", "no answer".
func answer(r *history.Record) string {
	switch {
	case r.Code == history.NoAnswer:
		return "no answer"
	case r.Code == 0:
		return ""
	case r.Code >= 400 && r.Reason != "":
		return fmt.Sprintf("%d %s", r.Code, r.Reason)
	default:
		return fmt.Sprint(r.Code)
	}
}

// clock prints a virtual time to the millisecond, trailing zeros kept so that columns align: "12.040s", "5m20.014s".
// What lies below a millisecond only keeps steps apart.
func clock(d time.Duration) string {
	hours, minutes := int(d.Hours()), int(d.Minutes())%60
	seconds, millis := int(d.Seconds())%60, d.Milliseconds()%1000
	switch {
	case hours > 0:
		return fmt.Sprintf("%dh%02dm%02d.%03ds", hours, minutes, seconds, millis)
	case minutes > 0:
		return fmt.Sprintf("%dm%02d.%03ds", minutes, seconds, millis)
	default:
		return fmt.Sprintf("%d.%03ds", seconds, millis)
	}
}

// span prints a length of time as short as it is clear: "10m", "1.2s", "340ms".
func span(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if whole, ok := strings.CutSuffix(text, "m0s"); ok {
		text = whole + "m"
	}
	if whole, ok := strings.CutSuffix(text, "h0m"); ok {
		text = whole + "h"
	}
	return text
}
