package clickhouse

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

const (
	setName = "chi-a-0-0"
)

// A stage is a cluster of one CHI over controller-runtime's fake client. It records the operator's calls and log lines,
// fails the calls it is told to, and stands in for kube-controller-manager: a set that was written is rolled out and
// ready at once, unless it is stuck.
type stage struct {
	t      *testing.T
	start  time.Time
	client client.Client // without interceptors
	faults []fault
	seen   map[string]int
	stuck  bool
	lines  []string
}

// fault fails calls: the nth call, from 1, that reads as call; every one if nth is 0.
type fault struct {
	call string // "PUT StatefulSet chi-a-0-0"
	nth  int
	err  error
}

// A story is a start state and the faults of one test case.
type story struct {
	name string
	doc  string
	// given changes the start: by default a ready set that was rendered from an older CHI.
	given  func(*world)
	faults []fault
	stuck  bool // the set's status never changes
}

// world is the start state of a story. Nil objects are absent.
type world struct {
	chi *ClickHouseInstallation
	set *appsv1.StatefulSet
}

var (
	setResource = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	errConflict = apierrors.NewConflict(setResource, setName, fmt.Errorf("the object has been modified"))
	errGone     = apierrors.NewNotFound(setResource, setName)
	errExists   = apierrors.NewAlreadyExists(setResource, setName)
	errInternal = apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed"))
	errInvalid  = apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind(), setName,
		field.ErrorList{field.Forbidden(field.NewPath("spec"), "updates to statefulset spec are forbidden")})

	getSet    = "GET StatefulSet " + setName
	putSet    = "PUT StatefulSet " + setName
	postSet   = "POST StatefulSet " + setName
	deleteSet = "DELETE StatefulSet " + setName
	putStatus = "PUT ClickHouseInstallation/status a"

	// immutable is what the API server answers to step 3 when a claim template changed.
	immutable = fault{call: putSet, nth: 1, err: errInvalid}
)

func scaledToZero(w *world) {
	w.set.Spec.Replicas = new(int32)
	w.set.Status.ReadyReplicas = 0
}

var stories = []story{
	{name: "same", doc: "the set carries the desired object version: nothing to do", given: func(w *world) {
		w.set.Labels[labelObjectVersion] = hosts(w.chi)[0].statefulSet().Labels[labelObjectVersion]
	}},
	{name: "absent", doc: "there is no set: create it", given: func(w *world) { w.set = nil }},
	{name: "updated", doc: "the update of step 3 is accepted"},
	{name: "update-never-ready", doc: "the update is accepted, but the set is never ready", stuck: true},
	{name: "recreated", doc: "the update is 422, and recreating works", faults: []fault{immutable}},
	{name: "not-ready", doc: "a set that is not ready is recreated without trying to update it", given: func(w *world) {
		w.set.Status.ReadyReplicas = 0
	}},
	{name: "transient-update-error", doc: "any error of the update escalates to recreating", faults: []fault{
		{call: putSet, nth: 1, err: errInternal},
	}},
	{name: "unreadable", doc: "a set that cannot be read in step 2 is recreated", faults: []fault{
		{call: getSet, nth: 2, err: errInternal},
	}},
	{name: "conflict", doc: "the cascade: the PUT of replicas 0 is 409", faults: []fault{
		immutable, {call: putSet, nth: 2, err: errConflict},
	}},
	{name: "conflict-at-zero", doc: "the cascade from a set that is at 0 already", given: scaledToZero, faults: []fault{
		immutable, {call: putSet, nth: 2, err: errConflict},
	}},
	{name: "delete-sees-nothing", doc: "the set is gone when the delete looks", faults: []fault{
		immutable, {call: getSet, nth: 3, err: errGone},
	}},
	{name: "delete-cannot-read", doc: "the set is unreadable when the delete looks", faults: []fault{
		immutable, {call: getSet, nth: 3, err: errInternal},
	}},
	{name: "delete-retried", doc: "the first DELETE fails, the next poll's works", faults: []fault{
		immutable, {call: deleteSet, nth: 1, err: errInternal},
	}},
	{name: "delete-times-out", doc: "no DELETE works", faults: []fault{immutable, {call: deleteSet, err: errInternal}}},
	{name: "scale-down-wait-fails", doc: "a GET error ends the wait for replicas 0, not the delete", faults: []fault{
		immutable, {call: getSet, nth: 4, err: errInternal},
	}},
	{name: "create-exists", doc: "the POST is AlreadyExists: someone else was faster", faults: []fault{
		immutable, {call: postSet, nth: 1, err: errExists},
	}},
	{name: "create-never-ready", doc: "the set is created, but is never ready", stuck: true, given: func(w *world) {
		w.set = nil
	}},
	{name: "created-set-vanishes", doc: "NotFound ends a wait after 30 s", given: func(w *world) { w.set = nil }, faults: []fault{
		{call: getSet, err: errGone},
	}},
	{name: "status-conflicts", doc: "a status write is tried again after 1 s", faults: []fault{
		{call: putStatus, nth: 1, err: errConflict}, {call: putStatus, nth: 2, err: errInternal},
	}},
	{name: "status-never-written", doc: "the 50 tries of each status write are used up; the rest goes on", faults: []fault{
		{call: putStatus, err: errInternal},
	}},
	{name: "chi-gone", doc: "there is no such CHI", given: func(w *world) { w.chi = nil }},
	{name: "config-map-fails", doc: "an error of the ConfigMap aborts", faults: []fault{
		{call: "POST ConfigMap chi-a-deploy-confd-0-0", err: errInternal},
	}},
	{name: "service-and-claim-fail", doc: "errors of the Service and of claims are dropped", faults: []fault{
		immutable,
		{call: "GET Service " + setName, err: errInternal},
		{call: "GET PersistentVolumeClaim data-chi-a-0-0-0", err: errInternal},
	}},
	{name: "stopped", doc: "a stopped CHI wants 0 replicas", given: func(w *world) { w.chi.Spec.Stop = "yes" }},
	{name: "two-shards", doc: "an error of a host ends the pass before the next", given: func(w *world) {
		w.chi.Spec.Configuration.Clusters[0].Layout.ShardsCount = 2
	}, faults: []fault{immutable, {call: deleteSet, err: errInternal}}},
}

