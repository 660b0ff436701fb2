package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// UserActor is the name of the actor that runs the script.
const UserActor = "user"

// DefaultNamespace is where namespaced objects are that do not say where.
const DefaultNamespace = "default"

// versions are the versions of Kubernetes that a scenario may ask for, the default first.
var versions = []apiserver.Version{apiserver.V136, apiserver.V137}

// validator checks what a manifest means, field by field.
type validator struct {
	spec *Spec
	// kinds is nil if the table could not be made: then names of kinds are not checked.
	kinds *apiserver.Kinds
	// registry is nil if names of reconcilers are not to be checked.
	registry *Registry

	errs field.ErrorList
}

// validate returns everything that is wrong with a manifest beyond its form. What lies in the files it refers to, and its
// rules, are checked elsewhere.
func validate(m *Manifest, kinds *apiserver.Kinds, registry *Registry) field.ErrorList {
	v := &validator{spec: &m.Spec, kinds: kinds, registry: registry}
	v.label(m.Metadata.Name, field.NewPath("metadata", "name"))
	spec := field.NewPath("spec")
	v.version(m.Spec.KubernetesVersion, spec.Child("kubernetesVersion"))
	for i, file := range m.Spec.CRDs {
		v.file(file, spec.Child("crds").Index(i))
	}
	for i, file := range m.Spec.Given {
		v.file(file, spec.Child("given").Index(i))
	}
	v.actors(spec)
	v.script(spec.Child("script"))
	v.variables(spec.Child("variables"))
	if len(m.Spec.Properties) == 0 && !slices.ContainsFunc(m.Spec.Detectors, Detector.enabled) {
		const detail = "without a property nothing is judged: state one, or name a detector that is to look, in spec.detectors"
		v.add(field.Required(spec.Child("properties"), detail))
	}
	v.detectors(spec.Child("detectors"))
	v.properties(spec.Child("properties"))
	v.limits(spec.Child("limits"))
	v.faults(spec.Child("faults"))
	return v.errs
}

func (v *validator) add(err *field.Error) { v.errs = append(v.errs, err) }

// required reports a string that must be set. It returns whether it is.
func (v *validator) required(value, detail string, path *field.Path) bool {
	if value == "" {
		v.add(field.Required(path, detail))
	}
	return value != ""
}

// label checks a name that must be a DNS label.
func (v *validator) label(name string, path *field.Path) {
	v.name(name, validation.IsDNS1123Label, path)
}

// subdomain checks a name that must be a DNS subdomain, which may be longer.
func (v *validator) subdomain(name string, path *field.Path) {
	v.name(name, validation.IsDNS1123Subdomain, path)
}

func (v *validator) name(name string, problems func(string) []string, path *field.Path) {
	if !v.required(name, "give it a name", path) {
		return
	}
	for _, problem := range problems(name) {
		v.add(field.Invalid(path, name, problem))
	}
}

// oneOf checks an enum that must be set.
func oneOf[T ~string](v *validator, value T, known []T, path *field.Path) bool {
	if value == "" {
		v.add(field.Required(path, "one of "+quoted(known)))
		return false
	}
	return v.supported(string(value), texts(known), path)
}

// supported checks that a word is a known one, and returns whether it is. If it may be a slip of one, the error says so.
func (v *validator) supported(word string, known []string, path *field.Path) bool {
	if slices.Contains(known, word) {
		return true
	}
	err := field.NotSupported(path, word, known)
	if best := near(word, known); len(best) > 0 {
		err.Detail = fmt.Sprintf("did you mean %q? %s", best[0], err.Detail)
	}
	v.add(err)
	return false
}

// texts returns the values of an enum as strings.
func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}

func quoted[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", string(word))
	}
	return b.String()
}

func (v *validator) version(version string, path *field.Path) {
	if version != "" {
		oneOf(v, apiserver.Version(version), versions, path)
	}
}

func (v *validator) file(file FileReference, path *field.Path) {
	v.required(file.Path, "the file, relative to this one", path.Child("path"))
}

