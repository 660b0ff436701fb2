package apiserver

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// spaces is a cluster with a namespace "n".
type spaces struct {
	*tester
	k *Kind
}

func newSpaces(t *testing.T, edits ...func(*corev1.Namespace)) *spaces {
	s := &spaces{tester: newTester(t)}
	s.k = s.kind("Namespace")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, edit := range edits {
		edit(ns)
	}
	s.create(ns)
	return s
}

func (s *spaces) ns() *corev1.Namespace {
	ns, _ := s.Get(s.k, "", "n").(*corev1.Namespace)
	return ns
}

func (s *spaces) delete(name string, options metav1.DeleteOptions) *Response {
	return s.Do(&Request{Verb: schedule.Delete, Kind: s.k, Name: name, Delete: options})
}

func (s *spaces) finalize(edit func(*corev1.Namespace)) *Response {
	ns := s.ns().DeepCopy()
	edit(ns)
	return s.Do(&Request{Verb: schedule.Update, Kind: s.k, Name: "n", Subresource: "finalize", Object: ns})
}

func release(ns *corev1.Namespace) { ns.Spec.Finalizers = nil }

// TestNamespaceDelete checks what the first delete of a namespace does to it, by its options.
func TestNamespaceDelete(t *testing.T) {
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	for name, tt := range map[string]struct {
		given   []string // finalizers
		options metav1.DeleteOptions
		code    int
		want    []string
	}{
		"plain":            {code: 200},
		"background":       {options: policy(metav1.DeletePropagationBackground), code: 200},
		"foreground":       {options: policy(metav1.DeletePropagationForeground), code: 200, want: []string{"foregroundDeletion"}},
		"orphan":           {options: policy(metav1.DeletePropagationOrphan), code: 200, want: []string{"orphan"}},
		"orphanDependents": {options: metav1.DeleteOptions{OrphanDependents: new(true)}, code: 200, want: []string{"orphan"}},
		"not orphanDependents": {
			options: metav1.DeleteOptions{OrphanDependents: new(false)}, code: 202, want: []string{"foregroundDeletion"},
		},
		"keeps finalizers":          {given: []string{"e.x/f", "orphan"}, code: 200, want: []string{"e.x/f", "orphan"}},
		"takes the finalizers away": {given: []string{"orphan", "e.x/f"}, options: policy("Background"), code: 200, want: []string{"e.x/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpaces(t, func(ns *corev1.Namespace) { ns.Finalizers = tt.given })
			before := s.ns()
			dry := tt.options
			dry.DryRun = []string{"All"}
			if response := s.delete("n", dry); response.Code != tt.code || s.ns() != before ||
				response.Object.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating {
				t.Errorf("a dry run: %d %+v, or it changed the namespace", response.Code, response.Object)
			}
			response := s.delete("n", tt.options)
			ns := s.ns()
			if response.Code != tt.code || response.Object != Object(ns) {
				t.Fatalf("%d %v, want %d and the namespace", response.Code, response.Err, tt.code)
			}
			if ns.DeletionTimestamp == nil || ns.DeletionGracePeriodSeconds != nil || ns.Status.Phase != corev1.NamespaceTerminating ||
				!slices.Equal(ns.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"}) || !slices.Equal(ns.Finalizers, tt.want) {
				t.Errorf("%+v, want finalizers %v", ns, tt.want)
			}
			if again := s.delete("n", tt.options); again.Code != tt.code || again.Committed != 0 {
				t.Errorf("a second delete: %d, committed at %d", again.Code, again.Committed)
			}
			wrong := s.delete("n", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("x"))}})
			if want := `Operation cannot be fulfilled on namespaces "n": Precondition failed: UID in precondition: x, ` +
				`UID in object meta: ` + string(ns.UID); wrong.Err == nil || wrong.Err.ErrStatus.Message != want {
				t.Errorf("%v, want %s", wrong.Err, want)
			}
		})
	}
}

