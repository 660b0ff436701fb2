package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// cacheOptions are a manager's options with those of its cache.
func cacheOptions(o ctrlcache.Options) func() ctrl.Options {
	return func() ctrl.Options { return ctrl.Options{Cache: o} }
}

// labelled is what a filtered cache chooses.
var labelled = labels.SelectorFromSet(labels.Set{"cached": "yes"})

// cacheTwins are about what caches hold and tell. The rows are those of the checklist of caches, informers and clients.
func cacheTwins() []twin {
	return slices.Concat(selectorTwins(), namespaceTwins(), readTwins(), informerTwins())
}

func selectorTwins() []twin {
	return []twin{
		{ // C17: an object that leaves the selector is deleted from the cache, and still exists
			name:    "by label",
			options: cacheOptions(ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: {Label: labelled}}}),
			given:   []apiserver.Object{configMap("a", "n=1", ":cached=yes"), configMap("b", "n=1"), secret("s")},
			setup:   hearConfigMaps,
			story:   tellByLabel,
		},
		{ // C17
			name: "by field",
			options: cacheOptions(ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{
				&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.name", "a")},
				&corev1.Secret{}:    {Field: fields.OneTermEqualSelector("type", "Opaque")},
			}}),
			given: []apiserver.Object{configMap("a"), configMap("b"), in("other", configMap("a"))},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				return errors.Join(hear(m, d, "typed", &corev1.ConfigMap{}), hear(m, d, "secrets", &corev1.Secret{}))
			},
			story: tellByField,
		},
		{ // C17
			name: "default selectors",
			options: cacheOptions(ctrlcache.Options{
				DefaultLabelSelector: labelled, DefaultFieldSelector: fields.OneTermNotEqualSelector("metadata.name", "b"),
			}),
			given: []apiserver.Object{configMap("a", ":cached=yes"), configMap("b", ":cached=yes"), configMap("c"),
				in("default", secret("s"))},
			setup: hearConfigMaps,
			story: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				d.write("%s", list(ctx, m.GetClient(), &corev1.ConfigMapList{}))
				d.write("%s", list(ctx, m.GetClient(), &corev1.SecretList{}))
				d.write("%s", list(ctx, m.GetClient(), &corev1.NamespaceList{}))
				return nil
			},
		},
		{
			name:    "default namespaces",
			options: cacheOptions(ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{"default": {}, "other": {}}}),
			given:   threeNamespaces(), setup: hearConfigMaps, story: tellOfNamespaces,
		},
		{
			name:    "one default namespace",
			options: cacheOptions(ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{"other": {}}}),
			given:   threeNamespaces(), setup: hearConfigMaps, story: tellOfNamespaces,
		},
		{
			name: "all namespaces but with selectors in one",
			options: cacheOptions(ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{
				ctrlcache.AllNamespaces: {}, "other": {LabelSelector: labelled},
			}}),
			given: threeNamespaces(), setup: hearConfigMaps, story: tellOfNamespaces,
		},
		{
			name: "namespaces by object",
			options: cacheOptions(ctrlcache.Options{
				DefaultNamespaces: map[string]ctrlcache.Config{"third": {}},
				ByObject: map[ctrlclient.Object]ctrlcache.ByObject{
					&corev1.ConfigMap{}: {Namespaces: map[string]ctrlcache.Config{"default": {}, "other": {FieldSelector: fields.Nothing()}}},
				},
			}),
			given: threeNamespaces(), setup: hearConfigMaps, story: tellOfNamespaces,
		},
	}
}

