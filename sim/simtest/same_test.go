package simtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

const widgetCRD = "../../cmd/testdata/widget/config/crd/bases"

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), widgetv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func aWidget(name string) *widgetv1.Widget {
	return &widgetv1.Widget{ObjectMeta: inDefault(name), Spec: widgetv1.WidgetSpec{Replicas: 1}}
}

func untyped(apiVersion, kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

func partial(obj *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind()}, ObjectMeta: inDefault(obj.GetName()),
	}
}

// sameSteps are calls of one client after the other; what they leave in the objects and say is compared.
type sameStep struct {
	name string
	do   func(ctx context.Context, c client.WithWatch) (any, error)
}

// call is a step whose object is the one it is called with.
func call[T any](name string, obj func() T, do func(ctx context.Context, c client.WithWatch, obj T) error) sameStep {
	return sameStep{name, func(ctx context.Context, c client.WithWatch) (any, error) {
		o := obj()
		err := do(ctx, c, o)
		return o, err
	}}
}

func read[T client.Object](ctx context.Context, c client.Client, obj T) T {
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		panic(err)
	}
	return obj
}

func sameSteps() []sameStep {
	return slices.Concat(createSteps(), writeSteps(), customSteps(), looseSteps(), listSteps(), applySteps(), deleteSteps())
}

type withWatch = client.WithWatch

func secretNamed(name string) func() *corev1.Secret {
	return func() *corev1.Secret { return aSecret(name) }
}

func widgetNamed(name string) func() *widgetv1.Widget {
	return func() *widgetv1.Widget { return aWidget(name) }
}

func looseNamed(name string) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured { return untyped("example.com/v1", "Widget", name) }
}

func bareNamed(name string) func() *metav1.PartialObjectMetadata {
	return func() *metav1.PartialObjectMetadata { return partial(untyped("example.com/v1", "Widget", name)) }
}

// createSteps are creates and reads of built-ins.
func createSteps() []sameStep {
	return []sameStep{
		call("create", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Create(ctx, o)
		}),
		call("create again", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Create(ctx, o)
		}),
		call("create nameless", secretNamed(""), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Create(ctx, o)
		}),
		call("create with revision", secretNamed("r"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			o.ResourceVersion = "5"
			return c.Create(ctx, o)
		}),
		call("create nowhere", secretNamed("r"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			o.Namespace = "nowhere"
			return c.Create(ctx, o)
		}),
		call("create without namespace", secretNamed("r"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			o.Namespace = ""
			return c.Create(ctx, o)
		}),
		call("create dry", secretNamed("d"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Create(ctx, o, client.DryRunAll)
		}),
		call("generate", secretNamed(""), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			o.GenerateName = "gen-"
			return c.Create(ctx, o)
		}),
		call("get", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, o)
		}),
		call("get absent", secretNamed("x"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "x"}, o)
		}),
		call("get nameless", secretNamed("x"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "default"}, o)
		}),
	}
}

// writeSteps are other writes of built-ins.
func writeSteps() []sameStep {
	return []sameStep{
		call("update", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			read(ctx, c, o).Labels = map[string]string{"a": "b"}
			return c.Update(ctx, o)
		}),
		call("update absent", secretNamed("x"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Update(ctx, o)
		}),
		call("update stale", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			o.ResourceVersion = "1"
			return c.Update(ctx, o)
		}),
		call("status of what has none", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Status().Update(ctx, o)
		}),
		call("scale of what has none", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.SubResource("scale").Get(ctx, o, &autoscalingv1.Scale{})
		}),
		call("strategic patch", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Patch(ctx, o, client.RawPatch(types.StrategicMergePatchType, []byte(`{"stringData":{"k":"v"}}`)))
		}),
		call("json patch", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/a","value":"c"}]`)))
		}),
		call("patch that is none", secretNamed("a"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{`)))
		}),
		call("patch absent", secretNamed("x"), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{}`)))
		}),
	}
}

// customSteps are typed custom resources.
func customSteps() []sameStep {
	return []sameStep{
		call("nonsense of a widget", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.SubResource("nonsense").Update(ctx, o)
		}),
		call("widget with status", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			o.Status.Phase = "Ready"
			return c.Create(ctx, o)
		}),
		call("widget invalid", widgetNamed("i"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			o.Spec.Replicas = -1
			return c.Create(ctx, o)
		}),
		call("widget status", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			read(ctx, c, o).Status.Phase = "Ready"
			return c.Status().Update(ctx, o)
		}),
		call("widget status patch", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			base := read(ctx, c, o).DeepCopyObject().(*widgetv1.Widget)
			o.Status.Phase = "Late"
			return c.Status().Patch(ctx, o, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
		}),
		call("widget strategic patch", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Patch(ctx, o, client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)))
		}),
		call("widget without revision", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Update(ctx, o)
		}),
	}
}

