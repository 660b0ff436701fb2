package client

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// eventSender sends the events of a process, as client-go's broadcasters do (k8s.io/client-go/tools/record/event.go and
// tools/events/event_broadcaster.go): the first of a kind creates an Event, later ones count it up by a patch, and nobody
// sees what comes of it. Those of one kind are sent one after the other, in a goroutine of their own.
//
// Not modelled: retries, the aggregation of more than ten similar events, the limit of 25 events per object, and the
// heartbeat of series in the new API.
type eventSender struct {
	client *liveClient
	scheme *runtime.Scheme

	mu   sync.Mutex
	sent map[string]*sentEvent // by the name of the Event
}

// sentEvent is what the process knows of an Event.
type sentEvent struct {
	count   int32
	sending bool
	waiting []func()
}

// eventSource is a component that records events.
type eventSource struct {
	sender *eventSender
	name   string
}

// record logs an event, and sends it unless its object cannot be named. A series is counted as the new API does.
func (s *eventSource) record(event *corev1.Event, object runtime.Object, series bool) {
	s.sender.client.env.Log(context.Background(), history.Log{
		Logger: "event", Message: event.Message, Values: []string{"type=" + event.Type, "reason=" + event.Reason},
	})
	about, err := reference.GetReference(s.sender.scheme, object)
	if err != nil || (event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning) {
		return
	}
	now := metav1.Now()
	event.InvolvedObject, event.Namespace = *about, about.Namespace
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	event.ReportingController = s.name
	if series {
		event.EventTime, event.ReportingInstance = metav1.NewMicroTime(now.Time), s.name+"-"+s.sender.client.env.Name()
	} else {
		event.Source.Component, event.FirstTimestamp, event.LastTimestamp, event.Count = s.name, now, now, 1
	}
	s.sender.enqueue(event, series)
}

// enqueue sends the event after those of the same kind.
func (s *eventSender) enqueue(event *corev1.Event, series bool) {
	event.Name = s.nameOf(event, series)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.sent[event.Name]
	if seen == nil {
		seen = &sentEvent{}
		s.sent[event.Name] = seen
	}
	seen.count++
	switch {
	case seen.count == 1:
		seen.waiting = append(seen.waiting, func() { s.create(event) })
	case !series:
		event.Count = seen.count
		seen.waiting = append(seen.waiting, func() {
			s.countUp(event, map[string]any{"count": event.Count, "lastTimestamp": event.LastTimestamp, "message": event.Message})
		})
	case seen.count == 2:
		event.Series = &corev1.EventSeries{Count: 2, LastObservedTime: event.EventTime}
		seen.waiting = append(seen.waiting, func() { s.countUp(event, map[string]any{"series": event.Series}) })
	default: // counted in memory
		return
	}
	if !seen.sending {
		seen.sending = true
		s.client.env.Go(func() { s.send(seen) })
	}
}

// send sends what waits.
func (s *eventSender) send(seen *sentEvent) {
	for {
		s.mu.Lock()
		if len(seen.waiting) == 0 {
			seen.sending = false
			s.mu.Unlock()
			return
		}
		next := seen.waiting[0]
		seen.waiting = seen.waiting[1:]
		s.mu.Unlock()
		next()
	}
}

func (s *eventSender) create(event *corev1.Event) {
	_ = s.client.Create(s.context(), event.DeepCopy())
}

// countUp patches the Event; if it is gone, it is created with the count it has.
func (s *eventSender) countUp(event *corev1.Event, changes map[string]any) {
	patch, err := json.Marshal(changes)
	if err != nil {
		return // three plain fields cannot fail
	}
	err = s.client.Patch(s.context(), event.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) {
		s.create(event)
	}
}

// context makes the calls those of the process, and not of the pass that recorded the event.
func (s *eventSender) context() context.Context { return s.client.env.As(context.Background(), "") }

// nameOf names an event by what makes it one to be counted, so that its name is the same in every run. The old API tells
// events apart by their messages, the new one by their actions.
func (s *eventSender) nameOf(event *corev1.Event, series bool) string {
	about := event.InvolvedObject
	parts := []string{
		event.ReportingController, about.APIVersion, about.Kind, about.Namespace, about.Name, string(about.UID),
		about.FieldPath, event.Type, event.Reason,
	}
	if series {
		parts = append(parts, "series", event.Action)
		if event.Related != nil {
			parts = append(parts, event.Related.String())
		}
	} else {
		parts = append(parts, event.Message)
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d%q", s.client.env.Incarnation(), parts)
	return fmt.Sprintf("%s.%016x", about.Name, h.Sum64())
}

// eventRecorder is a recorder for the old events API.
type eventRecorder struct{ eventSource }

var _ record.EventRecorder = &eventRecorder{}

// Event implements record.EventRecorder.
func (r *eventRecorder) Event(object runtime.Object, kind, reason, message string) {
	r.record(&corev1.Event{Type: kind, Reason: reason, Message: message}, object, false)
}

// Eventf implements record.EventRecorder.
func (r *eventRecorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r *eventRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any,
) {
	event := &corev1.Event{Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
	event.Annotations = annotations
	r.record(event, object, false)
}

// eventsRecorder is a recorder for the new events API.
type eventsRecorder struct{ eventSource }

var _ events.EventRecorder = &eventsRecorder{}

// Eventf implements events.EventRecorder.
func (r *eventsRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, format string, args ...any) {
	r.AnnotatedEventf(regarding, related, nil, kind, reason, action, format, args...)
}

// AnnotatedEventf implements the events.AnnotatedEventRecorder of k8s.io/client-go v0.37.
func (r *eventsRecorder) AnnotatedEventf(
	regarding, related runtime.Object, annotations map[string]string, kind, reason, action, format string, args ...any,
) {
	event := &corev1.Event{Type: kind, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
	event.Annotations = annotations
	if related != nil {
		event.Related, _ = reference.GetReference(r.sender.scheme, related)
	}
	r.record(event, regarding, true)
}