func namespaceTwins() []twin {
	return []twin{
		{
			name: "no namespaces by object",
			options: cacheOptions(ctrlcache.Options{
				DefaultNamespaces: map[string]ctrlcache.Config{"third": {}},
				ByObject:          map[ctrlclient.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]ctrlcache.Config{}}},
			}),
			given: threeNamespaces(), setup: hearConfigMaps, story: tellOfNamespaces,
		},
		{
			name:    "metadata only and by namespace",
			options: cacheOptions(ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{"default": {}, "other": {}}}),
			given:   threeNamespaces(),
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				return errors.Join(hear(m, d, "metadata", metadataOfConfigMap()), hear(m, d, "untyped", untypedConfigMap()))
			},
			story: tellOfNamespaces,
		},
		{ // C18: what the cache has is not what there is; an update from it wipes the rest
			name: "transforms",
			options: cacheOptions(ctrlcache.Options{
				DefaultTransform: ctrlcache.TransformStripManagedFields(),
				ByObject: map[ctrlclient.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: {Transform: func(obj any) (any, error) {
					switch o := obj.(type) {
					case *corev1.ConfigMap:
						o.Data, o.Labels = nil, map[string]string{"transformed": "yes"}
					case *unstructured.Unstructured:
						unstructured.RemoveNestedField(o.Object, "data")
						o.SetAnnotations(map[string]string{"untyped": "yes"})
					case *metav1.PartialObjectMetadata:
						o.Annotations = map[string]string{"metadata": "yes"}
					}
					return obj, nil
				}}},
			}),
			given: []apiserver.Object{configMap("a", "n=1", ":l=1"), configMap("b", "n=1")},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				byLabel := func(obj ctrlclient.Object) []string { return []string{obj.GetLabels()["transformed"]} }
				return errors.Join(hear(m, d, "typed", &corev1.ConfigMap{}), hear(m, d, "untyped", untypedConfigMap()),
					hear(m, d, "metadata", metadataOfConfigMap()),
					m.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "transformed", byLabel))
			},
			story: tellTransforms,
		},
		{ // C18
			name: "transform to another type",
			options: cacheOptions(ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{
				&corev1.ConfigMap{}: {Transform: func(obj any) (any, error) {
					if cm, ok := obj.(*corev1.ConfigMap); ok {
						return &corev1.Secret{ObjectMeta: cm.ObjectMeta}, nil
					}
					return obj, nil // reflectors transform the objects of a list more than once
				}},
			}}),
			given: []apiserver.Object{configMap("a")}, setup: hearConfigMaps,
			story: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.ConfigMap{}))
				d.write("%s", list(ctx, m.GetClient(), &corev1.ConfigMapList{}))
				return nil
			},
		},
	}
}

func readTwins() []twin {
	return []twin{
		{ // C1, C16: each form has an informer of its own
			name:  "forms",
			given: []apiserver.Object{configMap("a", "n=1", ":l=1"), in("other", configMap("b", "n=2"))},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				return errors.Join(hear(m, d, "typed", &corev1.ConfigMap{}), hear(m, d, "untyped", untypedConfigMap()),
					hear(m, d, "metadata", metadataOfConfigMap()))
			},
			story: tellForms,
		},
		{ // C16
			name:  "indexes",
			given: []apiserver.Object{configMap("a", "n=1,2"), configMap("b", "n=2"), in("other", configMap("c", "n=2,3"))},
			setup: indexByNumbers,
			story: tellIndexes,
		},
		{ // C16: cluster-scoped objects are in no namespace
			name:  "cluster scope",
			given: []apiserver.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"l": "1"}}}},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				byName := func(obj ctrlclient.Object) []string { return []string{obj.GetName()} }
				return m.GetFieldIndexer().IndexField(ctx, &corev1.Node{}, "name", byName)
			},
			story: tellClusterScope,
		},
		{ // C16, C20: who waives the copy has the cache's own objects in hand
			name: "without deep copies",
			options: cacheOptions(ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{
				&corev1.Secret{}: {UnsafeDisableDeepCopy: new(true)},
			}}),
			given: []apiserver.Object{configMap("a", "n=1"), labelledSecret("s")},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				byLabel := func(obj ctrlclient.Object) []string { return []string{obj.GetLabels()["l"]} }
				return m.GetFieldIndexer().IndexField(ctx, &corev1.Secret{}, "l", byLabel)
			},
			story: tellWithoutDeepCopies,
		},
		{ // C20: a handler is told of the cache's own object
			name:  "handler that changes objects",
			given: []apiserver.Object{configMap("a", "n=1", ":l=1")},
			setup: prepareHandlerThatChangesObjects,
			story: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.ConfigMap{}))
				d.step("update", func() error { return m.GetClient().Update(ctx, configMap("a", "n=2")) })
				d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.ConfigMap{}))
				d.write("%s", list(ctx, m.GetClient(), &corev1.ConfigMapList{}, ctrlclient.HasLabels{"old"}))
				return nil
			},
		},
		{ // C13
			name:    "missing informers are errors",
			options: cacheOptions(ctrlcache.Options{ReaderFailOnMissingInformer: true}),
			given:   []apiserver.Object{configMap("a")},
			setup: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.Secret{}))
				_, err := m.GetCache().GetInformerForKind(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
				d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.ConfigMap{}))
				return err
			},
			story: tellMissingInformersAreErrors,
		},
	}
}

