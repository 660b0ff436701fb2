package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// answering is how the webhooks of a test behave, by name, and what they were asked.
type answering struct {
	answers map[string]func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)
	asked   []string
	last    *admissionv1.AdmissionRequest
}

func (a *answering) call(call *WebhookCall) (*admissionv1.AdmissionReview, error) {
	a.asked = append(a.asked, call.Webhook)
	a.last = call.Review.Request
	answer := &admissionv1.AdmissionReview{TypeMeta: call.Review.TypeMeta, Response: allow()}
	if f := a.answers[call.Webhook]; f != nil {
		var err error
		if answer.Response, err = f(call.Review.Request); err != nil {
			return nil, err
		}
	}
	if answer.Response != nil && answer.Response.UID == "" {
		answer.Response.UID = call.Review.Request.UID
	}
	return answer, nil
}

func allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

// patching allows a request with a JSON patch.
func patching(patch string) func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch)}, nil
	}
}

func denying(result *metav1.Status) func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Result: result}, nil
	}
}

func failing(err error) func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) { return nil, err }
}

// rule matches all operations on some resources.
func rule(resources ...string) registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.OperationAll},
		Rule:       registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}
}

// mutatingHook is a mutating webhook for ConfigMaps.
func mutatingHook(name string, edits ...func(*registrationv1.MutatingWebhook)) registrationv1.MutatingWebhook {
	w := registrationv1.MutatingWebhook{
		Name: name, Rules: []registrationv1.RuleWithOperations{rule("configmaps")},
		SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{
			Namespace: "system", Name: "hooks", Path: new("/" + name),
		}},
	}
	for _, edit := range edits {
		edit(&w)
	}
	return w
}

func validatingHook(name string, edits ...func(*registrationv1.MutatingWebhook)) registrationv1.ValidatingWebhook {
	w := mutatingHook(name, edits...)
	return registrationv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
		TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}

func ifNeeded(w *registrationv1.MutatingWebhook) {
	w.ReinvocationPolicy = new(registrationv1.IfNeededReinvocationPolicy)
}

func ignored(w *registrationv1.MutatingWebhook) { w.FailurePolicy = new(registrationv1.Ignore) }

func (t *tester) mutating(name string, hooks ...registrationv1.MutatingWebhook) {
	t.Helper()
	t.create(&registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks})
}

func (t *tester) validating(name string, hooks ...registrationv1.ValidatingWebhook) {
	t.Helper()
	t.create(&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks})
}

// hookTester makes a server whose webhooks answer as told.
func hookTester(t *testing.T) (*tester, *answering) {
	test, a := newTester(t), &answering{answers: map[string]func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error){}}
	test.SetWebhookClient(a.call)
	return test, a
}

func (t *tester) expect(a *answering, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, a.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	a.asked = nil
}

// createConfig creates a ConfigMap that may be refused.
func (t *tester) createConfig(name string) *Response {
	return t.Do(&Request{Verb: schedule.Create, Kind: t.kind("ConfigMap"), Namespace: "default", Object: newConfig(name)})
}

func (t *tester) refused(response *Response, code int, reason metav1.StatusReason, message string) {
	t.Helper()
	if response.Err == nil {
		t.Fatalf("it was not refused, want %q", message)
	}
	got := response.Err.ErrStatus
	if response.Code != code || int(got.Code) != code || got.Reason != reason || got.Message != message {
		t.Errorf("got %d %s %q\nwant %d %s %q", response.Code, got.Reason, got.Message, code, reason, message)
	}
}

