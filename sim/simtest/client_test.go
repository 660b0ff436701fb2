package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// reporter is a test that fails without ending the one that looks at it.
type reporter struct {
	*testing.T
	fatal string
	logs  []string
}

func (r *reporter) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *reporter) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

// refused returns what building a client fails with, nothing if it does not.
func refused(t *testing.T, build func(*simtest.ClientBuilder)) string {
	t.Helper()
	r := &reporter{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		build(simtest.NewClientBuilder(r).WithScheme(newScheme(t)))
	}()
	<-done
	return r.fatal
}

// TestRefusedToBuild checks what no server can hold, and what it is said about it.
func TestRefusedToBuild(t *testing.T) {
	type B = *simtest.ClientBuilder
	nowhere, dying, twice, invalid := aSecret("a"), aSecret("a"), aSecret("a"), aSet("web")
	nowhere.Namespace, invalid.Spec.Selector = "", nil
	dying.DeletionTimestamp = new(metav1.Now())
	tests := []struct {
		name  string
		build func(B)
		want  string
	}{
		{"no namespace", func(b B) { b.WithObjects(nowhere).Build() }, `Secret "a" has no namespace, and no server stores it like that: set one`},
		{"no name", func(b B) { b.WithObjects(aSecret("")).Build() }, "a Secret that is given has no name"},
		{"gone", func(b B) { b.WithObjects(dying).Build() }, `Secret "a" has a deletionTimestamp but no finalizers`},
		{"twice", func(b B) { b.WithObjects(twice, twice).Build() }, "Secret default/a exists already: give each object once"},
		{"invalid", func(b B) { b.WithObjects(invalid).Build() }, `StatefulSet.apps "web" is invalid`},
		{"not in the scheme", func(b B) { b.WithScheme(apiruntime.NewScheme()).WithObjects(aSecret("a")).Build() }, "no kind is registered"},
		{"no object", func(b B) { b.WithRuntimeObjects(&metav1.Status{}).Build() }, "a *v1.Status is no object that a server holds"},
		{"nil", func(b B) { b.WithObjects(nil).Build() }, "an object that is given is nil (<nil>): leave it out"},
		{"nil of a type", func(b B) { b.WithObjects((*corev1.Secret)(nil)).Build() }, "an object that is given is nil (*v1.Secret)"},
		{"nil unstructured", func(b B) { b.WithObjects((*unstructured.Unstructured)(nil)).Build() }, "is nil (*unstructured.Unstructured)"},
		{"nil list", func(b B) { b.WithLists((*corev1.SecretList)(nil)).Build() }, "an object that is given is nil (*v1.SecretList)"},
		{"nil index", func(b B) { b.WithIndex(aSecret("a"), "x", nil).Build() }, `there is no function that extracts "x"`},
		{"index of nil", func(b B) { b.WithIndex((*corev1.Secret)(nil), "x", nil).Build() }, "WithIndex: a *v1.Secret is no object"},
		{"no status", func(b B) { b.WithStatusSubresource(aSecret("a")).Build() }, "Secret has no subresource status on a server: leave it out"},
		{"known status", func(b B) { b.WithCRDs(widgetCRD).WithoutStatusSubresource(aWidget("a")).Build() },
			"what Widget.example.com has is known: leave it out"},
		{"index twice", func(b B) {
			nothing := func(client.Object) []string { return nil }
			b.WithIndex(aSecret("a"), "x", nothing).WithIndex(aSecret("a"), "x", nothing).Build()
		}, "WithIndex: indexer conflict: map[field:x:{}]"},
		{"no file", func(b B) { b.WithCRDs("nowhere.yaml").Build() }, "WithCRDs: stat nowhere.yaml"},
		{"no definition", func(b B) { b.WithCRDs("../../cmd/testdata/widget/config/samples").Build() }, "holds a CustomResourceDefinition"},
		{"wrong file", func(b B) { b.WithCRDs("../../cmd/testdata/widget/config/samples/widget.yaml").Build() },
			`Unsupported value: "Widget"`},
		{"invalid custom resource", func(b B) {
			widget := aWidget("w")
			widget.Spec.Replicas = -1
			b.WithCRDs(widgetCRD).WithObjects(widget).Build()
		}, `spec.replicas: Invalid value: -1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if said := refused(t, test.build); !strings.Contains(said, test.want) {
				t.Errorf("said %q, want %q", said, test.want)
			}
		})
	}
}

// TestGivenObjects checks that objects are stored as they are given, but for what every server fills in, and stay the caller's.
func TestGivenObjects(t *testing.T) {
	set, pod := aSet("web"), aPod("web-0")
	set.Status.Replicas, set.Generation, set.UID = 3, 7, "given"
	set.Namespace, pod.Namespace = "team", "team"
	set.Finalizers, set.DeletionTimestamp = []string{"example.com/hold"}, &metav1.Time{Time: time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}}
	given := set.DeepCopy()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := simtest.NewClientBuilder(t).WithObjects(set).WithLists(&corev1.PodList{Items: []corev1.Pod{*pod}}).
		WithRuntimeObjects(&corev1.SecretList{Items: []corev1.Secret{*aSecret("a"), *aSecret("b")}}, aSecret("c")).
		WithClock(func() time.Time { return now }).Build()
	p := &prober{t, c}
	stored := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	if err := errors.Join(p.get(stored), p.get(pod)); err != nil {
		t.Fatal(err)
	}
	if stored.Status.Replicas != 3 || stored.Generation != 7 || stored.UID != "given" || stored.DeletionTimestamp == nil ||
		*stored.Spec.Replicas != 1 || !stored.CreationTimestamp.Time.Equal(now) {
		t.Errorf("stored %+v", stored)
	}
	if pod.OwnerReferences[0].UID != "given" {
		t.Errorf("the owner is %v", pod.OwnerReferences)
	}
	if set.ResourceVersion != given.ResourceVersion || set.Spec.Replicas != nil {
		t.Error("the object that was given has changed")
	}
	secrets, namespace := &corev1.SecretList{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if err := errors.Join(c.List(t.Context(), secrets), p.get(namespace)); err != nil || len(secrets.Items) != 3 {
		t.Errorf("%d secrets: %v", len(secrets.Items), err)
	}
}

// TestNamespaces checks where something can be created.
func TestNamespaces(t *testing.T) {
	there := aSecret("a")
	there.Namespace = "there"
	c := simtest.NewClientBuilder(t).WithNamespaces("there").Build()
	(&prober{t, c}).create(there)
	elsewhere := aSecret("a")
	elsewhere.Namespace = "elsewhere"
	if err := c.Create(t.Context(), elsewhere.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("created nowhere: %v", err)
	}
	c = simtest.NewClientBuilder(t).WithNamespacesOnDemand().Build()
	(&prober{t, c}).create(elsewhere)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "elsewhere"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace was not made: %v", err)
	}
}

// TestKindsWithoutDefinition checks custom resources of which nothing but a Go type is known, or not even that.
func TestKindsWithoutDefinition(t *testing.T) {
	server := simtest.NewClientBuilder(t).WithScheme(newScheme(t)).Server()
	p := &prober{t, server.Client()}
	widget := aWidget("w")
	widget.Status.Phase = "Ready"
	p.create(widget)
	if widget.Status.Phase != "" || widget.Generation != 1 {
		t.Errorf("created %+v", widget)
	}
	widget.Status.Phase = "Ready"
	if err := p.Status().Update(t.Context(), widget); err != nil || widget.Status.Phase != "Ready" || widget.Generation != 1 {
		t.Errorf("updated %+v: %v", widget, err)
	}
	cluster := untyped("policy.example.com/v1", "ClusterPolicy", "p")
	cluster.SetNamespace("")
	if err := p.Get(t.Context(), client.ObjectKey{Name: "p"}, cluster.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("got what is not there: %v", err)
	}
	p.create(cluster)
	if namespaced, err := p.IsObjectNamespaced(cluster); err != nil || namespaced {
		t.Errorf("it has namespaces: %v, %v", namespaced, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(cluster.GroupVersionKind())
	if err := p.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Errorf("listed %v: %v", list.Items, err)
	}
	placed := untyped("example.com/v1", "Placed", "p")
	p.create(placed)
	homeless := untyped("example.com/v1", "Placed", "q")
	homeless.SetNamespace("")
	if err := p.Create(t.Context(), homeless); err == nil || err.Error() != "an empty namespace may not be set during creation" {
		t.Errorf("created without a namespace: %v", err)
	}
	want := []string{
		"ClusterPolicy.policy.example.com has no CustomResourceDefinition: nothing of it is pruned, defaulted or validated",
		"Placed.example.com has no CustomResourceDefinition: nothing of it is pruned, defaulted or validated",
		"Widget.example.com has no CustomResourceDefinition: nothing of it is pruned, defaulted or validated",
	}
	if gaps := server.Gaps(); !slices.Equal(gaps, want) {
		t.Errorf("gaps are %q", gaps)
	}
}

// TestGivenKinds checks what the objects, a mapper and options say of kinds without a definition.
func TestGivenKinds(t *testing.T) {
	cluster := untyped("policy.example.com/v1", "ClusterPolicy", "p")
	cluster.SetNamespace("")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.AddSpecific(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Oxen"},
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "oxs"},
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "ox"}, meta.RESTScopeRoot)
	claim := &resourcev1.ResourceClaim{ObjectMeta: inDefault("c")}
	invalid := aSet("bad")
	invalid.Spec.Selector = nil
	server := simtest.NewClientBuilder(t).WithScheme(newScheme(t)).WithRESTMapper(mapper).WithObjects(cluster, claim, invalid).
		WithoutStatusSubresource(aWidget("")).WithoutValidation(invalid).Server()
	p := &prober{t, server.Client()}
	if err := p.get(cluster); err != nil {
		t.Error(err)
	}
	err := p.Get(t.Context(), client.ObjectKey{Name: "x"}, untyped("example.com/v1", "Oxen", "x"))
	if err == nil || err.Error() != `oxs.example.com "x" not found` {
		t.Errorf("said %v", err)
	}
	widget := aWidget("w")
	widget.Status.Phase = "Ready"
	p.create(widget)
	if widget.Status.Phase != "Ready" {
		t.Error("the status was dropped")
	}
	if err := p.Status().Update(t.Context(), widget); err == nil || err.Error() != `widgets.example.com "w" not found` {
		t.Errorf("said %v", err)
	}
	for _, want := range []string{"ResourceClaim.resource.k8s.io is not a known kind", "StatefulSet.apps is not validated"} {
		if !strings.Contains(strings.Join(server.Gaps(), "\n"), want) {
			t.Errorf("%q is not among the gaps %q", want, server.Gaps())
		}
	}
}

// TestGapsAreLogged checks that a test says what of it is not modelled.
func TestGapsAreLogged(t *testing.T) {
	r := &reporter{T: t}
	t.Run("test", func(t *testing.T) {
		r.T = t
		c := simtest.NewClientBuilder(r).WithScheme(newScheme(t)).Build()
		(&prober{t, c}).create(aWidget("w"))
	})
	if want := "- Widget.example.com has no CustomResourceDefinition"; len(r.logs) != 1 || !strings.Contains(r.logs[0], want) {
		t.Errorf("logged %q", r.logs)
	}
}

// TestDefinitions checks that a definition prunes, defaults and validates, by whatever way an object comes.
func TestDefinitions(t *testing.T) {
	server := simtest.NewClientBuilder(t).WithScheme(newScheme(t)).WithCRDs(widgetCRD).WithStatusSubresource(aWidget("")).Server()
	p := &prober{t, server.Client()}
	widget := untyped("example.com/v1", "Widget", "w")
	widget.Object["spec"] = map[string]any{"replicas": int64(1), "unknown": true}
	p.create(widget)
	if _, found, _ := unstructured.NestedBool(widget.Object, "spec", "unknown"); found {
		t.Error("the unknown field is still there")
	}
	typed := read(t.Context(), p, aWidget("w"))
	typed.Spec.Replicas = -1
	if err := p.Update(t.Context(), typed); !apierrors.IsInvalid(err) {
		t.Errorf("said %v", err)
	}
	if gaps := server.Gaps(); len(gaps) > 0 {
		t.Errorf("gaps are %q", gaps)
	}
}

func nodeOf(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }

// TestIndexes checks lists by fields.
func TestIndexes(t *testing.T) {
	var objects []client.Object
	for i, node := range []string{"one", "two", "one", "one"} {
		pod := aPod(fmt.Sprintf("p%d", i))
		pod.Spec.NodeName, pod.Labels = node, map[string]string{"odd": fmt.Sprint(i % 2)}
		objects = append(objects, pod)
	}
	c := simtest.NewClientBuilder(t).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "image", func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.Containers[0].Image} }).
		WithIndex(&corev1.Pod{}, "node", nodeOf).WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).Build()
	selecting := func(text string) client.ListOption {
		return client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie(text)}
	}
	loose := &unstructured.UnstructuredList{}
	loose.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for _, test := range []struct {
		name    string
		list    client.ObjectList
		options []client.ListOption
		want    string
	}{
		{"index", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "one"}}, "p0 p2 p3"},
		{"two indexes", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "two", "image": "main:1"}}, "p1"},
		{"nothing", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "two", "image": "other"}}, ""},
		{"labels", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "one"}, client.MatchingLabels{"odd": "1"}}, "p3"},
		{"namespace", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "one"}, client.InNamespace("kube-system")}, ""},
		{"limit", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "one"}, client.Limit(2)}, "p0 p2"},
		{"unstructured", loose, []client.ListOption{client.MatchingFields{"node": "one"}}, "p0 p2 p3"},
		{"the server's own", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"spec.nodeName": "two"}}, "p1"},
		{"both", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"node": "one", "metadata.name": "p2"}}, "p2"},
		{"an index, and not the server's own", &corev1.PodList{}, []client.ListOption{selecting("node=one,metadata.name!=p2")}, "p0 p3"},
		{"an index, and not another one", &corev1.PodList{}, []client.ListOption{selecting("image=main:1,spec.nodeName!=two")}, "p0 p2 p3"},
		{"none", &corev1.PodList{}, []client.ListOption{client.MatchingFields{"color": "red"}}, `field label not supported: color`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := c.List(t.Context(), test.list, test.options...)
			var names []string
			_ = meta.EachListItem(test.list, func(obj apiruntime.Object) error {
				names = append(names, obj.(client.Object).GetName())
				return nil
			})
			got := strings.Join(names, " ")
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("listed %q, want %q", got, test.want)
			}
		})
	}
	err := c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default"), client.MatchingFields{"node": "one"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a server has no indexes, but said %v", err)
	}
}

// TestInterceptor checks that functions stand before the client.
func TestInterceptor(t *testing.T) {
	refusal := errors.New("no")
	c := simtest.NewClientBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if obj.GetName() == "a" {
				return refusal
			}
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
	(&prober{t, c}).create(aSecret("b"))
	if err := c.Create(t.Context(), aSecret("a")); !errors.Is(err, refusal) {
		t.Errorf("said %v", err)
	}
}

// TestManagedFields checks who sees them, and whose they are.
func TestManagedFields(t *testing.T) {
	for _, shown := range []bool{false, true} {
		b := simtest.NewClientBuilder(t).WithFieldOwner("tester")
		if shown {
			b.WithReturnManagedFields()
		}
		c := b.Build()
		w, err := c.Watch(t.Context(), &corev1.SecretList{})
		if err != nil {
			t.Fatal(err)
		}
		secret := aSecret("a")
		secret.Labels = map[string]string{"a": "b"}
		(&prober{t, c}).create(secret)
		applied := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: inDefault("a")}
		applied.Labels = map[string]string{"a": "c"}
		err = c.Patch(t.Context(), applied, client.Apply, client.FieldOwner("other")) //nolint:staticcheck // many still do
		if err == nil || !strings.Contains(err.Error(), `conflict with "tester" using v1: .metadata.labels.a`) {
			t.Errorf("shown %v: said %v", shown, err)
		}
		err = c.Patch(t.Context(), applied, client.Apply, client.ForceOwnership, client.FieldOwner("other")) //nolint:staticcheck // as above
		if err != nil {
			t.Error(err)
		}
		list := &corev1.SecretList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for name, obj := range map[string]client.Object{
			"applied": applied, "read": read(t.Context(), c, aSecret("a")), "listed": &list.Items[0],
			"watched": (<-w.ResultChan()).Object.(client.Object), "watched next": (<-w.ResultChan()).Object.(client.Object),
		} {
			if (len(obj.GetManagedFields()) > 0) != shown {
				t.Errorf("%s has the managedFields %v, want some: %v", name, obj.GetManagedFields(), shown)
			}
		}
		w.Stop()
	}
}

// TestServer checks what there is to look at behind the client.
func TestServer(t *testing.T) {
	server := simtest.NewClientBuilder(t).WithVersion(apiserver.V137).WithScheme(newScheme(t)).Server()
	c := server.Client()
	p := &prober{t, c}
	p.create(aSet("web"))
	_ = p.get(aSecret("x"))
	_ = p.Status().Update(t.Context(), aSet("web"))
	_ = p.Create(t.Context(), aSecret("dry"), client.DryRunAll)
	_ = p.List(t.Context(), &corev1.NamespaceList{})
	_ = p.DeleteAllOf(t.Context(), aSecret(""), client.InNamespace("default"))
	want := []string{
		"Create StatefulSet default/web", "Get Secret default/x: 404 NotFound", "Update StatefulSet/status default/web",
		"Create Secret default/dry (dry run)", "List Namespace", "DeleteCollection Secret in default",
	}
	var got []string
	for _, r := range server.Requests() {
		got = append(got, r.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests are %q", got)
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	if set, err := clientset.AppsV1().StatefulSets("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil ||
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
		t.Errorf("the set of a server of 1.37 is %v: %v", set, err)
	}
	mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	if err != nil || mapping.Resource.Resource != "widgets" {
		t.Errorf("the mapping of a kind of the scheme is %v: %v", mapping, err)
	}
	if gvk, err := c.GroupVersionKindFor(aWidget("")); err != nil || gvk.Kind != "Widget" || c.Scheme() == nil {
		t.Errorf("%v: %v", gvk, err)
	}
	if err := c.List(t.Context(), &widgetv1.WidgetList{}); err != nil {
		t.Error(err)
	}
}
