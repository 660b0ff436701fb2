package racer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// NamespaceControllerOptions configures a [NamespaceController].
type NamespaceControllerOptions struct {
	// Delay is how much longer than the 5 seconds of a real controller it waits, in virtual time, before it looks at a
	// namespace that is being deleted.
	Delay time.Duration
	// Workers is how many namespaces are emptied at a time; zero means 10, the default of --concurrent-namespace-syncs.
	Workers int
}

// NamespaceController plays kube-controller-manager's namespace controller (pkg/controller/namespace, v1.36.3): it empties a
// namespace that is being deleted and then lets it go. A pass reads the namespace live, deletes its pods and, once these have
// gone, the collections of all other kinds; writes into the conditions of the namespace what is left; and takes its finalizer
// off when nothing is. What has finalizers, or a grace period, it waits for.
//
// A real controller takes the kinds in a random order, this one in the order of the kinds table; aliases and further versions
// of a kind, of which a real one deletes the same objects again, are left out. It knows the kinds without asking, and does not
// ask again for one that it has found empty: nothing can be created in the namespace any more.
type NamespaceController struct {
	options    NamespaceControllerOptions
	env        sim.RacerEnv
	queue      *pacedQueue
	kind       *apiserver.Kind
	pods       *apiserver.Kind
	contents   []*apiserver.Kind // those to delete from a namespace, without the pods
	namespaces *cache.View
	empty      map[types.UID]map[*apiserver.Kind]bool // what was found empty, by namespace
}

// NewNamespaceController returns the controller for one run.
func NewNamespaceController(options NamespaceControllerOptions) *NamespaceController {
	options.Workers = cmp.Or(options.Workers, 10)
	return &NamespaceController{options: options, empty: map[types.UID]map[*apiserver.Kind]bool{}}
}

// Start implements [sim.Racer].
func (n *NamespaceController) Start(env sim.RacerEnv) {
	n.env = env
	n.kind, n.pods = env.Kind("Namespace"), env.Kind("Pod")
	n.contents = slices.DeleteFunc(preferred(env.Kinds()), func(kind *apiserver.Kind) bool {
		return !kind.Namespaced || kind == n.pods
	})
	queue := env.Queue("namespaces", n.options.Workers, func(name string) sim.Task {
		return &namespaceSync{controller: n, target: targetOf(n.kind, "", name)}
	})
	n.queue = newPacedQueue(env, namespaceBackoff, namespaceBackoffMax, queue)
	n.namespaces = env.Informer(n.kind, n.handle)
}

// namespaceDelay is what a real controller leaves to API servers and stores that do not know of the deletion yet:
// namespaceDeletionGracePeriod of namespace_controller.go.
const namespaceDelay = 5 * time.Second

func (n *NamespaceController) handle(d cache.Delta) {
	if d.Type == apiserver.Deleted {
		delete(n.empty, d.Object.GetUID())
		return
	}
	if d.Object.GetDeletionTimestamp() != nil {
		n.queue.AddAfter(d.Object.GetName(), namespaceDelay+n.options.Delay)
	}
}

// The back-off of the controller's queue, which ends earlier than that of others: nsControllerRateLimiter.
const (
	namespaceBackoff    = 5 * time.Millisecond
	namespaceBackoffMax = time.Minute
)

// namespaceSync is one pass over a namespace: namespacedResourcesDeleter.Delete of deletion/namespaced_resources_deleter.go.
type namespaceSync struct {
	controller *NamespaceController
	target     target
	step       namespaceStep
	namespace  *corev1.Namespace // as it was read last; the conditions are those of this pass
	emptying   emptying
}

// namespaceStep is what a pass waits for the answer to.
type namespaceStep uint8