func TestWebhookOrder(t *testing.T) {
	test, a := hookTester(t)
	test.validating("a", validatingHook("v1.example.com"))
	test.mutating("z", mutatingHook("m3.example.com"))
	test.mutating("b", mutatingHook("m2.example.com"), mutatingHook("m1.example.com"))
	err := test.AddHooks(Hook{MutatingWebhook: mutatingHook("go.example.com"), Configuration: "c",
		Handle: func(r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			a.asked = append(a.asked, "go.example.com")
			return allow(), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	response := test.createConfig("c")
	want := []string{"m2.example.com", "m1.example.com", "go.example.com", "m3.example.com", "v1.example.com"}
	test.expect(a, want...)
	if diff := cmp.Diff(want, response.Webhooks); diff != "" {
		t.Error(diff)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, test.Webhooks()); diff != "" {
		t.Error(diff)
	}
	test.do(&Request{Verb: schedule.Get, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c"})
	test.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	test.remove(test.Get(test.kind("MutatingWebhookConfiguration"), "", "b"), metav1.DeleteOptions{})
	test.expect(a)
	test.createConfig("d")
	test.expect(a, "go.example.com", "m3.example.com", "v1.example.com")
}

func TestWebhookReinvocation(t *testing.T) {
	const change = `[{"op":"add","path":"/data/%s","value":"x"}]`
	for _, c := range []struct {
		name     string
		policies [3]bool // IfNeeded
		changes  string  // the webhooks that change something, each time they are called
		want     string
	}{
		{"nothing changes", [3]bool{true, true, true}, "", "abc"},
		{"only the first changes", [3]bool{true, true, true}, "a", "abc"},
		{"a later one changes", [3]bool{true, true, true}, "b", "abca"},
		{"the last one changes", [3]bool{true, true, true}, "c", "abcab"},
		{"those that do not want to know", [3]bool{false, true, false}, "c", "abcb"},
		{"nobody wants to know", [3]bool{}, "abc", "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test, a := hookTester(t)
			var hooks []registrationv1.MutatingWebhook
			for i, name := range []string{"a", "b", "c"} {
				hook := mutatingHook(name + ".example.com")
				if c.policies[i] {
					ifNeeded(&hook)
				}
				hooks = append(hooks, hook)
				if strings.Contains(c.changes, name) {
					a.answers[hook.Name] = patching(fmt.Sprintf(change, name))
				}
			}
			test.mutating("hooks", hooks...)
			test.createConfig("c")
			got := ""
			for _, name := range a.asked {
				got += name[:1]
			}
			if got != c.want {
				t.Errorf("asked %s, want %s", got, c.want)
			}
		})
	}
}

// TestWebhookDenial has the cases of k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
func TestWebhookDenial(t *testing.T) {
	const denied = `admission webhook "v.example.com" denied the request`
	for _, c := range []struct {
		name    string
		result  *metav1.Status
		code    int
		reason  metav1.StatusReason
		message string
	}{
		{"no result", nil, 400, "", denied + " without explanation"},
		{"a message", &metav1.Status{Message: "no"}, 400, "", denied + ": no"},
		{"a reason", &metav1.Status{Reason: "Never"}, 400, "Never", denied + ": Never"},
		{"as controller-runtime does it", &metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"},
			403, metav1.StatusReasonForbidden, denied + ": no"},
		{"a code that is none", &metav1.Status{Status: metav1.StatusSuccess, Code: 200, Message: "fine"}, 400, "", denied + ": fine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test, a := hookTester(t)
			test.validating("v", validatingHook("v.example.com", ignored)) // a refusal is no failure
			a.answers["v.example.com"] = denying(c.result)
			response := test.createConfig("c")
			test.refused(response, c.code, c.reason, c.message)
			if status := response.Err.ErrStatus.Status; status != metav1.StatusFailure {
				t.Errorf("status %q", status)
			}
			if test.Get(test.kind("ConfigMap"), "default", "c") != nil {
				t.Error("it was created")
			}
		})
	}
}

const postedTo = `failed to call webhook: Post "https://hooks.system.svc:443/m.example.com?timeout=10s": `

func byURL(address string) func(*registrationv1.MutatingWebhook) {
	return func(w *registrationv1.MutatingWebhook) {
		w.ClientConfig = registrationv1.WebhookClientConfig{URL: &address}
	}
}

// webhookFailures are ways not to answer, with what a real server makes of them.
var webhookFailures = []struct {
	name    string
	answer  func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)
	edit    func(*registrationv1.MutatingWebhook)
	service bool
	want    string
}{
	{name: "nobody there", answer: failing(ErrNoWebhook), want: postedTo + `service "hooks" not found`},
	{name: "a service without anybody", answer: failing(ErrNoWebhook), service: true,
		want: postedTo + "dial tcp 10.96.9.9:443: connect: connection refused"},
	{name: "gone for now", answer: failing(ErrWebhookDown), want: postedTo + "dial tcp 10.96.0.2:443: connect: connection refused"},
	{name: "no answer in time", answer: failing(context.DeadlineExceeded), want: postedTo + "context deadline exceeded"},
	{name: "a timeout of its own", answer: failing(context.DeadlineExceeded),
		edit: func(w *registrationv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(3)) },
		want: strings.Replace(postedTo, "10s", "3s", 1) + "context deadline exceeded"},
	{name: "a URL", answer: failing(ErrNoWebhook), edit: byURL("https://hooks.example.com/x"),
		want: `failed to call webhook: Post "https://hooks.example.com/x?timeout=10s": ` +
			"dial tcp: lookup hooks.example.com on 10.96.0.10:53: no such host"},
	{name: "an address", answer: failing(ErrNoWebhook), edit: byURL("https://10.0.0.1:9443"),
		want: `failed to call webhook: Post "https://10.0.0.1:9443/?timeout=10s": dial tcp 10.0.0.1:9443: connect: connection refused`},
	{name: "an API status", answer: failing(apierrors.NewInternalError(errors.New("oops"))),
		want: "failed to call webhook: Internal error occurred: oops"},
	{name: "no response", answer: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) { return nil, nil },
		want: "received invalid webhook response: webhook response was absent"},
	{name: "a response to another request",
		answer: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			return &admissionv1.AdmissionResponse{UID: "other", Allowed: true}, nil
		},
		want: `received invalid webhook response: expected response.uid="UID", got "other"`},
	{name: "no type of patch", answer: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte("[]")}, nil
	}, want: "received invalid webhook response: webhook returned response.patch but not response.patchType"},
	{name: "no patch at all", answer: patching("{"),
		want: "received undecodable patch in webhook response: unexpected end of JSON input"},
}

