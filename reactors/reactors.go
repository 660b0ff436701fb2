package reactors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// New returns the reactor of a fault. It serves one fault of one run: it strikes wherever it is called, and it is for the
// engine to call it only where the fault strikes. The error is that of [Validate].
func New(f schedule.Fault) (sim.Reactor, error) {
	if err := Validate(f); err != nil {
		return nil, err
	}
	return rows[f.Type].make(Complete(f)), nil
}

// Doc returns what a type of fault does, and the parameters it takes in a scenario's file with their defaults, in a line of
// prose. It is empty for an unknown type.
func Doc(t schedule.FaultType) string {
	row, ok := rows[t]
	if !ok {
		return ""
	}
	if parameters := row.describe(); len(parameters) > 0 {
		return row.doc + strings.NewReplacer(fileWords[t]...).Replace(" ("+strings.Join(parameters, "; ")+")")
	}
	return row.doc
}

// fileWords are the words that scenario files have for parameters, where they are not those of package schedule.
var fileWords = map[schedule.FaultType][]string{
	schedule.Conflict:       {"(means ", "(by "},
	schedule.LostResponse:   {"(means ", "(as "},
	schedule.WebhookFailure: {"(means ", "(as "},
	schedule.Delay:          {"(point ", "(at "},
	schedule.CacheLag:       {"(for ", "(max "},
	schedule.Crash:          {"(point ", "(at ", "; for ", "; restartAfter "},
	schedule.Upgrade:        {"(point ", "(at ", "; for ", "; restartAfter "},
}

// Complete returns the fault with its type's defaults in place of the parameters that were left out.
func Complete(f schedule.Fault) schedule.Fault {
	row := rows[f.Type]
	if row == nil {
		return f
	}
	f.Layer = cmp.Or(f.Layer, row.defaults.Layer)
	f.Means = cmp.Or(f.Means, row.defaults.Means)
	f.Point = cmp.Or(f.Point, row.defaults.Point)
	f.RetryAfter = cmp.Or(f.RetryAfter, row.defaults.RetryAfter)
	f.For = cmp.Or(f.For, row.defaults.For)
	return f
}

// Validate says what is wrong with a fault: its type, or a parameter that the type does not take or that is out of range, or
// a place at which it cannot strike. All that is wrong is in the error, one line each. A fault without a place, as rules have
// them, is valid.
func Validate(f schedule.Fault) error {
	row, ok := rows[f.Type]
	if !ok {
		return fmt.Errorf("fault %q: the type is unknown: use one of %s", f.Type, list(schedule.FaultTypes()))
	}
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("fault "+string(f.Type)+": "+format, args...))
	}
	checkChoice(report, "layer", f.Layer, row.layers())
	checkChoice(report, "means", f.Means, row.means)
	checkChoice(report, "point", f.Point, row.points)
	row.checkRetryAfter(report, f.RetryAfter)
	row.checkFor(report, f.For)
	switch {
	case row.reconciler && f.Reconciler == "":
		report("reconciler is missing: name the one that starts in the place of the process's own")
	case !row.reconciler && f.Reconciler != "":
		report("reconciler %q is no parameter of it: leave it out, or use Upgrade", f.Reconciler)
	}
	if !row.webhook && f.Webhook != "" {
		report("webhook %q is no parameter of it: leave it out", f.Webhook)
	}
	checkPlace(report, f)
	return errors.Join(problems...)
}

// row is what there is to know of a type of fault.
type row struct {
	doc string
	// The parameters it takes: choices, with the first as the default, and whether it takes the others.
	layered    bool
	means      []schedule.Means
	points     []schedule.Point
	retries    bool // RetryAfter
	reconciler bool // Reconciler, which it needs
	webhook    bool // Webhook
	// defaults holds those of RetryAfter and For; add fills in the others. A type without a default for For takes none.
	defaults schedule.Params
	// needsRetry says that it is nothing without a Retry-After.
	needsRetry bool
	// build makes the error of a fault that strikes before the request is carried out, nil for others; make its reactor.
	build errorFunc
	make  func(schedule.Fault) sim.Reactor
}

// rows describe all types of faults. Each file adds those that it implements.
var rows = table(requestRows, lostRows, slowRows, watchRows, processRows, webhookRows, lateDeleteRows)

