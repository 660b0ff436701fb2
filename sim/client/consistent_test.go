package client_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// withOptions makes the manager of a scenario anew, with options.
func withOptions(config *sim.Config, setup func(ctrl.Manager) error, options ...client.Option) *sim.Config {
	config.Processes[0].Program = client.Manager(scheme, setup, options...)
	return config
}

// duplicator makes a Secret unless its cache shows one, twice: by the book, but for the cache.
func duplicator(d *diary, options ...client.Option) *sim.Config {
	setup := func(m ctrl.Manager) error {
		return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			for range 2 {
				var secrets corev1.SecretList
				if err := m.GetClient().List(ctx, &secrets); err != nil || len(secrets.Items) > 0 {
					return ctrl.Result{}, err
				}
				s := secret("")
				s.GenerateName = "s-"
				if err := m.GetClient().Create(ctx, s); err != nil {
					return ctrl.Result{}, err
				}
				d.write("created one")
			}
			return ctrl.Result{}, nil
		})
	}
	return withOptions(newConfig(nil, configMap("a")), setup, options...)
}

// lagOfSecrets keeps the first event of Secrets from the cache until the second one has been made, or the hold ends.
var lagOfSecrets = sim.Plan{Constraints: []schedule.Constraint{{Order: &schedule.Order{
	Hold:  schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Deliver}, Kind: "Secret"},
	Until: schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Create}, Kind: "Secret", Occurrence: 2},
}}}}

// TestReadYourWrites checks that what a stale cache makes of an operator shows with a plain client, and not with one whose reads
// wait (C2): there the read is seen to wait until the cache has the write.
func TestReadYourWrites(t *testing.T) {
	scenario := func(options ...client.Option) func(*diary) *sim.Config {
		return func(d *diary) *sim.Config { return duplicator(d, options...) }
	}
	t.Run("plain", func(t *testing.T) {
		expect(t, sim.Plan{}, scenario(), "created one")
		expect(t, lagOfSecrets, scenario(), "created one", "created one")
	})
	t.Run("consistent", func(t *testing.T) {
		expect(t, sim.Plan{}, scenario(client.ReadYourWrites()), "created one")
		h := expect(t, lagOfSecrets, scenario(client.ReadYourWrites()), "created one")
		i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Verb == schedule.Await })
		if i < 0 {
			t.Fatalf("no read waits\n%s", dump(h))
		}
		if r := h.Records[i]; r.Event.String() != "operator(default/a) Await Secret #1" || r.Held < 100*time.Second {
			t.Errorf("%s waited for %s", r.Event, r.Held)
		}
		if c := h.Constraints[0]; !c.Held || c.Matched {
			t.Errorf("constraint: held %v, matched %v", c.Held, c.Matched)
		}
	})
}

// frozen keeps everything of a kind from the cache, for ever.
func frozen(kind, name string) sim.Plan {
	return sim.Plan{Faults: []schedule.Fault{watchFault(schedule.CacheLag, sim.Forever, kind, name, 1)}}
}

// ownWrites are writes of a Secret, with what a read then waits for: there is one before all of them but the first.
var ownWrites = []struct {
	name  string
	write func(context.Context, ctrlclient.Client) error
	want  string
}{
	{"create", func(ctx context.Context, c ctrlclient.Client) error { return c.Create(ctx, secret("s")) },
		"failed waiting to observe resource version 7"},
	{"update", func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, labelledSecret("s")) },
		"failed waiting to observe resource version 8"},
	{"patch", func(ctx context.Context, c ctrlclient.Client) error {
		return c.Patch(ctx, labelledSecret("s"), ctrlclient.MergeFrom(secret("s")))
	}, "failed waiting to observe resource version 8"},
	{"apply", func(ctx context.Context, c ctrlclient.Client) error {
		config := coreapply.Secret("s", "default").WithLabels(map[string]string{"l": "2"})
		return c.Apply(ctx, config, ctrlclient.FieldOwner("o"))
	}, "failed waiting to observe resource version 8"},
	{"delete", func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, secret("s")) },
		"failed waiting to observe deletes for uids [ID]"},
}

// readsInVain writes, and reads from a cache that is never told of it, for a second or for ever. It returns what the operator saw,
// and the UID of what was there before.
func readsInVain(t *testing.T, created, limited bool, write, read func(context.Context, ctrlclient.Client) error) (
	h *history.History, lines []string, uid string,
) {
	t.Helper()
	given := []apiserver.Object{configMap("a")}
	if !created {
		given = append(given, secret("s"))
	}
	h, lines = play(t, frozen("Secret", "s"), func(d *diary) *sim.Config {
		config := faulty(newConfig(nil, given...))
		config.Faults.HealAfter = sim.Forever
		return withOptions(config, func(m ctrl.Manager) error {
			return m.Add(runnable(func(ctx context.Context) {
				_, end := context.WithCancel(ctx)
				if limited {
					ctx, end = context.WithTimeout(ctx, time.Second)
				}
				defer end()
				s := &corev1.Secret{}
				_ = m.GetAPIReader().Get(ctx, key("s"), s)
				uid = string(s.UID)
				if err := write(ctx, m.GetClient()); err != nil {
					d.write("%v", err)
				}
				d.write("%v", read(ctx, m.GetClient()))
			}))
		}, client.ReadYourWrites())
	})
	return h, lines, uid
}