func TestWebhookFailure(t *testing.T) {
	for _, c := range webhookFailures {
		t.Run(c.name, func(t *testing.T) {
			for _, policy := range []registrationv1.FailurePolicyType{registrationv1.Fail, registrationv1.Ignore} {
				test, a := hookTester(t)
				if c.service {
					service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hooks", Namespace: "system"},
						Spec: corev1.ServiceSpec{ClusterIP: "10.96.9.9", Ports: []corev1.ServicePort{{Port: 443}}}}
					if err := test.Load(service); err != nil {
						t.Fatal(err)
					}
				}
				hook := mutatingHook("m.example.com", func(w *registrationv1.MutatingWebhook) { w.FailurePolicy = &policy })
				if c.edit != nil {
					c.edit(&hook)
				}
				test.mutating("m", hook)
				a.answers["m.example.com"] = c.answer
				response := test.createConfig("c")
				if policy == registrationv1.Ignore {
					if response.Err != nil {
						t.Errorf("a failure to be ignored: %v", response.Err)
					}
					continue
				}
				want := `Internal error occurred: failed calling webhook "m.example.com": ` +
					strings.Replace(c.want, "UID", string(a.last.UID), 1)
				test.refused(response, 500, metav1.StatusReasonInternalError, want)
			}
		})
	}
}

// TestWebhookMayNotPatch has what ends a request whatever the failure policy is.
func TestWebhookMayNotPatch(t *testing.T) {
	test, a := hookTester(t)
	test.mutating("m", mutatingHook("m.example.com", ignored))
	a.answers["m.example.com"] = patching(`[{"op":"remove","path":"/data/none"}]`)
	test.refused(test.createConfig("c"), 500, metav1.StatusReasonInternalError,
		"Internal error occurred: error in remove for path: '/data/none': "+
			"Unable to remove nonexistent key: none: missing value")
	a.answers["m.example.com"] = nil
	c := test.createConfig("c").Object
	a.answers["m.example.com"] = patching(`[{"op":"add","path":"/data/x","value":"y"}]`)
	test.refused(test.Do(&Request{Verb: schedule.Delete, Kind: test.kind("ConfigMap"), Namespace: "default", Name: c.GetName()}),
		500, metav1.StatusReasonInternalError, `Internal error occurred: admission webhook "m.example.com" attempted to modify the `+
			"object, which is not supported for this operation")
}

var blueTeam = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}

func withRules(rules ...registrationv1.RuleWithOperations) func(*registrationv1.MutatingWebhook) {
	return func(w *registrationv1.MutatingWebhook) { w.Rules = rules }
}

// withRule gives a webhook one rule, changed.
func withRule(edit func(*registrationv1.RuleWithOperations), resources ...string) func(*registrationv1.MutatingWebhook) {
	r := rule(resources...)
	edit(&r)
	return withRules(r)
}

var v1HPA = withRule(func(r *registrationv1.RuleWithOperations) {
	r.APIGroups, r.APIVersions = []string{"autoscaling"}, []string{"v1"}
}, "horizontalpodautoscalers")

// webhookMatches say which of a webhook's properties make it one for a request.
var webhookMatches = []struct {
	name string
	hook func(*registrationv1.MutatingWebhook)
	want string // the requests that it is asked about
}{
	{"every resource", withRules(rule("*")), "create update hpa namespace labelled delete"},
	{"every subresource", withRules(rule("*/*")), "create update status scale hpa namespace labelled delete"},
	{"one subresource", withRules(rule("statefulsets/status")), "status"},
	{"the subresources of one", withRules(rule("statefulsets/*")), "create update status scale labelled delete"},
	{"creates", withRule(func(r *registrationv1.RuleWithOperations) {
		r.Operations = []registrationv1.OperationType{registrationv1.Create}
	}, "statefulsets"), "create labelled"},
	{"another group", withRule(func(r *registrationv1.RuleWithOperations) { r.APIGroups = []string{""} }, "statefulsets"), ""},
	{"another version", withRule(func(r *registrationv1.RuleWithOperations) { r.APIVersions = []string{"v1beta1"} }, "statefulsets"), ""},
	{"in the cluster", withRule(func(r *registrationv1.RuleWithOperations) {
		r.Scope = new(registrationv1.ClusterScope)
	}, "*"), "namespace"},
	{"in namespaces", withRule(func(r *registrationv1.RuleWithOperations) {
		r.Scope = new(registrationv1.NamespacedScope)
	}, "namespaces", "statefulsets"), "create update labelled delete"},
	{"an equivalent resource", v1HPA, "hpa"},
	{"an exact resource", func(w *registrationv1.MutatingWebhook) {
		v1HPA(w)
		w.MatchPolicy = new(registrationv1.Exact)
	}, ""},
	{"labelled objects", func(w *registrationv1.MutatingWebhook) {
		w.Rules, w.ObjectSelector = []registrationv1.RuleWithOperations{rule("statefulsets")}, blueTeam
	}, "labelled delete"},
	{"labelled namespaces", func(w *registrationv1.MutatingWebhook) {
		w.Rules, w.NamespaceSelector = []registrationv1.RuleWithOperations{rule("*")}, blueTeam
	}, "namespace"},
	{"other namespaces", func(w *registrationv1.MutatingWebhook) {
		w.Rules = []registrationv1.RuleWithOperations{rule("statefulsets")}
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist,
		}}}
	}, "create update labelled delete"},
}

