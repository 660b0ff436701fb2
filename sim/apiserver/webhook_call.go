package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// callError is a webhook that could not be asked, or whose answer makes no sense: what its failure policy is for;
// ErrCallingWebhook in pkg/util/webhook/error.go.
type callError struct {
	webhook string
	reason  error
}

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.webhook, e.reason)
}

// verdict is what a webhook said about a request: nothing against it, an error of its own, or that it could not be asked.
type verdict struct {
	changed bool
	refusal *statusError
	failure *callError
}

// fails returns the answer to the request where a verdict decides it, nil where the request goes on.
func (v verdict) fails(h *hook) *statusError {
	switch {
	case v.refusal != nil:
		return v.refusal
	case v.failure != nil && !h.ignores():
		return apierrors.NewInternalError(v.failure)
	default:
		return nil
	}
}

// ask calls a webhook about a request, and applies what a mutating one wants changed.
func (v *review) ask(h *hook, m *matched, a *attributes) verdict {
	if v.req.dryRun() && !harmless(h) {
		return verdict{refusal: badRequest("admission webhook %q does not support dry run", h.spec.Name)}
	}
	request, failure := v.request(h, m, a)
	if failure != nil {
		return verdict{failure: failure}
	}
	v.called = append(v.called, h.spec.Name)
	response, failure := v.call(h, request)
	switch {
	case failure != nil:
		return verdict{failure: failure}
	case !response.Allowed:
		v.req.warnings = append(v.req.warnings, response.Warnings...)
		return verdict{refusal: denial(h.spec.Name, response.Result)}
	}
	v.req.warnings = append(v.req.warnings, response.Warnings...)
	if !h.mutates || len(response.Patch) == 0 {
		return verdict{}
	}
	return v.patch(h, m, a, response)
}

// harmless reports whether a webhook may be called for a dry run.
func harmless(h *hook) bool {
	switch *h.spec.SideEffects {
	case registrationv1.SideEffectClassNone, registrationv1.SideEffectClassNoneOnDryRun:
		return true
	default:
		return false
	}
}

// denial is the answer to a request that a webhook refused; errors/statuserror.go ToStatusErr.
func denial(webhook string, result *metav1.Status) *statusError {
	refusal := metav1.Status{}
	if result != nil {
		refusal = *result.DeepCopy()
	}
	refusal.Code = max(refusal.Code, http.StatusBadRequest)
	if refusal.Status == "" || refusal.Status == metav1.StatusSuccess {
		refusal.Status = metav1.StatusFailure
	}
	text := fmt.Sprintf("admission webhook %q denied the request", webhook)
	switch {
	case refusal.Message != "":
		refusal.Message = text + ": " + refusal.Message
	case refusal.Reason != "":
		refusal.Message = text + ": " + string(refusal.Reason)
	default:
		refusal.Message = text + " without explanation"
	}
	return &statusError{ErrStatus: refusal}
}

// request returns what a webhook is sent; request/admissionreview.go CreateV1AdmissionReview.
func (v *review) request(h *hook, m *matched, a *attributes) (*admissionv1.AdmissionRequest, *callError) {
	if known := h.spec.AdmissionReviewVersions; !slices.Contains(known, "v1") {
		v.server.gap(fmt.Sprintf("the webhook %s takes no AdmissionReview of version v1: it is sent one nevertheless", h.spec.Name))
	}
	gvk, asked := metav1.GroupVersionKind(m.kind), metav1.GroupVersionKind(a.as(a.view).kind)
	w := v.server.webhooks()
	w.reviews++
	request := &admissionv1.AdmissionRequest{
		UID:  uidFor("admission review", w.reviews),
		Kind: gvk, Resource: resourceOf(m.view), SubResource: a.subresource,
		RequestKind: &asked, RequestResource: new(resourceOf(a.view)), RequestSubResource: a.subresource,
		Name: a.name, Namespace: a.namespace, Operation: a.operation, UserInfo: v.req.userInfo(),
		DryRun: new(v.req.dryRun()), Options: runtime.RawExtension{Raw: v.options(a.operation)},
	}
	for _, part := range []struct {
		obj Object
		to  *runtime.RawExtension
	}{{a.object, &request.Object}, {a.old, &request.OldObject}} {
		if part.obj == nil {
			continue
		}
		data, err := json.Marshal(a.shown(m, part.obj))
		if err != nil {
			return nil, &callError{h.spec.Name, fmt.Errorf("could not create admission objects: %w", err)}
		}
		part.to.Raw = data
	}
	return request, nil
}

func resourceOf(k *Kind) metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}

// shown returns an object in the form in which a webhook is told of it.
func (a *attributes) shown(m *matched, obj Object) Object {
	if a.foreign != nil {
		return obj
	}
	return m.view.shown(obj)
}

// userInfo says who makes a request: every actor has a service account of its name in the namespace default.
func (r *Request) userInfo() authenticationv1.UserInfo {
	name := (&author{manager: r.UserAgent, agent: true}).name()
	if name == "" {
		name = "default"
	}
	return authenticationv1.UserInfo{
		Username: "system:serviceaccount:default:" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
	}
}

// options returns the options of a request, in JSON. Those of a patch become those of a create or an update: pkg/endpoints/
// handlers/patch.go patchToUpdateOptions.
func (v *review) options(operation admissionv1.Operation) []byte {
	var dryRun []string
	if v.req.dryRun() {
		dryRun = []string{metav1.DryRunAll}
	}
	meta := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: kind} }
	var options any
	switch operation {
	case admissionv1.Create:
		options = &metav1.CreateOptions{TypeMeta: meta("CreateOptions"), DryRun: dryRun,
			FieldManager: v.req.FieldManager, FieldValidation: v.req.FieldValidation}
	case admissionv1.Delete:
		deletion := v.req.Delete.DeepCopy()
		deletion.TypeMeta, deletion.DryRun = meta("DeleteOptions"), dryRun
		options = deletion
	default:
		options = &metav1.UpdateOptions{TypeMeta: meta("UpdateOptions"), DryRun: dryRun,
			FieldManager: v.req.FieldManager, FieldValidation: v.req.FieldValidation}
	}
	data, err := json.Marshal(options)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return data
}