// TestCalls compares what each variant does in each story with testdata/calls. A line has the virtual time since the
// start, and a call with its outcome or a log line; variants that do the same share a section.
func TestCalls(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			var got bytes.Buffer
			fmt.Fprintf(&got, "# %s\n", s.doc)
			for sections := variants; len(sections) > 0; {
				lines := s.play(t, sections[0])
				names := []string{sections[0].name}
				sections = sections[1:]
				for len(sections) > 0 && slices.Equal(lines, s.play(t, sections[0])) {
					names = append(names, sections[0].name)
					sections = sections[1:]
				}
				fmt.Fprintf(&got, "\n-- %s --\n%s\n", strings.Join(names, ", "), strings.Join(lines, "\n"))
			}
			compareGolden(t, filepath.Join("testdata", "calls", s.name+".txt"), got.Bytes())
		})
	}
}

// TestCascade is the core of issue 1990: from one 409, buggy gets to Completed over an old set, as the original report's
// log tells it; the others do not.
func TestCascade(t *testing.T) {
	for _, name := range []string{"conflict", "conflict-at-zero"} {
		s := storyNamed(name)
		for _, v := range variants {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				text := strings.Join(s.play(t, v), "\n")
				found := containsInOrder(text, cascade)
				if want := v.name == "clickhouse/buggy"; found != want {
					t.Errorf("the cascade is in the log: %t, want %t:\n%s", found, want, text)
				}
				deleted := strings.Contains(text, deleteSet+" -> ok")
				if want := v.name != "clickhouse/buggy"; deleted != want {
					t.Errorf("the set was deleted: %t, want %t:\n%s", deleted, want, text)
				}
			})
		}
	}
}

func containsInOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// TestCancelledPass checks that a process that is stopped in the middle of a pass does not declare how it ended.
func TestCancelledPass(t *testing.T) {
	s := storyNamed("delete-times-out")
	for _, v := range variants {
		for _, after := range []time.Duration{0, time.Second, time.Minute} {
			t.Run(fmt.Sprintf("%s/%s", v.name, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := s.open(t)
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					st.run(ctx, v)
					if text := strings.Join(st.lines, "\n"); strings.Contains(text, "reconcile completed") {
						t.Errorf("a cancelled pass was completed:\n%s", text)
					}
				})
			})
		}
	}
}

func storyNamed(name string) story {
	return stories[slices.IndexFunc(stories, func(s story) bool { return s.name == name })]
}