func TestWebhookMatching(t *testing.T) {
	for _, c := range webhookMatches {
		t.Run(c.name, func(t *testing.T) {
			test, a := hookTester(t)
			test.mutating("m", mutatingHook("m.example.com", c.hook))
			var asked []string
			step := func(name string, act func()) {
				if act(); len(a.asked) > 0 {
					asked = append(asked, name)
				}
				a.asked = nil
			}
			step("create", func() { test.create(newSet("a")) })
			stored := test.Get(test.kind("StatefulSet"), "default", "a")
			step("update", func() { change(test, "", stored, func(s *setType) { s.Labels = map[string]string{"x": "y"} }) })
			step("status", func() { change(test, "status", stored, func(s *setType) { s.Status.Replicas = 1 }) })
			step("scale", func() {
				test.do(&Request{Verb: schedule.Patch, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "a",
					Subresource: "scale", PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"replicas":3}}`)})
			})
			step("hpa", func() {
				test.create(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"},
					Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3,
						ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "a"}}})
			})
			step("namespace", func() {
				test.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: maps.Clone(blueTeam.MatchLabels)}})
			})
			step("labelled", func() {
				labelled := newSet("l")
				labelled.Labels = blueTeam.MatchLabels
				test.create(labelled)
			})
			step("delete", func() {
				test.remove(test.Get(test.kind("StatefulSet"), "default", "l"), metav1.DeleteOptions{})
			})
			if got := strings.Join(asked, " "); got != c.want {
				t.Errorf("asked about %q, want %q", got, c.want)
			}
		})
	}
}

func TestWebhookRequest(t *testing.T) {
	test, a := hookTester(t)
	test.mutating("m", mutatingHook("m.example.com", func(w *registrationv1.MutatingWebhook) {
		w.Rules = []registrationv1.RuleWithOperations{rule("*/*")}
	}))
	check := func(what, operation, kind, resource, subresource, name, options string, object, old bool) {
		t.Helper()
		r := a.last
		got := []string{string(r.Operation), r.Kind.String(), r.Resource.String(), r.SubResource, r.Namespace + "/" + r.Name}
		want := []string{operation, kind, resource, subresource, name}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if (r.Object.Raw != nil) != object || (r.OldObject.Raw != nil) != old {
			t.Errorf("%s: object %s, old %s", what, r.Object.Raw, r.OldObject.Raw)
		}
		var sent metav1.TypeMeta
		if err := json.Unmarshal(r.Options.Raw, &sent); err != nil || sent.Kind != options {
			t.Errorf("%s: options %s, want %s", what, r.Options.Raw, options)
		}
	}
	const sets, set = "apps/v1, Resource=statefulsets", "apps/v1, Kind=StatefulSet"
	stored := test.create(newSet("a"))
	check("create", "CREATE", "apps/v1, Kind=StatefulSet", sets, "", "default/a", "CreateOptions", true, false)
	if text := string(a.last.Object.Raw); strings.Contains(text, `"uid"`) || !strings.Contains(text, `"podManagementPolicy":"OrderedReady"`) {
		t.Errorf("a new object is to have its defaults, and no uid: %s", text)
	}
	change(test, "status", stored, func(s *setType) { s.Status.Replicas = 1 })
	check("status", "UPDATE", set, sets, "status", "default/a", "UpdateOptions", true, true)
	test.do(&Request{Verb: schedule.Patch, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "a",
		Subresource: "scale", PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"replicas":3}}`)})
	check("scale", "UPDATE", "autoscaling/v1, Kind=Scale", sets, "scale", "default/a", "UpdateOptions", true, true)
	test.remove(stored, metav1.DeleteOptions{})
	check("delete", "DELETE", set, sets, "", "default/a", "DeleteOptions", false, true)
	test.create(newPod("p", ""))
	test.do(&Request{Verb: schedule.Create, Kind: test.kind("Pod"), Namespace: "default", Name: "p", Subresource: "binding",
		Object: &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "n"}}})
	check("binding", "CREATE", "/v1, Kind=Binding", "/v1, Resource=pods", "binding", "default/p", "CreateOptions", true, false)
	test.do(&Request{Verb: schedule.DeleteCollection, Kind: test.kind("Pod"), Namespace: "default"})
	check("collection", "DELETE", "/v1, Kind=Pod", "/v1, Resource=pods", "", "default/", "DeleteOptions", false, true)
	apply := &Request{Verb: schedule.Patch, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c", FieldManager: "m",
		PatchType: types.ApplyPatchType, PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)}
	again := *apply
	test.do(apply)
	check("apply", "CREATE", "/v1, Kind=ConfigMap", "/v1, Resource=configmaps", "", "default/c", "CreateOptions", true, false)
	test.do(&again)
	check("apply again", "UPDATE", "/v1, Kind=ConfigMap", "/v1, Resource=configmaps", "", "default/c", "UpdateOptions", true, true)
	generated := newConfig("")
	generated.GenerateName = "g-"
	test.create(generated)
	check("generateName", "CREATE", "/v1, Kind=ConfigMap", "/v1, Resource=configmaps", "", "default/", "CreateOptions", true, false)
	test.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	check("namespace", "CREATE", "/v1, Kind=Namespace", "/v1, Resource=namespaces", "", "n/n", "CreateOptions", true, false)
}