// TestFrozenCache checks reads that wait for what their cache is never told of: they end with their context, and where that has
// no end the verdict says what they wait for.
func TestFrozenCache(t *testing.T) {
	reads := map[string]func(context.Context, ctrlclient.Client) error{
		"get":  func(ctx context.Context, c ctrlclient.Client) error { return c.Get(ctx, key("s"), &corev1.Secret{}) },
		"list": func(ctx context.Context, c ctrlclient.Client) error { return c.List(ctx, &corev1.SecretList{}) },
	}
	for _, w := range ownWrites {
		for name, read := range reads {
			t.Run(w.name+" "+name+" for a second", func(t *testing.T) {
				h, lines, uid := readsInVain(t, w.name == "create", true, w.write, read)
				want := "failed to wait for cache to catch up: " + strings.ReplaceAll(w.want, "ID", uid) + ": context deadline exceeded"
				if !slices.Equal(lines, []string{want}) || len(h.Unfinished) > 0 {
					t.Errorf("the operator saw %q, want %q; unfinished %q\n%s", lines, want, h.Unfinished, dump(h))
				}
			})
			t.Run(w.name+" "+name+" for ever", func(t *testing.T) {
				h, lines, _ := readsInVain(t, w.name == "create", false, w.write, read)
				if len(lines) > 0 || len(h.Unfinished) != 1 || !strings.HasPrefix(h.Unfinished[0], "operator waits before a read of Secret") {
					t.Errorf("the operator saw %q; unfinished %q\n%s", lines, h.Unfinished, dump(h))
				}
			})
		}
	}
}

// TestConsistencyLimits checks where reads do not wait for own writes, or wait in vain, as with controller-runtime v0.25.2.
func TestConsistencyLimits(t *testing.T) {
	limited := func(ctx context.Context, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return f(ctx)
	}
	tests := []struct {
		name    string
		options []client.Option
		f       func(context.Context, ctrl.Manager) error
		want    string
	}{
		{"DeleteAllOf", nil, func(ctx context.Context, m ctrl.Manager) error {
			return m.GetClient().DeleteAllOf(ctx, &corev1.Secret{}, ctrlclient.InNamespace("default"))
		}, "DeleteAllOf is not supported by consistentClient, please use List and Delete instead"},
		{"another form", nil, func(ctx context.Context, m ctrl.Manager) error {
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			if err := m.GetClient().List(ctx, &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{
				APIVersion: "v1", Kind: "SecretList"}}); err != nil {
				return err
			}
			if err := m.GetClient().Create(ctx, secret("s")); err != nil {
				return err
			}
			return limited(ctx, func(ctx context.Context) error {
				return ctrlclient.IgnoreNotFound(m.GetClient().Get(ctx, key("s"), metadata))
			})
		}, "<nil>"},
		{"outside of the selector", []client.Option{client.WithOptions(ctrl.Options{Cache: ctrlcache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"cached": "yes"}),
		}})}, func(ctx context.Context, m ctrl.Manager) error {
			if err := m.GetClient().Create(ctx, secret("s")); err != nil {
				return err
			}
			return limited(ctx, func(ctx context.Context) error { return m.GetClient().Get(ctx, key("s"), &corev1.Secret{}) })
		}, "failed to wait for cache to catch up: failed waiting to observe resource version 6: context deadline exceeded"},
		{"another object", nil, func(ctx context.Context, m ctrl.Manager) error {
			if err := m.GetClient().Create(ctx, secret("s")); err != nil {
				return err
			}
			return limited(ctx, func(ctx context.Context) error { return m.GetClient().Get(ctx, key("t"), &corev1.Secret{}) })
		}, `Secret "t" not found`},
		{"delete of what is not there", nil, func(ctx context.Context, m ctrl.Manager) error {
			return m.GetClient().Delete(ctx, secret("s"))
		}, `failed to get Secret default/s to determine its uid: Secret "s" not found`},
		{"refused write", nil, func(ctx context.Context, m ctrl.Manager) error {
			wrong := secret("s")
			wrong.ResourceVersion = "1"
			_ = m.GetClient().Update(ctx, wrong)
			return limited(ctx, func(ctx context.Context) error { return m.GetClient().List(ctx, &corev1.SecretList{}) })
		}, "<nil>"},
		{"dry run", nil, func(ctx context.Context, m ctrl.Manager) error {
			return m.GetClient().Create(ctx, secret("s"), ctrlclient.DryRunAll)
		}, `failed to parse resource version : strconv.ParseInt: parsing "": invalid syntax`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, sim.Plan{}, func(d *diary) *sim.Config {
				setup := func(m ctrl.Manager) error {
					return m.Add(runnable(func(ctx context.Context) { d.write("%v", test.f(ctx, m)) }))
				}
				return withOptions(newConfig(nil), setup, append(test.options, client.ReadYourWrites())...)
			}, test.want)
		})
	}
}

// runnable runs a function when the manager has started.
type runnable func(context.Context)

// Start implements manager.Runnable.
func (r runnable) Start(ctx context.Context) error {
	r(ctx)
	return nil
}