func TestImmortalNamespaces(t *testing.T) {
	s := newSpaces(t)
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		err := s.delete(name, metav1.DeleteOptions{}).Err
		if want := `namespaces "` + name + `" is forbidden: this namespace may not be deleted`; err == nil || err.ErrStatus.Message != want ||
			err.ErrStatus.Code != 403 {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := s.delete("kube-node-lease", metav1.DeleteOptions{}).Err; err != nil {
		t.Errorf("kube-node-lease: %v", err)
	}
	if response := s.Do(&Request{Verb: schedule.DeleteCollection, Kind: s.k}); response.Code != 405 {
		t.Errorf("all of them: %d, want 405", response.Code)
	}
}

// TestTerminatingNamespaceRefuses checks what cannot be done in a namespace that is going away, and what can.
func TestTerminatingNamespaceRefuses(t *testing.T) {
	s := newSpaces(t)
	in := func(obj Object) Object { obj.SetNamespace("n"); return obj }
	s.do(&Request{Verb: schedule.Create, Kind: s.kind("ConfigMap"), Namespace: "n", Object: in(newConfig("a"))})
	s.do(&Request{Verb: schedule.Create, Kind: s.kind("Pod"), Namespace: "n", Object: in(newPod("p", ""))})
	s.delete("n", metav1.DeleteOptions{})
	const why = "unable to create new content in namespace n because it is being terminated"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
	generated := newConfig("")
	generated.GenerateName = "x-"
	for want, req := range map[string]*Request{
		`configmaps "b" is forbidden: ` + why:  {Verb: schedule.Create, Kind: s.kind("ConfigMap"), Object: newConfig("b")},
		`configmaps "a" is forbidden: ` + why:  {Verb: schedule.Create, Kind: s.kind("ConfigMap"), Object: newConfig("a")},
		`configmaps "x-" is forbidden: ` + why: {Verb: schedule.Create, Kind: s.kind("ConfigMap"), Object: generated},
		`configmaps "c" is forbidden: ` + why: {
			Verb: schedule.Patch, Kind: s.kind("ConfigMap"), Name: "c", PatchType: types.ApplyPatchType, FieldManager: "m",
			PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`),
		},
		`leases.coordination.k8s.io "l" is forbidden: ` + why: {
			Verb: schedule.Update, Kind: s.kind("Lease"), Name: "l", Object: lease, // which an update creates
		},
		`widgets.golden.example.com "w" is forbidden: ` + why: {Verb: schedule.Create, Kind: s.kind("Widget"), Object: newWidget("w")},
		`pods "p" is forbidden: ` + why: {
			Verb: schedule.Create, Kind: s.kind("Pod"), Name: "p", Subresource: "binding", Object: &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "node1"},
			},
		},
		`pods "q" is forbidden: ` + why: {
			Verb: schedule.Create, Kind: s.kind("Pod"), Name: "q", Subresource: "eviction",
			Object: &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "q"}},
		},
	} {
		req.Namespace = "n"
		err := s.Do(req).Err
		if err == nil || err.ErrStatus.Message != want || err.ErrStatus.Code != 403 || err.ErrStatus.Reason != metav1.StatusReasonForbidden {
			t.Errorf("%s %s: %v, want %s", req.Verb, req.Kind, err, want)
			continue
		}
		cause := metav1.StatusCause{Type: "NamespaceTerminating", Message: "namespace n is being terminated", Field: "metadata.namespace"}
		if d := err.ErrStatus.Details; !slices.Equal(d.Causes, []metav1.StatusCause{cause}) || d.RetryAfterSeconds != 0 {
			t.Errorf("%s: details %+v", want, d)
		}
	}
	config := s.Get(s.kind("ConfigMap"), "n", "a")
	change(s.tester, "", config, func(c *corev1.ConfigMap) { c.Data["k"] = "changed" })
	s.remove(config, metav1.DeleteOptions{})
	put := &Request{Verb: schedule.Update, Kind: s.kind("ConfigMap"), Namespace: "n", Name: "b", Object: newConfig("b")}
	if err := s.Do(put).Err; !apierrors.IsNotFound(err) {
		t.Errorf("a PUT of what is not there: %v", err)
	}
	if gaps := strings.Join(s.Gaps(), ""); !strings.Contains(gaps, "the namespace n is Terminating and nobody empties it") {
		t.Errorf("gaps %q", gaps)
	}
	change(s.tester, "status", s.ns(), func(ns *corev1.Namespace) {
		ns.Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceContentRemaining, Status: "False"}}
	})
	if gaps := strings.Join(s.Gaps(), ""); strings.Contains(gaps, "Terminating") {
		t.Errorf("gaps %q while somebody works on it", gaps)
	}
}

// TestFinalize takes the finalizers off a namespace's spec, in the one way there is.
func TestFinalize(t *testing.T) {
	s := newSpaces(t, func(ns *corev1.Namespace) { ns.Finalizers = []string{"e.x/f"} })
	before := s.ns()
	if response := s.finalize(func(*corev1.Namespace) {}); response.Code != 200 || response.Committed != 0 {
		t.Errorf("a finalize that changes nothing: %d, committed at %d", response.Code, response.Committed)
	}
	response := s.finalize(func(ns *corev1.Namespace) {
		ns.Labels["a"] = "b"
		ns.Status.Phase = corev1.NamespaceTerminating
		ns.Spec.Finalizers = []corev1.FinalizerName{"kubernetes", "e.x/spec"}
	})
	ns := s.ns()
	if response.Err != nil || ns.Labels["a"] != "b" || ns.Status.Phase != corev1.NamespaceActive || len(ns.Spec.Finalizers) != 2 {
		t.Errorf("%v: %+v", response.Err, ns)
	}
	for text, edit := range map[string]func(*corev1.Namespace){
		`Namespace "n" is invalid: spec.finalizers[1]: Invalid value: "short": name is neither a standard finalizer name nor is it fully ` +
			`qualified`: func(ns *corev1.Namespace) { ns.Spec.Finalizers = []corev1.FinalizerName{"orphan", "short"} },
		`Operation cannot be fulfilled on namespaces "n": the object has been modified; please apply your changes to the latest version ` +
			`and try again`: func(ns *corev1.Namespace) { ns.ResourceVersion = before.ResourceVersion },
	} {
		if err := s.finalize(edit).Err; err == nil || err.ErrStatus.Message != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	s.delete("n", metav1.DeleteOptions{})
	if response := s.finalize(release); response.Committed == 0 || s.ns() == nil {
		t.Fatalf("the finalizers of the metadata do not hold it: %v", response.Err)
	}
	change(s.tester, "", s.ns(), func(ns *corev1.Namespace) { ns.Finalizers = nil })
	if s.ns() != nil {
		t.Error("it is still there without finalizers")
	}
	event := s.Log(s.k)[len(s.Log(s.k))-1]
	if event.Type != Deleted || !slices.Equal(event.Object.GetFinalizers(), []string{"e.x/f"}) {
		t.Errorf("the event is %+v", event)
	}
}

// TestFinalizeRemoves checks that the last finalizer of the spec takes a namespace with it, and who may ask for it.
func TestFinalizeRemoves(t *testing.T) {
	s := newSpaces(t)
	s.delete("n", metav1.DeleteOptions{})
	dry := s.ns().DeepCopy()
	release(dry)
	request := &Request{Verb: schedule.Update, Kind: s.k, Name: "n", Subresource: "finalize", Object: dry, DryRun: true}
	if response := s.Do(request); response.Code != 200 || s.ns() == nil {
		t.Fatalf("a dry run: %d, or the namespace has gone", response.Code)
	}
	response := s.finalize(release)
	if response.Code != 200 || s.ns() != nil || len(response.Object.(*corev1.Namespace).Spec.Finalizers) != 0 {
		t.Errorf("%d %v, or the namespace is still there", response.Code, response.Err)
	}
	for _, tt := range []struct {
		verb schedule.Verb
		kind string
		code int
	}{{schedule.Patch, "Namespace", 405}, {schedule.Get, "Namespace", 405}, {schedule.Update, "Pod", 404}} {
		response := s.Do(&Request{Verb: tt.verb, Kind: s.kind(tt.kind), Namespace: "default", Name: "n", Subresource: "finalize"})
		if response.Code != tt.code {
			t.Errorf("%s of %s/finalize: %d, want %d", tt.verb, tt.kind, response.Code, tt.code)
		}
	}
}

// TestNamespaceGone leaves an object behind in a namespace that was finalized too early: it can be read and deleted, and not
// changed, as on a real server. It lives on in a snapshot.
func TestNamespaceGone(t *testing.T) {
	s := newSpaces(t)
	config := newConfig("a")
	config.Namespace = "n"
	s.do(&Request{Verb: schedule.Create, Kind: s.kind("ConfigMap"), Namespace: "n", Object: config.DeepCopy()})
	s.delete("n", metav1.DeleteOptions{})
	s.finalize(release)
	server := s.Snapshot().NewServer(fixedClock)
	for _, req := range []*Request{
		{Verb: schedule.Create, Object: newConfig("b")},
		{Verb: schedule.Update, Name: "a", Object: config.DeepCopy()},
		{Verb: schedule.Patch, Name: "a", PatchType: types.MergePatchType, PatchData: []byte(`{"data":{"k":"w"}}`)},
		{
			Verb: schedule.Patch, Name: "a", PatchType: types.ApplyPatchType, FieldManager: "m", Force: new(true),
			PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"x"}}`),
		},
	} {
		req.Kind, req.Namespace = s.kind("ConfigMap"), "n"
		err := server.Do(req).Err
		if err == nil || err.ErrStatus.Message != `namespaces "n" not found` || err.ErrStatus.Details.Kind != "namespaces" {
			t.Errorf("%s: %v", req.Verb, err)
		}
	}
	for _, req := range []*Request{{Verb: schedule.Get, Name: "a"}, {Verb: schedule.Delete, Name: "a"}} {
		req.Kind, req.Namespace = s.kind("ConfigMap"), "n"
		if response := server.Do(req); response.Err != nil {
			t.Errorf("%s: %v", req.Verb, response.Err)
		}
	}
}

// TestLoadedTerminatingNamespace: a namespace that is loaded may say in one of two ways that it is going away.
func TestLoadedTerminatingNamespace(t *testing.T) {
	now := metav1.NewTime(fixedClock())
	for name, ns := range map[string]*corev1.Namespace{
		"deletionTimestamp": {ObjectMeta: metav1.ObjectMeta{
			Name: "n", DeletionTimestamp: &now, Finalizers: []string{"example.com/hold"},
		}},
		"phase": {ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
	} {
		test := newTester(t)
		if err := test.Load(ns); err != nil {
			t.Fatal(err)
		}
		config := newConfig("c")
		config.Namespace = "n"
		err := test.Do(&Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "n", Object: config}).Err
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("%s: %v, want it to be refused", name, err)
		}
	}
}
