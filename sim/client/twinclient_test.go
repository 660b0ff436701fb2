package client_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// clientTwins are about what clients send, and what they make of the answers.
func clientTwins() []twin {
	return slices.Concat(optionTwins(), requestTwins())
}

func optionTwins() []twin {
	return []twin{
		{
			name: "client options",
			options: func() ctrl.Options {
				return ctrl.Options{Client: ctrlclient.Options{FieldOwner: "the-owner", FieldValidation: metav1.FieldValidationStrict}}
			},
			given: []apiserver.Object{configMap("a", "n=1")},
			story: tellClientOptions,
		},
		{
			name:    "dry run client",
			options: func() ctrl.Options { return ctrl.Options{Client: ctrlclient.Options{DryRun: new(true)}} },
			given:   []apiserver.Object{configMap("a", "n=1"), statefulSet("web")},
			story:   tellDryRunClient,
		},
		{
			name: "what is read live",
			options: func() ctrl.Options {
				return ctrl.Options{Client: ctrlclient.Options{Cache: &ctrlclient.CacheOptions{
					DisableFor: []ctrlclient.Object{&corev1.Secret{}}, Unstructured: true,
				}}}
			},
			given: []apiserver.Object{configMap("a", "n=1"), secret("s")},
			story: tellWhatIsReadLive,
		},
		{
			name: "live lists",
			given: []apiserver.Object{configMap("a", ":l=1", "n=1"), configMap("b", ":l=2"), configMap("c", ":l=1"),
				in("other", configMap("a"))},
			story: liveLists,
		},
		{
			name:  "live gets",
			given: []apiserver.Object{configMap("a", "n=1")},
			story: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				for _, version := range []string{"", "0", "1", "abc"} {
					raw := &ctrlclient.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: version}}
					d.write("%q: %s", version, get(ctx, m.GetAPIReader(), "default", "a", &corev1.ConfigMap{}, raw))
				}
				return nil
			},
		},
		{
			name:  "deletes",
			given: []apiserver.Object{configMap("a", ":l=1"), configMap("b", ":l=1"), configMap("c"), in("other", configMap("a", ":l=1"))},
			story: tellDeletes,
		},
		{
			name:  "sub-resources",
			given: []apiserver.Object{statefulSet("web"), configMap("a")},
			story: subresources,
		},
		{
			name:  "patches of metadata",
			given: []apiserver.Object{configMap("a", "n=1")},
			story: tellPatchesOfMetadata,
		},
	}
}

func requestTwins() []twin {
	return []twin{
		{
			name:  "applies",
			given: []apiserver.Object{configMap("a", "n=1"), statefulSet("web")},
			story: applies,
		},
		{ // C2: the experimental option of controller-runtime v0.25; before that the story is that of a plain client
			name:    "read your writes",
			options: func() ctrl.Options { return ctrl.Options{Client: ctrlclient.Options{Cache: consistentOptions()}} },
			given:   []apiserver.Object{configMap("a", "n=1"), secret("s")},
			story:   readYourWrites,
		},
		{
			name:  "what kinds are",
			story: tellWhatKindsAre,
		},
	}
}

func tellClientOptions(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.write("%v", c.Create(ctx, configMap("b", "n=1")))
	d.write("%s", managers(ctx, m, "b"))
	d.write("%v", c.Create(ctx, configMap("c", "n=1"), ctrlclient.FieldOwner("another")))
	d.write("%s", managers(ctx, m, "c"))
	d.write("%s", anonymous(c.Patch(ctx, configMap("a"), ctrlclient.RawPatch(types.MergePatchType, []byte(`{"wrong":1}`)))))
	d.write("%v", c.Patch(ctx, configMap("a"), ctrlclient.RawPatch(types.MergePatchType, []byte(`{"wrong":1}`)),
		ctrlclient.FieldValidation(metav1.FieldValidationIgnore)))
	wrong := untypedConfigMap()
	wrong.SetName("d")
	wrong.SetNamespace("default")
	wrong.Object["wrong"] = "1"
	d.write("%v", c.Create(ctx, wrong.DeepCopy()))
	d.write("%v", c.Create(ctx, wrong, ctrlclient.FieldValidation(metav1.FieldValidationWarn)))
	d.write("%v", wrong.Object["wrong"])
	return nil
}

