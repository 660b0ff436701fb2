package reactors

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// webhookRows are the faults of admission webhooks. They strike at the call of a webhook in the course of a write: whatever the
// server refuses before that, it still refuses, and a webhook whose failures are ignored lets the write pass without it.
var webhookRows = map[schedule.FaultType]*row{
	schedule.WebhookDenial: {
		doc:     "an admission webhook refuses a write",
		webhook: true, build: (*target).webhookDenial,
		make: func(f schedule.Fault) sim.Reactor { return &webhookFault{fault: f, answer: denies} },
	},
	schedule.WebhookFailure: {
		doc:     "a webhook does not answer: its failurePolicy decides",
		means:   []schedule.Means{schedule.ConnectionRefused, schedule.DeadlineExceeded},
		webhook: true, build: (*target).webhookFailure,
		make: newWebhookFailure,
	},
}

// webhookFault answers in place of a webhook.
type webhookFault struct {
	idle
	fault  schedule.Fault
	answer func(*sim.Door, *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error)
}

// Before implements [sim.Reactor].
func (w *webhookFault) Before(d *sim.Door) {
	d.Webhook(w.fault.Webhook, func(call *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) { return w.answer(d, call) })
}

// refusalText is what a webhook that a fault stands for says.
const refusalText = "the object is refused by a fault of the simulation"

// denies refuses as controller-runtime's webhooks do: sigs.k8s.io/controller-runtime/pkg/webhook/admission/response.go
// ValidationResponse, v0.24.
func denies(_ *sim.Door, call *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) {
	return &admissionv1.AdmissionReview{TypeMeta: call.Review.TypeMeta, Response: &admissionv1.AdmissionResponse{
		UID: call.Review.Request.UID,
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: refusalText,
		},
	}}, nil
}

func newWebhookFailure(f schedule.Fault) sim.Reactor {
	if f.Means == schedule.DeadlineExceeded {
		return &webhookFault{fault: f, answer: timesOut}
	}
	return &webhookFault{fault: f, answer: func(*sim.Door, *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) {
		return nil, apiserver.ErrWebhookDown
	}}
}

// timesOut does not answer for as long as the webhook may take, which the actor waits for: a write that goes through all the
// same is answered late, though others see it at once.
func timesOut(d *sim.Door, call *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) {
	d.DelayResponse(call.Timeout)
	return nil, context.DeadlineExceeded
}

// webhookName is that of a webhook where nobody has named one.
func webhookName(f schedule.Fault) string { return cmp.Or(f.Webhook, "webhook.stalemate.dev") }

// webhookDenial is the answer to a write that a webhook refuses: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/
// statuserror.go. It is for the fake of a clientset, which has no webhooks.
func (t *target) webhookDenial(f schedule.Fault) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("admission webhook %q denied the request: %s", webhookName(f), refusalText),
	}}
}

// webhookFailure is the answer to a write whose webhook is not reached: k8s.io/apiserver/pkg/util/webhook/error.go.
func (t *target) webhookFailure(f schedule.Fault) *apierrors.StatusError {
	cause := "dial tcp 10.96.0.2:443: connect: connection refused"
	if f.Means == schedule.DeadlineExceeded {
		cause = context.DeadlineExceeded.Error()
	}
	const patience = 10 * time.Second
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: Post %q: %s",
		webhookName(f), fmt.Sprintf("https://webhook-service.default.svc:443/?timeout=%s", patience), cause))
}