// TestWebhookSeesNoSystemFields: what a client says of fields that the server fills in is gone before webhooks are asked.
func TestWebhookSeesNoSystemFields(t *testing.T) {
	test, a := hookTester(t)
	test.mutating("m", mutatingHook("m.example.com"))
	config := newConfig("c")
	config.UID, config.CreationTimestamp = "mine", metav1.NewTime(fixedClock())
	config.DeletionTimestamp, config.SelfLink = &config.CreationTimestamp, "/here"
	test.create(config)
	var sent corev1.ConfigMap
	if err := json.Unmarshal(a.last.Object.Raw, &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metav1.ObjectMeta{Name: "c", Namespace: "default"}, sent.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

type setType = appsv1.StatefulSet

// TestWebhookPatch looks at what becomes of the object that a webhook has changed.
func TestWebhookPatch(t *testing.T) {
	test, a := hookTester(t)
	test.mutating("m", mutatingHook("m.example.com", func(w *registrationv1.MutatingWebhook) {
		w.Rules = []registrationv1.RuleWithOperations{rule("*", "statefulsets/scale")}
	}))
	a.answers["m.example.com"] = patching(`[{"op":"add","path":"/spec/unknown","value":1},{"op":"replace","path":"/spec/size","value":7}]`)
	widget := test.create(newWidget("w")).(*unstructured.Unstructured)
	if diff := cmp.Diff(map[string]any{"size": int64(7), "color": "red"}, widget.Object["spec"]); diff != "" {
		t.Errorf("a patch is to be pruned:\n%s", diff)
	}
	a.answers["m.example.com"] = patching(`[{"op":"replace","path":"/spec/size","value":-1}]`)
	response := test.Do(&Request{Verb: schedule.Create, Kind: test.kind("Widget"), Namespace: "default", Object: newWidget("x")})
	test.refused(response, 422, metav1.StatusReasonInvalid, `Widget.golden.example.com "x" is invalid: spec.size: Invalid value: -1: `+
		"spec.size in body should be greater than or equal to 0")
	a.answers["m.example.com"] = patching(`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"sidecar"}}]`)
	pod := test.create(newPod("p", "")).(*corev1.Pod)
	if len(pod.Spec.Containers) != 2 || pod.Spec.Containers[1].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("a sidecar is to have its defaults: %+v", pod.Spec.Containers)
	}
	a.answers["m.example.com"] = patching(`[{"op":"replace","path":"/metadata/name","value":"other"}]`)
	response = test.Do(&Request{Verb: schedule.Patch, Kind: test.kind("Widget"), Namespace: "default", Name: "w",
		PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"size":8}}`)})
	test.refused(response, 422, metav1.StatusReasonInvalid,
		`Widget.golden.example.com "w" is invalid: metadata.name: Invalid value: "other": field is immutable`)
	a.answers["m.example.com"] = nil
	test.create(newSet("s"))
	a.answers["m.example.com"] = patching(`[{"op":"replace","path":"/spec/replicas","value":5}]`)
	scaled := test.do(&Request{Verb: schedule.Patch, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "s",
		Subresource: "scale", PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"replicas":3}}`)})
	if n := scaled.Object.(*autoscalingv1.Scale).Spec.Replicas; n != 5 {
		t.Errorf("scaled to %d, want what the webhook made of it", n)
	}
}

