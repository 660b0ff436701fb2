package client

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// recorderCore writes events. A real recorder hands them to a goroutine that sends, aggregates and drops them as it likes;
// ours makes a line of the history and, in a goroutine of the event's own, one attempt to create or count up an Event,
// whose outcome nobody sees.
type recorderCore struct {
	client *liveClient
	source string
}

func (r *recorderCore) record(object runtime.Object, annotations map[string]string, kind, reason, message string) {
	r.client.env.Log(context.Background(), history.Log{
		Logger: "event", Message: message, Values: []string{"type=" + kind, "reason=" + reason},
	})
	about, err := reference.GetReference(r.client.codec.scheme, object)
	if err != nil {
		return
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, Name: eventName(about, kind, reason, message), Annotations: annotations},
		InvolvedObject: *about, Type: kind, Reason: reason, Message: message, Count: 1,
		Source: corev1.EventSource{Component: r.source}, ReportingController: r.source,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	r.client.env.Go(func() { r.send(event) })
}

// send creates the event, or counts it up if it is there already.
func (r *recorderCore) send(event *corev1.Event) {
	ctx := context.Background()
	seen := &corev1.Event{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(event), seen)
	if err == nil {
		seen.Count++
		_ = r.client.Update(ctx, seen)
		return
	}
	_ = r.client.Create(ctx, event)
}

// eventName names an event by what it says, so that the same one is counted and not repeated, and so that its name is the
// same in every run.
func eventName(about *corev1.ObjectReference, parts ...string) string {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part + "\x00"))
	}
	return fmt.Sprintf("%s.%016x", about.Name, h.Sum64())
}

// eventRecorder is a recorder for the old events API.
type eventRecorder struct{ recorderCore }

var _ record.EventRecorder = &eventRecorder{}

// Event implements record.EventRecorder.
func (r *eventRecorder) Event(object runtime.Object, kind, reason, message string) {
	r.record(object, nil, kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (r *eventRecorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.record(object, nil, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r *eventRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any,
) {
	r.record(object, annotations, kind, reason, fmt.Sprintf(format, args...))
}

// eventsRecorder is a recorder for the new events API.
type eventsRecorder struct{ recorderCore }

var _ events.EventRecorder = &eventsRecorder{}

// Eventf implements events.EventRecorder.
func (r *eventsRecorder) Eventf(regarding, _ runtime.Object, kind, reason, _, format string, args ...any) {
	r.record(regarding, nil, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements the events.AnnotatedEventRecorder of k8s.io/client-go v0.37.
func (r *eventsRecorder) AnnotatedEventf(
	regarding, _ runtime.Object, annotations map[string]string, kind, reason, _, format string, args ...any,
) {
	r.record(regarding, annotations, kind, reason, fmt.Sprintf(format, args...))
}