func informerTwins() []twin {
	return []twin{
		{ // C13: informers that begin late, end, and begin again
			name:  "late and removed informers",
			given: []apiserver.Object{configMap("a", "n=1"), configMap("b", "n=1")},
			story: tellLateAndRemovedInformers,
		},
		{
			name:  "registrations",
			given: []apiserver.Object{configMap("a", "n=1")},
			story: tellRegistrations,
		},
		{ // C14, C15
			name:    "resync",
			options: cacheOptions(ctrlcache.Options{SyncPeriod: new(4 * time.Minute)}), // give or take a tenth
			given:   []apiserver.Object{configMap("a", "n=1"), configMap("b", "n=1")},
			setup:   prepareResync,
			story:   tellResync,
		},
		{
			name: "by-object cache of everything else", // what has no settings of its own has the defaults
			options: cacheOptions(ctrlcache.Options{
				DefaultLabelSelector: labelled,
				ByObject:             map[ctrlclient.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: {Label: labels.Everything()}},
			}),
			given: []apiserver.Object{configMap("a"), secret("s"), labelledSecret("t")},
			story: func(ctx context.Context, m ctrl.Manager, d *diary) error {
				d.write("%s", list(ctx, m.GetClient(), &corev1.ConfigMapList{}))
				d.write("%s", list(ctx, m.GetClient(), &corev1.SecretList{}))
				d.write("%s", list(ctx, m.GetClient(), metadataOfConfigMaps()))
				return nil
			},
		},
	}
}

func tellByLabel(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.step("b enters", func() error { return c.Update(ctx, configMap("b", "n=2", ":cached=yes")) })
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}))
	d.step("a leaves", func() error { return c.Update(ctx, configMap("a", "n=3")) })
	d.write("cached: %s", get(ctx, c, "default", "a", &corev1.ConfigMap{}))
	d.write("live: %s", get(ctx, m.GetAPIReader(), "default", "a", &corev1.ConfigMap{}))
	d.write("create: %v", c.Create(ctx, configMap("a", ":cached=yes")))
	d.step("a is deleted unseen", func() error { return c.Delete(ctx, configMap("a")) })
	d.step("a is created within", func() error { return c.Create(ctx, configMap("a", ":cached=yes")) })
	d.step("a is updated outside of the selector, and comes back", func() error {
		return errors.Join(c.Update(ctx, configMap("a")), c.Update(ctx, configMap("a", ":cached=yes", "n=4")))
	})
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingLabels{"cached": "yes"}))
	d.write("%s", list(ctx, c, &corev1.SecretList{}))
	return nil
}

func tellByField(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}))
	d.step("secrets", func() error {
		basic := secret("basic")
		basic.Type = corev1.SecretTypeDockerConfigJson
		basic.Data = map[string][]byte{".dockerconfigjson": []byte("{}")}
		return errors.Join(c.Create(ctx, secret("plain")), c.Create(ctx, basic))
	})
	d.write("%s", list(ctx, c, &corev1.SecretList{}))
	d.write("%s", get(ctx, c, "default", "b", &corev1.ConfigMap{}))
	return nil
}

func tellTransforms(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	d.write("%s", get(ctx, c, "default", "a", &corev1.ConfigMap{}))
	d.write("%s", get(ctx, m.GetCache(), "default", "a", untypedConfigMap()))
	d.write("%s", get(ctx, c, "default", "a", metadataOfConfigMap()))
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingLabels{"transformed": "yes"}))
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingLabels{"l": "1"}))
	d.write("%s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"transformed": "yes"}))
	cm := &corev1.ConfigMap{}
	if err := c.Get(ctx, key("a"), cm); err != nil {
		return err
	}
	d.step("update of what was read", func() error { return c.Update(ctx, cm) })
	d.write("live: %s", get(ctx, m.GetAPIReader(), "default", "a", &corev1.ConfigMap{}))
	d.step("delete", func() error { return c.Delete(ctx, configMap("a")) })
	return nil
}