// TestWebhookOwnsNothing checks that what a webhook changes belongs to no field manager.
func TestWebhookOwnsNothing(t *testing.T) {
	for _, tracked := range []bool{false, true} {
		test, a := hookTester(t)
		if tracked {
			test.TrackManagedFields()
		}
		test.mutating("m", mutatingHook("m.example.com"))
		a.answers["m.example.com"] = patching(`[{"op":"add","path":"/data/hook","value":"x"}]`)
		test.do(&Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "default", Object: newConfig("c"),
			FieldManager: "client"})
		stored := test.Get(test.kind("ConfigMap"), "default", "c")
		if stored.(*corev1.ConfigMap).Data["hook"] != "x" {
			t.Fatal("the webhook changed nothing")
		}
		for _, entry := range test.WithManagedFields(test.kind("ConfigMap"), stored).GetManagedFields() {
			if entry.Manager != "client" || strings.Contains(entry.FieldsV1.String(), "hook") {
				t.Errorf("tracked %t: %s owns %s", tracked, entry.Manager, entry.FieldsV1)
			}
		}
	}
}

func TestWebhookDryRun(t *testing.T) {
	for effects, refused := range map[registrationv1.SideEffectClass]bool{
		registrationv1.SideEffectClassNone: false, registrationv1.SideEffectClassNoneOnDryRun: false,
		registrationv1.SideEffectClassSome: true,
	} {
		test, a := hookTester(t)
		hook := mutatingHook("m.example.com")
		hook.SideEffects = &effects
		if refused { // no configuration can have it, but one from before v1
			hook.SideEffects = new(registrationv1.SideEffectClassNone)
		}
		test.mutating("m", hook)
		test.allHooks()[0].spec.SideEffects = &effects
		request := func() *Request {
			return &Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "default", Object: newConfig("c"), DryRun: true}
		}
		response := test.Do(request())
		if refused {
			test.refused(response, 400, metav1.StatusReasonBadRequest, `admission webhook "m.example.com" does not support dry run`)
			test.expect(a)
			continue
		}
		if response.Err != nil || !*a.last.DryRun || response.Committed != 0 {
			t.Errorf("%s: %v, dry run %t", effects, response.Err, *a.last.DryRun)
		}
		test.do(&Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "default", Object: newConfig("c")})
		a.asked = nil
		test.do(&Request{Verb: schedule.Delete, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c",
			Delete: metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
		test.expect(a, "m.example.com")
		if !*a.last.DryRun {
			t.Error("a delete is no dry run")
		}
	}
}

// TestWebhookBeforeConflict: mutating webhooks are asked about updates that turn out to be stale, validating ones are not, nor
// any about what fails before; Store.Update of pkg/registry/generic/registry/store.go.
func TestWebhookBeforeConflict(t *testing.T) {
	test, a := hookTester(t)
	test.mutating("m", mutatingHook("m.example.com"))
	test.validating("v", validatingHook("v.example.com"))
	test.createConfig("c")
	a.asked = nil
	stale := newConfig("c")
	stale.ResourceVersion = "1"
	update := func(obj Object) *Response {
		return test.Do(&Request{Verb: schedule.Update, Kind: test.kind("ConfigMap"), Namespace: "default", Name: obj.GetName(), Object: obj})
	}
	if response := update(stale.DeepCopy()); !apierrors.IsConflict(response.Err) {
		t.Error(response.Err)
	}
	test.expect(a, "m.example.com")
	a.answers["m.example.com"] = denying(&metav1.Status{Message: "no"})
	test.refused(update(stale.DeepCopy()), 400, "", `admission webhook "m.example.com" denied the request: no`)
	a.asked = nil
	other := newConfig("c")
	other.UID = "other"
	if response := update(other); !apierrors.IsConflict(response.Err) {
		t.Error(response.Err)
	}
	if response := update(newConfig("none")); !apierrors.IsNotFound(response.Err) {
		t.Error(response.Err)
	}
	test.expect(a)
	a.answers["m.example.com"] = nil
	if response := test.createConfig("c"); !apierrors.IsAlreadyExists(response.Err) {
		t.Error(response.Err)
	}
	test.expect(a, "m.example.com", "v.example.com")
	test.refused(test.Do(&Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "none", Object: newConfig("c")}),
		404, metav1.StatusReasonNotFound, `namespaces "none" not found`)
	test.expect(a)
}

