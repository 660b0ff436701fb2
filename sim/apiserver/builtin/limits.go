package builtin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// The admission plugin LimitRanger: plugin/pkg/admission/limitranger/admission.go. Where a real server goes through a map, so that
// the order of what it says is random, this one goes by name.

// limitAnnotation says which resources of a pod are those of a LimitRange.
const limitAnnotation = "kubernetes.io/limit-ranger"

// DefaultLimits gives the containers of a new pod the requests and limits of a LimitRange that they do not have.
func DefaultLimits(pod *corev1.Pod, limits *corev1.LimitRange) {
	requests, caps := corev1.ResourceList{}, corev1.ResourceList{}
	for _, limit := range limits.Spec.Limits {
		if limit.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, limit.DefaultRequest)
			maps.Copy(caps, limit.Default)
		}
	}
	var set []string
	// The lists are still needed as the client sent them.
	pod.Spec.Containers = slices.Clone(pod.Spec.Containers)
	pod.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	for _, group := range []struct {
		word       string
		containers []corev1.Container
	}{{"container", pod.Spec.Containers}, {"init container", pod.Spec.InitContainers}} {
		for i := range group.containers {
			c := &group.containers[i]
			for _, amounts := range []struct {
				word     string
				list     *corev1.ResourceList
				defaults corev1.ResourceList
			}{{"request", &c.Resources.Requests, requests}, {"limit", &c.Resources.Limits, caps}} {
				if names := addMissing(amounts.list, amounts.defaults); len(names) > 0 {
					set = append(set, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), amounts.word, group.word, c.Name))
				}
			}
		}
	}
	if len(set) == 0 {
		return
	}
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[limitAnnotation] = "LimitRanger plugin set: " + strings.Join(set, "; ")
	pod.Annotations = annotations
}