// call sends a request to a webhook, and checks what comes back.
func (v *review) call(h *hook, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, *callError) {
	base, path := h.address()
	call := &WebhookCall{
		Webhook: h.spec.Name, Configuration: h.configuration, Mutating: h.mutates, Timeout: h.timeout(), Path: path,
		URL: fmt.Sprintf("%s%s?timeout=%s", base, path, h.timeout()),
		Review: &admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
		},
	}
	answer, err := v.clientOf(h)(call)
	if err != nil {
		if _, isStatus := err.(*statusError); !isStatus { //nolint:errorlint // client-go returns it as it is
			if err == ErrNoWebhook || err == ErrWebhookDown { //nolint:errorlint // they are the client's to return
				if err == ErrNoWebhook { //nolint:errorlint // as above
					v.server.gap(fmt.Sprintf("nobody serves the webhook %s at %s: its calls fail: have a controller serve it, or leave it out",
						h.spec.Name, path))
				}
				err = v.server.unreached(h, err)
			}
			err = fmt.Errorf("Post %q: %w", call.URL, err)
		}
		return nil, &callError{h.spec.Name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	if err := verify(h, request.UID, answer); err != nil {
		return nil, &callError{h.spec.Name, fmt.Errorf("received invalid webhook response: %w", err)}
	}
	return answer.Response, nil
}

// clientOf returns who calls a webhook: a fault that acts in its place, the function of one given in Go, or the client.
func (v *review) clientOf(h *hook) WebhookClient {
	if fault := v.req.Webhook; fault != nil && (v.struck == h || v.struck == nil && (fault.Name == "" || fault.Name == h.spec.Name)) {
		v.struck = h
		return fault.Answer
	}
	if h.handle != nil {
		return h.callGo
	}
	if client := v.server.hooks.client; client != nil {
		return client
	}
	return func(*WebhookCall) (*admissionv1.AdmissionReview, error) { return nil, ErrNoWebhook }
}

// callGo calls a hook given in Go.
func (h *hook) callGo(call *WebhookCall) (*admissionv1.AdmissionReview, error) {
	response, err := h.handle(call.Review.Request.DeepCopy())
	if err != nil {
		return nil, err
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: call.Review.TypeMeta}
	if response != nil {
		answer.Response = response.DeepCopy()
		answer.Response.UID = call.Review.Request.UID
	}
	return answer, nil
}

// verify checks an answer; request/admissionreview.go VerifyAdmissionResponse.
func verify(h *hook, uid types.UID, answer *admissionv1.AdmissionReview) error {
	wanted := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	r := answer.Response
	switch {
	case r == nil:
		return fmt.Errorf("webhook response was absent")
	case r.UID != uid:
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case answer.GroupVersionKind() != wanted:
		return fmt.Errorf("expected webhook response of %v, got %v", wanted, answer.GroupVersionKind())
	case !h.mutates && len(r.Patch) > 0:
		return fmt.Errorf("validating webhook may not return response.patch")
	case !h.mutates && r.PatchType != nil:
		return fmt.Errorf("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return fmt.Errorf("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return fmt.Errorf("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	default:
		return nil
	}
}

// patch applies what a mutating webhook wants changed, with the defaults of what it added; callAttrMutatingHook in mutating/
// dispatcher.go.
func (v *review) patch(h *hook, m *matched, a *attributes, response *admissionv1.AdmissionResponse) verdict {
	failure := func(format string, args ...any) verdict {
		return verdict{failure: &callError{h.spec.Name, fmt.Errorf(format, args...)}}
	}
	operations, err := jsonpatch.DecodePatch(response.Patch)
	switch {
	case err != nil:
		return failure("received undecodable patch in webhook response: %w", err)
	case len(operations) == 0:
		return verdict{}
	case a.object == nil:
		return verdict{refusal: apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", h.spec.Name))}
	case *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return failure("unsupported patch type %q", *response.PatchType)
	}
	before := a.shown(m, a.object)
	document, err := json.Marshal(before)
	if err != nil {
		return verdict{refusal: apierrors.NewInternalError(err)}
	}
	document, refusal := applyOperations(operations, document)
	if refusal != nil {
		return verdict{refusal: refusal}
	}
	obj, err := a.decode(m, document)
	if err != nil {
		return verdict{refusal: apierrors.NewInternalError(err)}
	}
	changed := !equality.Semantic.DeepEqual(before, obj)
	if a.foreign == nil {
		m.view.receive(obj, -1)
		if m.view.Alias != nil {
			if obj, err = m.view.Alias.To(obj); err != nil {
				return verdict{refusal: apierrors.NewInternalError(err)}
			}
		}
	}
	a.object = obj
	return verdict{changed: changed}
}

func applyOperations(operations jsonpatch.Patch, document []byte) (patched []byte, refusal *statusError) {
	defer recovered(&refusal)
	patched, err := operations.Apply(document)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return patched, nil
}

// decode reads an object of the form in which a webhook is told of it.
func (a *attributes) decode(m *matched, data []byte) (Object, error) {
	if a.foreign == nil {
		obj, err := m.view.Decode(data)
		if err != nil {
			return nil, withoutKind(err)
		}
		return obj, nil
	}
	obj := reflect.New(reflect.TypeOf(a.object).Elem()).Interface().(Object)
	return obj, kjson.Unmarshal(data, obj)
}