// actors checks controllers and racers, which share their names.
func (v *validator) actors(spec *field.Path) {
	taken := sets.New[string]()
	name := func(name string, path *field.Path) {
		v.label(name, path)
		switch {
		case name == UserActor:
			v.add(field.Invalid(path, name, "this is the actor that runs the script; choose another name"))
		case name != "" && taken.Has(name):
			v.add(field.Duplicate(path, name))
		}
		taken.Insert(name)
	}
	if len(v.spec.Controllers) == 0 {
		v.add(field.Required(spec.Child("controllers"), "name at least one reconciler to test"))
	}
	for i, controller := range v.spec.Controllers {
		path := spec.Child("controllers").Index(i)
		name(controller.Name, path.Child("name"))
		v.controller(controller, path)
	}
	played := map[RacerType]string{}
	for i, racer := range v.spec.Racers {
		path := spec.Child("racers").Index(i)
		name(racer.Name, path.Child("name"))
		v.racer(racer, path)
		if other, twice := played[racer.Type]; twice && !racerTypes[racer.Type].several {
			v.add(field.Invalid(path.Child("type"), racer.Type, fmt.Sprintf("%q plays it for the whole cluster already", other)))
		}
		played[racer.Type] = racer.Name
	}
}

func (v *validator) controller(c Controller, path *field.Path) {
	v.reconciler(c.Reconciler, path.Child("reconciler"))
	if c.Reads != "" {
		oneOf(v, c.Reads, []Reads{ReadsCached, ReadsLive}, path.Child("reads"))
	}
	if c.Replicas != nil && *c.Replicas != 1 {
		v.add(field.Invalid(path.Child("replicas"), *c.Replicas, "only 1 is supported yet"))
	}
	for i, file := range c.RBAC {
		v.file(file, path.Child("rbac").Index(i))
	}
	account := c.ServiceAccount
	if account == nil {
		return
	}
	path = path.Child("serviceAccount")
	if len(c.RBAC) == 0 {
		v.add(field.Forbidden(path, "it says whose bindings count: give the files of roles and bindings in rbac"))
	}
	if account.Name != "" {
		v.subdomain(account.Name, path.Child("name"))
	}
	v.namespace(account.Namespace, path.Child("namespace"))
}

// reconciler checks the name of a reconciler.
func (v *validator) reconciler(name string, path *field.Path) {
	if v.required(name, "the name of a reconciler", path) && v.registry != nil {
		if _, ok := v.registry.Get(name); !ok {
			v.add(field.Invalid(path, name, v.registry.unknown(name)))
		}
	}
}

// racer checks the union: its type, that there is no block of another type, and the block.
func (v *validator) racer(r Racer, path *field.Path) {
	if !oneOf(v, r.Type, slices.Sorted(maps.Keys(racerTypes)), path.Child("type")) {
		return
	}
	blocks := []struct {
		name string
		set  bool
	}{
		{"annotator", r.Annotator != nil},
		{"garbageCollector", r.GarbageCollector != nil},
		{"horizontalPodAutoscaler", r.HorizontalPodAutoscaler != nil},
		{"kubelet", r.Kubelet != nil},
		{"namespaceController", r.NamespaceController != nil},
	}
	for _, block := range blocks {
		if block.set && block.name != racerTypes[r.Type].block {
			v.add(field.Forbidden(path.Child(block.name), fmt.Sprintf("this is not for a racer of type %s", r.Type)))
		}
	}
	switch r.Type {
	case RacerGarbageCollector:
		if r.GarbageCollector != nil {
			v.notNegative(r.GarbageCollector.Delay, path.Child("garbageCollector", "delay"))
		}
	case RacerNamespaceController:
		if r.NamespaceController != nil {
			v.notNegative(r.NamespaceController.Delay, path.Child("namespaceController", "delay"))
		}
	case RacerKubelet:
		v.kubelet(r.Kubelet, path.Child("kubelet"))
	case RacerHorizontalPodAutoscaler:
		v.autoscaler(r.HorizontalPodAutoscaler, path.Child("horizontalPodAutoscaler"))
	case RacerAnnotator:
		v.annotator(r.Annotator, path.Child("annotator"))
	default: // nothing to set
	}
}

func (v *validator) kubelet(k *Kubelet, path *field.Path) {
	if k == nil {
		return
	}
	v.notNegative(k.ReadyAfter, path.Child("readyAfter"))
	v.notNegative(k.TerminationAfter, path.Child("terminationAfter"))
	if k.Unready != nil {
		v.unready(k.Unready, path.Child("unready", "images"))
	}
	for i, pod := range k.Wedged {
		v.pod(pod, path.Child("wedged").Index(i))
	}
	v.positive(k.CompletesAfter, path.Child("completesAfter"))
	for i, f := range k.Fails {
		v.failing(f, path.Child("fails").Index(i))
	}
	if len(k.Fails) > 0 && k.CompletesAfter == nil {
		v.add(field.Required(path.Child("completesAfter"), "pods fail when they end: say after which time"))
	}
	for i, n := range k.Lost {
		v.lost(n, path.Child("lost").Index(i))
		for j, other := range k.Lost[:i] {
			if n.Node == other.Node && n.at() < other.back() && other.at() < n.back() {
				v.add(field.Invalid(path.Child("lost").Index(i), n.Node, fmt.Sprintf("it is lost then already, by lost[%d]", j)))
			}
		}
	}
}

