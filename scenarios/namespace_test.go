package scenarios_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// copier is an operator that copies the ConfigMap default/source to the namespace shop, and marks the source as copied.
type copier struct {
	client client.Client
	// givesUp is the bug: it takes a refusal of the server for final, and does not try again.
	givesUp bool
}

func (c *copier) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	source := &corev1.ConfigMap{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "source"}, source); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := c.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "copy"}, Data: source.Data,
	})
	terminating := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, nil
	case err != nil && c.givesUp && (terminating || apierrors.IsNotFound(err)):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// register adds the operator in both forms.
func registerCopier(r *scenarios.Registry) {
	for name, givesUp := range map[string]bool{"copier/buggy": true, "copier/fixed": false} {
		r.Add(name, scenarios.Reconciler{Doc: "copies a ConfigMap", Program: func(scenarios.ProgramOptions) sim.Program {
			toSource := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "default", Name: "source"}}}
			})
			return simclient.Reconcilers(clientgoscheme.Scheme, simclient.Reconciler{
				Name: "copier", For: &corev1.ConfigMap{},
				Watches: []simclient.Watch{{Object: &corev1.ConfigMap{}, Handler: toSource}},
				New: func(d sim.Deps) (reconcile.Reconciler, error) {
					return &copier{client: d.Client, givesUp: givesUp}, nil
				},
			})
		}})
	}
}

const namespaceScenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: recreated-namespace}
spec:
  given: [{path: objects.yaml}]
  controllers:
  - {name: operator, reconciler: copier/buggy}
  racers:
  - {name: gc, type: GarbageCollector}
  - {name: namespaces, type: NamespaceController}
  script:
  - delete: {kind: Namespace, name: shop}
  - create: {path: namespace.yaml}
    retryWhile: AlreadyExists
  variables:
  - {name: copy, object: {kind: ConfigMap, namespace: shop, name: copy}}
  - {name: shop, object: {kind: Namespace, name: shop}}
  properties:
  - name: copied
    type: Terminal
    rule: copy != null
  - name: namespace-is-back
    type: Terminal
    rule: shop != null && shop.status.phase == 'Active'
  - name: nothing-without-a-namespace
    type: Terminal
    rule: copy == null || shop != null
  - name: was-terminating
    type: Sometimes
    rule: shop != null && shop.status.phase == 'Terminating'
`

// namespaceFiles are the files that namespaceScenario names.
var namespaceFiles = map[string]string{
	"namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
	"objects.yaml": `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: source, namespace: default}, data: {k: v}}
`,
}

// TestRecreatedNamespace deletes the namespace of an operator's object and creates it again. The operator must not give up when
// it is refused: nothing will tell it that the namespace is there again.
func TestRecreatedNamespace(t *testing.T) {
	files := fstest.MapFS{"scenario.yaml": {Data: []byte(namespaceScenario)}}
	for name, content := range namespaceFiles {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	var registry scenarios.Registry
	registerCopier(&registry)
	scenario, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{Registry: &registry})
	if err != nil {
		t.Fatal(err)
	}
	for variant, broken := range map[string]string{"copier/buggy": "copied", "copier/fixed": ""} {
		config, err := scenario.Config(&registry, map[string]string{"operator": variant})
		if err != nil {
			t.Fatal(err)
		}
		world, err := sim.NewWorld(config)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range int64(20) {
			plan := sim.Plan{Seed: seed}
			if seed > 0 {
				plan.Strategy = explore.NewWalk(seed)
			}
			h, err := world.Run(plan)
			if err != nil {
				t.Fatal(err)
			}
			checkRecreated(t, variant, seed, broken, h)
		}
	}
}

func checkRecreated(t *testing.T, variant string, seed int64, broken string, h *history.History) {
	t.Helper()
	if h.Outcome != history.Terminal {
		t.Errorf("%s, seed %d: %s: %s", variant, seed, h.Outcome, h.Reason)
	}
	var names []string
	for _, verdict := range h.Broken() {
		names = append(names, verdict.Property.Name)
	}
	if got := strings.Join(names, " "); got != broken {
		t.Errorf("%s, seed %d: broken %q, want %q", variant, seed, got, broken)
	}
	if len(h.Gaps) != 0 {
		t.Errorf("%s, seed %d: gaps %q", variant, seed, h.Gaps)
	}
	refused := false
	for _, record := range h.Records {
		refused = refused || record.Event.Actor == "operator" && record.Code == 403
	}
	if !refused {
		t.Errorf("%s, seed %d: the operator was never refused: the namespace was not seen terminating", variant, seed)
	}
}