// play runs one pass and returns what happened, and what was left.
func (s story) play(t *testing.T, v variant) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := s.open(t)
		st.run(t.Context(), v)
		lines = append(fold(st.lines), st.left()...)
	})
	return lines
}

// open sets the stage.
func (s story) open(t *testing.T) *stage {
	w := &world{chi: testCHI()}
	w.chi.Spec.Templates.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
	w.set = rolledOut(hosts(w.chi)[0].statefulSet())
	w.chi = testCHI()
	if s.given != nil {
		s.given(w)
	}
	objects := fake.NewClientBuilder().WithScheme(testScheme(t)).
		WithStatusSubresource(&ClickHouseInstallation{}, &appsv1.StatefulSet{})
	if w.chi != nil {
		objects.WithObjects(w.chi)
	}
	if w.set != nil {
		objects.WithObjects(w.set)
	}
	return &stage{
		t: t, start: time.Now(), client: objects.Build(), faults: s.faults, stuck: s.stuck, seen: map[string]int{},
	}
}

// run makes one pass.
func (st *stage) run(ctx context.Context, v variant) {
	st.t.Helper()
	recorder := record.NewFakeRecorder(10)
	live := interceptor.NewClient(st.client.(client.WithWatch), st.funcs())
	r, err := v.controller(true).New(sim.Deps{
		Client: live, Live: live, Scheme: st.client.Scheme(), Recorder: recorder, Log: logr.New(&logSink{stage: st}),
	})
	if err != nil {
		st.t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "a"}
	if result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key}); err != nil || !result.IsZero() {
		st.t.Errorf("Reconcile returned %v, %v; a finished pass is not retried", result, err)
	}
	close(recorder.Events)
	for event := range recorder.Events {
		st.note("event %s", event)
	}
}

func (st *stage) note(format string, args ...any) {
	st.lines = append(st.lines, fmt.Sprintf("%5s  ", time.Since(st.start))+fmt.Sprintf(format, args...))
}

// call records a call and its outcome. do is not called if the call fails by a fault.
func (st *stage) call(verb string, obj client.Object, name string, do func() error) error {
	gvk, err := apiutil.GVKForObject(obj, st.client.Scheme())
	if err != nil {
		st.t.Fatal(err)
	}
	kind, sub, _ := strings.Cut(verb, "/")
	call := strings.TrimSuffix(fmt.Sprintf("%s %s/%s", kind, gvk.Kind, sub), "/") + " " + name
	st.seen[call]++
	for _, f := range st.faults {
		if f.call == call && (f.nth == 0 || f.nth == st.seen[call]) {
			err = f.err
		}
	}
	more := details(verb, obj)
	if err == nil {
		err = do()
	}
	outcome := "ok"
	if err != nil {
		outcome = string(apierrors.ReasonForError(err))
	}
	st.note("%s%s -> %s", call, more, outcome)
	return err
}

// details says of a write what is worth comparing.
func details(verb string, obj client.Object) string {
	var of []string
	if set, ok := obj.(*appsv1.StatefulSet); ok && (verb == "PUT" || verb == "POST") {
		of = append(of, fmt.Sprintf("replicas=%d", *set.Spec.Replicas))
		if verb == "PUT" {
			of = append(of, fmt.Sprintf("conditional=%t", set.ResourceVersion != ""))
		}
	}
	if chi, ok := obj.(*ClickHouseInstallation); ok && verb == "PUT/status" {
		of = append(of, chi.Status.Status)
	}
	if len(of) == 0 {
		return ""
	}
	return " (" + strings.Join(of, ", ") + ")"
}

