package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// The resources that need no domain before their name; pkg/apis/core/helper/helpers.go.
var (
	containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	computeResources   = append([]corev1.ResourceName{
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	}, containerResources...)
	// countResources are counted, so that there is no part of one.
	countResources = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
)

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func isQuotaHugePage(name corev1.ResourceName) bool {
	return isHugePage(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// isNative says whether a resource belongs to Kubernetes itself.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func isQuotaResource(name corev1.ResourceName) bool {
	return slices.Contains(computeResources, name) || slices.Contains(countResources, name) ||
		name == corev1.ResourceRequestsStorage || isQuotaHugePage(name)
}

// validateResourceName is validateResourceName of pkg/apis/core/validation/validation.go.
func validateResourceName(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := named(string(name), validation.IsQualifiedName, at); len(errs) > 0 {
		return errs
	}
	if !strings.Contains(string(name), "/") && !isQuotaResource(name) && name != corev1.ResourceStorage {
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// validateContainerResourceName is validateContainerResourceName: what a container can ask for.
func validateContainerResourceName(name corev1.ResourceName, at *field.Path) field.ErrorList {
	errs := validateResourceName(name, at)
	switch {
	case !strings.Contains(string(name), "/"):
		if !slices.Contains(containerResources, name) && !isHugePage(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for containers"))
		}
	case !isNative(name) && !isExtended(name):
		errs = append(errs, field.Invalid(at, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// isExtended says whether a resource is one that somebody else than Kubernetes provides.
func isExtended(name corev1.ResourceName) bool {
	if isNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// DefaultLimitRange fills in the defaults of limits for containers: pkg/apis/core/v1/defaults.go.
func DefaultLimitRange(limits *corev1.LimitRange, _ string) {
	for i := range limits.Spec.Limits {
		limit := &limits.Spec.Limits[i]
		if limit.Type == corev1.LimitTypeContainer {
			limit.Default = withAmounts(limit.Default, limit.Max)
			limit.DefaultRequest = withAmounts(withAmounts(limit.DefaultRequest, limit.Default), limit.Min)
		}
		for _, amounts := range []corev1.ResourceList{
			limit.Max, limit.Min, limit.Default, limit.DefaultRequest, limit.MaxLimitRequestRatio,
		} {
			defaultAmounts(amounts)
		}
	}
}

// withAmounts returns the amounts with those of others that they lack.
func withAmounts(amounts, others corev1.ResourceList) corev1.ResourceList {
	for name, amount := range others {
		if _, ok := amounts[name]; ok {
			continue
		}
		if amounts == nil {
			amounts = corev1.ResourceList{}
		}
		amounts[name] = amount.DeepCopy()
	}
	return amounts
}

// ValidateLimitRange checks a new LimitRange or an update; pkg/apis/core/validation/validation.go.
func ValidateLimitRange(limits, _ *corev1.LimitRange, _ string) field.ErrorList {
	root := field.NewPath("spec", "limits")
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range limits.Spec.Limits {
		limit, at := &limits.Spec.Limits[i], root.Index(i)
		errs = append(errs, validateLimitType(limit.Type, at.Child("type"))...)
		if seen[limit.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), limit.Type))
		}
		seen[limit.Type] = true
		errs = append(errs, validateLimit(limit, at)...)
	}
	return errs
}

func validateLimitType(limitType corev1.LimitType, at *field.Path) field.ErrorList {
	if errs := named(string(limitType), validation.IsQualifiedName, at); len(errs) > 0 {
		return errs
	}
	switch limitType {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return nil
	}
	if strings.Contains(string(limitType), "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, limitType, "must be a standard limit type or fully qualified")}
}

// validateLimit checks the names of a limit's resources, and then resource by resource how its amounts relate.
func validateLimit(limit *corev1.LimitRangeItem, root *field.Path) field.ErrorList {
	defaults, requests := limit.Default, limit.DefaultRequest
	var errs field.ErrorList
	names := map[corev1.ResourceName]bool{}
	check := func(amounts corev1.ResourceList, at *field.Path) {
		for _, name := range sortedNames(amounts) {
			names[name] = true
			if limit.Type == corev1.LimitTypePod || limit.Type == corev1.LimitTypeContainer {
				errs = append(errs, validateContainerResourceName(name, at.Key(string(name)))...)
			} else {
				errs = append(errs, validateResourceName(name, at.Key(string(name)))...)
			}
		}
	}
	check(limit.Max, root.Child("max"))
	check(limit.Min, root.Child("min"))
	if limit.Type == corev1.LimitTypePod {
		const text = "may not be specified when `type` is 'Pod'"
		if len(defaults) > 0 {
			errs = append(errs, field.Forbidden(root.Child("default"), text))
		}
		if len(requests) > 0 {
			errs = append(errs, field.Forbidden(root.Child("defaultRequest"), text))
		}
		defaults, requests = nil, nil
	}
	check(defaults, root.Child("default"))
	check(requests, root.Child("defaultRequest"))
	if limit.Type == corev1.LimitTypePersistentVolumeClaim {
		_, low := limit.Min[corev1.ResourceStorage]
		if _, high := limit.Max[corev1.ResourceStorage]; !low && !high {
			errs = append(errs, field.Required(root.Child("limits"),
				"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	check(limit.MaxLimitRequestRatio, root.Child("maxLimitRequestRatio"))
	for _, name := range sortedKeys(names) {
		errs = append(errs, validateLimitAmounts(limit, defaults, requests, name, root)...)
	}
	return errs
}

func sortedKeys(names map[corev1.ResourceName]bool) []corev1.ResourceName {
	sorted := make([]corev1.ResourceName, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// validateLimitAmounts checks that the amounts of one resource are in order.
func validateLimitAmounts(limit *corev1.LimitRangeItem, defaults, requests corev1.ResourceList, name corev1.ResourceName,
	root *field.Path,
) field.ErrorList {
	low, hasLow := limit.Min[name]
	high, hasHigh := limit.Max[name]
	byDefault, hasDefault := defaults[name]
	request, hasRequest := requests[name]
	ratio, hasRatio := limit.MaxLimitRequestRatio[name]
	var errs field.ErrorList
	ordered := func(a, b resource.Quantity, known bool, place string, shown resource.Quantity, what, than string) {
		if known && a.Cmp(b) > 0 {
			errs = append(errs, field.Invalid(root.Child(place).Key(string(name)), shown,
				fmt.Sprintf("%s value %s is greater than %s value %s", what, a.String(), than, b.String())))
		}
	}
	ordered(low, high, hasLow && hasHigh, "min", low, "min", "max")
	ordered(low, request, hasRequest && hasLow, "defaultRequest", request, "min", "default request")
	ordered(request, high, hasRequest && hasHigh, "defaultRequest", request, "default request", "max")
	ordered(request, byDefault, hasRequest && hasDefault, "defaultRequest", request, "default request", "default limit")
	ordered(low, byDefault, hasDefault && hasLow, "default", low, "min", "default")
	ordered(byDefault, high, hasDefault && hasHigh, "default", high, "default", "max")
	if at := root.Child("maxLimitRequestRatio").Key(string(name)); hasRatio {
		if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
			errs = append(errs, field.Invalid(at, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
		}
		if hasLow && hasHigh {
			if most := high.AsApproximateFloat64() / low.AsApproximateFloat64(); ratio.AsApproximateFloat64() > most {
				errs = append(errs, field.Invalid(at, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
			}
		}
	}
	overcommit := isNative(name) && !isHugePage(name)
	if !overcommit && hasDefault && hasRequest && byDefault.Cmp(request) != 0 {
		errs = append(errs, field.Invalid(root.Child("defaultRequest").Key(string(name)), request, fmt.Sprintf(
			"default value %s must equal to defaultRequest value %s in %s", byDefault.String(), request.String(), name)))
	}
	return errs
}

// DefaultResourceQuota fills in defaults: pkg/apis/core/v1/zz_generated.defaults.go.
func DefaultResourceQuota(quota *corev1.ResourceQuota, _ string) {
	defaultAmounts(quota.Spec.Hard)
	defaultAmounts(quota.Status.Hard)
	defaultAmounts(quota.Status.Used)
}

// ValidateResourceQuota checks a new ResourceQuota or an update; pkg/apis/core/validation/validation.go.
func ValidateResourceQuota(quota, old *corev1.ResourceQuota, version string) field.ErrorList {
	spec, root := &quota.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	errs := validateQuotaAmounts(spec.Hard, root.Child("hard"))
	errs = append(errs, validateQuotaScopes(spec, root.Child("scopes"))...)
	errs = append(errs, validateScopeSelector(spec, root.Child("scopeSelector"), version)...)
	if old != nil && !sameScopes(spec.Scopes, old.Spec.Scopes) {
		errs = append(errs, field.Invalid(root.Child("scopes"), spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

func sameScopes(a, b []corev1.ResourceQuotaScope) bool {
	within := func(a, b []corev1.ResourceQuotaScope) bool {
		return !slices.ContainsFunc(a, func(s corev1.ResourceQuotaScope) bool { return !slices.Contains(b, s) })
	}
	return within(a, b) && within(b, a)
}

func validateQuotaAmounts(amounts corev1.ResourceList, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(amounts) {
		at, amount := root.Key(string(name)), amounts[name]
		errs = append(errs, validateResourceName(name, at)...)
		if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		errs = append(errs, amountNotNegative(amount, at)...)
		if (slices.Contains(countResources, name) || isExtended(name)) && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, amount, "must be an integer"))
		}
	}
	return errs
}

var quotaScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
	corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
}

// scopedResources are what a quota limits of the pods it counts.
var scopedResources = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
}

// isScoped says whether a scope means something for a resource; IsResourceQuotaScopeValidForResource.
func isScoped(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch {
	case !slices.Contains(quotaScopes, scope):
		return true
	case scope == corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case scope == corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	default:
		return slices.Contains(scopedResources, name)
	}
}

// validateScope checks one scope. Scopes is what is printed where a resource has no use for it.
func validateScope(
	scope corev1.ResourceQuotaScope, hard corev1.ResourceList, scopes any, unknown *field.Error, at *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(quotaScopes, scope) {
		errs = append(errs, unknown)
	}
	for _, name := range sortedNames(hard) {
		if isQuotaResource(name) && !isScoped(scope, name) {
			errs = append(errs, field.Invalid(at, scopes, "unsupported scope applied to resource"))
		}
	}
	return errs
}

// validateScopePairs refuses scopes of which nothing has both.
func validateScopePairs(spec *corev1.ResourceQuotaSpec, scopes []corev1.ResourceQuotaScope, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(at, spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func validateQuotaScopes(spec *corev1.ResourceQuotaSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range spec.Scopes {
		errs = append(errs, validateScope(scope, spec.Hard, spec.Scopes, field.Invalid(at, spec.Scopes, "unsupported scope"), at)...)
	}
	return append(errs, validateScopePairs(spec, spec.Scopes, at)...)
}

// validateScopeSelector is validateScopedResourceSelectorRequirement.
func validateScopeSelector(spec *corev1.ResourceQuotaSpec, root *field.Path, version string) field.ErrorList {
	if spec.ScopeSelector == nil {
		return nil
	}
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	at := root.Child("matchExpressions")
	for i := range spec.ScopeSelector.MatchExpressions {
		term := &spec.ScopeSelector.MatchExpressions[i]
		scopes = append(scopes, term.ScopeName)
		unknown := field.Invalid(at.Child("scopeName"), term.ScopeName, "unsupported scope")
		errs = append(errs, validateScope(term.ScopeName, spec.Hard, internal(spec.ScopeSelector, version), unknown, at)...)
		errs = append(errs, validateScopeOperator(term, at)...)
	}
	return append(errs, validateScopePairs(spec, scopes, at)...)
}

func validateScopeOperator(term *corev1.ScopedResourceSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch term.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if term.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), term.Operator, "must be 'Exists' when scope is any of "+
				"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
	}
	switch term.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(term.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"),
				"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(term.Values) > 0 {
			errs = append(errs, field.Invalid(at.Child("values"), term.Values,
				"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), term.Operator, "not a valid selector operator"))
	}
	return errs
}

// ValidateResourceQuotaStatus checks a status write.
func ValidateResourceQuotaStatus(quota, _ *corev1.ResourceQuota, _ string) field.ErrorList {
	root := field.NewPath("status")
	return join(validateQuotaAmounts(quota.Status.Hard, root.Child("hard")), validateQuotaAmounts(quota.Status.Used, root.Child("used")))
}