// TestWebhookValidatesAll: all validating webhooks are asked, and the first refusal is told.
func TestWebhookValidatesAll(t *testing.T) {
	test, a := hookTester(t)
	test.validating("v", validatingHook("v1.example.com"), validatingHook("v2.example.com"), validatingHook("v3.example.com"))
	a.answers["v2.example.com"] = denying(&metav1.Status{Message: "second"})
	a.answers["v3.example.com"] = failing(context.DeadlineExceeded)
	test.refused(test.createConfig("c"), 400, "", `admission webhook "v2.example.com" denied the request: second`)
	test.expect(a, "v1.example.com", "v2.example.com", "v3.example.com")
	a.answers["v1.example.com"] = patching("[]")
	test.refused(test.createConfig("c"), 500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook `+
		`"v1.example.com": received invalid webhook response: validating webhook may not return response.patch`)
}

// TestWebhookOvertakes: a webhook that writes to the object it is asked about makes the request start over.
func TestWebhookOvertakes(t *testing.T) {
	test, a := hookTester(t)
	stored := test.createConfig("c").Object
	test.mutating("m", mutatingHook("m.example.com"))
	writes := 0
	a.answers["m.example.com"] = func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		if writes++; writes == 1 {
			other := stored.DeepCopyObject().(*corev1.ConfigMap)
			other.Data["hook"] = "before " + other.ResourceVersion
			if err := test.Do(&Request{Verb: schedule.Update, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c",
				Object: other}).Err; err != nil {
				return nil, err
			}
		}
		return allow(), nil
	}
	patch := &Request{Verb: schedule.Patch, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c",
		PatchType: types.MergePatchType, PatchData: []byte(`{"data":{"client":"y"}}`)}
	after := test.do(patch).Object.(*corev1.ConfigMap)
	if diff := cmp.Diff(map[string]string{"k": "v", "hook": "before " + stored.GetResourceVersion(), "client": "y"}, after.Data); diff != "" {
		t.Error(diff)
	}
	test.expect(a, "m.example.com", "m.example.com", "m.example.com") // the patch, the update, the patch again
	writes = 0
	locked := stored.DeepCopyObject().(*corev1.ConfigMap)
	locked.ResourceVersion = after.ResourceVersion
	stored = after
	response := test.Do(&Request{Verb: schedule.Update, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c", Object: locked})
	if !apierrors.IsConflict(response.Err) {
		t.Errorf("an update with a lock: %v", response.Err)
	}
}

// TestValidatingWebhookOvertakes: so does a validating one, which is asked once more, about what it has made of the object.
func TestValidatingWebhookOvertakes(t *testing.T) {
	test, a := hookTester(t)
	stored := test.createConfig("c").Object
	test.validating("v", validatingHook("v.example.com"))
	var seen []string
	a.answers["v.example.com"] = func(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		seen = append(seen, string(request.OldObject.Raw))
		if len(seen) == 1 {
			change(test, "", stored, func(c *corev1.ConfigMap) { c.Data["hook"] = "x" })
		}
		return allow(), nil
	}
	after := test.do(&Request{Verb: schedule.Patch, Kind: test.kind("ConfigMap"), Namespace: "default", Name: "c",
		PatchType: types.MergePatchType, PatchData: []byte(`{"data":{"client":"y"}}`)}).Object.(*corev1.ConfigMap)
	if diff := cmp.Diff(map[string]string{"k": "v", "hook": "x", "client": "y"}, after.Data); diff != "" {
		t.Error(diff)
	}
	if last := seen[len(seen)-1]; len(seen) != 3 || !strings.Contains(last, `"hook":"x"`) {
		t.Errorf("asked %d times, at last about %s", len(seen), last)
	}
}

// TestWebhookOvertakesCollection: what the delete of a collection has committed before it starts over counts, though in the end it
// is refused.
func TestWebhookOvertakesCollection(t *testing.T) {
	test, a := hookTester(t)
	test.createConfig("a")
	b := test.createConfig("b").Object
	test.validating("v", validatingHook("v.example.com", func(w *registrationv1.MutatingWebhook) {
		w.Rules[0].Operations = []registrationv1.OperationType{registrationv1.Delete}
	}))
	a.answers["v.example.com"] = func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		switch len(a.asked) {
		case 1: // about a
		case 2:
			change(test, "", b, func(c *corev1.ConfigMap) { c.Data["hook"] = "x" })
		default:
			return &admissionv1.AdmissionResponse{}, nil
		}
		return allow(), nil
	}
	before := test.Revision()
	response := test.Do(&Request{Verb: schedule.DeleteCollection, Kind: test.kind("ConfigMap"), Namespace: "default"})
	test.refused(response, 400, "", `admission webhook "v.example.com" denied the request without explanation`)
	if response.Committed != before+1 {
		t.Errorf("committed at %d, want %d: a is gone", response.Committed, before+1)
	}
}

// TestWebhookNamespaceLabels: a webhook that selects namespaces is asked about a write to one by the labels that it writes, unless
// it writes to a subresource.
func TestWebhookNamespaceLabels(t *testing.T) {
	test, a := hookTester(t)
	ns := test.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	test.mutating("m", mutatingHook("m.example.com", func(w *registrationv1.MutatingWebhook) {
		w.Rules, w.NamespaceSelector = []registrationv1.RuleWithOperations{rule("namespaces", "namespaces/*")}, blueTeam
	}))
	paint := func(labels map[string]string) func(*corev1.Namespace) {
		return func(n *corev1.Namespace) { n.Labels = maps.Clone(labels) }
	}
	change(test, "status", ns, paint(blueTeam.MatchLabels))
	test.expect(a)
	change(test, "status", ns, paint(nil))
	test.expect(a, "m.example.com") // it was blue
	change(test, "", ns, paint(blueTeam.MatchLabels))
	test.expect(a, "m.example.com")
	change(test, "", ns, paint(nil))
	test.expect(a)
	test.remove(ns, metav1.DeleteOptions{})
	test.expect(a)
	blue := test.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: maps.Clone(blueTeam.MatchLabels)}})
	test.remove(blue, metav1.DeleteOptions{})
	test.expect(a, "m.example.com", "m.example.com")
}

// TestWebhookDeletes: a pod that is marked and removed by one delete is asked about twice; updateForGracefulDeletionAndFinalizers
// and Delete of pkg/registry/generic/registry/store.go.
func TestWebhookDeletes(t *testing.T) {
	test, a := hookTester(t)
	test.validating("v", validatingHook("v.example.com", func(w *registrationv1.MutatingWebhook) {
		w.Rules = []registrationv1.RuleWithOperations{rule("pods", "configmaps", "namespaces")}
	}))
	config := test.createConfig("c").Object
	unbound, bound := test.create(newPod("unbound", "")), test.create(newPod("bound", "n"))
	a.asked = nil
	test.remove(config, metav1.DeleteOptions{})
	test.expect(a, "v.example.com")
	test.remove(unbound, metav1.DeleteOptions{})
	test.expect(a, "v.example.com", "v.example.com")
	test.remove(bound, metav1.DeleteOptions{})
	test.expect(a, "v.example.com")
	test.remove(bound, metav1.DeleteOptions{}) // its grace period runs
	test.expect(a)
	test.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	test.create(newPod("another", ""))
	a.answers["v.example.com"] = denying(nil)
	test.refused(test.Do(&Request{Verb: schedule.Delete, Kind: test.kind("Namespace"), Name: "n"}), 400, "",
		`admission webhook "v.example.com" denied the request without explanation`)
	test.refused(test.Do(&Request{Verb: schedule.DeleteCollection, Kind: test.kind("Pod"), Namespace: "default"}), 400, "",
		`admission webhook "v.example.com" denied the request without explanation`)
}

func TestWebhookWarningsAndGaps(t *testing.T) {
	test, a := hookTester(t)
	hook := validatingHook("v.example.com", func(w *registrationv1.MutatingWebhook) {
		w.MatchConditions = []registrationv1.MatchCondition{{Name: "x", Expression: "false"}}
	})
	test.validating("v", hook)
	a.answers["v.example.com"] = func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"old"}}, nil
	}
	if diff := cmp.Diff([]string{"old"}, test.createConfig("c").Warnings); diff != "" {
		t.Error(diff)
	}
	want := []string{"the match conditions of the webhook v.example.com are not modelled: it is called as if they held"}
	if diff := cmp.Diff(want, test.Gaps()); diff != "" {
		t.Error(diff)
	}
}

// TestWebhookFault has faults act in place of webhooks.
func TestWebhookFault(t *testing.T) {
	deny := func(*WebhookCall) (*admissionv1.AdmissionReview, error) { return nil, ErrWebhookDown }
	for _, c := range []struct{ name, fault, want, asked string }{
		{"the first", "", `failed calling webhook "m.example.com"`, ""},
		{"one by name", "v.example.com", `failed calling webhook "v.example.com"`, "m.example.com"},
		{"one that is not called", "other.example.com", "", "m.example.com v.example.com"},
		{"one that nobody has", "none.example.com", `failed calling webhook "none.example.com"`, "m.example.com v.example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test, a := hookTester(t)
			test.mutating("m", mutatingHook("m.example.com"))
			test.validating("v", validatingHook("v.example.com"))
			test.validating("w", validatingHook("other.example.com", func(w *registrationv1.MutatingWebhook) {
				w.Rules = []registrationv1.RuleWithOperations{rule("secrets")}
			}))
			response := test.Do(&Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "default", Object: newConfig("c"),
				Webhook: &WebhookFault{Name: c.fault, Answer: deny}})
			switch {
			case c.want == "" && response.Err != nil:
				t.Error(response.Err)
			case c.want != "" && (response.Err == nil || !strings.Contains(response.Err.Error(), c.want)):
				t.Errorf("got %v, want %s", response.Err, c.want)
			}
			if got := strings.Join(a.asked, " "); got != c.asked {
				t.Errorf("asked %q, want %q", got, c.asked)
			}
		})
	}
}

func TestWebhookHookErrors(t *testing.T) {
	test := newTester(t)
	handle := func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) { return allow(), nil }
	for want, hook := range map[string]Hook{
		"Handle is nil": {MutatingWebhook: mutatingHook("m.example.com")},
		"webhooks[0].name: Invalid value: \"m\": should be a domain with at least three segments separated by dots": {
			MutatingWebhook: registrationv1.MutatingWebhook{Name: "m"}, Handle: handle},
	} {
		if err := test.AddHooks(hook); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := test.AddHooks(Hook{MutatingWebhook: registrationv1.MutatingWebhook{Name: "every.example.com"}, Handle: handle}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"every.example.com"}, test.createConfig("c").Webhooks); diff != "" {
		t.Error(diff)
	}
}