// pod checks what names a pod, with its namespace or without.
func (v *validator) pod(name string, path *field.Path) {
	if !v.required(name, "the name of a pod", path) {
		return
	}
	namespace, bare, both := strings.Cut(name, "/")
	if !both {
		namespace, bare = DefaultNamespace, name
	}
	for _, problem := range slices.Concat(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(bare)) {
		v.add(field.Invalid(path, name, `write "name" or "namespace/name": `+problem))
	}
}

func (v *validator) unready(u *UnreadyPods, path *field.Path) {
	if len(u.Images) == 0 {
		v.add(field.Required(path, "the images of the pods that never become ready"))
	}
	for i, image := range u.Images {
		if v.required(image, "an image", path.Index(i)) && strings.TrimSpace(image) != image {
			v.add(field.Invalid(path.Index(i), image, "no pod has an image with white space around it"))
		}
	}
}

func (v *validator) failing(f FailingPods, path *field.Path) {
	if len(f.Labels) == 0 {
		v.add(field.Required(path.Child("labels"), "the labels of the pods that fail"))
	}
	v.errs = append(v.errs, metav1validation.ValidateLabels(f.Labels, path.Child("labels"))...)
	if f.Times != nil && *f.Times <= 0 {
		v.add(field.Invalid(path.Child("times"), *f.Times, "must be greater than 0; leave it out for every time"))
	}
	if f.ExitCode != nil && (*f.ExitCode < 1 || *f.ExitCode > 255) {
		v.add(field.Invalid(path.Child("exitCode"), *f.ExitCode, "must be between 1 and 255: 0 is no failure"))
	}
}

func (v *validator) lost(n LostNode, path *field.Path) {
	v.required(n.Node, "the name of a node", path.Child("node"))
	v.notNegative(n.At, path.Child("at"))
	switch {
	case n.Back == nil:
	case n.Back.Duration <= duration(n.At):
		v.add(field.Invalid(path.Child("back"), n.Back.Duration.String(), "must be later than at; leave it out for never"))
	case n.Back.Duration > longestSpan:
		v.add(tooLong(n.Back.Duration, path.Child("back")))
	}
}

func (v *validator) autoscaler(a *HorizontalPodAutoscaler, path *field.Path) {
	switch {
	case a == nil || a.Name == "" && a.Target == nil:
		v.add(field.Required(path, "say what to scale: the name of a HorizontalPodAutoscaler object, or a target"))
		return
	case a.Target == nil:
	case a.Name != "":
		v.add(field.Forbidden(path.Child("target"), "the HorizontalPodAutoscaler object says what to scale; leave out one of the two"))
	default:
		v.scalable(a.Target, a.Namespace, path)
		if len(a.Recommends) == 0 {
			v.add(field.Required(path.Child("recommends"), "say how many replicas are right: without a number nothing is ever scaled"))
		}
	}
	v.namespace(a.Namespace, path.Child("namespace"))
	v.objectName("HorizontalPodAutoscaler", a.Name, path.Child("name"))
	var last time.Duration
	for i, r := range a.Recommends {
		at := path.Child("recommends").Index(i)
		v.notNegative(r.At, at.Child("at"))
		if duration(r.At) < last {
			v.add(field.Invalid(at.Child("at"), duration(r.At).String(), "must not be earlier than the one before"))
		}
		last = duration(r.At)
		switch {
		case r.Replicas == nil:
			v.add(field.Required(at.Child("replicas"), "say how many"))
		case *r.Replicas < 0:
			v.add(field.Invalid(at.Child("replicas"), *r.Replicas, "must not be negative"))
		}
	}
}

// scalable checks the target of an autoscaler: that there is such a kind, and that it has a scale subresource.
func (v *validator) scalable(t *ScaleTarget, namespace string, path *field.Path) {
	v.object(t.Kind, "", t.Name, path.Child("target"))
	if v.kinds == nil || v.kinds.ByName(t.Kind) == nil {
		return
	}
	v.kind(t.Kind, namespace, path)
	if v.kinds.ByName(t.Kind).Scale == nil {
		v.add(field.Invalid(path.Child("target", "kind"), t.Kind, "it has no scale subresource"))
	}
}