func tellForms(ctx context.Context, m ctrl.Manager, d *diary) error {
	for name, r := range readers(m) {
		d.write("%s: %s", name, get(ctx, r, "default", "a", &corev1.ConfigMap{}))
		d.write("%s: %s", name, get(ctx, r, "default", "a", untypedConfigMap()))
		d.write("%s: %s", name, get(ctx, r, "default", "a", metadataOfConfigMap()))
		d.write("%s: %s", name, list(ctx, r, &corev1.ConfigMapList{}, ctrlclient.InNamespace("default")))
		d.write("%s: %s", name, list(ctx, r, untypedConfigMaps(), ctrlclient.InNamespace("default")))
		d.write("%s: %s", name, list(ctx, r, metadataOfConfigMaps(), ctrlclient.InNamespace("default")))
		d.write("%s: %s", name, get(ctx, r, "default", "x", &corev1.ConfigMap{}))
		d.write("%s: %s", name, get(ctx, r, "default", "x", untypedConfigMap()))
		d.write("%s: %s", name, get(ctx, r, "default", "x", metadataOfConfigMap()))
		d.write("%s: %s", name, get(ctx, r, "default", "", metadataOfConfigMap()))
		d.write("%s: %s", name, get(ctx, r, "", "a", metadataOfConfigMap()))
	}
	d.step("update", func() error { return m.GetClient().Update(ctx, configMap("a", "n=3")) })
	d.step("delete", func() error { return m.GetClient().Delete(ctx, configMap("a")) })
	return nil
}

