package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The paths that ctrl.NewWebhookManagedBy registers a ConfigMap's webhooks at.
const (
	mutatePath   = "/mutate--v1-configmap"
	validatePath = "/validate--v1-configmap"
)

// hookRules are for writes of a resource.
func hookRules(resource string) []registrationv1.RuleWithOperations {
	return []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}}
}

// service is what a kubebuilder project writes into config/webhook/manifests.yaml. There is no such Service.
func service(path string) registrationv1.WebhookClientConfig {
	return registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{
		Namespace: "system", Name: "webhook-service", Path: &path,
	}}
}

func mutatingConfiguration(edits ...func(*registrationv1.MutatingWebhook)) *registrationv1.MutatingWebhookConfiguration {
	hook := registrationv1.MutatingWebhook{
		Name: "mconfigmap-v1.kb.io", ClientConfig: service(mutatePath), Rules: hookRules("configmaps"),
		SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}
	for _, edit := range edits {
		edit(&hook)
	}
	return &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mutating-webhook-configuration"}, Webhooks: []registrationv1.MutatingWebhook{hook},
	}
}

func validatingConfiguration() *registrationv1.ValidatingWebhookConfiguration {
	return &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "validating-webhook-configuration"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "vconfigmap-v1.kb.io", ClientConfig: service(validatePath), Rules: hookRules("configmaps"),
			SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// configMapHooks are the webhooks of an operator, as kubebuilder scaffolds them.
type configMapHooks struct {
	fill   func(context.Context, *corev1.ConfigMap) error
	object func(context.Context, *corev1.ConfigMap) error
}

func (h *configMapHooks) Default(ctx context.Context, obj *corev1.ConfigMap) error {
	return h.fill(ctx, obj)
}

func (h *configMapHooks) ValidateCreate(ctx context.Context, obj *corev1.ConfigMap) (admission.Warnings, error) {
	return admission.Warnings{"think twice"}, h.object(ctx, obj)
}

func (h *configMapHooks) ValidateUpdate(ctx context.Context, _, obj *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, h.object(ctx, obj)
}

func (h *configMapHooks) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

func fine(context.Context, *corev1.ConfigMap) error { return nil }

// serving sets up an operator that serves the webhooks, and does something with each ConfigMap that is labelled "start".
func serving(hooks *configMapHooks, start func(context.Context, ctrlclient.Client) error) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		err := ctrl.NewWebhookManagedBy(m, &corev1.ConfigMap{}).WithDefaulter(hooks).WithValidator(hooks).Complete()
		return errors.Join(err, forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			if request.Name != "start" {
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, start(ctx, m.GetClient())
		}))
	}
}

// TestWebhooks has an operator whose own webhooks are asked about what it creates.
func TestWebhooks(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		hooks := &configMapHooks{
			fill: func(_ context.Context, obj *corev1.ConfigMap) error {
				obj.Data = map[string]string{"filled": "by the webhook", "name": obj.Name}
				return nil
			},
			object: func(_ context.Context, obj *corev1.ConfigMap) error {
				if obj.Name == "bad" {
					return fmt.Errorf("no ConfigMap may be %s", obj.Data["name"])
				}
				return nil
			},
		}
		return newConfig(serving(hooks, func(ctx context.Context, c ctrlclient.Client) error {
			good, bad := configMap("good"), configMap("bad")
			d.write("%v", c.Create(ctx, good))
			d.write("%v", good.Data)
			err := c.Create(ctx, bad)
			d.write("%v %v", apierrors.IsForbidden(err), err)
			return nil
		}), mutatingConfiguration(), validatingConfiguration(), configMap("start"))
	}, "<nil>", "map[filled:by the webhook name:good]",
		`true admission webhook "vconfigmap-v1.kb.io" denied the request: no ConfigMap may be bad`)
	var called []string
	for _, r := range h.Records {
		called = append(called, r.Webhooks...)
	}
	const want = "[mconfigmap-v1.kb.io vconfigmap-v1.kb.io mconfigmap-v1.kb.io vconfigmap-v1.kb.io]"
	if got := fmt.Sprint(called); got != want || len(h.Gaps) > 0 {
		t.Errorf("called %s, want %s; gaps %v", got, want, h.Gaps)
	}
}