// looseSteps are unstructured and metadata-only objects.
func looseSteps() []sameStep {
	return []sameStep{
		call("unstructured get", looseNamed("w"), func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
			return c.Get(ctx, client.ObjectKeyFromObject(o), o)
		}),
		call("unstructured create", looseNamed("u"), func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
			o.Object["spec"] = map[string]any{"replicas": int64(2), "unknown": "x"}
			return c.Create(ctx, o)
		}),
		call("unstructured create strictly", looseNamed("v"), func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
			o.Object["spec"] = map[string]any{"replicas": int64(2), "unknown": "x"}
			return c.Create(ctx, o, client.FieldValidation("Strict"))
		}),
		call("unstructured of no kind", func() *unstructured.Unstructured { return untyped("", "", "a") },
			func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
				return c.Create(ctx, o)
			}),
		call("unstructured wrong", looseNamed("v"), func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
			o.Object["spec"] = map[string]any{"replicas": "many"}
			return c.Create(ctx, o)
		}),
		call("unstructured secret", func() *unstructured.Unstructured { return untyped("v1", "Secret", "us") },
			func(ctx context.Context, c withWatch, o *unstructured.Unstructured) error {
				return c.Create(ctx, o)
			}),
		call("metadata get", bareNamed("w"), func(ctx context.Context, c withWatch, o *metav1.PartialObjectMetadata) error {
			return c.Get(ctx, client.ObjectKeyFromObject(o), o)
		}),
		call("metadata create", bareNamed("w"), func(ctx context.Context, c withWatch, o *metav1.PartialObjectMetadata) error {
			return c.Create(ctx, o)
		}),
		call("metadata patch", bareNamed("w"), func(ctx context.Context, c withWatch, o *metav1.PartialObjectMetadata) error {
			return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`)))
		}),
	}
}

// listSteps are lists.
func listSteps() []sameStep {
	return []sameStep{
		call("list", func() *corev1.SecretList { return &corev1.SecretList{} },
			func(ctx context.Context, c withWatch, l *corev1.SecretList) error {
				return c.List(ctx, l, client.Limit(2))
			}),
		call("list by labels", func() *corev1.SecretList { return &corev1.SecretList{} },
			func(ctx context.Context, c withWatch, l *corev1.SecretList) error {
				return c.List(ctx, l, client.MatchingLabels{"a": "b"}, client.InNamespace("default"))
			}),
		call("list by name", func() *corev1.SecretList { return &corev1.SecretList{} },
			func(ctx context.Context, c withWatch, l *corev1.SecretList) error {
				return c.List(ctx, l, client.MatchingFields{"metadata.name": "a"})
			}),
		call("list by unknown field", func() *corev1.SecretList { return &corev1.SecretList{} },
			func(ctx context.Context, c withWatch, l *corev1.SecretList) error {
				return c.List(ctx, l, client.MatchingFields{"spec.x": "a"})
			}),
		call("list with a bad token", func() *corev1.SecretList { return &corev1.SecretList{} },
			func(ctx context.Context, c withWatch, l *corev1.SecretList) error {
				return c.List(ctx, l, client.Continue("x"))
			}),
		call("list unstructured", func() *unstructured.UnstructuredList {
			l := &unstructured.UnstructuredList{}
			l.SetAPIVersion("example.com/v1")
			l.SetKind("Widget")
			return l
		}, func(ctx context.Context, c withWatch, l *unstructured.UnstructuredList) error {
			return c.List(ctx, l)
		}),
		call("list metadata", func() *metav1.PartialObjectMetadataList {
			return &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "WidgetList"}}
		}, func(ctx context.Context, c withWatch, l *metav1.PartialObjectMetadataList) error {
			return c.List(ctx, l)
		}),
		call("list widgets", func() *widgetv1.WidgetList { return &widgetv1.WidgetList{} },
			func(ctx context.Context, c withWatch, l *widgetv1.WidgetList) error { return c.List(ctx, l) }),
	}
}

// applySteps are applying, and subresources.
func applySteps() []sameStep {
	return []sameStep{
		call("apply", func() *corev1apply.ConfigMapApplyConfiguration { return corev1apply.ConfigMap("cm", "default") },
			func(ctx context.Context, c withWatch, o *corev1apply.ConfigMapApplyConfiguration) error {
				return c.Apply(ctx, o.WithData(map[string]string{"k": "v"}), client.FieldOwner("one"))
			}),
		call("apply in conflict", func() *corev1apply.ConfigMapApplyConfiguration { return corev1apply.ConfigMap("cm", "default") },
			func(ctx context.Context, c withWatch, o *corev1apply.ConfigMapApplyConfiguration) error {
				return c.Apply(ctx, o.WithData(map[string]string{"k": "w"}), client.FieldOwner("two"))
			}),
		call("apply by nobody", func() *corev1apply.ConfigMapApplyConfiguration { return corev1apply.ConfigMap("cm", "default") },
			func(ctx context.Context, c withWatch, o *corev1apply.ConfigMapApplyConfiguration) error {
				return c.Apply(ctx, o)
			}),
		call("set", func() *appsv1.StatefulSet { return aSet("web") },
			func(ctx context.Context, c withWatch, o *appsv1.StatefulSet) error {
				return c.Create(ctx, o)
			}),
		call("scale", func() *autoscalingv1.Scale { return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}} },
			func(ctx context.Context, c withWatch, o *autoscalingv1.Scale) error {
				return c.SubResource("scale").Update(ctx, aSet("web"), client.WithSubResourceBody(o))
			}),
		call("scale read", func() *autoscalingv1.Scale { return &autoscalingv1.Scale{} },
			func(ctx context.Context, c withWatch, o *autoscalingv1.Scale) error {
				return c.SubResource("scale").Get(ctx, aSet("web"), o)
			}),
		call("scale of nothing", func() *autoscalingv1.Scale { return &autoscalingv1.Scale{} },
			func(ctx context.Context, c withWatch, o *autoscalingv1.Scale) error {
				return c.SubResource("scale").Get(ctx, aSet("x"), o)
			}),
		call("invalid set", func() *appsv1.StatefulSet { return &appsv1.StatefulSet{ObjectMeta: inDefault("bad")} },
			func(ctx context.Context, c withWatch, o *appsv1.StatefulSet) error { return c.Create(ctx, o) }),
		call("eviction of nothing", func() *policyv1.Eviction { return &policyv1.Eviction{} },
			func(ctx context.Context, c withWatch, o *policyv1.Eviction) error {
				return c.SubResource("eviction").Create(ctx, aPod("x"), o)
			}),
	}
}

// deleteSteps are deletes.
func deleteSteps() []sameStep {
	return []sameStep{
		call("delete with finalizer", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Delete(ctx, o)
		}),
		call("deleted", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Get(ctx, client.ObjectKeyFromObject(o), o)
		}),
		call("create over it", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Create(ctx, o)
		}),
		call("last finalizer", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			read(ctx, c, o).Finalizers = nil
			return c.Update(ctx, o)
		}),
		call("delete absent", widgetNamed("w"), func(ctx context.Context, c withWatch, o *widgetv1.Widget) error {
			return c.Delete(ctx, o)
		}),
		call("delete all everywhere", secretNamed(""), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.DeleteAllOf(ctx, o)
		}),
		call("delete all", secretNamed(""), func(ctx context.Context, c withWatch, o *corev1.Secret) error {
			return c.DeleteAllOf(ctx, o, client.InNamespace("default"), client.MatchingLabels{"a": "b"})
		}),
		call("delete namespace", func() *corev1.Namespace { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}} },
			func(ctx context.Context, c withWatch, o *corev1.Namespace) error { return c.Delete(ctx, o) }),
	}
}

// TestSameAsOverHTTP makes the same calls with the client and with the one of controller-runtime over HTTP, each with a server of its
// own, and compares what they say and what they leave in the caller's objects.
func TestSameAsOverHTTP(t *testing.T) {
	scheme := newScheme(t)
	now := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	build := func() *simtest.Server {
		return simtest.NewClientBuilder(t).WithScheme(scheme).WithCRDs(widgetCRD).WithClock(now).WithReturnManagedFields().Server()
	}
	direct, behind := build().Client(), build()
	wired, err := client.NewWithWatch(behind.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range sameSteps() {
		t.Run(step.name, func(t *testing.T) {
			got, want := saw(step.do(t.Context(), direct)), saw(step.do(t.Context(), wired))
			if got != want {
				t.Errorf("the client:\n%s\nover HTTP:\n%s", got, want)
			}
		})
	}
}

var atHost = regexp.MustCompile(`(Get|Put|Post|Delete|Patch) "http://[^"]*": `)

// saw is what a call has said and left.
func saw(obj any, err error) string {
	text, _ := json.MarshalIndent(obj, "", " ")
	said := "nil"
	if err != nil {
		said = atHost.ReplaceAllString(err.Error(), "")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			s := status.Status()
			details, _ := json.Marshal(s.Details)
			said += fmt.Sprintf("\n%d %s %s", s.Code, s.Reason, details)
		}
	}
	return strings.TrimSpace(said + "\n" + string(text))
}