func tellIndexes(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetCache()
	for _, number := range []string{"1", "2", "3", "4"} {
		byNumber := ctrlclient.MatchingFields{"n": number}
		d.write("typed %s: %s", number, list(ctx, c, &corev1.ConfigMapList{}, byNumber))
		d.write("typed %s in other: %s", number, list(ctx, c, &corev1.ConfigMapList{}, byNumber, ctrlclient.InNamespace("other")))
		d.write("untyped %s: %s", number, list(ctx, c, untypedConfigMaps(), byNumber))
		d.write("metadata %s: %s", number, list(ctx, c, metadataOfConfigMaps(), byNumber))
	}
	d.write("two: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"n": "2", "name": "b"}))
	d.write("first missing: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"x": "2"}))
	selector := fields.ParseSelectorOrDie("n=2,x=1")
	d.write("second missing: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFieldsSelector{Selector: selector}))
	selector = fields.ParseSelectorOrDie("n!=2")
	d.write("inexact: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFieldsSelector{Selector: selector}))
	d.write("by name: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"metadata.name": "a"}))
	byData := func(obj ctrlclient.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["n"]} }
	d.write("late: %v", m.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "late", byData))
	d.write("late: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"late": "2"}))
	d.write("again: %v", m.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "late", byData))
	d.step("update", func() error { return m.GetClient().Update(ctx, configMap("b", "n=3")) })
	d.write("typed 3: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"n": "3"}))
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	d.write("namespace index: %v %v", err, informer.AddIndexers(toolscache.Indexers{"namespace": toolscache.MetaNamespaceIndexFunc}))
	return nil
}

func tellClusterScope(ctx context.Context, m ctrl.Manager, d *diary) error {
	for name, r := range readers(m) {
		d.write("%s get: %s", name, get(ctx, r, "default", "n1", &corev1.Node{}))
		d.write("%s get: %s", name, get(ctx, r, "", "n2", &corev1.Node{}))
		d.write("%s list: %s", name, list(ctx, r, &corev1.NodeList{}))
		d.write("%s list in a namespace: %s", name, list(ctx, r, &corev1.NodeList{}, ctrlclient.InNamespace("default")))
	}
	c := m.GetClient()
	d.write("index: %s", list(ctx, c, &corev1.NodeList{}, ctrlclient.MatchingFields{"name": "n1"}))
	d.write("index in a namespace: %s", list(ctx, c, &corev1.NodeList{}, ctrlclient.MatchingFields{"name": "n1"},
		ctrlclient.InNamespace("default")))
	return nil
}

func tellWithoutDeepCopies(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	alias, cm := &corev1.ConfigMapList{}, &corev1.ConfigMap{}
	d.write("%s", list(ctx, c, alias, ctrlclient.UnsafeDisableDeepCopy))
	alias.Items[0].Data["n"] = "changed"
	d.write("%s", get(ctx, c, "default", "a", cm))
	cm.Data["n"] = "changed again"
	d.write("%s", get(ctx, c, "default", "a", &corev1.ConfigMap{}))
	d.write("live: %s", get(ctx, m.GetAPIReader(), "default", "a", &corev1.ConfigMap{}))
	s := &corev1.Secret{}
	d.write("%s", get(ctx, c, "default", "s", s))
	s.Labels["l"] = "changed"
	d.write("%s", get(ctx, c, "default", "s", &corev1.Secret{}))
	d.write("%s", list(ctx, c, &corev1.SecretList{}, ctrlclient.MatchingLabels{"l": "changed"}))
	d.write("%s", list(ctx, c, &corev1.SecretList{}, ctrlclient.MatchingFields{"l": "1"}))
	d.step("update", func() error { return c.Update(ctx, configMap("a", "n=2")) })
	d.write("%s", get(ctx, c, "default", "a", &corev1.ConfigMap{}))
	return nil
}

func prepareHandlerThatChangesObjects(ctx context.Context, m ctrl.Manager, d *diary) error {
	informer, err := m.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { obj.(*corev1.ConfigMap).Data["n"] = "changed when added" },
		UpdateFunc: func(old, obj any) {
			obj.(*corev1.ConfigMap).Labels = map[string]string{"old": old.(*corev1.ConfigMap).Data["n"]}
		},
	})
	return err
}

func tellMissingInformersAreErrors(ctx context.Context, m ctrl.Manager, d *diary) error {
	d.write("%s", get(ctx, m.GetClient(), "default", "a", &corev1.ConfigMap{}))
	d.write("%s", get(ctx, m.GetClient(), "default", "a", metadataOfConfigMap()))
	d.write("%s", get(ctx, m.GetClient(), "default", "s", &corev1.Secret{}))
	d.write("%s", list(ctx, m.GetClient(), &corev1.SecretList{}))
	_, err := m.GetCache().GetInformer(ctx, &corev1.Secret{})
	d.write("%v %s", err, list(ctx, m.GetClient(), &corev1.SecretList{}))
	return nil
}

func tellLateAndRemovedInformers(ctx context.Context, m ctrl.Manager, d *diary) error {
	d.step("begin", func() error { return hear(m, d, "first", &corev1.ConfigMap{}) })
	d.step("a second handler", func() error { return hear(m, d, "second", &corev1.ConfigMap{}) })
	informer, err := m.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	d.write("synced %v, stopped %v", informer.HasSynced(), informer.IsStopped())
	d.step("update", func() error { return m.GetClient().Update(ctx, configMap("a", "n=2")) })
	d.step("remove", func() error { return m.GetCache().RemoveInformer(ctx, &corev1.ConfigMap{}) })
	d.write("stopped %v", informer.IsStopped())
	d.write("indexer: %v", informer.AddIndexers(toolscache.Indexers{"x": toolscache.MetaNamespaceIndexFunc}))
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	d.write("handler: %v", err != nil && strings.HasSuffix(err.Error(), "was not added to shared informer because it has stopped already"))
	d.step("update", func() error { return m.GetClient().Update(ctx, configMap("a", "n=3")) })
	d.step("begin again", func() error { return hear(m, d, "third", &corev1.ConfigMap{}) })
	d.step("update", func() error { return m.GetClient().Update(ctx, configMap("a", "n=4")) })
	return nil
}

func tellRegistrations(ctx context.Context, m ctrl.Manager, d *diary) error {
	informer, err := m.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	r, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.write("added %s", portrait(obj)) }, DeleteFunc: func(obj any) { d.write("deleted") },
	})
	if err != nil {
		return err
	}
	<-r.HasSyncedChecker().Done()
	d.write("synced %v", r.HasSynced())
	d.write("remove: %v", informer.RemoveEventHandler(r))
	d.write("remove again: %v", informer.RemoveEventHandler(r))
	d.step("delete", func() error { return m.GetClient().Delete(ctx, configMap("a")) })
	d.write("in sync %v", m.GetCache().WaitForCacheSync(ctx))
	return nil
}