// TestWebhookCalls has webhooks that make calls themselves: by the manager's client, with and without the context they are
// given, from a cache that nobody has asked for before, and about objects of which they are asked in turn.
func TestWebhookCalls(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		hooks := &configMapHooks{object: fine}
		setup := serving(hooks, func(ctx context.Context, c ctrlclient.Client) error {
			created := configMap("outer")
			d.write("%v %v", c.Create(ctx, created), created.Data)
			return nil
		})
		return newConfig(func(m ctrl.Manager) error {
			hooks.fill = func(ctx context.Context, obj *corev1.ConfigMap) error {
				if obj.Name != "outer" {
					d.write("asked about %s", obj.Name)
					return nil
				}
				var secrets corev1.SecretList
				if err := m.GetClient().List(ctx, &secrets); err != nil {
					return err
				}
				obj.Data = map[string]string{"secrets": fmt.Sprint(len(secrets.Items))}
				err := m.GetAPIReader().Get(context.Background(), ctrlclient.ObjectKey{Namespace: "default", Name: "token"}, &corev1.Secret{})
				return errors.Join(err, m.GetClient().Create(ctx, configMap("inner")))
			}
			return setup(m)
		}, mutatingConfiguration(), validatingConfiguration(), configMap("start"), secret("token"))
	}, "asked about inner", "<nil> map[secrets:1]")
	var calls []string
	for _, r := range h.Records {
		if r.Event.Controller == "webhook" {
			calls = append(calls, fmt.Sprintf("%s %s %d", r.Event.Verb, r.Event.Object(), r.Code))
		}
	}
	want := []string{"CachedList Secret 0", "Get Secret default/token 200", "Create ConfigMap default/inner 201"}
	if strings.Join(calls, ", ") != strings.Join(want, ", ") {
		t.Errorf("the webhook called %q, want %q\n%s", calls, want, dump(h))
	}
}

// TestWebhookTimeouts has webhooks that take their time, in a sleep or by asking again and again.
func TestWebhookTimeouts(t *testing.T) {
	const slow = `Internal error occurred: failed calling webhook "mconfigmap-v1.kb.io": failed to call webhook: ` +
		`Post "https://webhook-service.system.svc:443/mutate--v1-configmap?timeout=%s": context deadline exceeded`
	tests := []struct {
		name string
		fill func(context.Context, ctrlclient.Client, *corev1.ConfigMap) error
		edit func(*registrationv1.MutatingWebhook)
		want []string
	}{
		{"in time", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) error {
			time.Sleep(9 * time.Second)
			return nil
		}, nil, []string{"9s <nil>"}},
		{"too late", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) error {
			time.Sleep(11 * time.Second)
			return nil
		}, nil, []string{"10s " + fmt.Sprintf(slow, "10s")}},
		{"too late for a timeout of its own", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) error {
			time.Sleep(2 * time.Second)
			return nil
		}, func(w *registrationv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(1)) }, []string{"1s " + fmt.Sprintf(slow, "1s")}},
		{"too late, and ignored", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) error {
			time.Sleep(11 * time.Second)
			return nil
		}, func(w *registrationv1.MutatingWebhook) { w.FailurePolicy = new(registrationv1.Ignore) }, []string{"10s <nil>"}},
		{"until nobody wants to know any more", func(ctx context.Context, _ ctrlclient.Client, _ *corev1.ConfigMap) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil, []string{"10s " + fmt.Sprintf(slow, "10s")}},
		{"asking itself", func(ctx context.Context, c ctrlclient.Client, obj *corev1.ConfigMap) error {
			if err := c.Create(ctx, configMap(obj.Name+"-")); err != nil {
				return errors.New("too deep") // or it would grow with every level
			}
			return nil
		}, nil, []string{`0s admission webhook "mconfigmap-v1.kb.io" denied the request: too deep`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, sim.Plan{}, func(d *diary) *sim.Config {
				hooks := &configMapHooks{object: fine}
				setup := serving(hooks, func(ctx context.Context, c ctrlclient.Client) error {
					begin := time.Now()
					err := c.Create(ctx, configMap("a"))
					d.write("%s %v", time.Since(begin).Truncate(time.Second), err)
					return nil
				})
				configuration := mutatingConfiguration()
				if test.edit != nil {
					test.edit(&configuration.Webhooks[0])
				}
				return newConfig(func(m ctrl.Manager) error {
					hooks.fill = func(ctx context.Context, obj *corev1.ConfigMap) error { return test.fill(ctx, m.GetClient(), obj) }
					return setup(m)
				}, configuration, configMap("start"))
			}, test.want...)
		})
	}
}

