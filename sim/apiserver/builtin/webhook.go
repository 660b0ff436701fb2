package builtin

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// hook is what the two kinds of webhooks have in common.
type hook struct {
	name         string
	client       *admissionv1.WebhookClientConfig
	rules        []admissionv1.RuleWithOperations
	failure      **admissionv1.FailurePolicyType
	match        **admissionv1.MatchPolicyType
	namespaces   **metav1.LabelSelector
	objects      **metav1.LabelSelector
	sideEffects  *admissionv1.SideEffectClass
	timeout      **int32
	versions     []string
	reinvocation **admissionv1.ReinvocationPolicyType // of a mutating webhook
	conditions   []admissionv1.MatchCondition
}

func mutatingHooks(webhooks []admissionv1.MutatingWebhook) []hook {
	hooks := make([]hook, len(webhooks))
	for i := range webhooks {
		w := &webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
			namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds,
			versions: w.AdmissionReviewVersions, reinvocation: &w.ReinvocationPolicy, conditions: w.MatchConditions,
		}
	}
	return hooks
}

func validatingHooks(webhooks []admissionv1.ValidatingWebhook) []hook {
	hooks := make([]hook, len(webhooks))
	for i := range webhooks {
		w := &webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
			namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, sideEffects: w.SideEffects, timeout: &w.TimeoutSeconds,
			versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
		}
	}
	return hooks
}

// DefaultMutatingWebhookConfiguration fills in defaults: pkg/apis/admissionregistration/v1/defaults.go.
func DefaultMutatingWebhookConfiguration(configuration *admissionv1.MutatingWebhookConfiguration, _ string) {
	defaultHooks(mutatingHooks(configuration.Webhooks))
}

// DefaultValidatingWebhookConfiguration fills in defaults: pkg/apis/admissionregistration/v1/defaults.go.
func DefaultValidatingWebhookConfiguration(configuration *admissionv1.ValidatingWebhookConfiguration, _ string) {
	defaultHooks(validatingHooks(configuration.Webhooks))
}