func (st *stage) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			return st.call("GET", obj, key.Name, func() error { return c.Get(ctx, key, obj, o...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			create := func() error { return c.Create(ctx, obj, o...) }
			return st.call("POST", obj, obj.GetName(), func() error { return st.write(ctx, obj, create) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.UpdateOption) error {
			update := func() error { return c.Update(ctx, obj, o...) }
			return st.call("PUT", obj, obj.GetName(), func() error { return st.write(ctx, obj, update) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			st.checkDelete(o)
			return st.call("DELETE", obj, obj.GetName(), func() error { return c.Delete(ctx, obj, o...) })
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, o ...client.SubResourceUpdateOption,
		) error {
			return st.call("PUT/"+sub, obj, obj.GetName(), func() error { return c.SubResource(sub).Update(ctx, obj, o...) })
		},
	}
}

// checkDelete checks that a delete is Foreground, with grace 0.
func (st *stage) checkDelete(options []client.DeleteOption) {
	var o client.DeleteOptions
	o.ApplyOptions(options)
	foreground := o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationForeground
	if !foreground || o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 {
		st.t.Errorf("DELETE with options %+v, want Foreground with grace 0", o)
	}
}

// write writes an object. A set gets a new generation, and its status follows unless it is stuck.
func (st *stage) write(ctx context.Context, obj client.Object, do func() error) error {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return do()
	}
	old := &appsv1.StatefulSet{}
	if err := st.client.Get(ctx, client.ObjectKeyFromObject(set), old); client.IgnoreNotFound(err) != nil {
		return err
	}
	set.Generation = old.Generation + 1
	if err := do(); err != nil || st.stuck {
		return err
	}
	return st.client.Status().Update(ctx, rolledOut(set.DeepCopy()))
}

// rolledOut gives a set the status it has when it is rolled out and ready.
func rolledOut(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	n := *set.Spec.Replicas
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: n, ReadyReplicas: n, CurrentReplicas: n, UpdatedReplicas: n,
		CurrentRevision: "r", UpdateRevision: "r",
	}
	return set
}

// left says what the pass left behind.
func (st *stage) left() []string {
	lines := []string{""}
	chi := &ClickHouseInstallation{}
	if err := st.client.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "a"}, chi); err == nil {
		s := chi.Status
		lines = append(lines, fmt.Sprintf("CHI %s, hosts %d: unchanged %d, updated %d, added %d, completed %d; errors %q",
			s.Status, s.Hosts, s.HostsUnchanged, s.HostsUpdated, s.HostsAdded, s.HostsCompleted, s.Errors))
	}
	sets := &appsv1.StatefulSetList{}
	if err := st.client.List(context.Background(), sets); err != nil {
		st.t.Fatal(err)
	}
	for _, set := range sets.Items {
		storage := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
		lines = append(lines, fmt.Sprintf("set %s, replicas %d, claims of %s", set.Name, *set.Spec.Replicas, &storage))
	}
	return lines
}

// fold writes polls that repeat the same lines as one block with a count, dropping their times.
func fold(lines []string) []string {
	var out []string
	for i := 0; i < len(lines); {
		block, times := repeated(lines[i:])
		out = append(out, lines[i:i+block]...)
		if times > 2 {
			out = append(out, fmt.Sprintf("       ... these %d lines %d times", block, times))
			i += block * times
		} else {
			i += block
		}
	}
	return out
}

// repeated finds the block of up to 4 lines that is repeated most at the start of lines, but for the time.
func repeated(lines []string) (block, times int) {
	block, times = 1, 1
	for size := 1; size <= 4 && size <= len(lines); size++ {
		n := 1
		for (n+1)*size <= len(lines) && slices.EqualFunc(lines[:size], lines[n*size:(n+1)*size], sameButTime) {
			n++
		}
		if n > 2 && n*size > block*times {
			block, times = size, n
		}
	}
	return block, times
}

func sameButTime(a, b string) bool {
	_, a, _ = strings.Cut(strings.TrimSpace(a), "  ")
	_, b, _ = strings.Cut(strings.TrimSpace(b), "  ")
	return a == b
}

// testCHI is an installation of one host with a claim of 2Gi.
func testCHI() *ClickHouseInstallation {
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	return &ClickHouseInstallation{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "a", UID: "uid-of-a", Generation: 2},
		Spec: Spec{
			Defaults:      Defaults{Templates: TemplateNames{DataVolumeClaimTemplate: "data"}},
			Configuration: Configuration{Clusters: []Cluster{{Name: "main", Layout: Layout{ShardsCount: 1, ReplicasCount: 1}}}},
			Templates: Templates{VolumeClaimTemplates: []VolumeClaimTemplate{{
				Name: "data",
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: storage},
				},
			}}},
		},
	}
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// logSink writes log lines among the calls.
type logSink struct{ stage *stage }

func (s *logSink) Init(logr.RuntimeInfo)               {}
func (s *logSink) Enabled(int) bool                    { return true }
func (s *logSink) Info(_ int, msg string, _ ...any)    { s.stage.note("log   %s", msg) }
func (s *logSink) Error(_ error, msg string, _ ...any) { s.stage.note("error %s", msg) }
func (s *logSink) WithValues(...any) logr.LogSink      { return s }
func (s *logSink) WithName(string) logr.LogSink        { return s }

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), write it anew with -update:\n%s", path, diff)
	}
}
