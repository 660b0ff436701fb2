package reactors

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var (
	testKinds = apiserver.NewKinds(apiserver.V136)
	podKind   = testKinds.ByName("Pod")
	pods      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestActions checks that each request becomes the action that a generated clientset makes of the same call.
func TestActions(t *testing.T) {
	preconditions := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u1")}
	byLabel, err := labels.Parse("app=shop")
	if err != nil {
		t.Fatal(err)
	}
	listOptions := metav1.ListOptions{LabelSelector: "app=shop"}
	fake := metav1.CreateOptions{FieldManager: "me", DryRun: []string{"All"}}
	tests := []struct {
		name    string
		request apiserver.Request
		want    clientgotesting.Action
	}{
		{"get", apiserver.Request{Verb: schedule.Get, Name: "a"},
			clientgotesting.NewGetActionWithOptions(pods, "default", "a", metav1.GetOptions{})},
		{"get status", apiserver.Request{Verb: schedule.Get, Name: "a", Subresource: "status"}, // the constructor joins its arguments
			clientgotesting.GetActionImpl{ActionImpl: clientgotesting.ActionImpl{Namespace: "default", Verb: "get", Resource: pods,
				Subresource: "status"}, Name: "a"}},
		{"list", apiserver.Request{Verb: schedule.List, LabelSelector: byLabel},
			clientgotesting.NewListActionWithOptions(pods, podKind.GroupVersionKind, "default", listOptions)},
		{"create", apiserver.Request{Verb: schedule.Create, Object: podNamed("a"), FieldManager: "me", DryRun: true},
			clientgotesting.NewCreateActionWithOptions(pods, "default", podNamed("a"), fake)},
		{"evict", apiserver.Request{Verb: schedule.Create, Name: "a", Subresource: "eviction", Object: podNamed("a")},
			clientgotesting.NewCreateSubresourceActionWithOptions(pods, "a", "eviction", "default", podNamed("a"), metav1.CreateOptions{})},
		{"update", apiserver.Request{Verb: schedule.Update, Name: "a", Object: podNamed("a")},
			clientgotesting.NewUpdateActionWithOptions(pods, "default", podNamed("a"), metav1.UpdateOptions{})},
		{"update status", apiserver.Request{Verb: schedule.Update, Name: "a", Subresource: "status", Object: podNamed("a")},
			clientgotesting.NewUpdateSubresourceActionWithOptions(pods, "status", "default", podNamed("a"), metav1.UpdateOptions{})},
		{"patch", apiserver.Request{Verb: schedule.Patch, Name: "a", PatchType: types.MergePatchType, PatchData: []byte(`{}`)},
			clientgotesting.NewPatchActionWithOptions(pods, "default", "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})},
		{"delete", apiserver.Request{Verb: schedule.Delete, Name: "a", Delete: preconditions},
			clientgotesting.NewDeleteActionWithOptions(pods, "default", "a", preconditions)},
		{"delete collection", apiserver.Request{Verb: schedule.DeleteCollection, LabelSelector: byLabel},
			clientgotesting.NewDeleteCollectionActionWithOptions(pods, "default", metav1.DeleteOptions{}, listOptions)},
		{"watch", apiserver.Request{Verb: schedule.Watch}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := test.request
			request.Kind, request.Namespace = podKind, "default"
			got := actionOf(&request, (&chain{}).typed)
			if test.name == "create" { // only the constructor of subresources names them; ours always does
				create := got.(clientgotesting.CreateActionImpl)
				create.Name = ""
				got = create
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(sameSelector), cmp.Exporter(exportAll)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if created, ok := got.(clientgotesting.CreateActionImpl); ok && created.Object == request.Object {
				t.Error("the action holds the request's own object, which is not a reactor's to change")
			}
		})
	}
}

// sameSelector compares label selectors by what they say, and empty ones as equal.
func sameSelector(a, b labels.Selector) bool { return a.String() == b.String() }

func exportAll(reflect.Type) bool { return true }

// TestTyped checks the form in which reactors see custom resources.
func TestTyped(t *testing.T) {
	untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "a"}}}
	if got, ok := (&chain{}).typed(untyped).(*unstructured.Unstructured); !ok || got == untyped {
		t.Errorf("without a scheme: %T", (&chain{}).typed(untyped))
	}
	got, ok := (&chain{scheme: clientgoscheme.Scheme}).typed(untyped).(*corev1.Pod)
	if !ok || got.Name != "a" {
		t.Errorf("with a scheme: %v", got)
	}
	untyped.SetKind("Nobody")
	if _, ok := (&chain{scheme: clientgoscheme.Scheme}).typed(untyped).(*unstructured.Unstructured); !ok {
		t.Error("a kind that the scheme does not know has a type")
	}
}

