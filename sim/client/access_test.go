package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// allowed gives the process rules of the form "verb,verb resource,resource", all in the core group, everywhere.
func allowed(t *testing.T, config *sim.Config, rules ...string) *sim.Config {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}
	for _, text := range rules {
		verbs, resources, _ := strings.Cut(text, " ")
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{""}, Verbs: strings.Split(verbs, ","), Resources: strings.Split(resources, ","),
		})
	}
	policy, err := rbac.New(role)
	if err != nil {
		t.Fatal(err)
	}
	config.Processes[0].Access, err = policy.For(types.NamespacedName{Namespace: "system"}, "operator")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// patches is a user who patches ConfigMap a, at a time since the script began.
func patches(at time.Duration, patch string) []sim.RacerConfig {
	return []sim.RacerConfig{{Name: "user", WithScript: true, New: func() sim.Racer {
		return racer.NewUser(racer.UserOptions{Steps: []racer.UserStep{{
			At: at, Patch: &racer.UserPatch{Kind: "ConfigMap", Namespace: "default", Name: "a", Data: []byte(patch)},
		}}})
	}}}
}

// TestForbiddenWrite checks that a process gets 403 for what its roles do not allow, that the history says what is missing,
// and that others are not concerned.
func TestForbiddenWrite(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		config := newConfig(func(m ctrl.Manager) error {
			return forConfigMaps(m, func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
				cm := &corev1.ConfigMap{}
				if err := m.GetClient().Get(ctx, r.NamespacedName, cm); err != nil {
					return ctrl.Result{}, err
				}
				cm.Data = map[string]string{"by": "operator"}
				err := m.GetClient().Update(ctx, cm)
				d.write("%t %v", apierrors.IsForbidden(err), err)
				return ctrl.Result{}, nil
			})
		}, configMap("a"))
		config.Racers = patches(time.Second, `{"data":{"x":"y"}}`)
		return allowed(t, config, "get,list,watch configmaps")
	},
		`true configmaps "a" is forbidden: User "system:serviceaccount:system:operator" cannot update resource "configmaps" `+
			`in API group "" in the namespace "default"`,
		`true configmaps "a" is forbidden: User "system:serviceaccount:system:operator" cannot update resource "configmaps" `+
			`in API group "" in the namespace "default"`)
	want := []history.Denial{{
		Actor: "operator", Rule: `{apiGroups: [""], resources: ["configmaps"], verbs: ["update"]} in namespace "default"`, Requests: 2,
	}}
	if len(h.Denied) == 1 {
		want[0].Record = h.Denied[0].Record
		if r := h.Records[h.Denied[0].Record]; r.Code != 403 || r.Event.Verb != schedule.Update {
			t.Errorf("the record is %s, answered with %d", r.Event, r.Code)
		}
	}
	if !slices.Equal(h.Denied, want) {
		t.Errorf("denied: %+v, want %+v", h.Denied, want)
	}
}

// reading sets up a controller of ConfigMaps that reads a secret from the cache.
func reading(d *diary, timeout time.Duration) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		return forConfigMaps(m, func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			d.write("reads at %s", at().Round(time.Second))
			err := m.GetClient().Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "s"}, &corev1.Secret{})
			if timeout > 0 { // else the process has ended before it returned
				d.write("read at %s: %v", at().Round(time.Second), err)
			}
			return ctrl.Result{}, nil
		})
	}
}

// TestForbiddenInformer checks that an informer which may neither list nor watch never has its list: a cached read blocks for
// as long as its context lasts.
func TestForbiddenInformer(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return allowed(t, newConfig(reading(d, 0), configMap("a"), secret("s")), "get,list,watch configmaps", "get secrets")
	}, "reads at 0s")
	var rules []string
	for _, d := range h.Denied {
		rules = append(rules, d.Rule)
		if r := h.Records[d.Record]; d.Requests != 1 || r.Code != 403 {
			t.Errorf("%s: asked %d times, answered with %d", d.Rule, d.Requests, r.Code)
		}
	}
	want := []string{
		`{apiGroups: [""], resources: ["secrets"], verbs: ["list"]} in all namespaces`,
		`{apiGroups: [""], resources: ["secrets"], verbs: ["watch"]} in all namespaces`,
	}
	if !slices.Equal(rules, want) {
		t.Errorf("denied %q, want %q", rules, want)
	}
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return allowed(t, newConfig(reading(d, time.Minute), configMap("a"), secret("s")), "get,list,watch configmaps")
	}, "reads at 0s", "read at 1m0s: Timeout: failed waiting for *v1.Secret Informer to sync")
}

// TestForbiddenSource checks that a controller gives up which waits for an informer that it may not have: CacheSyncTimeout of
// controller-runtime. The error says which right is missing.
func TestForbiddenSource(t *testing.T) {
	config := newConfig(func(m ctrl.Manager) error {
		return forConfigMaps(m, func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	}, configMap("a"))
	world, err := sim.NewWorld(allowed(t, config, "get configmaps"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = world.Run(sim.Plan{})
	if _, ok := errors.AsType[*sim.ProgramError](err); !ok {
		t.Fatalf("%v, want a program that does not start", err)
	}
	for _, part := range []string{
		"timed out waiting for cache to be synced for kind source: *v1.ConfigMap",
		`its roles lack {apiGroups: [""], resources: ["configmaps"], verbs: ["list"]} in all namespaces; ` +
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["watch"]} in all namespaces`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nlacks %s", err, part)
		}
	}
}

// watching sets up a controller that writes what it sees of a ConfigMap.
func watching(d *diary) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		return forConfigMaps(m, func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			cm := &corev1.ConfigMap{}
			err := m.GetClient().Get(ctx, r.NamespacedName, cm)
			d.write("%v %v at %s", cm.Data, err, at().Round(time.Second))
			return ctrl.Result{}, err
		})
	}
}

// TestHalfForbiddenInformer checks the informers that may do one of both: to watch is enough, as a watch begins with what
// exists; one that may only list sees changes when it lists again.
func TestHalfForbiddenInformer(t *testing.T) {
	scenario := func(rule string) func(d *diary) *sim.Config {
		return func(d *diary) *sim.Config {
			config := newConfig(watching(d), configMap("a", "k=1"))
			config.Racers = patches(10*time.Second, `{"data":{"k":"2"}}`)
			return allowed(t, config, rule)
		}
	}
	h := expect(t, sim.Plan{}, scenario("watch configmaps"), "map[k:1] <nil> at 0s", "map[k:2] <nil> at 10s")
	if len(h.Denied) > 0 || len(h.Gaps) != 1 || !strings.Contains(h.Gaps[0], "may watch ConfigMap but not list it") {
		t.Errorf("denied %v, gaps %q", h.Denied, h.Gaps)
	}
	h = expect(t, sim.Plan{}, scenario("list configmaps"), "map[k:1] <nil> at 0s", "map[k:2] <nil> at 30s")
	if len(h.Denied) != 1 || !strings.Contains(h.Denied[0].Rule, `verbs: ["watch"]`) {
		t.Errorf("denied %v", h.Denied)
	}
}

// TestAllowedChangesNothing checks that a process that may do everything it does has the history of one without roles.
func TestAllowedChangesNothing(t *testing.T) {
	scenario := func(d *diary) *sim.Config { return newConfig(watching(d), configMap("a", "k=1"), configMap("b")) }
	free := run(t, scenario(&diary{}), sim.Plan{})
	restricted := run(t, allowed(t, scenario(&diary{}), "get,list,watch configmaps"), sim.Plan{})
	if free.Hash != restricted.Hash {
		t.Error(firstDifference(free, restricted))
	}
}