const (
	namespaceBegin        namespaceStep = iota
	namespaceRead                       // the first, live read
	namespacePhase                      // a status write that makes the namespace Terminating
	namespacePhaseRead                  // a read after that was a conflict
	namespaceContent                    // deletes and lists
	namespaceConditions                 // a status write that says what is left
	namespaceFinalize                   // a write of its finalizers
	namespaceFinalizeRead               // a read after that was a conflict
)

// Next implements [sim.Task].
func (s *namespaceSync) Next(resp *apiserver.Response) sim.Action {
	switch s.step {
	case namespaceBegin:
		if s.controller.namespaces.Get("", s.target.name) == nil {
			return s.over()
		}
		return s.call(namespaceRead, s.target.get())
	case namespaceRead:
		return s.read(resp)
	case namespacePhase:
		return s.phaseWritten(resp)
	case namespacePhaseRead:
		return s.reread(resp, s.terminate)
	case namespaceContent:
		return s.emptying.answered(s, resp)
	case namespaceConditions: // an error is only logged
		if resp.Err != nil {
			s.controller.env.Log("couldn't update status condition for namespace " + s.target.name + ": " + resp.Err.Error())
		}
		return s.emptied()
	case namespaceFinalize:
		if err := failure(resp); apierrors.IsConflict(err) {
			return s.call(namespaceFinalizeRead, s.target.get())
		} else if err != nil && !apierrors.IsNotFound(err) {
			return s.fail(err)
		}
		return s.over()
	default:
		return s.reread(resp, s.finalize)
	}
}

func (s *namespaceSync) call(step namespaceStep, request *apiserver.Request) sim.Action {
	s.step = step
	return sim.Call(request)
}

// over ends a pass that leaves nothing to do.
func (s *namespaceSync) over() sim.Action {
	return s.controller.queue.over(s.target.name, nil)
}

// fail ends a pass that is to be made again.
func (s *namespaceSync) fail(err error) sim.Action {
	return s.controller.queue.over(s.target.name, fmt.Errorf("deletion of namespace %s failed: %w", s.target.name, err))
}

// gone ends a pass that could not read or write the namespace: with an error, unless it does not exist any more.
func (s *namespaceSync) gone(err error) sim.Action {
	if apierrors.IsNotFound(err) {
		return s.over()
	}
	return s.fail(err)
}

func (s *namespaceSync) read(resp *apiserver.Response) sim.Action {
	if err := failure(resp); err != nil {
		return s.gone(err)
	}
	s.namespace = resp.Object.(*corev1.Namespace)
	if s.namespace.DeletionTimestamp == nil {
		return s.over()
	}
	return s.terminate()
}

// terminate sees to it that the phase of the namespace is Terminating.
func (s *namespaceSync) terminate() sim.Action {
	if s.namespace.DeletionTimestamp == nil || s.namespace.Status.Phase == corev1.NamespaceTerminating {
		return s.begin()
	}
	terminating := *s.namespace
	terminating.Status.Phase = corev1.NamespaceTerminating
	return s.call(namespacePhase, s.target.updateStatus(&terminating))
}

func (s *namespaceSync) phaseWritten(resp *apiserver.Response) sim.Action {
	switch err := failure(resp); {
	case apierrors.IsConflict(err):
		return s.call(namespacePhaseRead, s.target.get())
	case err != nil:
		return s.gone(err)
	}
	s.namespace = resp.Object.(*corev1.Namespace)
	return s.begin()
}

var errNamespaceReplaced = errors.New("namespace uid has changed across retries")

// reread takes the namespace as it is after a conflict, and tries again at once.
func (s *namespaceSync) reread(resp *apiserver.Response, again func() sim.Action) sim.Action {
	if err := failure(resp); err != nil {
		return s.gone(err)
	}
	latest := resp.Object.(*corev1.Namespace)
	if latest.UID != s.namespace.UID {
		return s.fail(errNamespaceReplaced)
	}
	s.namespace = latest
	return again()
}