// TestWebhookPanic: a panic in a webhook is a finding, like that of a reconciler.
func TestWebhookPanic(t *testing.T) {
	h, _ := play(t, sim.Plan{}, func(*diary) *sim.Config {
		hooks := &configMapHooks{object: fine, fill: func(context.Context, *corev1.ConfigMap) error { panic("oh") }}
		return newConfig(serving(hooks, func(ctx context.Context, c ctrlclient.Client) error {
			return c.Create(ctx, configMap("a"))
		}), mutatingConfiguration(), configMap("start"))
	})
	if h.Outcome != history.Panicked || !strings.HasPrefix(h.Panic, "operator: oh\n") {
		t.Errorf("outcome %s, panic %q", h.Outcome, h.Panic)
	}
}

// TestWebhookOfCrashedProcess has one process whose webhooks are asked about what another one writes: while it is down they are
// not reached.
func TestWebhookOfCrashedProcess(t *testing.T) {
	const down = `Internal error occurred: failed calling webhook "mconfigmap-v1.kb.io": failed to call webhook: ` +
		`Post "https://webhook-service.system.svc:443/mutate--v1-configmap?timeout=10s": ` +
		`dial tcp 10.96.0.2:443: connect: connection refused`
	crash := schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.BeforeCall, For: 5 * time.Second},
		At: schedule.Event{Actor: "hooks", Incarnation: 1, Key: "default/start", Verb: schedule.Get, Kind: "Secret",
			Namespace: "default", Name: "token", Occurrence: 1}}
	scenario := func(d *diary) *sim.Config {
		hooks := &configMapHooks{object: fine, fill: func(_ context.Context, obj *corev1.ConfigMap) error {
			obj.Data = map[string]string{"filled": "yes"}
			return nil
		}}
		config := newConfig(func(m ctrl.Manager) error {
			return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				if request.Name != "start" {
					return ctrl.Result{}, nil
				}
				for range 3 {
					time.Sleep(3 * time.Second)
					obj := configMap("a")
					obj.Name, obj.GenerateName = "", "a-"
					err := m.GetClient().Create(ctx, obj)
					d.write("%s %v %v", at().Truncate(time.Second), obj.Data, err)
				}
				return ctrl.Result{}, nil
			})
		}, mutatingConfiguration(), configMap("start"), secret("token"))
		other := newConfig(func(m ctrl.Manager) error {
			err := ctrl.NewWebhookManagedBy(m, &corev1.ConfigMap{}).WithDefaulter(hooks).Complete()
			return errors.Join(err, forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				return ctrl.Result{}, m.GetAPIReader().Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "token"}, &corev1.Secret{})
			}))
		}).Processes[0]
		other.Name = "hooks"
		config.Processes = append(config.Processes, other)
		config.NewReactor = reactors.New
		return config
	}
	expect(t, sim.Plan{Faults: []schedule.Fault{crash}}, scenario,
		"3s map[] "+down, "6s map[filled:yes] <nil>", "9s map[filled:yes] <nil>")
}