func (v *validator) annotator(a *Annotator, path *field.Path) {
	if a == nil {
		v.add(field.Required(path, "say which object, how often and how many times"))
		return
	}
	v.object(a.Kind, a.Namespace, a.Name, path)
	switch every := a.Every.Duration; {
	case every <= 0:
		v.add(field.Invalid(path.Child("every"), every.String(), "must be longer than 0s"))
	case every > longestSpan:
		v.add(tooLong(every, path.Child("every")))
	}
	if a.Times <= 0 {
		v.add(field.Invalid(path.Child("times"), a.Times, "must be greater than 0"))
	}
	if a.Annotation != "" {
		for _, problem := range validation.IsQualifiedName(a.Annotation) {
			v.add(field.Invalid(path.Child("annotation"), a.Annotation, problem))
		}
	}
}

// object checks the three fields that name an object.
func (v *validator) object(kind, namespace, name string, path *field.Path) {
	v.required(name, "the name of the object", path.Child("name"))
	v.namespace(namespace, path.Child("namespace"))
	if v.required(kind, "the kind of the object", path.Child("kind")) {
		v.kind(kind, namespace, path)
		v.objectName(kind, name, path.Child("name"))
	}
}

// objectName checks that an object of a kind can have such a name.
func (v *validator) objectName(kind, name string, path *field.Path) {
	if v.kinds == nil || name == "" {
		return
	}
	if row := v.kinds.ByName(kind); row != nil {
		for _, problem := range row.ValidName(name, false) {
			v.add(field.Invalid(path, name, problem))
		}
	}
}

// kind checks that there is such a kind, and that a namespace is given only to one that has namespaces.
func (v *validator) kind(kind, namespace string, path *field.Path) {
	if v.kinds == nil {
		return
	}
	row := v.kinds.ByName(kind)
	if row == nil {
		v.add(field.Invalid(path.Child("kind"), kind, unknownKind(v.kinds, kind, isBuiltin(kind))))
		return
	}
	if !row.Namespaced && namespace != "" {
		v.add(field.Forbidden(path.Child("namespace"), fmt.Sprintf("objects of kind %s have no namespace", kind)))
	}
}

// namespace checks the name of a namespace that may be left out.
func (v *validator) namespace(name string, path *field.Path) {
	if name != "" {
		v.label(name, path)
	}
}

// unknownKind says that there is no kind of that name, and what to do: for a built-in one, that is nothing.
func unknownKind(kinds *apiserver.Kinds, kind string, builtin bool) string {
	var names, modelled []string
	for _, row := range kinds.All() {
		names = append(names, row.Name())
		if !row.Custom() {
			modelled = append(modelled, row.Name())
		}
	}
	if builtin {
		slices.Sort(modelled)
		return "a built-in kind that this version does not model; it models " + strings.Join(modelled, ", ")
	}
	if hint := didYouMean(kind, names); hint != "" {
		return "no such kind" + hint
	}
	return "no such kind: add its CustomResourceDefinition to spec.crds"
}

// isBuiltin reports whether Kubernetes itself has objects of a kind in one of the groups, or in any group if none is given:
// whether client-go has the type of their list.
func isBuiltin(kind string, groups ...string) bool {
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if gvk.Kind == kind+"List" && (len(groups) == 0 || slices.Contains(groups, gvk.Group)) {
			return true
		}
	}
	return false
}

func (v *validator) notNegative(d *metav1.Duration, path *field.Path) {
	switch {
	case d == nil:
	case d.Duration < 0:
		v.add(field.Invalid(path, d.Duration.String(), "must not be negative"))
	case d.Duration > longestSpan:
		v.add(tooLong(d.Duration, path))
	}
}

func (v *validator) positive(d *metav1.Duration, path *field.Path) {
	switch {
	case d == nil:
	case d.Duration <= 0:
		v.add(field.Invalid(path, d.Duration.String(), "must be longer than 0s; leave it out for the default"))
	case d.Duration > longestSpan:
		v.add(tooLong(d.Duration, path))
	}
}

// longestSpan bounds spans of virtual time. It is far longer than any run, and short enough to add spans up.
const longestSpan = 365 * 24 * time.Hour

func tooLong(d time.Duration, path *field.Path) *field.Error {
	return field.Invalid(path, d.String(), "must be no longer than a year, "+longestSpan.String())
}