func table(parts ...map[schedule.FaultType]*row) map[schedule.FaultType]*row {
	all := map[schedule.FaultType]*row{}
	for _, part := range parts {
		for t, r := range part {
			r.defaults.Layer = first(r.layers())
			r.defaults.Means = first(r.means)
			r.defaults.Point = first(r.points)
			all[t] = r
		}
	}
	return all
}

func first[T ~string](choices []T) T {
	if len(choices) == 0 {
		return ""
	}
	return choices[0]
}

func (r *row) layers() []schedule.Layer {
	if !r.layered {
		return nil
	}
	return []schedule.Layer{schedule.Transport, schedule.Client}
}

// longest bounds the spans of faults. It is far longer than any run, and short enough to add spans up.
const longest = 365 * 24 * time.Hour

type reporter func(format string, args ...any)

func checkChoice[T ~string](report reporter, parameter string, value T, choices []T) {
	switch {
	case value == "" || slices.Contains(choices, value):
	case len(choices) == 0:
		report("%s %q is no parameter of it: leave it out", parameter, value)
	default:
		report("%s %q is unknown: use %s", parameter, value, list(choices))
	}
}

func (r *row) checkRetryAfter(report reporter, value time.Duration) {
	switch {
	case value == 0:
	case !r.retries:
		report("retryAfter %s is no parameter of it: leave it out", value)
	case value < 0 && r.needsRetry:
		report("retryAfter %s leaves out the header, without which client-go does not try again: give one of at least 1s", value)
	case value > longest:
		report("retryAfter %s is longer than %s: give a shorter one", value, longest)
	case value > 0 && value%time.Second != 0:
		report("retryAfter %s is not in whole seconds, as the header is: round it", value)
	}
}

func (r *row) checkFor(report reporter, value time.Duration) {
	switch {
	case value == 0:
	case r.defaults.For == 0:
		report("for %s is no parameter of it: leave it out", value)
	case value < 0:
		report("for %s is negative: give a span of virtual time", value)
	case value > longest && (value != sim.Forever || r.defaults.For != sim.Forever):
		report("for %s is longer than %s: give a shorter one", value, longest)
	}
}

// checkPlace checks that a fault of the type can strike where it is to.
func checkPlace(report reporter, f schedule.Fault) {
	switch {
	case f.Select != nil:
		if s := f.Select; len(s.Verbs) > 0 && !slices.ContainsFunc(s.Verbs, func(v schedule.Verb) bool {
			event := schedule.Event{Actor: s.Actor, Incarnation: 1, Verb: v, Kind: s.Kind, Name: cmp.Or(s.Name, "any")}
			if s.Subresource != nil {
				event.Subresource = *s.Subresource
			}
			return f.Type.Strikes(event)
		}) {
			report("it cannot strike at %s: select other verbs", f.Select.String())
		}
	case f.At != schedule.Event{} && !f.Type.Strikes(f.At):
		report("it cannot strike at %s: choose another event", f.At)
	}
}

// describe returns the parameters of the type in words, each with its default first.
func (r *row) describe() []string {
	var parameters []string
	if r.layered {
		parameters = append(parameters, "layer "+list(r.layers()))
	}
	if len(r.means) > 0 {
		parameters = append(parameters, "means "+list(r.means))
	}
	if len(r.points) > 0 {
		parameters = append(parameters, "point "+list(r.points))
	}
	if r.retries {
		parameters = append(parameters, "retryAfter "+spanOr(r.defaults.RetryAfter, "none"))
	}
	if r.defaults.For != 0 {
		parameters = append(parameters, "for "+spanOr(r.defaults.For, "none"))
	}
	if r.webhook {
		parameters = append(parameters, "webhook the first")
	}
	if r.reconciler {
		parameters = append(parameters, "reconciler")
	}
	return parameters
}

func spanOr(d time.Duration, none string) string {
	switch d {
	case 0:
		return none
	case sim.Forever:
		return "ever"
	default:
		return short(d)
	}
}

// short prints a span without the zeros that Duration's String ends in: 3m, not 3m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// list prints choices: "A, B or C".
func list[T ~string](choices []T) string {
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// idle is a reactor that does nothing; those that act at one point only embed it.
type idle struct{}

// Before implements [sim.Reactor].
func (idle) Before(*sim.Door) {}

// After implements [sim.Reactor].
func (idle) After(*sim.Door) {}
