package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// ScheduleFile is what a schedule file holds, to be written by [EncodeSchedule].
type ScheduleFile struct {
	// Comment is put in front, Timeline at the end, each line as a comment.
	Comment, Timeline string
	// Name of the schedule, a DNS subdomain.
	Name string
	// Labels and Annotations are those of the metadata.
	Labels, Annotations map[string]string
	// Scenario is the path of the scenario, relative to the file that is to be written, with slashes.
	Scenario string
	// Reconcilers are those that take the place of the scenario's, by the names of controllers.
	Reconcilers map[string]string
	// Matrix is the entry of the scenario, see [Scenario.Values].
	Matrix map[string]string
	// Spec is what must happen.
	Spec *schedule.Schedule
	// Variables and Properties are those that the schedule adds to the scenario's.
	Variables  []Variable
	Properties []Property
}

// File returns what the schedule's file holds but for its comments, to be changed and written again.
func (s *Schedule) File() ScheduleFile {
	return ScheduleFile{
		Name:        s.Name,
		Labels:      maps.Clone(s.Manifest.Metadata.Labels),
		Annotations: maps.Clone(s.Manifest.Metadata.Annotations),
		Scenario:    s.Manifest.Spec.Scenario.Path,
		Reconcilers: maps.Clone(s.Reconcilers),
		Matrix:      maps.Clone(s.Manifest.Spec.Matrix),
		Spec:        s.Spec,
		Variables:   s.Manifest.Spec.Variables,
		Properties:  s.Manifest.Spec.Properties,
	}
}

// EncodeSchedule writes a schedule file as a person would: what is short on one line, what is empty left out. Equal files are
// equal to the byte, and [LoadSchedule] reads back what was written. The error says what the format has no words for, such as a
// name that is no UTF-8.
func EncodeSchedule(f ScheduleFile) ([]byte, error) {
	manifest, err := f.manifest()
	if err != nil {
		return nil, fmt.Errorf("schedule %s cannot be written: %w", f.Name, err)
	}
	var w yamlWriter
	w.comment(f.Comment)
	w.comment("yaml-language-server: $schema=" + SchemaURL(KindSchedule)) // for editors
	w.document(nodeOf(reflect.ValueOf(manifest)), "spec")
	w.comment(f.Timeline)
	if text := w.String(); utf8.ValidString(text) && !hasInvalid(reflect.ValueOf(manifest)) {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("schedule %s cannot be written: it has text that is no UTF-8", f.Name)
}

// comment writes lines as comments. Control characters have no place in a file.
func (w *yamlWriter) comment(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.ToValidUTF8(text, "\uFFFD"), "\n") {
		line = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, line)
		w.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
}

// hasInvalid reports whether a string in a value is no UTF-8.
func hasInvalid(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Pointer:
		return !v.IsNil() && hasInvalid(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if hasInvalid(field) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if hasInvalid(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if hasInvalid(key) || hasInvalid(value) {
				return true
			}
		}
	default: // holds no text
	}
	return false
}

// manifest returns the file in the words of the format.
func (f *ScheduleFile) manifest() (*ScheduleManifest, error) {
	s := f.Spec
	if s == nil {
		s = &schedule.Schedule{}
	}
	spec := ScheduleSpec{
		Scenario:      FileReference{Path: f.Scenario},
		Reconcilers:   f.Reconcilers,
		Matrix:        f.Matrix,
		WhenUnmatched: WhenUnmatched(s.WhenUnmatched),
		Variables:     f.Variables,
		Properties:    f.Properties,
		Origin:        Origin(s.Origin),
		Expect: Expectation{
			Outcome: Outcome(s.Expect.Outcome), Property: s.Expect.Property, Signature: s.Expect.Signature,
		},
	}
	if s.Expect.Hash != 0 {
		spec.Expect.Hash = fmt.Sprintf("%0*x", hashDigits, s.Expect.Hash)
	}
	var problems []error
	for _, constraint := range s.Constraints {
		item, err := orderItem(constraint)
		problems = append(problems, err)
		spec.Order = append(spec.Order, item)
	}
	for _, fault := range s.Faults {
		scheduled, err := scheduledFault(fault)
		problems = append(problems, err)
		spec.Faults = append(spec.Faults, scheduled)
	}
	for _, latency := range s.Latencies {
		name, err := eventText(latency.At)
		problems = append(problems, err)
		late := metav1.Duration{Duration: latency.For}
		spec.Latencies = append(spec.Latencies, Latency{At: name, Repeat: latency.Repeat, For: late})
	}
	for _, permutation := range s.Orders {
		name, err := permutedText(permutation.At)
		problems = append(problems, err)
		spec.Permutations = append(spec.Permutations, Permutation{At: name, Repeat: permutation.Repeat, Order: permutation.Order})
	}
	for _, step := range s.Skip {
		spec.Skip = append(spec.Skip, step+1)
	}
	if s.Trace != nil {
		trace, err := encodeTrace(s.Trace)
		problems = append(problems, err)
		spec.Trace = trace
	}
	metadata := Metadata{Name: f.Name, Labels: f.Labels, Annotations: f.Annotations}
	return &ScheduleManifest{APIVersion, KindSchedule, metadata, spec}, errors.Join(problems...)
}

