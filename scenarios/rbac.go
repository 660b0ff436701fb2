package scenarios

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// loadAccess reads what each controller may do; nil stands for everything.
func (l *loader) loadAccess() []*rbac.Access {
	access := make([]*rbac.Access, len(l.manifest.Spec.Controllers))
	for i, controller := range l.manifest.Spec.Controllers {
		if len(controller.RBAC) > 0 {
			access[i] = l.access(controller, indexed("controllers", i))
		}
	}
	return access
}

// access reads what a controller may do; nil if something is wrong with it.
func (l *loader) access(controller Controller, path string) *rbac.Access {
	before := len(l.diagnostics)
	var objects []metav1.Object
	for i, reference := range controller.RBAC {
		at := fmt.Sprintf("%s.rbac[%d]", path, i)
		found, problems := roles(l.readReferences(reference, at))
		l.add(problems...)
		objects = append(objects, found...)
		if len(found) == 0 && len(l.diagnostics) == before && reference.Path != "" {
			l.add(l.doc.at(at+".path", fmt.Sprintf("%s.path: %q holds no role and no binding: want objects of %s",
				at, reference.Path, rbacv1.SchemeGroupVersion)))
		}
	}
	if len(l.diagnostics) > before {
		return nil
	}
	at := path + ".rbac"
	account := ServiceAccount{}
	if controller.ServiceAccount != nil {
		account, at = *controller.ServiceAccount, path+".serviceAccount"
	}
	policy, err := rbac.New(objects...)
	if err != nil {
		l.add(l.doc.at(path+".rbac", fmt.Sprintf("%s.rbac: %v", path, strings.ReplaceAll(err.Error(), "\n", "; "))))
		return nil
	}
	access, err := policy.For(account.named(), controller.Name)
	if err != nil {
		l.add(l.doc.at(at, fmt.Sprintf("%s: %v", at, err)))
		return nil
	}
	return access
}

func (a ServiceAccount) named() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// LoadRoles reads what a process may do from files or directories of roles and bindings, as the rbac of a controller does;
// they may be anywhere. name is that of the process.
func LoadRoles(name string, account ServiceAccount, files ...string) (*rbac.Access, error) {
	var objects []metav1.Object
	for _, file := range files {
		sources, err := readRoles(file)
		if err != nil {
			return nil, err
		}
		found, problems := roles(sources)
		if err := newError(file, problems); err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("roles of %s: %s: no role and no binding: want objects of %s", name, file, rbacv1.SchemeGroupVersion)
		}
		objects = append(objects, found...)
	}
	policy, err := rbac.New(objects...)
	if err != nil {
		return nil, fmt.Errorf("roles of %s: %w", name, err)
	}
	access, err := policy.For(account.named(), name)
	if err != nil {
		return nil, fmt.Errorf("roles of %s: %w", name, err)
	}
	return access, nil
}

// readRoles reads a file, or those of a directory.
func readRoles(file string) ([]*source, error) {
	t, name, err := openTree(file)
	if err != nil {
		return nil, err
	}
	defer t.close()
	names := []string{name}
	if info, err := fs.Stat(t.fsys, name); err == nil && info.IsDir() {
		if names, err = t.manifests(name); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	var sources []*source
	var diagnostics []Diagnostic
	for _, name := range names {
		data, err := t.read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.display(name), err)
		}
		source, problems := parseSource(t.display(name), data)
		sources = append(sources, source)
		diagnostics = append(diagnostics, problems...)
	}
	return sources, newError(file, diagnostics)
}

// roles returns the roles and bindings of files.
func roles(sources []*source) (objects []metav1.Object, problems []Diagnostic) {
	for _, source := range sources {
		for _, o := range source.objects() {
			obj, wrong := o.role()
			problems = append(problems, wrong...)
			if obj != nil {
				objects = append(objects, obj)
			}
		}
	}
	return objects, problems
}

// role reads a role, a binding or a service account. It is nil without a diagnostic for an object of another API group: a file
// may hold all that an operator is installed with.
func (o fileObject) role() (metav1.Object, []Diagnostic) {
	fields, ok := o.value.(map[string]any)
	if !ok {
		return nil, []Diagnostic{o.at("", "expected an object with apiVersion, kind and metadata, found "+describe(o.value))}
	}
	version, _ := fields["apiVersion"].(string)
	name, _ := fields["kind"].(string)
	gvk := schema.FromAPIVersionAndKind(version, name)
	obj := rbac.NewObject(gvk)
	switch {
	case obj == nil && gvk.Group == rbacv1.GroupName:
		return nil, []Diagnostic{o.at("kind",
			fmt.Sprintf("expected a Role, ClusterRole, RoleBinding or ClusterRoleBinding of %s, found %s of %s",
				rbacv1.SchemeGroupVersion, name, version))}
	case obj == nil && (version == "" || name == ""):
		return nil, []Diagnostic{o.at("", "expected an object with apiVersion and kind")}
	case obj == nil || gvk.Group == corev1.GroupName:
		return nil, nil
	}
	if problems, _ := strictDecode(o.doc, o.value, o.path, obj); len(problems) > 0 {
		return nil, problems
	}
	data, err := json.Marshal(o.value)
	if err != nil {
		return nil, []Diagnostic{o.at("", err.Error())}
	}
	loaded, err := rbac.Load(data)
	if err != nil {
		return nil, o.problems(err, "document[0]")
	}
	return loaded[0], nil
}