func tellDryRunClient(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.write("%v", c.Create(ctx, configMap("b", "n=1")))
	d.write("%v", c.Update(ctx, configMap("a", "n=2")))
	d.write("%v", c.Patch(ctx, configMap("a"), ctrlclient.RawPatch(types.MergePatchType, []byte(`{"data":{"n":"3"}}`))))
	d.write("%v", c.Delete(ctx, configMap("a")))
	d.write("%v", c.DeleteAllOf(ctx, &corev1.ConfigMap{}, ctrlclient.InNamespace("default")))
	set := statefulSet("web")
	d.write("%v", c.Get(ctx, key("web"), set))
	set.Status.Replicas = 3
	d.write("%v %d", c.Status().Update(ctx, set), set.Status.Replicas)
	d.write("%s", list(ctx, m.GetAPIReader(), &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
	return nil
}

func tellWhatIsReadLive(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
	d.write("%s", list(ctx, c, &corev1.SecretList{}))
	d.write("%s", list(ctx, c, untypedConfigMaps(), ctrlclient.InNamespace("default")))
	d.write("%s", get(ctx, c, "default", "s", metadata))
	d.write("%s", get(ctx, c, "default", "x", &corev1.Secret{}))
	d.write("%s", get(ctx, c, "default", "x", untypedConfigMap()))
	return nil
}

func tellDeletes(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.write("%s", anonymous(c.Delete(ctx, configMap("a"), ctrlclient.Preconditions{UID: new(types.UID("1"))})))
	d.write("%s", anonymous(c.Delete(ctx, configMap("a"), ctrlclient.Preconditions{ResourceVersion: new("1")})))
	d.write("%v", c.Delete(ctx, configMap("x")))
	d.write("%v", c.Delete(ctx, metadataOf("b"), ctrlclient.GracePeriodSeconds(0),
		ctrlclient.PropagationPolicy(metav1.DeletePropagationOrphan)))
	d.write("%v", c.DeleteAllOf(ctx, &corev1.ConfigMap{}, ctrlclient.MatchingLabels{"l": "1"}))
	d.write("%v", c.DeleteAllOf(ctx, &corev1.ConfigMap{}, ctrlclient.InNamespace("default"), ctrlclient.MatchingLabels{"l": "1"}))
	d.write("%s", list(ctx, m.GetAPIReader(), &corev1.ConfigMapList{}))
	d.write("%v", c.DeleteAllOf(ctx, metadataOf(""), ctrlclient.InNamespace("default"), ctrlclient.MatchingFields{"metadata.name": "c"}))
	d.write("%s", list(ctx, m.GetAPIReader(), &corev1.ConfigMapList{}))
	d.write("%v", c.DeleteAllOf(ctx, untypedConfigMap(), ctrlclient.InNamespace("other"), ctrlclient.MatchingFields{"data.x": "c"}))
	return nil
}

func tellPatchesOfMetadata(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	metadata := metadataOf("a")
	if err := c.Get(ctx, key("a"), metadata); err != nil {
		return err
	}
	changed := metadata.DeepCopy()
	changed.Labels = map[string]string{"l": "1"}
	d.write("%v %s", c.Patch(ctx, changed, ctrlclient.MergeFrom(metadata)), portrait(changed))
	stale := metadata.DeepCopy()
	stale.Labels = map[string]string{"l": "2"}
	d.write("%s", anonymous(c.Patch(ctx, stale, ctrlclient.MergeFromWithOptions(metadata, ctrlclient.MergeFromWithOptimisticLock{}))))
	d.write("%v", c.Create(ctx, metadataOf("b")))
	d.write("%v", c.Update(ctx, metadataOf("b")))
	d.write("%v", c.Patch(ctx, metadataOf(""), ctrlclient.RawPatch(types.MergePatchType, []byte("{}"))))
	d.write("%v", c.Patch(ctx, in("", metadataOf("a")), ctrlclient.RawPatch(types.MergePatchType, []byte("{}"))))
	d.write("%s", get(ctx, m.GetAPIReader(), "default", "a", &corev1.ConfigMap{}))
	return nil
}

func tellWhatKindsAre(_ context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	for _, obj := range []ctrlclient.Object{
		&corev1.ConfigMap{}, untypedConfigMap(), metadataOf("a"), &corev1.Node{}, &unstructured.Unstructured{},
	} {
		gvk, err := c.GroupVersionKindFor(obj)
		d.write("%s %v", gvk, err)
		namespaced, err := c.IsObjectNamespaced(obj)
		d.write("%v %v", namespaced, err)
	}
	gvk, err := c.GroupVersionKindFor(&corev1.ConfigMapList{})
	d.write("%s %v", gvk, err)
	mapping, err := c.RESTMapper().RESTMapping(appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind())
	d.write("%s %s %s %v", mapping.Resource, mapping.GroupVersionKind, mapping.Scope.Name(), err)
	kind, err := c.RESTMapper().KindFor(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
	d.write("%s %v", kind, err)
	d.write("%v", c.Scheme() == m.GetScheme())
	return nil
}

// managers returns who manages the fields of a ConfigMap.
func managers(ctx context.Context, m ctrl.Manager, name string) string {
	var fields []string
	cm := &corev1.ConfigMap{}
	err := m.GetAPIReader().Get(ctx, key(name), cm)
	for _, entry := range cm.ManagedFields {
		fields = append(fields, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource))
	}
	return fmt.Sprint(fields, err)
}

// anonymous leaves revisions, UIDs and times out of an error, in which two servers differ.
func anonymous(err error) string {
	return regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\(\d+\)|RV: \d+|\d{4}-\d\d-\d\dT[0-9:]+Z`).ReplaceAllString(fmt.Sprint(err), "_")
}

func metadataOf(name string) *metav1.PartialObjectMetadata {
	obj := metadataOfConfigMap()
	obj.Namespace, obj.Name = "default", name
	return obj
}

func liveLists(ctx context.Context, m ctrl.Manager, d *diary) error {
	live := m.GetAPIReader()
	for _, opts := range [][]ctrlclient.ListOption{
		{ctrlclient.InNamespace("default")},
		{ctrlclient.MatchingLabels{"l": "1"}},
		{ctrlclient.MatchingLabelsSelector{Selector: labels.Nothing()}},
		{ctrlclient.MatchingLabels{"l": "not valid"}},
		{ctrlclient.HasLabels{"l"}, ctrlclient.MatchingFields{"metadata.name": "b"}},
		{ctrlclient.MatchingFields{"data.n": "1"}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "l=2", FieldSelector: "metadata.name=b"}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "l=="}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "l=("}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{LabelSelector: "l=2"}}, ctrlclient.MatchingLabels{"l": "1"}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{Limit: 1}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}}},
		{&ctrlclient.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Nearly"}}},
		{ctrlclient.Limit(2), ctrlclient.Continue("nonsense")},
	} {
		d.write("%v: %s", describe(opts), list(ctx, live, &corev1.ConfigMapList{}, opts...))
	}
	page := &corev1.ConfigMapList{}
	for n := range 3 {
		if err := live.List(ctx, page, ctrlclient.Limit(2), ctrlclient.Continue(page.Continue)); err != nil {
			return err
		}
		remaining := int64(-1)
		if page.RemainingItemCount != nil {
			remaining = *page.RemainingItemCount
		}
		d.write("page %d: %d items, %d remain, more %v", n, len(page.Items), remaining, page.Continue != "")
		if page.Continue == "" {
			break
		}
	}
	for _, of := range []ctrlclient.ObjectList{untypedConfigMaps(), metadataOfConfigMaps()} {
		d.write("%s", list(ctx, live, of, ctrlclient.MatchingLabels{"l": "1"}))
		d.write("%s", list(ctx, live, of, ctrlclient.MatchingLabels{"l": "none"}))
	}
	return nil
}

func describe(opts []ctrlclient.ListOption) string {
	o := (&ctrlclient.ListOptions{}).ApplyOptions(opts)
	return fmt.Sprintf("%q labels=%v fields=%v raw=%v", o.Namespace, o.LabelSelector, o.FieldSelector, o.Raw != nil)
}

func subresources(ctx context.Context, m ctrl.Manager, d *diary) error {
	c, set := m.GetClient(), statefulSet("web")
	if err := c.Get(ctx, key("web"), set); err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{}
	d.write("get scale: %v %d %q", c.SubResource("scale").Get(ctx, set, scale), scale.Spec.Replicas, scale.Kind)
	scale.Spec.Replicas = 3
	d.write("update scale: %v %d", c.SubResource("scale").Update(ctx, set, ctrlclient.WithSubResourceBody(scale)), scale.Spec.Replicas)
	d.write("stale: %s", anonymous(c.SubResource("scale").Update(ctx, set, ctrlclient.WithSubResourceBody(
		&autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}))))
	d.write("no status: %v", c.Status().Update(ctx, configMap("a")))
	d.write("metadata: %v", c.Status().Update(ctx, metadataOf("a")))
	fresh := &appsv1.StatefulSet{}
	if err := m.GetAPIReader().Get(ctx, key("web"), fresh); err != nil {
		return err
	}
	d.write("replicas: %d", *fresh.Spec.Replicas)
	body := fresh.DeepCopy()
	body.Status.Replicas, body.Labels = 2, map[string]string{"status": "yes"}
	err := c.Status().Update(ctx, fresh, ctrlclient.WithSubResourceBody(body))
	d.write("status body: %v %d %d", err, fresh.Status.Replicas, body.Status.Replicas)
	old := body.DeepCopy()
	body.Status.ReadyReplicas, body.Spec.Replicas = 1, new(int32(9))
	d.write("status patch: %v %d %d", c.Status().Patch(ctx, body, ctrlclient.MergeFrom(old)), body.Status.ReadyReplicas, *body.Spec.Replicas)
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	d.write("untyped scale of typed: %v", c.SubResource("scale").Get(ctx, untyped, scale))
	if err := m.GetAPIReader().Get(ctx, key("web"), untyped); err != nil {
		return err
	}
	untypedScale := &unstructured.Unstructured{}
	untypedScale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	err = c.SubResource("scale").Get(ctx, untyped, untypedScale)
	replicas, _, _ := unstructured.NestedInt64(untypedScale.Object, "spec", "replicas")
	d.write("untyped scale: %v %s %d", err, untypedScale.GroupVersionKind(), replicas)
	return nil
}

func applies(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	typed := coreapply.ConfigMap("applied", "default").WithData(map[string]string{"n": "1"})
	d.write("typed: %v %v", c.Apply(ctx, typed, ctrlclient.FieldOwner("one")), typed.UID != nil)
	d.write("no owner: %v", c.Apply(ctx, coreapply.ConfigMap("applied", "default")))
	conflict := coreapply.ConfigMap("applied", "default").WithData(map[string]string{"n": "2"})
	d.write("conflict: %v", c.Apply(ctx, conflict, ctrlclient.FieldOwner("two")))
	d.write("forced: %v", c.Apply(ctx, conflict, ctrlclient.FieldOwner("two"), ctrlclient.ForceOwnership))
	untyped := untypedConfigMap()
	untyped.SetName("untyped")
	untyped.SetNamespace("default")
	untyped.Object["data"] = map[string]any{"n": "1"}
	err := c.Apply(ctx, ctrlclient.ApplyConfigurationFromUnstructured(untyped), ctrlclient.FieldOwner("one"))
	d.write("untyped: %v %s", err, portrait(untyped))
	wrong := untypedConfigMap()
	wrong.SetName("untyped")
	wrong.SetNamespace("default")
	wrong.Object["wrong"] = "1"
	err = c.Apply(ctx, ctrlclient.ApplyConfigurationFromUnstructured(wrong), ctrlclient.FieldOwner("one"))
	d.write("wrong: %v", apierrors.IsInvalid(err) || err != nil && strings.Contains(err.Error(), "wrong"))
	d.write("dry run: %v", c.Apply(ctx, coreapply.ConfigMap("dry", "default"), ctrlclient.FieldOwner("one"), ctrlclient.DryRunAll))
	d.write("dry: %s", get(ctx, m.GetAPIReader(), "default", "dry", &corev1.ConfigMap{}))
	status := appsapply.StatefulSet("web", "default").WithStatus(appsapply.StatefulSetStatus().WithReplicas(2))
	d.write("status: %v %v", c.Status().Apply(ctx, status, ctrlclient.FieldOwner("one")), status.Spec != nil)
	target := appsapply.StatefulSet("web", "default")
	body := appsapply.StatefulSet("web", "default").WithStatus(appsapply.StatefulSetStatus().WithReplicas(3))
	err = c.Status().Apply(ctx, target, &ctrlclient.SubResourceApplyOptions{SubResourceBody: body}, ctrlclient.FieldOwner("one"))
	d.write("body: %v %v %v", err, body.UID != nil, target.UID != nil)
	d.write("%s", list(ctx, m.GetAPIReader(), &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
	return nil
}

// consistentOptions enable reads that wait for own writes, where they exist.
func consistentOptions() *ctrlclient.CacheOptions {
	options := &ctrlclient.CacheOptions{}
	enable := reflect.ValueOf(options).Elem().FieldByName("EnableReadYourWritesConsistency")
	if enable.IsValid() {
		enable.Set(reflect.ValueOf(new(true)))
	}
	return options
}

func readYourWrites(ctx context.Context, m ctrl.Manager, d *diary) error {
	if !reflect.ValueOf(ctrlclient.CacheOptions{}).FieldByName("EnableReadYourWritesConsistency").IsValid() {
		d.write("no such option")
		return nil
	}
	c := m.GetClient()
	cm := configMap("b", "n=1")
	d.write("%v %s", c.Create(ctx, cm), get(ctx, c, "default", "b", &corev1.ConfigMap{}))
	cm.Data["n"] = "2"
	d.write("%v %s", c.Update(ctx, cm), list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
	d.write("%v", c.Patch(ctx, cm, ctrlclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"1"}}}`))))
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingLabels{"l": "1"}))
	applied := coreapply.ConfigMap("c", "default").WithData(map[string]string{"n": "1"})
	d.write("%v %s", c.Apply(ctx, applied, ctrlclient.FieldOwner("o")), get(ctx, c, "default", "c", &corev1.ConfigMap{}))
	d.write("%v %s", c.Delete(ctx, cm), get(ctx, c, "default", "b", &corev1.ConfigMap{}))
	d.write("%v %s", c.Delete(ctx, configMap("a")), list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
	held := configMap("d")
	held.Finalizers = []string{"example.com/held"}
	d.write("%v %v", c.Create(ctx, held), c.Delete(ctx, held))
	d.write("%v", c.Get(ctx, key("d"), held))
	d.write("%v", held.DeletionTimestamp != nil)
	d.write("%v", c.Delete(ctx, configMap("x")))
	d.write("%v", c.DeleteAllOf(ctx, &corev1.ConfigMap{}))
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d.write("%v", c.Create(ctx, configMap("e"), ctrlclient.DryRunAll))
	d.write("%s", get(short, c, "default", "e", &corev1.ConfigMap{}))
	return nil
}
