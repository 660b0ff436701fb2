package rbac

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
	"github.com/stalemate-dev/stalemate/sim/apiserver/internal/manifest"
)

// A loadable kind, and how to check what it holds.
type loadable struct {
	make  func() metav1.Object
	check func(metav1.Object) field.ErrorList
}

// version is the Kubernetes version whose rules the loader checks by. It matters for updates only.
const version = "1.36"

var loadables = map[schema.GroupVersionKind]loadable{
	rbacv1.SchemeGroupVersion.WithKind("Role"): {
		func() metav1.Object { return &rbacv1.Role{} },
		func(o metav1.Object) field.ErrorList { return builtin.ValidateRole(o.(*rbacv1.Role), nil, version) },
	},
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"): {
		func() metav1.Object { return &rbacv1.ClusterRole{} },
		func(o metav1.Object) field.ErrorList {
			return builtin.ValidateClusterRole(o.(*rbacv1.ClusterRole), nil, version)
		},
	},
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"): {
		func() metav1.Object { return &rbacv1.RoleBinding{} },
		func(o metav1.Object) field.ErrorList {
			builtin.DefaultRoleBinding(o.(*rbacv1.RoleBinding), version)
			return builtin.ValidateRoleBinding(o.(*rbacv1.RoleBinding), nil, version)
		},
	},
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"): {
		func() metav1.Object { return &rbacv1.ClusterRoleBinding{} },
		func(o metav1.Object) field.ErrorList {
			builtin.DefaultClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding), version)
			return builtin.ValidateClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding), nil, version)
		},
	},
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"): {
		func() metav1.Object { return &corev1.ServiceAccount{} },
		func(metav1.Object) field.ErrorList { return nil },
	},
}

// Kinds are the kinds that [Load] takes.
var Kinds = []string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"}

// NewObject returns an empty object of a kind that [Load] takes, nil for any other.
func NewObject(gvk schema.GroupVersionKind) metav1.Object {
	if l, ok := loadables[gvk]; ok {
		return l.make()
	}
	return nil
}

// Load reads the roles and bindings (rbac.authorization.k8s.io/v1) of a YAML or JSON text, one for each document; there may
// be ServiceAccounts among them, and empty documents are passed over and not counted. It is strict: a field that a kind does
// not have is an error, as is what a real server would refuse. It reports everything that is wrong at once: the error's
// Unwrap() []error are *field.Error values whose fields begin with the place of the document, "document[1].rules[0].verbs".
func Load(text []byte) ([]metav1.Object, error) {
	var objects []metav1.Object
	err := manifest.Each(text, func(document []byte, at *field.Path) field.ErrorList {
		loaded, problems := load(document, at)
		if len(problems) == 0 {
			objects = append(objects, loaded)
		}
		return problems
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// load reads one document, which is JSON.
func load(text []byte, at *field.Path) (metav1.Object, field.ErrorList) {
	var head metav1.TypeMeta
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", "must be an object with apiVersion and kind")}
	}
	kind, ok := loadables[head.GroupVersionKind()]
	if !ok {
		return nil, field.ErrorList{unknownKind(head, at)}
	}
	obj := kind.make()
	problems, err := strictjson.UnmarshalStrict(text, obj)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(at, "", problem.Error()))
	}
	if obj.GetName() == "" {
		errs = append(errs, field.Required(at.Child("metadata", "name"), ""))
	}
	for _, problem := range content.IsPathSegmentName(obj.GetName()) {
		errs = append(errs, field.Invalid(at.Child("metadata", "name"), obj.GetName(), problem))
	}
	for _, problem := range kind.check(obj) {
		problem.Field = at.Child(problem.Field).String()
		errs = append(errs, problem)
	}
	return obj, errs
}

// unknownKind is the error of a document that is neither a role nor a binding.
func unknownKind(head metav1.TypeMeta, at *field.Path) *field.Error {
	for gvk := range loadables {
		if gvk.Kind == head.Kind {
			return field.NotSupported(at.Child("apiVersion"), head.APIVersion, []string{gvk.GroupVersion().String()})
		}
	}
	return field.NotSupported(at.Child("kind"), head.Kind, Kinds)
}