// orderItem is the inverse of [scheduleConverter.order].
func orderItem(constraint schedule.Constraint) (OrderItem, error) {
	order := constraint.Order
	switch {
	case order == nil:
		hold, err := eventText(constraint.Event)
		until, err2 := eventText(constraint.Waits)
		return OrderItem{Hold: &EventReference{Name: hold}, Until: &EventReference{Name: until}}, errors.Join(err, err2)
	case order.From == "":
		return OrderItem{
			Hold:  &EventReference{Selector: eventSelector(order.Hold)},
			Until: &EventReference{Selector: eventSelector(order.Until)},
			Times: order.Times,
		}, nil
	case len(order.Hold.Verbs) != 1 || order.Hold.Return:
		return OrderItem{}, fmt.Errorf("order %q: a between ends with one verb of a request", order)
	}
	hold := order.Hold
	return OrderItem{
		Between: &Between{
			Actor: hold.Actor, Incarnation: hold.Incarnation, Controller: hold.Controller, Key: hold.Key, Kind: hold.Kind,
			Namespace: hold.Namespace, Name: hold.Name, Subresource: hold.Subresource,
			First: string(order.From), Then: string(hold.Verbs[0]), Occurrence: hold.Occurrence,
		},
		Let:   eventSelector(order.Until),
		Times: order.Times,
	}, nil
}

// eventSelector is the inverse of [scheduleConverter.eventSelector].
func eventSelector(s schedule.Selector) *EventSelector {
	written := &EventSelector{Return: s.Return, Selector: Selector{
		Actor: s.Actor, Incarnation: s.Incarnation, Controller: s.Controller, Key: s.Key, Kind: s.Kind, Namespace: s.Namespace,
		Name: s.Name, Subresource: s.Subresource, Occurrence: s.Occurrence,
	}}
	if len(s.Verbs) == 1 {
		written.Verb = string(s.Verbs[0])
		return written
	}
	for _, verb := range s.Verbs {
		written.Verbs = append(written.Verbs, string(verb))
	}
	return written
}

// scheduledFault is the inverse of [scheduleConverter.scheduled].
func scheduledFault(f schedule.Fault) (ScheduledFault, error) {
	written := ScheduledFault{Type: f.Type}
	if !slices.Contains(schedule.FaultTypes(), f.Type) {
		return written, fmt.Errorf("fault %q: there is no such type", f)
	}
	written.set(f.Type, f.Params)
	if all := written.faults(f.Type); all[0].Params != f.Params {
		return written, fmt.Errorf("fault %q: it has parameters that its type has no use for", f)
	}
	if f.Select != nil {
		written.At.Selector = eventSelector(*f.Select)
		return written, nil
	}
	var err error
	written.At.Name, err = eventText(f.At)
	return written, err
}

// eventText returns the name of an event, which must be read back as the same event.
func eventText(e schedule.Event) (string, error) {
	if e.Occurrence == 0 {
		return "", fmt.Errorf("event %q has no count", e)
	}
	return readableText(e)
}

// permutedText is eventText for an event without its occurrence.
func permutedText(e schedule.Event) (string, error) {
	if e.Occurrence > 0 {
		return "", fmt.Errorf("event %q has a count, which permutations do without", e)
	}
	return readableText(e)
}

func readableText(e schedule.Event) (string, error) {
	text := e.String()
	read, err := schedule.ParseEvent(text)
	if e.Incarnation == 1 && read.Incarnation == 0 {
		read.Incarnation = 1 // which is not written
	}
	if err != nil || read != e {
		return "", fmt.Errorf("event %q has no name that can be read back", text)
	}
	return text, nil
}
