package simtest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// probe is something that controller-runtime's fake client does otherwise than a real server. Both clients are asked; real is what a
// real server does, recorded or read in its source, and lax what the fake does, empty where it is right.
type probe struct {
	name      string
	see       func(p *prober) string
	real, lax string
}

// prober is one client under test.
type prober struct {
	*testing.T
	client.WithWatch
}

func (p *prober) create(objects ...client.Object) {
	p.Helper()
	for _, obj := range objects {
		if err := p.Create(p.Context(), obj); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *prober) get(obj client.Object) error {
	return p.Get(p.Context(), client.ObjectKeyFromObject(obj), obj)
}

// answer is what an error says, "ok" for none.
func answer(err error) string {
	if err == nil {
		return "ok"
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Sprintf("%d: %s", status.Status().Code, err)
	}
	return err.Error()
}

func inDefault(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func aSecret(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: inDefault(name)} }

func aPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: inDefault(name),
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
	}
}

func aSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: inDefault(name),
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: aPod("").Spec},
		},
	}
}

func anIngress(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: inDefault(name),
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}
}

// bumped says whether a write made a new revision.
func bumped(before, after client.Object) string {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return "same resourceVersion"
	}
	return "new resourceVersion"
}

var probes = []probe{
	{
		name: "Create sets uid / creationTimestamp / generation",
		see: func(p *prober) string {
			set := aSet("web")
			p.create(set)
			return fmt.Sprintf("uid %v, creationTimestamp %v, generation %d", set.UID != "", !set.CreationTimestamp.IsZero(), set.Generation)
		},
		real: "uid true, creationTimestamp true, generation 1",
		lax:  "uid false, creationTimestamp false, generation 0",
	},
	{
		name: "RV",
		see: func(p *prober) string {
			one, two := aSecret("one"), aSecret("two")
			p.create(one, two)
			if one.ResourceVersion == two.ResourceVersion {
				return "two objects have the same resourceVersion"
			}
			return "one resourceVersion counts for all objects"
		},
		real: "one resourceVersion counts for all objects",
		lax:  "two objects have the same resourceVersion",
	},
	{
		name: "no-op Update",
		see: func(p *prober) string {
			secret := aSecret("a")
			p.create(secret)
			before := secret.DeepCopy()
			return answer(p.Update(p.Context(), secret)) + ", " + bumped(before, secret)
		},
		real: "ok, same resourceVersion",
		lax:  "ok, new resourceVersion",
	},
	{
		name: "ABA: Update with object of a deleted and recreated incarnation",
		see: func(p *prober) string {
			old := aSecret("a")
			p.create(old)
			if err := p.Delete(p.Context(), old); err != nil {
				p.Fatal(err)
			}
			p.create(aSecret("a"))
			return strings.Split(answer(p.Update(p.Context(), old)), ",")[0]
		},
		real: `409: Operation cannot be fulfilled on secrets "a": StorageError: invalid object`,
		lax:  "ok",
	},
	{
		name: "stale RV PUT",
		see: func(p *prober) string {
			old := aSecret("a")
			p.create(old)
			changed := old.DeepCopy()
			changed.Labels = map[string]string{"a": "b"}
			if err := p.Update(p.Context(), changed); err != nil {
				p.Fatal(err)
			}
			return answer(p.Update(p.Context(), old))
		},
		real: `409: Operation cannot be fulfilled on secrets "a": the object has been modified; please apply your changes to the latest ` +
			`version and try again`,
		lax: `409: Operation cannot be fulfilled on secrets "a": object was modified`,
	},
	{
		name: "List RV / Limit=1",
		see: func(p *prober) string {
			p.create(aSecret("a"), aSecret("b"))
			list := &corev1.SecretList{}
			if err := p.List(p.Context(), list, client.Limit(1)); err != nil {
				p.Fatal(err)
			}
			return fmt.Sprintf("resourceVersion %v, %d of 2 items, continue %v", list.ResourceVersion != "", len(list.Items), list.Continue != "")
		},
		real: "resourceVersion true, 1 of 2 items, continue true",
		lax:  "resourceVersion false, 2 of 2 items, continue false",
	},
	{
		name: "Create in missing namespace",
		see: func(p *prober) string {
			secret := aSecret("a")
			secret.Namespace = "nowhere"
			return answer(p.Create(p.Context(), secret))
		},
		real: `404: namespaces "nowhere" not found`,
		lax:  "ok",
	},
	{
		name: "invalid StatefulSet (no selector)",
		see: func(p *prober) string {
			set := aSet("web")
			set.Spec.Selector = nil
			text, _, _ := strings.Cut(answer(p.Create(p.Context(), set)), ", spec")
			return text
		},
		real: `422: StatefulSet.apps "web" is invalid: [spec.selector: Required value`,
		lax:  "ok",
	},
	{
		name: "status set on create",
		see: func(p *prober) string {
			set := aSet("web")
			set.Status.Replicas = 3
			p.create(set)
			return fmt.Sprintf("status.replicas %d", set.Status.Replicas)
		},
		real: "status.replicas 0",
		lax:  "status.replicas 3",
	},
	{
		name: "StatefulSet.spec.serviceName change",
		see: func(p *prober) string {
			set := aSet("web")
			p.create(set)
			set.Spec.ServiceName = "other"
			text, _, _ := strings.Cut(answer(p.Update(p.Context(), set)), " for fields")
			return text
		},
		real: `422: StatefulSet.apps "web" is invalid: spec: Forbidden: updates to statefulset spec`,
		lax:  "ok",
	},
	{
		name: "Ingress PUT with empty RV",
		see: func(p *prober) string {
			ingress := anIngress("web")
			p.create(ingress)
			ingress.ResourceVersion = ""
			return answer(p.Update(p.Context(), ingress))
		},
		real: "ok",
		lax:  `409: Operation cannot be fulfilled on ingresses.networking.k8s.io "web": object was modified`,
	},
	{
		name: "Delete with finalizer, twice",
		see: func(p *prober) string {
			secret := aSecret("a")
			secret.Finalizers = []string{"example.com/hold"}
			p.create(secret)
			if err := p.Delete(p.Context(), secret); err != nil {
				p.Fatal(err)
			}
			first, second := aSecret("a"), aSecret("a")
			_ = p.get(first)
			time.Sleep(time.Second)
			if err := p.Delete(p.Context(), secret); err != nil {
				p.Fatal(err)
			}
			_ = p.get(second)
			grace := "unset"
			if seconds := first.DeletionGracePeriodSeconds; seconds != nil {
				grace = fmt.Sprint(*seconds)
			}
			return fmt.Sprintf("deletionGracePeriodSeconds %s, then %s, same deletionTimestamp %v",
				grace, bumped(first, second), first.DeletionTimestamp.Equal(second.DeletionTimestamp))
		},
		real: "deletionGracePeriodSeconds 0, then same resourceVersion, same deletionTimestamp true",
		lax:  "deletionGracePeriodSeconds unset, then new resourceVersion, same deletionTimestamp false",
	},
	{
		name: "add finalizer while deleting",
		see: func(p *prober) string {
			secret := aSecret("a")
			secret.Finalizers = []string{"example.com/hold"}
			p.create(secret)
			if err := p.Delete(p.Context(), secret); err != nil {
				p.Fatal(err)
			}
			_ = p.get(secret)
			secret.Finalizers = append(secret.Finalizers, "example.com/more")
			text, _, _ := strings.Cut(answer(p.Update(p.Context(), secret)), ", found")
			return text
		},
		real: `422: Secret "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted`,
		lax:  "ok",
	},
	{
		name: "Delete with wrong UID precondition",
		see: func(p *prober) string {
			p.create(aSecret("a"))
			wrong := types.UID("another")
			text, _, _ := strings.Cut(answer(p.Delete(p.Context(), aSecret("a"), client.Preconditions{UID: &wrong})), " does not match")
			return text
		},
		real: `409: Operation cannot be fulfilled on Secret "a": the UID in the precondition (another)`,
		lax:  "ok",
	},
	{
		name: "Pod delete",
		see: func(p *prober) string {
			pod := aPod("web-0")
			pod.Spec.NodeName = "node-1"
			p.create(pod)
			if err := p.Delete(p.Context(), pod); err != nil {
				p.Fatal(err)
			}
			if err := p.get(pod); err != nil {
				return answer(err)
			}
			return fmt.Sprintf("terminating for %d seconds", *pod.DeletionGracePeriodSeconds)
		},
		real: "terminating for 30 seconds",
		lax:  `404: pods "web-0" not found`,
	},
	{
		name: "Foreground delete / ownerRefs",
		see: func(p *prober) string {
			set := aSet("web")
			p.create(set)
			if err := p.Delete(p.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				p.Fatal(err)
			}
			if err := p.get(set); err != nil {
				return answer(err)
			}
			return fmt.Sprintf("deletionTimestamp %v, finalizers %q", set.DeletionTimestamp != nil, set.Finalizers)
		},
		real: `deletionTimestamp true, finalizers ["foregroundDeletion"]`,
		lax:  `404: statefulsets.apps "web" not found`,
	},
	{
		name: "Watch with label selector",
		see: func(p *prober) string {
			w, err := p.Watch(p.Context(), &corev1.SecretList{}, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
			if err != nil {
				p.Fatal(err)
			}
			defer w.Stop()
			chosen := aSecret("chosen")
			chosen.Labels = map[string]string{"app": "web"}
			p.create(aSecret("other"), chosen)
			event := <-w.ResultChan()
			return string(event.Type) + " " + event.Object.(client.Object).GetName()
		},
		real: "ADDED chosen",
		lax:  "ADDED other",
	},
	{
		name: ">100 undelivered watch events",
		see: func(p *prober) (seen string) {
			w, err := p.Watch(p.Context(), &corev1.SecretList{}, client.InNamespace("default"))
			if err != nil {
				p.Fatal(err)
			}
			defer w.Stop()
			defer func() {
				if value := recover(); value != nil {
					seen = fmt.Sprint("panic: ", value)
				}
			}()
			for i := range 150 {
				p.create(aSecret(fmt.Sprintf("s%d", i)))
			}
			for i := range 150 {
				if event := <-w.ResultChan(); event.Type != watch.Added {
					return fmt.Sprintf("event %d is %v", i, event)
				}
			}
			return "150 events"
		},
		real: "150 events",
		lax:  "panic: channel full",
	},
	{
		name: "GenerateName",
		see: func(p *prober) string {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "a-"}}
			p.create(secret)
			return fmt.Sprintf("a- and %d characters", len(strings.TrimPrefix(secret.Name, "a-")))
		},
		real: "a- and 5 characters",
	},
	{
		name: "UpdateStatus",
		see: func(p *prober) string {
			set := aSet("web")
			p.create(set)
			set.Status.Replicas, set.Spec.Replicas = 2, new(int32(5))
			if err := p.Status().Update(p.Context(), set); err != nil {
				p.Fatal(err)
			}
			_ = p.get(set)
			spec := int32(1)
			if set.Spec.Replicas != nil {
				spec = *set.Spec.Replicas
			}
			return fmt.Sprintf("status.replicas %d, spec.replicas %d", set.Status.Replicas, spec)
		},
		real: "status.replicas 2, spec.replicas 1",
	},
}