func tellResync(ctx context.Context, m ctrl.Manager, d *diary) error {
	for n, minutes := range []int{5, 4, 4} {
		d.write("- %d", n)
		for range minutes { // a commit keeps the simulated run from being called terminal
			time.Sleep(time.Minute)
			s := secret("")
			s.GenerateName = "s-"
			if err := m.GetClient().Create(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func prepareResync(ctx context.Context, m ctrl.Manager, d *diary) error {
	if err := hear(m, d, "default", &corev1.ConfigMap{}); err != nil {
		return err
	}
	informer, err := m.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	for _, period := range []time.Duration{0, 9 * time.Minute} {
		_, err := informer.AddEventHandlerWithResyncPeriod(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, obj any) { d.write("%s: %s %v", period, portrait(obj), old == obj) },
		}, period)
		if err != nil {
			return err
		}
	}
	return nil
}

// threeNamespaces hold one ConfigMap each.
func threeNamespaces() []apiserver.Object {
	return []apiserver.Object{
		configMap("a", "n=1"), in("other", configMap("a", "n=2")), in("third", configMap("a", "n=3")),
	}
}

// tellOfNamespaces reads and writes in each of them, and in one that is not there.
func tellOfNamespaces(ctx context.Context, m ctrl.Manager, d *diary) error {
	c := m.GetClient()
	for _, namespace := range []string{"default", "other", "third", "none"} {
		d.write("get %s: %s", namespace, get(ctx, c, namespace, "a", &corev1.ConfigMap{}))
		d.write("list %s: %s", namespace, list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.InNamespace(namespace)))
	}
	d.write("list all: %s", list(ctx, c, &corev1.ConfigMapList{}))
	d.write("continue: %s", list(ctx, c, &corev1.ConfigMapList{}, ctrlclient.Continue("x")))
	limited := &corev1.ConfigMapList{}
	err := c.List(ctx, limited, ctrlclient.Limit(1))
	d.write("limited: %d %v", len(limited.Items), err)
	d.write("namespaces: %s", list(ctx, c, &corev1.NamespaceList{}, ctrlclient.MatchingLabels{"kubernetes.io/metadata.name": "other"}))
	for _, namespace := range []string{"default", "other", "third"} {
		d.step("update in "+namespace, func() error { return c.Update(ctx, in(namespace, configMap("a", "n=9"))) })
		d.step("delete in "+namespace, func() error { return c.Delete(ctx, in(namespace, configMap("a"))) })
	}
	return nil
}

func hearConfigMaps(_ context.Context, m ctrl.Manager, d *diary) error {
	return hear(m, d, "typed", &corev1.ConfigMap{})
}

// indexByNumbers indexes ConfigMaps by each of the numbers they hold, in all forms, and by name.
func indexByNumbers(ctx context.Context, m ctrl.Manager, _ *diary) error {
	indexer := m.GetFieldIndexer()
	return errors.Join(
		indexer.IndexField(ctx, &corev1.ConfigMap{}, "n", func(obj ctrlclient.Object) []string {
			return strings.Split(obj.(*corev1.ConfigMap).Data["n"], ",")
		}),
		indexer.IndexField(ctx, &corev1.ConfigMap{}, "name", func(obj ctrlclient.Object) []string {
			return []string{obj.GetName(), fmt.Sprint(obj.GetObjectKind().GroupVersionKind().Kind)}
		}),
		indexer.IndexField(ctx, untypedConfigMap(), "n", func(obj ctrlclient.Object) []string {
			n, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "data", "n")
			return strings.Split(n, ",")
		}),
		indexer.IndexField(ctx, metadataOfConfigMap(), "n", func(obj ctrlclient.Object) []string {
			return []string{fmt.Sprint(len(obj.(*metav1.PartialObjectMetadata).Name))}
		}),
	)
}

func labelledSecret(name string) *corev1.Secret {
	s := secret(name)
	s.Labels = map[string]string{"l": "1", "cached": "yes"}
	return s
}

// readers are what a manager has to read with, in order.
func readers(m ctrl.Manager) iter.Seq2[string, ctrlclient.Reader] {
	return func(yield func(string, ctrlclient.Reader) bool) {
		_ = yield("client", m.GetClient()) && yield("cache", m.GetCache()) && yield("live", m.GetAPIReader())
	}
}