// foundEmpty notes that there is nothing left of a kind.
func (s *namespaceSync) foundEmpty(kind *apiserver.Kind) {
	empty := s.controller.empty[s.namespace.UID]
	if empty == nil {
		empty = map[*apiserver.Kind]bool{}
		s.controller.empty[s.namespace.UID] = empty
	}
	empty[kind] = true
}

// begin begins to empty the namespace, unless that is over.
func (s *namespaceSync) begin() sim.Action {
	if s.namespace.DeletionTimestamp == nil || len(s.namespace.Spec.Finalizers) == 0 {
		return s.over()
	}
	kinds := slices.DeleteFunc(slices.Clone(s.controller.contents), func(k *apiserver.Kind) bool {
		return s.controller.empty[s.namespace.UID][k]
	})
	s.emptying = emptying{kinds: slices.Insert(kinds, 0, s.controller.pods)}
	return s.emptying.next(s)
}

// report writes what was found into the conditions of the namespace, if it is news.
func (s *namespaceSync) report(found []corev1.NamespaceCondition) sim.Action {
	conditions, changed := s.conditions(found)
	if !changed {
		return s.emptied()
	}
	reported := *s.namespace
	reported.Status.Conditions = conditions
	return s.call(namespaceConditions, s.target.updateStatus(&reported))
}

// emptied says what comes after the contents.
func (s *namespaceSync) emptied() sim.Action {
	switch e := &s.emptying; {
	case len(e.errs) > 0:
		return s.fail(utilerrors.NewAggregate(e.errs))
	case e.estimate > 0:
		s.controller.env.Log(fmt.Sprintf("some content remains in the namespace %s, estimate %d seconds before it is removed",
			s.target.name, int(e.estimate.Seconds())))
		s.controller.queue.AddAfter(s.target.name, (e.estimate/2 + time.Second).Truncate(time.Second))
		return sim.Done()
	default:
		return s.finalize()
	}
}

// finalize takes the controller's finalizer off the namespace.
func (s *namespaceSync) finalize() sim.Action {
	finalized := &corev1.Namespace{TypeMeta: s.namespace.TypeMeta, ObjectMeta: s.namespace.ObjectMeta, Spec: s.namespace.Spec}
	finalized.Spec.Finalizers = slices.DeleteFunc(slices.Clone(finalized.Spec.Finalizers), func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	slices.Sort(finalized.Spec.Finalizers)
	request := s.target.update(finalized)
	request.Subresource = "finalize"
	return s.call(namespaceFinalize, request)
}

// conditions returns the conditions of the namespace with those found, and with a good word for each of the others; and
// whether that is a change. updateConditions of deletion/status_condition_utils.go.
func (s *namespaceSync) conditions(found []corev1.NamespaceCondition) (all []corev1.NamespaceCondition, changed bool) {
	all = slices.Clone(s.namespace.Status.Conditions)
	now := metav1.NewTime(s.controller.env.Now())
	for _, condition := range goodConditions {
		same := func(c corev1.NamespaceCondition) bool { return c.Type == condition.Type }
		if i := slices.IndexFunc(found, same); i >= 0 {
			condition = found[i]
		}
		condition.LastTransitionTime = now
		i := slices.IndexFunc(all, same)
		if i < 0 {
			all, changed = append(all, condition), true
			continue
		}
		old := all[i]
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		changed = changed || old.Status != condition.Status || old.Reason != condition.Reason || old.Message != condition.Message
		all[i] = condition
	}
	return all, changed
}

// goodConditions are the conditions of a namespace that nothing is wrong with, in the order in which they are written.
var goodConditions = []corev1.NamespaceCondition{
	{
		Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse,
		Reason: "ResourcesDiscovered", Message: "All resources successfully discovered",
	}, {
		Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse,
		Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed",
	}, {
		Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse,
		Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization",
	}, {
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse,
		Reason: "ContentRemoved", Message: "All content successfully removed",
	}, {
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionFalse,
		Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished",
	},
}