// TestWebhookFaults has faults at a webhook's own calls, and in its place.
func TestWebhookFaults(t *testing.T) {
	scenario := func(d *diary) *sim.Config {
		hooks := &configMapHooks{object: fine}
		setup := serving(hooks, func(ctx context.Context, c ctrlclient.Client) error {
			begin := time.Now()
			err := c.Create(ctx, configMap("a"))
			d.write("%s %v", time.Since(begin).Truncate(time.Second), err)
			return nil
		})
		config := newConfig(func(m ctrl.Manager) error {
			hooks.fill = func(ctx context.Context, obj *corev1.ConfigMap) error {
				if obj.Name != "a" {
					return nil
				}
				return m.GetAPIReader().Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "token"}, &corev1.Secret{})
			}
			return setup(m)
		}, mutatingConfiguration(), validatingConfiguration(), configMap("start"), secret("token"))
		config.NewReactor = reactors.New
		return config
	}
	get := schedule.Event{Actor: "operator", Incarnation: 1, Controller: "webhook", Verb: schedule.Get, Kind: "Secret",
		Namespace: "default", Name: "token", Occurrence: 1}
	create := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/start", Verb: schedule.Create, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 1}
	const failed = `Internal error occurred: failed calling webhook "mconfigmap-v1.kb.io": failed to call webhook: ` +
		`Post "https://webhook-service.system.svc:443/mutate--v1-configmap?timeout=10s": `
	for _, test := range []struct {
		name  string
		fault schedule.Fault
		want  []string
	}{
		{"an error", schedule.Fault{Type: schedule.Forbidden, At: get}, []string{`0s admission webhook "mconfigmap-v1.kb.io" denied ` +
			`the request: secrets "token" is forbidden: User "system:serviceaccount:default:operator" cannot get resource "secrets" ` +
			`in API group "" in the namespace "default"`}},
		{"one that client-go tries again", schedule.Fault{Type: schedule.TooManyRequests, At: get}, []string{"1s <nil>"}},
		{"a delay", schedule.Fault{Type: schedule.Delay, At: get, Params: schedule.Params{For: 4 * time.Second}}, []string{"4s <nil>"}},
		{"a late answer", schedule.Fault{Type: schedule.Delay, At: get,
			Params: schedule.Params{For: 4 * time.Second, Point: schedule.AfterCommit}}, []string{"4s <nil>"}},
		{"a long delay", schedule.Fault{Type: schedule.Delay, At: get}, []string{"10s " + failed + "context deadline exceeded"}},
		{"a webhook that is away", schedule.Fault{Type: schedule.WebhookFailure, At: create},
			[]string{"0s " + failed + "dial tcp 10.96.0.2:443: connect: connection refused"}},
		{"a webhook that is slow", schedule.Fault{Type: schedule.WebhookFailure, At: create,
			Params: schedule.Params{Means: schedule.DeadlineExceeded}}, []string{"10s " + failed + "context deadline exceeded"}},
		{"another webhook", schedule.Fault{Type: schedule.WebhookDenial, At: create, Params: schedule.Params{Webhook: "vconfigmap-v1.kb.io"}},
			[]string{`0s admission webhook "vconfigmap-v1.kb.io" denied the request: the object is refused by a fault of the simulation`}},
		// The process that asks is the one that is asked, and both die.
		{"a crash", schedule.Fault{Type: schedule.Crash, At: get}, []string{"0s <nil>"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := expect(t, sim.Plan{Faults: []schedule.Fault{test.fault}}, scenario, test.want...)
			if !h.Faults[0].Struck {
				t.Error("the fault did not strike")
			}
		})
	}
}

// TestWebhookReplays has random walks through runs in which webhooks make calls of their own, and repeats each by its trace.
func TestWebhookReplays(t *testing.T) {
	config := func() *sim.Config {
		hooks := &configMapHooks{object: fine}
		return newConfig(func(m ctrl.Manager) error {
			hooks.fill = func(ctx context.Context, obj *corev1.ConfigMap) error {
				if obj.GenerateName == "" {
					return nil
				}
				var all corev1.ConfigMapList
				if err := m.GetAPIReader().List(ctx, &all); err != nil {
					return err
				}
				obj.Data = map[string]string{"n": fmt.Sprint(len(all.Items))}
				return m.GetAPIReader().Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "token"}, &corev1.Secret{})
			}
			err := ctrl.NewWebhookManagedBy(m, &corev1.ConfigMap{}).WithDefaulter(hooks).WithValidator(hooks).Complete()
			reconciler := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				if len(request.Name) > 1 {
					return ctrl.Result{}, nil
				}
				made := configMap("")
				made.GenerateName = request.Name + "-"
				return ctrl.Result{}, m.GetClient().Create(ctx, made)
			}
			return errors.Join(err, ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
				WithOptions(controller.Options{MaxConcurrentReconciles: 3}).Complete(reconcile.Func(reconciler)))
		}, mutatingConfiguration(), configMap("a"), configMap("b"), configMap("c"), secret("token"))
	}
	world, err := sim.NewWorld(config())
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[uint64]bool{}
	for seed := range int64(20) {
		h, err := world.Run(sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed), Record: true})
		if err != nil {
			t.Fatal(err)
		}
		hashes[h.Hash] = true
		exact := sim.NewTraceStrategy(h.Trace)
		again, err := world.Run(sim.Plan{Strategy: exact, Record: true})
		if err != nil {
			t.Fatal(err)
		}
		if again.Hash != h.Hash || exact.Diverged() != "" {
			t.Errorf("seed %d: hash %x, want %x; diverged: %q\n%s", seed, again.Hash, h.Hash, exact.Diverged(), firstDifference(h, again))
		}
	}
	if len(hashes) < 5 {
		t.Errorf("%d different histories", len(hashes))
	}
}
