package apiserver

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// established returns a definition as the API server shows it once its kind is served, but for what differs between servers;
// pkg/controller/status/naming_controller.go and pkg/controller/establish/establishing_controller.go of
// k8s.io/apiextensions-apiserver v1.36.
func established(definition *apiextensionsv1.CustomResourceDefinition, v Version) *apiextensionsv1.CustomResourceDefinition {
	shown := definition.DeepCopy()
	shown.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
	shown.Generation = 1
	shown.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	builtin.DefaultCustomResourceDefinition(shown, string(v))
	shown.Status.AcceptedNames = shown.Spec.Names
	shown.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts",
			Message: "no conflicts found"},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
			Message: "the initial names have been accepted"},
	}
	return shown
}

// addDefinitions stores the definitions of the custom resources of the kinds table, so that operators find them there.
func (s *Server) addDefinitions() {
	k := s.kinds.rows[definitionOrder]
	for _, definition := range s.kinds.established {
		obj := *definition
		key := uidKey(k, "", obj.Name)
		obj.UID = uidFor(key, 0)
		s.uids.set(key, 1)
		obj.CreationTimestamp = s.timestamp()
		obj.Status.Conditions = slices.Clone(obj.Status.Conditions)
		for i := range obj.Status.Conditions {
			obj.Status.Conditions[i].LastTransitionTime = obj.CreationTimestamp
		}
		s.commitClaim(k, &obj, nil, claim{write: write{by: recorded}})
	}
}

// Definitions returns the definitions of the custom resources of the table, as a server has established them. They are not the
// caller's to change.
func (k *Kinds) Definitions() []*apiextensionsv1.CustomResourceDefinition {
	return slices.Clip(k.established)
}