// addMissing replaces a list by one that has the defaults as well, and returns the names of what it did not have.
func addMissing(list *corev1.ResourceList, defaults corev1.ResourceList) []string {
	var names []string
	for _, name := range sortedNames(defaults) {
		if _, ok := (*list)[name]; !ok {
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	full := maps.Clone(defaults)
	maps.Copy(full, *list)
	*list = full
	return names
}

// CheckPodLimits returns what of a pod a LimitRange does not allow, nil if nothing.
func CheckPodLimits(pod *corev1.Pod, limits *corev1.LimitRange) error {
	var errs []error
	for i := range limits.Spec.Limits {
		switch limit := &limits.Spec.Limits[i]; limit.Type {
		case corev1.LimitTypeContainer:
			for _, group := range containerGroups(&pod.Spec) {
				for j := range group.containers {
					errs = append(errs, checkLimit(limit, &group.containers[j].Resources)...)
				}
			}
		case corev1.LimitTypePod:
			errs = append(errs, checkLimit(limit, podResources(&pod.Spec))...)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// CheckClaimLimits returns what of a claim a LimitRange does not allow, nil if nothing.
func CheckClaimLimits(claim *corev1.PersistentVolumeClaim, limits *corev1.LimitRange) error {
	var errs []error
	requested := &corev1.ResourceRequirements{Requests: claim.Spec.Resources.Requests}
	for i := range limits.Spec.Limits {
		limit := &limits.Spec.Limits[i]
		if limit.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, name := range sortedNames(limit.Min) {
			errs = append(errs, checkMinimum(limit.Type, name, limit.Min[name], requested))
		}
		for _, name := range sortedNames(limit.Max) {
			// A claim has no limits of its own.
			if amount, ok := requested.Requests[name]; !ok {
				errs = append(errs, boundError{"maximum", limit.Type, name, limit.Max[name], "request", nil})
			} else if beyond(amount, limit.Max[name]) {
				errs = append(errs, boundError{"maximum", limit.Type, name, limit.Max[name], "request", &amount})
			}
		}
	}
	return utilerrors.NewAggregate(errs)
}

// checkLimit checks the resources of a container or a pod.
func checkLimit(limit *corev1.LimitRangeItem, resources *corev1.ResourceRequirements) []error {
	var errs []error
	for _, name := range sortedNames(limit.Min) {
		errs = append(errs, checkMinimum(limit.Type, name, limit.Min[name], resources))
	}
	for _, name := range sortedNames(limit.Max) {
		errs = append(errs, checkMaximum(limit.Type, name, limit.Max[name], resources))
	}
	for _, name := range sortedNames(limit.MaxLimitRequestRatio) {
		errs = append(errs, checkRatio(limit.Type, name, limit.MaxLimitRequestRatio[name], resources))
	}
	return errs
}

// boundError is a resource below a minimum or above a maximum; found is nil for one that is not there at all.
type boundError struct {
	bound string
	per   corev1.LimitType
	name  corev1.ResourceName
	limit resource.Quantity
	word  string
	found *resource.Quantity
}

func (e boundError) Error() string {
	text := fmt.Sprintf("%s %s usage per %s is %s", e.bound, e.name, e.per, e.limit.String())
	if e.found == nil {
		return text + ".  No " + e.word + " is specified"
	}
	return fmt.Sprintf("%s, but %s is %s", text, e.word, e.found.String())
}

func checkMinimum(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, r *corev1.ResourceRequirements) error {
	request, requested := r.Requests[name]
	limit, limited := r.Limits[name]
	switch {
	case !requested:
		return boundError{"minimum", per, name, bound, "request", nil}
	case beyond(bound, request):
		return boundError{"minimum", per, name, bound, "request", &request}
	case limited && beyond(bound, limit):
		return boundError{"minimum", per, name, bound, "limit", &limit}
	default:
		return nil
	}
}

func checkMaximum(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, r *corev1.ResourceRequirements) error {
	request, requested := r.Requests[name]
	limit, limited := r.Limits[name]
	switch {
	case !limited:
		return boundError{"maximum", per, name, bound, "limit", nil}
	case beyond(limit, bound):
		return boundError{"maximum", per, name, bound, "limit", &limit}
	case requested && beyond(request, bound):
		return boundError{"maximum", per, name, bound, "request", &request}
	default:
		return nil
	}
}

func checkRatio(per corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, r *corev1.ResourceRequirements) error {
	text := fmt.Sprintf("%s max limit to request ratio per %s is %s, but ", name, per, bound.String())
	request, limit := r.Requests[name], r.Limits[name]
	switch {
	case request.IsZero():
		return errors.New(text + "no request is specified or request is 0")
	case limit.IsZero():
		return errors.New(text + "no limit is specified or limit is 0")
	}
	ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64()
	if ratio > bound.AsApproximateFloat64() {
		return fmt.Errorf("%sprovided ratio is %f", text, ratio)
	}
	return nil
}

// beyond reports whether an amount is larger than another.
func beyond(a, b resource.Quantity) bool { return a.Cmp(b) > 0 }

// podResources returns what the containers of a pod take together: podRequests and podLimits.
func podResources(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	sum := func(of func(*corev1.Container) corev1.ResourceList, own corev1.ResourceList) corev1.ResourceList {
		total, sidecars, initial := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
		for i := range spec.Containers {
			addAmounts(total, of(&spec.Containers[i]))
		}
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				addAmounts(total, of(c))
				addAmounts(sidecars, of(c))
				largerAmounts(initial, sidecars)
				continue
			}
			together := maps.Clone(of(c))
			if together == nil {
				together = corev1.ResourceList{}
			}
			addAmounts(together, sidecars)
			largerAmounts(initial, together)
		}
		largerAmounts(total, initial)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, ok := own[name]; ok {
				total[name] = amount
			}
		}
		return total
	}
	own := corev1.ResourceRequirements{}
	if spec.Resources != nil {
		own = *spec.Resources
	}
	return &corev1.ResourceRequirements{
		Requests: sum(func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }, own.Requests),
		Limits:   sum(func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }, own.Limits),
	}
}

func addAmounts(total, more corev1.ResourceList) {
	for name, amount := range more {
		sum := total[name].DeepCopy()
		sum.Add(amount)
		total[name] = sum
	}
}

func largerAmounts(most, others corev1.ResourceList) {
	for name, amount := range others {
		if have, ok := most[name]; !ok || beyond(amount, have) {
			most[name] = amount
		}
	}
}
