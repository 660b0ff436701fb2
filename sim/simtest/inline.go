package simtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// inlineCourse is a course as one line of JSON, with the words of a Schedule file.
type inlineCourse struct {
	Order     []inlineOrder   `json:"order,omitempty"`
	Faults    []inlineFault   `json:"faults,omitempty"`
	Latencies []inlineLatency `json:"latencies,omitempty"`
	Choices   [][2]int        `json:"choices,omitempty"` // at, take
}

type inlineOrder struct {
	Hold  string `json:"hold"`
	Until string `json:"until"`
}

type inlineFault struct {
	At         string             `json:"at"`
	Type       schedule.FaultType `json:"type"`
	Layer      schedule.Layer     `json:"layer,omitempty"`
	RetryAfter string             `json:"retryAfter,omitempty"`
	Means      schedule.Means     `json:"means,omitempty"`
	Point      schedule.Point     `json:"point,omitempty"`
	For        string             `json:"for,omitempty"`
	Reconciler string             `json:"reconciler,omitempty"`
}

type inlineLatency struct {
	At  string `json:"at"`
	For string `json:"for"`
}

// inline returns the course as one line; empty if it selects events, which has no such words.
func (c Course) inline() string {
	var in inlineCourse
	if c.selects() {
		return ""
	}
	for _, o := range c.Schedule.Constraints {
		in.Order = append(in.Order, inlineOrder{o.Event.String(), o.Waits.String()})
	}
	for _, f := range c.Schedule.Faults {
		in.Faults = append(in.Faults, inlineFault{
			At: f.At.String(), Type: f.Type, Layer: f.Layer, RetryAfter: spanText(f.RetryAfter), Means: f.Means, Point: f.Point,
			For: spanText(f.For), Reconciler: f.Reconciler,
		})
	}
	for _, l := range c.Schedule.Latencies {
		in.Latencies = append(in.Latencies, inlineLatency{l.At.String(), l.For.String()})
	}
	for _, choice := range c.Choices {
		in.Choices = append(in.Choices, [2]int{choice.At, choice.Take})
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(in); err != nil {
		panic(fmt.Sprintf("simtest: a course is not encoded: %v", err)) // it holds strings and numbers
	}
	return strings.TrimSpace(line.String())
}

// selects reports whether the course has events that are selected, and not named.
func (c Course) selects() bool {
	return slices.ContainsFunc(c.Schedule.Constraints, func(o schedule.Constraint) bool { return o.Order != nil }) ||
		slices.ContainsFunc(c.Schedule.Faults, func(f schedule.Fault) bool { return f.Select != nil })
}

func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// parseCourse is the opposite of inline.
func parseCourse(text string) (Course, error) {
	var in inlineCourse
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return Course{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Course{}, errors.New("more than one line of JSON")
	}
	p := &courseParser{}
	for _, o := range in.Order {
		p.course.Schedule.Constraints = append(p.course.Schedule.Constraints,
			schedule.Constraint{Event: p.event(o.Hold), Waits: p.event(o.Until)})
	}
	for _, f := range in.Faults {
		p.course.Schedule.Faults = append(p.course.Schedule.Faults, schedule.Fault{
			Type: f.Type, At: p.event(f.At), Params: schedule.Params{
				Layer: f.Layer, RetryAfter: p.span(f.RetryAfter), Means: f.Means, Point: f.Point, For: p.span(f.For),
				Reconciler: f.Reconciler,
			},
		})
	}
	for _, l := range in.Latencies {
		p.course.Schedule.Latencies = append(p.course.Schedule.Latencies, schedule.Latency{At: p.event(l.At), For: p.span(l.For)})
	}
	for _, choice := range in.Choices {
		p.course.Choices = append(p.course.Choices, Choice{At: choice[0], Take: choice[1]})
	}
	return p.course, errors.Join(p.errs...)
}

// courseParser collects a course, and what is wrong with it.
type courseParser struct {
	course Course
	errs   []error
}

func (p *courseParser) event(text string) schedule.Event {
	event, err := schedule.ParseEvent(text)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return event
}

func (p *courseParser) span(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return d
}