// TestProbes asks what existing fakes get wrong. With the fake client it is checked that the page for those who come from there tells
// the truth about it.
func TestProbes(t *testing.T) {
	for _, test := range probes {
		t.Run(strings.ReplaceAll(test.name, "/", "|"), func(t *testing.T) {
			t.Parallel()
			if saw := test.see(&prober{t, simtest.NewClient(t)}); saw != test.real {
				t.Errorf("simtest: %s\na real server: %s", saw, test.real)
			}
			want := test.lax
			if want == "" {
				want = test.real
			}
			if saw := test.see(&prober{t, fake.NewClientBuilder().Build()}); saw != want {
				t.Errorf("the fake client: %s\nwant: %s", saw, want)
			}
		})
	}
}

// TestProbesPage compares the table of docs/fake-client.md with the probes. SIM_UPDATE=1 writes it anew.
func TestProbesPage(t *testing.T) {
	const page, begin, end = "../../docs/fake-client.md", "<!-- probes:begin -->\n", "<!-- probes:end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := "| probe | a kube-apiserver, and `simtest` | the fake client |\n|---|---|---|\n"
	cell := func(said string) string {
		if len(said) > 160 {
			said = strings.TrimSpace(said[:160]) + "…"
		}
		return strings.ReplaceAll(said, "|", "\\|")
	}
	for _, p := range probes {
		lax := "the same"
		if p.lax != "" {
			lax = cell(p.lax)
		}
		want += fmt.Sprintf("| %s | %s | %s |\n", p.name, cell(p.real), lax)
	}
	if os.Getenv("SIM_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of %s is\n%s\nwant\n%s\nSIM_UPDATE=1 brings it up to date", page, table, want)
	}
}
