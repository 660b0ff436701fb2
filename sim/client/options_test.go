package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRefusedOptions checks what a manager does not start with.
func TestRefusedOptions(t *testing.T) {
	byObject := func(obj ctrlclient.Object, o ctrlcache.ByObject) ctrl.Options {
		return ctrl.Options{Cache: ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{obj: o}}}
	}
	tests := []struct {
		name    string
		options ctrl.Options
		want    string
	}{
		{"NewCache", ctrl.Options{NewCache: ctrlcache.New}, "manager: ctrl.Options.NewCache: a simulated manager makes its own cache"},
		{"NewClient", ctrl.Options{NewClient: func(*rest.Config, ctrlclient.Options) (ctrlclient.Client, error) { return nil, nil }},
			"manager: ctrl.Options.NewClient: a simulated manager makes its own client"},
		{"NewInformer", ctrl.Options{Cache: ctrlcache.Options{
			NewInformer: func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
				return nil
			},
		}}, "manager: ctrl.Options.Cache.NewInformer: a simulated manager makes its own informers"},
		{"Reader", ctrl.Options{Client: ctrlclient.Options{Cache: &ctrlclient.CacheOptions{Reader: ctrlclient.Reader(nil)}}}, ""},
		{"namespaces of what has none", byObject(&corev1.Node{}, ctrlcache.ByObject{Namespaces: map[string]ctrlcache.Config{"a": {}}}),
			"manager: cache: type *v1.Node is not namespaced, but its ByObject.Namespaces setting is not nil"},
		{"unknown kind", byObject(&flowcontrolv1.FlowSchema{}, ctrlcache.ByObject{}),
			"manager: cache: failed to determine if *v1.FlowSchema is namespaced: no matches for kind"},
		{"ignored", ctrl.Options{HealthProbeBindAddress: ":1", LeaderElection: true, Cache: ctrlcache.Options{HTTPClient: &http.Client{}}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := withOptions(newConfig(nil), func(ctrl.Manager) error { return nil }, client.WithOptions(test.options))
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = world.Run(sim.Plan{})
			var failed *sim.ProgramError
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &failed) || !strings.HasPrefix(failed.Err.Error(), test.want)) {
				t.Errorf("error is %v, want one that begins %q", err, test.want)
			}
		})
	}
}

// TestRefusedList checks an informer whose list the server refuses, as it has no such field selector: it never has its list, its
// handler of watch errors hears why, and a read waits for it until its context ends.
func TestRefusedList(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		setup := func(m ctrl.Manager) error {
			return m.Add(runnable(func(ctx context.Context) {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				d.write("%v", m.GetClient().Get(short, key("s"), &corev1.Secret{}))
				d.write("%v", m.GetClient().Get(ctx, key("a"), &corev1.ConfigMap{}))
			}))
		}
		options := ctrl.Options{Cache: ctrlcache.Options{
			ByObject: map[ctrlclient.Object]ctrlcache.ByObject{&corev1.Secret{}: {Field: fields.OneTermEqualSelector("data.x", "1")}},
			DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
				d.write("watch error: %v", err)
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
			},
		}}
		return withOptions(newConfig(nil, configMap("a")), setup, client.WithOptions(options))
	}, `watch error: field label not supported: data.x`,
		"Timeout: failed waiting for *v1.Secret Informer to sync", "<nil>")
}

// TestControllerOptions checks that the manager's options of controllers count.
func TestControllerOptions(t *testing.T) {
	options := ctrl.Options{Controller: config.Controller{MaxConcurrentReconciles: 2, UsePriorityQueue: new(false)}}
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		setup := func(m ctrl.Manager) error {
			o := m.GetControllerOptions()
			d.write("%d %v %v", o.MaxConcurrentReconciles, *o.UsePriorityQueue, *o.SkipNameValidation)
			waiting := 0
			return forConfigMaps(m, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				waiting++
				d.write("%d at once", waiting)
				time.Sleep(time.Second)
				waiting--
				return ctrl.Result{}, nil
			})
		}
		return withOptions(newConfig(nil, configMap("a"), configMap("b")), setup, client.WithOptions(options))
	}, "2 false true", "1 at once", "2 at once")
}

// TestNamespacesLagApart checks that each namespace of a cache has a cursor of its own (C1), and that a list of all of them shows
// each at its own moment.
func TestNamespacesLagApart(t *testing.T) {
	options := ctrl.Options{Cache: ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{"default": {}, "other": {}}}}
	plan := sim.Plan{Faults: []schedule.Fault{{
		Type: schedule.CacheLag, Params: schedule.Params{For: 10 * time.Second},
		At: schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Deliver, Kind: "ConfigMap", Namespace: "other",
			Name: "a", Occurrence: 1},
	}}}
	h := expect(t, plan, func(d *diary) *sim.Config {
		setup := func(m ctrl.Manager) error {
			if err := hear(m, d, "heard", &corev1.ConfigMap{}); err != nil {
				return err
			}
			return script(m, func(ctx context.Context, c ctrlclient.Client) error {
				d.write("-")
				show := func() error {
					cms := &corev1.ConfigMapList{}
					err := c.List(ctx, cms)
					var values []string
					for _, cm := range cms.Items {
						values = append(values, cm.Namespace+"="+cm.Data["n"])
					}
					d.write("%s", strings.Join(values, " "))
					return err
				}
				return inTurn(
					func() error { return c.Update(ctx, in("other", configMap("a", "n=2"))) },
					func() error { return c.Update(ctx, configMap("a", "n=2")) },
					show, func() error { time.Sleep(10 * time.Second); return nil }, show)
			})
		}
		return withOptions(faulty(newConfig(nil, configMap("a", "n=1"), in("other", configMap("a", "n=1")))), setup, client.WithOptions(options))
	},
		`heard: added *v1.ConfigMap "" default/a labels=map[] annotations=map[] data=map[n:1] initial=true`,
		`heard: added *v1.ConfigMap "" other/a labels=map[] annotations=map[] data=map[n:1] initial=true`,
		"-",
		`heard: updated *v1.ConfigMap "" default/a labels=map[] annotations=map[] data=map[n:1] to `+
			`*v1.ConfigMap "" default/a labels=map[] annotations=map[] data=map[n:2] same=false`,
		"default=2 other=1",
		`heard: updated *v1.ConfigMap "" other/a labels=map[] annotations=map[] data=map[n:1] to `+
			`*v1.ConfigMap "" other/a labels=map[] annotations=map[] data=map[n:2] same=false`,
		"default=2 other=2")
	synced := called(h, schedule.Sync)
	for _, want := range []string{"Sync ConfigMap source 2 in default", "Sync ConfigMap source 2 in other"} {
		if !slices.Contains(synced, want) {
			t.Errorf("%q is not among %q", want, synced)
		}
	}
}
