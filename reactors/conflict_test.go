package reactors_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// lockedCall is a write of an operator that has read the Secret "app", and whether it carries a lock.
type lockedCall struct {
	name   string
	verb   schedule.Verb
	locked bool
	call   func(context.Context, ctrlclient.Client, *corev1.Secret) error
}

func patching(patchType types.PatchType, patch func(*corev1.Secret) string) func(context.Context, ctrlclient.Client, *corev1.Secret) error {
	return func(ctx context.Context, c ctrlclient.Client, s *corev1.Secret) error {
		return c.Patch(ctx, s, ctrlclient.RawPatch(patchType, []byte(patch(s))))
	}
}

func updating(revision func(*corev1.Secret) string) func(context.Context, ctrlclient.Client, *corev1.Secret) error {
	return func(ctx context.Context, c ctrlclient.Client, s *corev1.Secret) error {
		s.Labels, s.ResourceVersion = map[string]string{"n": "1"}, revision(s)
		return c.Update(ctx, s)
	}
}

func deleting(options func(*corev1.Secret) ctrlclient.Preconditions) func(context.Context, ctrlclient.Client, *corev1.Secret) error {
	return func(ctx context.Context, c ctrlclient.Client, s *corev1.Secret) error {
		return c.Delete(ctx, s, options(s))
	}
}

func own(s *corev1.Secret) string   { return s.ResourceVersion }
func always0(*corev1.Secret) string { return "0" }
func nothing(*corev1.Secret) string { return "" }
func label(*corev1.Secret) string   { return `{"metadata":{"labels":{"n":"1"}}}` }
func nullLock(*corev1.Secret) string {
	return `{"metadata":{"labels":{"n":"1"},"resourceVersion":null}}`
}

func lockedLabel(s *corev1.Secret) string {
	return `{"metadata":{"labels":{"n":"1"},"resourceVersion":"` + s.ResourceVersion + `"}}`
}

func lockedOperation(op string) func(*corev1.Secret) string {
	return func(s *corev1.Secret) string {
		return `[{"op":"` + op + `","path":"/metadata/resourceVersion","value":"` + s.ResourceVersion +
			`"},{"op":"add","path":"/metadata/labels","value":{"n":"1"}}]`
	}
}

var lockedCalls = []lockedCall{
	{"update", schedule.Update, true, updating(own)},
	{"update without a revision", schedule.Update, false, updating(nothing)},
	{"update at revision 0", schedule.Update, false, updating(always0)},
	{"merge patch", schedule.Patch, false, patching(types.MergePatchType, label)},
	{"merge patch at any revision", schedule.Patch, false, patching(types.MergePatchType, nullLock)},
	{"merge patch with a lock", schedule.Patch, true, patching(types.MergePatchType, lockedLabel)},
	{"strategic patch with a lock", schedule.Patch, true, patching(types.StrategicMergePatchType, lockedLabel)},
	{"JSON patch", schedule.Patch, false, patching(types.JSONPatchType, func(*corev1.Secret) string {
		return `[{"op":"add","path":"/metadata/labels","value":{"n":"1"}}]`
	})},
	{"JSON patch with a lock", schedule.Patch, true, patching(types.JSONPatchType, lockedOperation("replace"))},
	{"delete", schedule.Delete, false, deleting(func(*corev1.Secret) ctrlclient.Preconditions { return ctrlclient.Preconditions{} })},
	{"delete of a UID", schedule.Delete, false, deleting(func(s *corev1.Secret) ctrlclient.Preconditions {
		return ctrlclient.Preconditions{UID: &s.UID}
	})},
	{"delete of a revision", schedule.Delete, true, deleting(func(s *corev1.Secret) ctrlclient.Preconditions {
		return ctrlclient.Preconditions{ResourceVersion: &s.ResourceVersion}
	})},
}

// conflicting makes the call in a run with a conflict, and returns what the operator saw of it, and whether the fault struck.
func (c *lockedCall) conflicting(t *testing.T, means schedule.Means) (status *metav1.Status, struck bool) {
	t.Helper()
	d := &diary{}
	h := d.try(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")}},
		d.once(func(ctx context.Context, live ctrlclient.Client) {
			found := &corev1.Secret{}
			err := live.Get(ctx, appKey, found)
			if err == nil {
				err = c.call(ctx, live, found)
			}
			var known apierrors.APIStatus
			switch {
			case errors.As(err, &known):
				s := known.Status()
				status = &s
			case err != nil:
				t.Error(err)
			}
		}), at(schedule.Conflict, c.verb, "Secret", schedule.Params{Means: means}))
	return status, h.Faults[0].Struck
}

// TestConflictsLikeTheServers checks that an injected conflict is, to the letter, the one that the server finds when somebody
// else really writes first; and that it strikes only where the server could find one.
func TestConflictsLikeTheServers(t *testing.T) {
	for _, test := range lockedCalls {
		t.Run(test.name, func(t *testing.T) {
			injected, struck := test.conflicting(t, schedule.Injected)
			if struck != test.locked || (injected != nil) != test.locked {
				t.Errorf("the injected conflict struck: %t, and the operator saw %+v; want both: %t", struck, injected, test.locked)
			}
			found, struck := test.conflicting(t, schedule.CompetingWrite)
			if !struck {
				t.Error("nobody wrote before")
			}
			if diff := cmp.Diff(found, injected); diff != "" {
				t.Errorf("the operator sees (-server's +injected):\n%s", diff)
			}
		})
	}
}

// TestNobodyCompetesForNothing checks that nobody writes what is not there.
func TestNobodyCompetesForNothing(t *testing.T) {
	d := &diary{}
	h := d.try(t, scenario{given: []apiserver.Object{configMap(nil)}}, d.once(func(ctx context.Context, live ctrlclient.Client) {
		d.write("%v", live.Delete(ctx, secret("app")))
	}), at(schedule.Conflict, schedule.Delete, "Secret", schedule.Params{Means: schedule.CompetingWrite}))
	d.expect(t, h, `0s secrets "app" not found`)
	if h.Faults[0].Struck {
		t.Error("it struck where there is no object")
	}
}

// TestNotFoundLikeTheServers checks that an injected 404 is, to the letter, the one of an object that is not there.
func TestNotFoundLikeTheServers(t *testing.T) {
	calls := map[schedule.Verb]func(context.Context, ctrlclient.Client) error{
		schedule.Get:    func(ctx context.Context, c ctrlclient.Client) error { return c.Get(ctx, appKey, &corev1.Secret{}) },
		schedule.Update: func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, secret("app")) },
		schedule.Delete: func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, secret("app")) },
		schedule.Patch: func(ctx context.Context, c ctrlclient.Client) error {
			return c.Patch(ctx, secret("app"), ctrlclient.RawPatch(types.MergePatchType, []byte(label(nil))))
		},
	}
	for verb, call := range calls {
		seen := func(faults []schedule.Fault, given ...apiserver.Object) (err error) {
			d := &diary{}
			d.run(t, scenario{given: append(given, configMap(nil))}, d.once(func(ctx context.Context, live ctrlclient.Client) {
				err = call(ctx, live)
			}), faults...)
			return err
		}
		servers := seen(nil)
		injected := seen([]schedule.Fault{at(schedule.NotFound, verb, "Secret", schedule.Params{})}, secret("app"))
		if diff := cmp.Diff(servers, injected); diff != "" || !apierrors.IsNotFound(injected) {
			t.Errorf("at a %s the operator sees (-server's +injected):\n%s", verb, diff)
		}
	}
}