func defaultHooks(hooks []hook) {
	for _, h := range hooks {
		fillPointer(h.failure, admissionv1.Fail)
		fillPointer(h.match, admissionv1.Equivalent)
		fillPointer(h.namespaces, metav1.LabelSelector{})
		fillPointer(h.objects, metav1.LabelSelector{})
		fillPointer(h.timeout, 10)
		if h.reinvocation != nil {
			fillPointer(h.reinvocation, admissionv1.NeverReinvocationPolicy)
		}
		if h.client.Service != nil {
			fillPointer(&h.client.Service.Port, 443)
		}
		for i := range h.rules {
			fillPointer(&h.rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

// ValidateMutatingWebhookConfiguration checks a new configuration or an update; pkg/apis/admissionregistration/validation/
// validation.go. The expressions of match conditions are not compiled.
func ValidateMutatingWebhookConfiguration(configuration, old *admissionv1.MutatingWebhookConfiguration, _ string) field.ErrorList {
	if old != nil && canon.Equal(&configuration.Webhooks, &old.Webhooks) {
		return nil
	}
	return validateHooks(mutatingHooks(configuration.Webhooks))
}

// ValidateValidatingWebhookConfiguration checks a new configuration or an update; as the one for mutating webhooks.
func ValidateValidatingWebhookConfiguration(configuration, old *admissionv1.ValidatingWebhookConfiguration, _ string) field.ErrorList {
	if old != nil && canon.Equal(&configuration.Webhooks, &old.Webhooks) {
		return nil
	}
	return validateHooks(validatingHooks(configuration.Webhooks))
}

func validateHooks(hooks []hook) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, h := range hooks {
		at := field.NewPath("webhooks").Index(i)
		errs = join(errs, validateHook(&h, at), validateReviewVersions(h.versions, at.Child("admissionReviewVersions")))
		if h.name != "" && names[h.name] {
			errs = append(errs, field.Duplicate(at.Child("name"), h.name))
		}
		names[h.name] = true
	}
	return errs
}

func validateHook(h *hook, root *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(root.Child("name"), h.name)
	for i := range h.rules {
		errs = append(errs, validateHookRule(&h.rules[i], root.Child("rules").Index(i))...)
	}
	errs = join(errs,
		supported(**h.failure, []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}, root.Child("failurePolicy")),
		supported(**h.match, []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}, root.Child("matchPolicy")),
	)
	harmless := []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	if h.sideEffects == nil {
		errs = append(errs, field.Required(root.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, supported(*h.sideEffects, harmless, root.Child("sideEffects"))...)
	}
	if n := **h.timeout; n < 1 || n > 30 {
		errs = append(errs, field.Invalid(root.Child("timeoutSeconds"), n, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = join(errs, validateSelector(*h.namespaces, root.Child("namespaceSelector")),
		validateSelector(*h.objects, root.Child("objectSelector")))
	if h.reinvocation != nil {
		errs = append(errs, supported(**h.reinvocation, []admissionv1.ReinvocationPolicyType{
			admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}, root.Child("reinvocationPolicy"))...)
	}
	return join(errs, validateHookClient(h.client, root.Child("clientConfig")),
		validateMatchConditions(h.conditions, root.Child("matchConditions")))
}

func validateHookClient(client *admissionv1.WebhookClientConfig, root *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(root, "exactly one of url or service is required")}
	case client.URL != nil:
		return validateHookURL(*client.URL, root.Child("url"))
	}
	service, at := client.Service, root.Child("service")
	var errs field.ErrorList
	if service.Namespace == "" { // each is told as the other: Kubernetes hands them over in the wrong order
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if service.Name == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if messages := validation.IsValidPortNum(int(*service.Port)); len(messages) > 0 { // defaulted
		errs = append(errs, field.Invalid(at.Child("port"), *service.Port, "port is not valid: "+strings.Join(messages, ", ")))
	}
	if service.Path == nil || *service.Path == "" || *service.Path == "/" {
		return errs
	}
	return append(errs, validateHookPath(*service.Path, at.Child("path"))...)
}

// validateHookURL is ValidateWebhookURL in k8s.io/apiserver/pkg/util/webhook/validation.go.
func validateHookURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	for _, part := range []struct {
		refused     bool
		shown, text string
	}{
		{u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme" + form},
		{u.Host == "", u.Host, "host must be specified" + form},
		{u.User != nil, u.User.String(), "user information is not permitted in the URL"},
		{u.Fragment != "", u.Fragment, "fragments are not permitted in the URL"},
		{u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL"},
	} {
		if part.refused {
			errs = append(errs, field.Invalid(at, part.shown, part.text))
		}
	}
	return errs
}

func validateHookPath(path string, at *field.Path) field.ErrorList {
	if path == "//" {
		return field.ErrorList{field.Invalid(at, path, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(path, "/") {
		errs = append(errs, field.Invalid(at, path, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, message := range validation.IsDNS1123Subdomain(step) {
			errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d]: %s", i, message)))
		}
	}
	return errs
}

func validateHookRule(rule *admissionv1.RuleWithOperations, root *field.Path) field.ErrorList {
	at := root.Child("operations")
	var errs field.ErrorList
	if len(rule.Operations) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if len(rule.Operations) > 1 && slices.Contains(rule.Operations, admissionv1.OperationAll) {
		errs = append(errs, field.Invalid(at, rule.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, operation := range rule.Operations {
		errs = append(errs, supported(operation, []admissionv1.OperationType{
			admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
		}, at.Index(i))...)
	}
	errs = join(errs,
		validateWildcard(rule.APIGroups, "API groups", root.Child("apiGroups")),
		validateWildcard(rule.APIVersions, "API versions", root.Child("apiVersions")),
	)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(root.Child("apiVersions").Index(i), ""))
		}
	}
	return join(errs, validateHookResources(rule.Resources, root.Child("resources")),
		supported(*rule.Scope, []admissionv1.ScopeType{ // defaulted
			admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}, root.Child("scope")))
}

func validateWildcard(values []string, what string, at *field.Path) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(at, values, "if '*' is present, must not specify other "+what)}
	default:
		return nil
	}
}

// validateHookResources refuses resources that others of the list contain; validateResources.
func validateHookResources(resources []string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(root, ""))
	}
	whole, every := map[string]bool{}, map[string]bool{} // "x/*" and "*/x"
	plain := false
	for i, name := range resources {
		if name == "" {
			errs = append(errs, field.Required(root.Index(i), ""))
			continue
		}
		resource, sub, divided := strings.Cut(name, "/")
		if !divided {
			plain = name != "*"
			continue
		}
		if whole[resource] {
			errs = append(errs, field.Invalid(root.Index(i), name,
				fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name)))
		}
		if every[sub] {
			errs = append(errs, field.Invalid(root.Index(i), name, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name)))
		}
		whole[resource] = whole[resource] || sub == "*"
		every[sub] = every[sub] || resource == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(root, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(root, resources,
			"if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

func validateReviewVersions(versions []string, root *field.Path) field.ErrorList {
	accepted := []string{"v1", "v1beta1"}
	if len(versions) == 0 {
		return field.ErrorList{field.Required(root, "must specify one of "+strings.Join(accepted, ", "))}
	}
	known := false
	var errs field.ErrorList
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(root.Index(i), version, "duplicate version"))
			continue
		}
		errs = append(errs, named(version, validation.IsDNS1035Label, root.Index(i))...)
		known = known || slices.Contains(accepted, version)
	}
	if !known {
		errs = append(errs, field.Invalid(root, versions, "must include at least one of "+strings.Join(accepted, ", ")))
	}
	return errs
}

func validateMatchConditions(conditions []admissionv1.MatchCondition, root *field.Path) field.ErrorList {
	const most = 64
	var errs field.ErrorList
	if len(conditions) > most {
		errs = append(errs, field.TooMany(root, len(conditions), most))
	}
	names := map[string]bool{}
	for i, condition := range conditions {
		at := root.Index(i)
		if strings.TrimSpace(condition.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
		if condition.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, named(condition.Name, validation.IsQualifiedName, at.Child("name"))...)
		if names[condition.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), condition.Name))
		}
		names[condition.Name] = true
	}
	return errs
}
