package racer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// emptying is the part of a pass that deletes what is in the namespace, kind by kind: deleteAllContent of
// pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
type emptying struct {
	kinds []*apiserver.Kind // the pods come first; the others only once there are none left
	at    int               // of the kind that is dealt with
	step  emptyingStep
	wait  time.Duration // for the kind: how long its objects may take to go by themselves

	estimate   time.Duration // the longest wait
	errs       []error
	remaining  []string // "pods. has 3 resource instances"
	finalizers map[string]int
}

// emptyingStep is what is done about a kind next.
type emptyingStep uint8

const (
	emptyingBegin    emptyingStep = iota
	emptyingEstimate              // the answer to a list of the pods, for their grace periods
	emptyingDelete                // that to the delete of the collection
	emptyingList                  // that to a list of what is left
)

// finalizerWait is how long finalizers are given before the next look: finalizerEstimateSeconds.
const finalizerWait = 15 * time.Second

func (e *emptying) kind() *apiserver.Kind { return e.kinds[e.at] }

// next begins with the kind whose turn it is.
func (e *emptying) next(s *namespaceSync) sim.Action {
	e.step, e.wait = emptyingBegin, 0
	switch {
	case e.at == len(e.kinds):
		return s.report(e.findings(true))
	case e.at == 1 && len(e.remaining) > 0: // pods; without a word about them in the conditions
		return s.report(e.findings(false))
	case e.at == 0:
		return e.request(s, emptyingEstimate, schedule.List)
	default:
		return e.request(s, emptyingDelete, schedule.DeleteCollection)
	}
}

func (e *emptying) request(s *namespaceSync, step emptyingStep, verb schedule.Verb) sim.Action {
	e.step = step
	request := &apiserver.Request{Verb: verb, Kind: e.kind(), Namespace: s.target.name}
	if verb == schedule.DeleteCollection {
		background := metav1.DeletePropagationBackground
		request.Delete.PropagationPolicy = &background
	}
	return s.call(namespaceContent, request)
}

// answered goes on after an answer. An error is put down, and the next kind comes.
func (e *emptying) answered(s *namespaceSync, resp *apiserver.Response) sim.Action {
	if err := failure(resp); err != nil {
		if e.at == 0 {
			err = fmt.Errorf("failed to delete pods for namespace: %s, err: %w", s.target.name, err)
		}
		e.errs = append(e.errs, err)
		e.estimate = max(e.estimate, e.wait)
		return e.done(s)
	}
	switch e.step {
	case emptyingEstimate:
		e.wait = gracefulWait(resp.Items)
		if s.controller.env.Now().Sub(s.namespace.DeletionTimestamp.Time) >= e.wait {
			e.wait = 0
		}
		return e.request(s, emptyingDelete, schedule.DeleteCollection)
	case emptyingDelete:
		return e.request(s, emptyingList, schedule.List)
	default:
		e.count(s, resp.Items)
		return e.done(s)
	}
}

// done goes on to the next kind.
func (e *emptying) done(s *namespaceSync) sim.Action {
	e.at++
	return e.next(s)
}

// gracefulWait returns the longest grace period of the pods that run.
func gracefulWait(pods []apiserver.Object) time.Duration {
	var longest time.Duration
	for _, obj := range pods {
		pod := obj.(*corev1.Pod)
		if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil && !terminal(pod) {
			longest = max(longest, time.Duration(*seconds)*time.Second)
		}
	}
	return longest
}

// count notes what is left of a kind. Nobody holds what has no finalizer and no grace period: it should have gone.
func (e *emptying) count(s *namespaceSync, left []apiserver.Object) {
	if len(left) == 0 {
		s.foundEmpty(e.kind())
		return
	}
	kind := e.kind()
	e.remaining = append(e.remaining, fmt.Sprintf("%s.%s has %d resource instances", kind.Resource, kind.Group, len(left)))
	held := false
	for _, obj := range left {
		for _, finalizer := range obj.GetFinalizers() {
			if e.finalizers == nil {
				e.finalizers = map[string]int{}
			}
			e.finalizers[finalizer]++
			held = true
		}
	}
	if e.wait == 0 && held {
		e.wait = finalizerWait
	}
	if e.wait == 0 {
		err := fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", s.target.name,
			kind.GroupVersion().WithResource(kind.Resource))
		if e.at == 0 {
			err = fmt.Errorf("failed to delete pods for namespace: %s, err: %w", s.target.name, err)
		}
		e.errs = append(e.errs, err)
	}
	e.estimate = max(e.estimate, e.wait)
}

// findings are the conditions that are not good ones; namespaceConditionUpdater of status_condition_utils.go. Without totals
// they do not say what is left.
func (e *emptying) findings(totals bool) []corev1.NamespaceCondition {
	var found []corev1.NamespaceCondition
	add := func(conditionType corev1.NamespaceConditionType, reason, message string) {
		found = append(found, corev1.NamespaceCondition{
			Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		})
	}
	if totals && len(e.remaining) > 0 {
		slices.Sort(e.remaining)
		add(corev1.NamespaceContentRemaining, "SomeResourcesRemain",
			"Some resources are remaining: "+strings.Join(e.remaining, ", "))
	}
	if totals && len(e.finalizers) > 0 {
		var counts []string
		for _, finalizer := range slices.Sorted(maps.Keys(e.finalizers)) {
			counts = append(counts, fmt.Sprintf("%s in %d resource instances", finalizer, e.finalizers[finalizer]))
		}
		slices.Sort(counts) // "a.b in" comes after "a in"
		add(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(counts, ", "))
	}
	if len(e.errs) > 0 {
		var texts []string
		for _, err := range e.errs {
			texts = append(texts, err.Error())
		}
		slices.Sort(texts)
		add(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(texts), strings.Join(texts, ", ")))
	}
	return found
}