// TestResponses checks what stands in place of the server's answer.
func TestResponses(t *testing.T) {
	broken := errors.New("broken")
	pod := podNamed("a")
	pod.ResourceVersion = "7"
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, Items: []corev1.Pod{*pod}}
	tests := []struct {
		name string
		verb schedule.Verb
		sub  string
		obj  runtime.Object
		err  error
		// What comes of it.
		code     int
		reason   metav1.StatusReason
		object   string // its name and type
		items    int
		revision int64
		failure  string
	}{
		{name: "status error", verb: schedule.Get, err: apierrors.NewResourceExpired("old"), code: 410, reason: metav1.StatusReasonExpired},
		{name: "wrapped", verb: schedule.Get, err: errors.Join(apierrors.NewResourceExpired("old")), code: 410,
			reason: metav1.StatusReasonExpired},
		{name: "no code", verb: schedule.Get, err: &apierrors.StatusError{}, code: 500},
		{name: "other error", verb: schedule.Update, err: broken, failure: "broken"},
		{name: "object", verb: schedule.Get, obj: pod, code: 200, object: "a *v1.Pod", revision: 7},
		{name: "created", verb: schedule.Create, obj: pod, code: 201, object: "a *v1.Pod", revision: 7},
		{name: "nothing", verb: schedule.Get, code: 200, object: " *v1.Pod"},
		{name: "deleted", verb: schedule.Delete, obj: pod, code: 200},
		{name: "another kind", verb: schedule.Get, obj: &corev1.Secret{},
			failure: "reactor: its answer to a request for pods: Pod: the object is a *v1.Secret, want *v1.Pod"},
		{name: "no object", verb: schedule.Get, obj: &metav1.Status{},
			failure: "reactor: it answered a request for pods with a *v1.Status: return an object"},
		{name: "scale", verb: schedule.Get, sub: "scale", obj: &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
			code: 200, object: "s *v1.Scale"},
		{name: "list", verb: schedule.List, obj: list, code: 200, items: 1, revision: 9},
		{name: "empty list", verb: schedule.List, code: 200},
		{name: "no list", verb: schedule.List, obj: &metav1.Status{},
			failure: "reactor: it answered a list of pods with a *v1.Status: return a list"},
		{name: "list of another kind", verb: schedule.List, obj: &corev1.SecretList{Items: make([]corev1.Secret, 1)},
			failure: "reactor: its answer to a request for pods: Pod: the object is a *v1.Secret, want *v1.Pod"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := &apiserver.Request{Verb: test.verb, Kind: podKind, Namespace: "default", Name: "a", Subresource: test.sub}
			got, err := responseOf(request, test.obj, test.err)
			if err != nil || test.failure != "" {
				if err == nil || err.Error() != test.failure {
					t.Errorf("failed with %v, want %q", err, test.failure)
				}
				return
			}
			if got.Code != test.code || (got.Err != nil) != (test.err != nil) || len(got.Items) != test.items ||
				got.Revision != test.revision {
				t.Errorf("answer %+v", got)
			}
			if got.Err != nil && got.Err.ErrStatus.Reason != test.reason {
				t.Errorf("reason %s, want %s", got.Err.ErrStatus.Reason, test.reason)
			}
			object := ""
			if got.Object != nil {
				object = got.Object.GetName() + " " + reflect.TypeOf(got.Object).String()
			}
			if object != test.object {
				t.Errorf("object %q, want %q", object, test.object)
			}
			if got.Object == test.obj && test.obj != nil {
				t.Error("the answer holds the reactor's own object, which it may change")
			}
		})
	}
}