func (v *validator) script(path *field.Path) {
	for i, step := range v.spec.Script {
		path := path.Index(i)
		actions := 0
		if step.Create != nil {
			actions++
			v.file(*step.Create, path.Child("create"))
		}
		if p := step.Patch; p != nil {
			actions++
			v.object(p.Kind, p.Namespace, p.Name, path.Child("patch"))
			if len(p.Merge) == 0 {
				v.add(field.Required(path.Child("patch", "merge"), "say what to change"))
			}
		}
		if d := step.Delete; d != nil {
			actions++
			v.object(d.Kind, d.Namespace, d.Name, path.Child("delete"))
			if d.PropagationPolicy != "" {
				oneOf(v, d.PropagationPolicy, propagationPolicies, path.Child("delete", "propagationPolicy"))
			}
		}
		if actions != 1 {
			v.add(field.Invalid(path, actions, "a step does one thing: exactly one of create, patch and delete"))
		}
		if step.RetryWhile != "" {
			oneOf(v, step.RetryWhile, retryReasons, path.Child("retryWhile"))
		}
		v.notNegative(step.At, path.Child("at"))
		if step.After != nil {
			v.selector(*step.After, requestVerbs, path.Child("after"))
		}
	}
}

// propagationPolicies say what becomes of the dependents of what is deleted.
var propagationPolicies = []metav1.DeletionPropagation{
	metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
}

// retryReasons are the failures that a step of the script can outlast.
var retryReasons = []metav1.StatusReason{
	metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
	metav1.StatusReasonNotFound,
}

// requestVerbs are the verbs that a selector may choose.
var requestVerbs = []string{
	string(schedule.Create), string(schedule.Delete), string(schedule.DeleteCollection), string(schedule.Get),
	string(schedule.List), string(schedule.Patch), string(schedule.Update), string(schedule.Watch),
}

// subresources are those that a selector may choose, besides the main resource.
var subresources = []string{"binding", "eviction", "finalize", "scale", "status"}

// selector checks a selector that may choose some verbs.
func (v *validator) selector(s Selector, verbs []string, path *field.Path) {
	if s.Verb != "" {
		oneOf(v, s.Verb, verbs, path.Child("verb"))
		if len(s.Verbs) > 0 {
			v.add(field.Forbidden(path.Child("verbs"), "give verb or verbs, not both"))
		}
	}
	for i, verb := range s.Verbs {
		oneOf(v, verb, verbs, path.Child("verbs").Index(i))
	}
	if s.Subresource != nil && *s.Subresource != "" {
		oneOf(v, *s.Subresource, subresources, path.Child("subresource"))
	}
	if s.Kind != "" {
		v.kind(s.Kind, s.Namespace, path)
	}
	const fromOne = "must not be negative: they count from 1, and 0 chooses all"
	if s.Occurrence < 0 {
		v.add(field.Invalid(path.Child("occurrence"), s.Occurrence, fromOne))
	}
	if s.Incarnation < 0 {
		v.add(field.Invalid(path.Child("incarnation"), s.Incarnation, fromOne))
	}
	if s.Actor != "" {
		v.actor(s.Actor, path.Child("actor"))
	}
}

// actor checks the name of an actor.
func (v *validator) actor(name string, path *field.Path) {
	actors := []string{UserActor}
	for _, controller := range v.spec.Controllers {
		actors = append(actors, controller.Name)
	}
	for _, racer := range v.spec.Racers {
		actors = append(actors, racer.Name)
	}
	v.supported(name, actors, path)
}

// variables checks what the compiler of the properties does not see: it is given names, kinds and labels.
func (v *validator) variables(path *field.Path) {
	for i, variable := range v.spec.Variables {
		path := path.Index(i)
		if variable.At != "" {
			oneOf(v, variable.At, []VariableTime{AtStart}, path.Child("at"))
		}
		object, list := variable.Object, variable.List
		if (object != nil) == (list != nil) {
			v.add(field.Invalid(path, variable.Name, "a variable is exactly one of object and list"))
		}
		if object != nil {
			v.object(object.Kind, object.Namespace, object.Name, path.Child("object"))
		}
		if list != nil && v.required(list.Kind, "the kind of the objects", path.Child("list", "kind")) {
			v.kind(list.Kind, list.Namespace, path.Child("list"))
			v.namespace(list.Namespace, path.Child("list", "namespace"))
		}
	}
}

// properties checks what the compiler of the properties does not see: it is given names, types, rules and selectors.
func (v *validator) properties(path *field.Path) {
	for i, p := range v.spec.Properties {
		path := path.Index(i)
		v.label(p.Name, path.Child("name"))
		v.positive(p.Within, path.Child("within"))
		if p.Match != nil {
			v.selector(*p.Match, requestVerbs, path.Child("match"))
		}
	}
}

func (v *validator) limits(path *field.Path) {
	limits := v.spec.Limits
	if limits.Steps != nil && *limits.Steps <= 0 {
		v.add(field.Invalid(path.Child("steps"), *limits.Steps, "must be greater than 0; leave it out for the default"))
	}
	v.positive(limits.VirtualTime, path.Child("virtualTime"))
	v.positive(limits.Hold, path.Child("hold"))
}
