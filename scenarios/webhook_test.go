package scenarios_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// hookManifests are what controller-gen writes into config/webhook/manifests.yaml of a kubebuilder project.
const hookManifests = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: mutating-webhook-configuration
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: webhook-service
      namespace: system
      path: /mutate--v1-secret
  failurePolicy: Ignore
  name: msecret-v1.kb.io
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - secrets
  sideEffects: None
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: validating-webhook-configuration
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: webhook-service
      namespace: system
      path: /validate--v1-secret
  failurePolicy: Fail
  name: vsecret-v1.kb.io
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    resources:
    - secrets
  sideEffects: None
`

const hookScenario = `apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: webhooks}
spec:
  settle: false
  given:
  - path: config/webhook/manifests.yaml
  - path: app.yaml
  controllers:
  - {name: operator, reconciler: secrets/buggy}
  faults:
    healAfter: 10m
    rules:
    - {name: denied, type: WebhookDenial, match: {actor: operator}}
    - {name: away, type: WebhookFailure, webhookFailure: {webhook: msecret-v1.kb.io, as: [ConnectionRefused, DeadlineExceeded]}}
    - {name: policy, type: WebhookDenial, webhookDenial: {webhook: policy.example.com}, match: {kind: Secret}}
  variables:
  - {name: secret, object: {kind: Secret, name: app}}
  properties:
  - {name: a-secret, type: Terminal, rule: secret != null}
  - {name: with-a-token, type: Terminal, rule: secret == null || has(secret.data) && "token" in secret.data}
`

// hookFiles are the files that hookScenario names.
var hookFiles = map[string]string{
	"config/webhook/manifests.yaml": hookManifests,
	"app.yaml":                      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n",
}

// secretHooks fill Secrets, and want those with a token only.
type secretHooks struct{}

func (secretHooks) Default(_ context.Context, s *corev1.Secret) error {
	if s.Data == nil {
		s.Data = map[string][]byte{"token": []byte("secret")}
	}
	return nil
}

func (secretHooks) ValidateCreate(_ context.Context, s *corev1.Secret) (admission.Warnings, error) {
	if s.Data["token"] == nil && s.Labels["bare"] == "" {
		return nil, errors.New("no token")
	}
	return nil, nil
}

func (secretHooks) ValidateUpdate(context.Context, *corev1.Secret, *corev1.Secret) (admission.Warnings, error) {
	return nil, nil
}
func (secretHooks) ValidateDelete(context.Context, *corev1.Secret) (admission.Warnings, error) {
	return nil, nil
}

// secretOperator creates a Secret for every ConfigMap. The buggy one takes every refusal for final.
func secretOperator(buggy bool) scenarios.Reconciler {
	return scenarios.Reconciler{Doc: "creates Secrets", Program: func(o scenarios.ProgramOptions) sim.Program {
		return client.Manager(o.Scheme, func(m ctrl.Manager) error {
			err := ctrl.NewWebhookManagedBy(m, &corev1.Secret{}).WithDefaulter(secretHooks{}).WithValidator(secretHooks{}).Complete()
			reconciler := func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
				err := m.GetClient().Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}})
				if buggy && apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
					return ctrl.Result{}, nil
				}
				return ctrl.Result{}, err
			}
			return errors.Join(err, ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(reconcile.Func(reconciler)))
		})
	}}
}

// TestWebhookScenario runs a scenario whose webhooks are those of its operator, with faults at them.
func TestWebhookScenario(t *testing.T) {
	registry := &scenarios.Registry{}
	registry.Add("secrets/buggy", secretOperator(true))
	registry.Add("secrets/fixed", secretOperator(false))
	files := fstest.MapFS{"scenario.yaml": {Data: []byte(hookScenario)}}
	for name, content := range hookFiles {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	s, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	for reconciler, want := range map[string][]string{"secrets/buggy": {"WebhookDenial", "WebhookDenial"}, "secrets/fixed": nil} {
		config, err := s.Config(registry, map[string]string{"operator": reconciler})
		if err != nil {
			t.Fatal(err)
		}
		result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 40})
		if err != nil {
			t.Fatal(err)
		}
		if broken := result.Default.Broken(); len(broken) > 0 {
			t.Fatalf("%s: broken without a fault: %v", reconciler, broken)
		}
		records := result.Default.Records
		create := records[slices.IndexFunc(records, func(r history.Record) bool { return r.Event.Kind == "Secret" })]
		if got := strings.Join(create.Webhooks, " "); got != "msecret-v1.kb.io vsecret-v1.kb.io" {
			t.Errorf("the default order calls %s", got)
		}
		_, faults := explore.Candidates(result.Default, config)
		var sites []string
		for _, fault := range faults {
			sites = append(sites, fault.String())
		}
		const at = " at operator(default/app) Create Secret default/app #1"
		wantSites := []string{"WebhookDenial" + at, "WebhookFailure ConnectionRefused of msecret-v1.kb.io" + at,
			"WebhookFailure DeadlineExceeded of msecret-v1.kb.io" + at, "WebhookDenial of policy.example.com" + at}
		if !slices.Equal(sites, wantSites) {
			t.Errorf("sites are %q, want %q", sites, wantSites)
		}
		var found []string
		for _, f := range result.Findings {
			if f.Schedule == nil || len(f.Schedule.Faults) != 1 {
				t.Errorf("%s is found by %+v", f.Signature, f.Schedule)
				continue
			}
			found = append(found, string(f.Schedule.Faults[0].Type))
		}
		if len(want) == 0 != (len(found) == 0) || len(found) > 0 && !slices.Contains(want, found[0]) {
			t.Errorf("%s: findings by %q, want by %q", reconciler, found, want)
		}
		if len(result.Default.Gaps) > 0 {
			t.Errorf("gaps: %q", result.Default.Gaps)
		}
	}
}
