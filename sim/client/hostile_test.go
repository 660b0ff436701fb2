package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

// TestTransformsThatFail has transforms after which a cache cannot keep an object: it keeps the object as it is, whatever the
// transform has done to the one it was given, and the verdict says so.
func TestTransformsThatFail(t *testing.T) {
	tests := []struct {
		name      string
		transform toolscache.TransformFunc
		gap       string
	}{
		{"error", func(obj any) (any, error) {
			obj.(*corev1.Secret).Labels = map[string]string{"half": "done"}
			return obj, errors.New("no")
		}, "no"},
		{"nothing", func(any) (any, error) { return nil, nil }, "it returned nil"},
		{"nil of a type", func(any) (any, error) { return (*corev1.Secret)(nil), nil }, "it returned nil"},
		{"no object", func(any) (any, error) { return "text", nil }, "it returned a string, which has no name"},
		{"another name", func(obj any) (any, error) {
			obj.(*corev1.Secret).Name = "other"
			return obj, nil
		}, "it made default/other of default/a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := ctrl.Options{Cache: ctrlcache.Options{ByObject: map[ctrlclient.Object]ctrlcache.ByObject{
				&corev1.Secret{}: {Transform: test.transform},
			}}}
			h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
				return withOptions(newConfig(nil, configMap("start"), secret("a")), func(m ctrl.Manager) error {
					return forConfigMaps(m, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
						var secrets corev1.SecretList
						err := m.GetClient().List(ctx, &secrets)
						for _, s := range secrets.Items {
							d.write("%s %v", s.Name, s.Labels)
						}
						return ctrl.Result{}, err
					})
				}, client.WithOptions(options))
			}, "a map[]")
			want := "the transform of Secret failed, which is not modelled: the object is cached as it is: " + test.gap
			if len(h.Gaps) != 1 || h.Gaps[0] != want {
				t.Errorf("gaps are %q, want %q", h.Gaps, want)
			}
		})
	}
}

// TestWebhookNonsense has a webhook whose patches make no sense. The request ends with an error that says so, or goes on, and
// does the same each time.
func TestWebhookNonsense(t *testing.T) {
	const noName = `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`
	for patch, want := range map[string]string{
		`[{"op":"remove","path":"/metadata/name"}]`: noName,
		`[{"op":"remove","path":"/metadata"}]`:      noName,
		`[{"op":"replace","path":"/metadata/namespace","value":"b"}]`: "the namespace of the provided object does not match the " +
			"namespace sent on the request",
		`[{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`: "resourceVersion should not be set on objects to be created",
		`[{"op":"add","path":"/data","value":"text"}]`: "Internal error occurred: json: cannot unmarshal string into Go struct field " +
			"ConfigMap.data of type map[string]string",
		`[{"op":"fly","path":"/x"}]`: "Internal error occurred: Unexpected kind: fly",
		`[null]`:                     "Internal error occurred: Unexpected kind: unknown",
		`[]`:                         "<nil>",
		`{}`: `Internal error occurred: failed calling webhook "mconfigmap-v1.kb.io": received undecodable patch in webhook ` +
			`response: json: cannot unmarshal object into Go value of type jsonpatch.Patch`,
		`[{"op":"replace","path":"/metadata/name","value":"other"}]`: "<nil>",
	} {
		expect(t, sim.Plan{}, func(d *diary) *sim.Config {
			return newConfig(func(m ctrl.Manager) error {
				answer := func(_ context.Context, r admission.Request) admission.Response {
					clear(r.Object.Raw) // what the webhook was sent is its own
					return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
						Allowed: true, Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch),
					}}
				}
				m.GetWebhookServer().Register(mutatePath, &webhook.Admission{Handler: admission.HandlerFunc(answer)})
				return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					if request.Name == "start" {
						d.write("%v", m.GetClient().Create(ctx, configMap("a")))
					}
					return ctrl.Result{}, nil
				})
			}, mutatingConfiguration(), configMap("start"))
		}, want)
	}
}

// TestUnservedWebhook has a configuration of a webhook that nobody serves, which the verdict says: all writes that it is for fail.
func TestUnservedWebhook(t *testing.T) {
	h, lines := play(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			return forConfigMaps(m, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				d.write("%v", m.GetClient().Create(ctx, configMap("a")))
				return ctrl.Result{}, nil
			})
		}, mutatingConfiguration(), configMap("start"))
	})
	if len(lines) != 1 || !strings.HasSuffix(lines[0], `service "webhook-service" not found`) {
		t.Errorf("the operator saw %q", lines)
	}
	want := fmt.Sprintf("nobody serves the webhook mconfigmap-v1.kb.io at %s", mutatePath)
	if len(h.Gaps) != 1 || !strings.HasPrefix(h.Gaps[0], want) {
		t.Errorf("gaps are %q, want %q", h.Gaps, want)
	}
}
