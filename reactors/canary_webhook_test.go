package reactors_test

import (
	"context"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// webhookCanaries are about what an admission webhook says, or does not say.
var webhookCanaries = []canary{
	{
		name: "takes a webhook's refusal for its last word", by: []schedule.FaultType{schedule.WebhookDenial},
		scenario: scenario{given: []apiserver.Object{configMap(nil)}, webhooks: []apiserver.Hook{quota()},
			properties: []property.Definition{terminal("a child", "child != null")}},
		buggy: always(createUnless(func(err error) bool { return strings.Contains(err.Error(), "denied the request") })),
		fixed: always(createUnless(func(error) bool { return false })),
	},
	{
		name: "relies on what a webhook injects", by: []schedule.FaultType{schedule.WebhookFailure},
		scenario: scenario{given: []apiserver.Object{configMap(nil)}, webhooks: []apiserver.Hook{injector()},
			properties: []property.Definition{terminal("a child with a token", `child != null && has(child.data) && "token" in child.data`)}},
		buggy: always(createUnless(func(error) bool { return false })),
		fixed: always(createInjected),
	},
}

// forSecrets says when webhooks are called about Secrets.
func forSecrets(name string) registrationv1.MutatingWebhook {
	return registrationv1.MutatingWebhook{Name: name, Rules: []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
	}}}
}

// quota is a validating webhook that has nothing to object.
func quota() apiserver.Hook {
	return apiserver.Hook{MutatingWebhook: forSecrets("quota.example.com"), Validating: true,
		Handle: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			return &admissionv1.AdmissionResponse{Allowed: true}, nil
		}}
}

// injector is a mutating webhook that writes a token into every Secret, and which the cluster does without if it is away.
func injector() apiserver.Hook {
	hook := forSecrets("inject.example.com")
	hook.FailurePolicy = new(registrationv1.Ignore)
	return apiserver.Hook{MutatingWebhook: hook,
		Handle: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			return &admissionv1.AdmissionResponse{Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch),
				Patch: []byte(`[{"op":"add","path":"/data","value":{"token":"c2VjcmV0"}}]`)}, nil
		}}
}

// createUnless creates the child, and forgives some errors.
func createUnless(forgives func(error) bool) action {
	return func(ctx context.Context, deps sim.Deps, _ *corev1.ConfigMap) error {
		err := deps.Live.Create(ctx, secret("app"))
		if err == nil || apierrors.IsAlreadyExists(err) || forgives(err) {
			return nil
		}
		return err
	}
}

// createInjected creates the child, and sees to it that the webhook has had its way.
func createInjected(ctx context.Context, deps sim.Deps, _ *corev1.ConfigMap) error {
	child := secret("app")
	err := deps.Live.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		err = deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(child), child)
	}
	if err != nil || child.Data["token"] != nil {
		return err
	}
	child.Labels = map[string]string{"stalemate.dev/again": "true"}
	return deps.Live.Update(ctx, child)
}
