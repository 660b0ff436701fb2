package cmd_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// The operator with the options of its main and the rights of its role, in a cluster that has a policy.
func TestWidgetInACluster(t *testing.T) {
	options := ctrl.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}}}
	simtest.Run(t, simtest.Scenario("testdata/widget/simulation/widget-update.yaml"),
		simtest.Manager("widget/ours", widgetv1.AddToScheme, func(m ctrl.Manager) error {
			r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
			return r.SetupWithManager(m)
		}, client.WithOptions(options), client.ReadYourWrites()),
		simtest.Roles("operator", "testdata/widget/config/rbac/role.yaml"),
		simtest.Webhooks(apiserver.Hook{
			MutatingWebhook: registrationv1.MutatingWebhook{
				Name: "size.policy.example.com",
				Rules: []registrationv1.RuleWithOperations{{
					Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
					Rule:       registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}},
				}},
			},
			Validating: true,
			Handle:     atMostFive,
		}))
}

// atMostFive is a policy engine that lets nobody have more than five replicas.
func atMostFive(r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal(r.Object.Raw, set); err != nil {
		return nil, err
	}
	if *set.Spec.Replicas > 5 {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 403, Message: "five replicas are enough"}}, nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
