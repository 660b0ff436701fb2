package racer

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// audit checks what must hold in every order of steps: of each request of the controllers, against what its pass knows, and of
// all that was ever stored.
type audit struct {
	version apiserver.Version
	wrong   []string
	seen    map[string]bool
	// written holds the newest revisions that passes for a set have written, by kind.
	written map[types.UID]map[*apiserver.Kind]int64

	// What a set got of a predecessor of its name. The real controller does both, so where it happens what is left depends on
	// the order: see [audit.comparable].
	foreignRevision, foreignStatus bool
}

func newAudit(version apiserver.Version) *audit {
	return &audit{version: version, seen: map[string]bool{}, written: map[types.UID]map[*apiserver.Kind]int64{}}
}

func (a *audit) errorf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !a.seen[text] {
		a.seen[text] = true
		a.wrong = append(a.wrong, text)
	}
}

func (a *audit) report(t *testing.T) {
	t.Helper()
	for _, text := range a.wrong {
		t.Error(text)
	}
}

// watch returns a controller whose requests are checked.
func (a *audit) watch(controller sim.Racer) sim.Racer { return &audited{controller, a} }

type audited struct {
	sim.Racer
	audit *audit
}

func (c *audited) Start(env sim.RacerEnv) { c.Racer.Start(&auditedEnv{env, c.audit}) }

type auditedEnv struct {
	sim.RacerEnv
	audit *audit
}

func (e *auditedEnv) Queue(name string, workers int, begin func(key string) sim.Task) sim.RacerQueue {
	return e.RacerEnv.Queue(name, workers, func(key string) sim.Task {
		switch task := begin(key).(type) {
		case *setSync:
			return &auditedSync{setSync: task, audit: e.audit}
		case *replicaSync:
			return &auditedReplicas{task, e.audit}
		case *deploymentSync:
			return &auditedRollout{task, e.audit}
		default:
			return task
		}
	})
}

// auditedSync is a pass whose requests are checked.
type auditedSync struct {
	*setSync
	audit   *audit
	updated int                // pods that the pass has deleted for an update
	asked   *apiserver.Request // what it waits for the answer to
	began   bool
}

func (s *auditedSync) Next(resp *apiserver.Response) sim.Action {
	s.checkAnswer(resp)
	s.noteWrite(resp)
	action := s.setSync.Next(resp)
	s.asked, _, _ = action.Parts()
	if !s.began && s.set != nil {
		s.checkCaches()
	}
	s.began = true
	if s.asked != nil {
		s.check(s.asked)
	}
	return action
}

// noteWrite notes a create or update that succeeded. ControllerRevisions are not among what the controller waits for.
func (s *auditedSync) noteWrite(resp *apiserver.Response) {
	r := s.asked
	if resp == nil || resp.Err != nil || r == nil || r.Verb == schedule.Get || r.Verb == schedule.Delete || r.Kind == s.c.revisionKind {
		return
	}
	if r.Kind == s.c.podKind && metav1.GetControllerOf(resp.Object) == nil {
		return // released: no longer on behalf of the set
	}
	if s.audit.written[s.set.UID] == nil {
		s.audit.written[s.set.UID] = map[*apiserver.Kind]int64{}
	}
	s.audit.written[s.set.UID][r.Kind] = max(s.audit.written[s.set.UID][r.Kind], resp.Revision)
}

// checkCaches checks that a pass that goes on has all that was written on behalf of its set in its caches.
func (s *auditedSync) checkCaches() {
	for _, view := range []*cache.View{s.c.pods, s.c.sets, s.c.claims} {
		if read, written := view.Revision(), s.audit.written[s.set.UID][view.Kind()]; read < written {
			s.audit.errorf("a pass begins with %s at revision %d, and %d was written", view.Kind().Resource, read, written)
		}
	}
}

// checkAnswer notes that a revision that the pass was about to create exists, and is a predecessor's: it is used all the same
// (CreateControllerRevision of pkg/controller/history does not look at the owner), and goes with the predecessor.
func (s *auditedSync) checkAnswer(resp *apiserver.Response) {
	if s.stage != stageRevisions || s.calling != callInspect || resp.Err != nil {
		return
	}
	if ref := metav1.GetControllerOf(resp.Object); ref != nil && ref.UID != s.set.UID {
		s.audit.foreignRevision = true
	}
}

func (s *auditedSync) check(r *apiserver.Request) {
	switch {
	case r.Kind.Kind == "Pod" && r.Verb == schedule.Create:
		s.checkCreate(r.Object.(*corev1.Pod))
	case r.Kind.Kind == "Pod" && r.Verb == schedule.Delete:
		s.checkDelete(r.Name)
	case r.Kind.Kind == "StatefulSet" && r.Subresource == "status":
		// After a conflict the status is put into whatever set the cache has (UpdateStatefulSetStatus, v1.36.3).
		if r.Object.GetUID() != s.set.UID {
			s.audit.foreignStatus = true
		}
		s.checkStatus(&r.Object.(*appsv1.StatefulSet).Status)
	case r.Kind.Kind == "ControllerRevision" && r.Verb == schedule.Create:
		s.checkRevision(r.Object.(*appsv1.ControllerRevision))
	}
}

// known returns the pod of an ordinal that the pass knows, or nil.
func (s *auditedSync) known(ordinal int) *corev1.Pod {
	for _, pod := range s.pods {
		if ordinalOf(pod) == ordinal {
			return pod
		}
	}
	return nil
}

func (s *auditedSync) checkCreate(pod *corev1.Pod) {
	ref := metav1.GetControllerOf(pod)
	switch ordinal := ordinalOf(pod); {
	case s.set.DeletionTimestamp != nil:
		s.audit.errorf("pod %s is created for a set that is being deleted", pod.Name)
	case ref == nil || ref.UID != s.set.UID:
		s.audit.errorf("pod %s is created with the controller %v, want the set %s", pod.Name, ref, s.set.UID)
	case !inRange(s.set, ordinal):
		s.audit.errorf("pod %s is created, of %d replicas from %d on", pod.Name, *s.set.Spec.Replicas, startOrdinal(s.set))
	case s.known(ordinal) != nil:
		s.audit.errorf("pod %s is created, and known to exist", pod.Name)
	case !burst(s.set):
		for i := startOrdinal(s.set); i < ordinal; i++ {
			if before := s.known(i); before == nil || unavailable(before, s.set.Spec.MinReadySeconds, s.now) {
				s.audit.errorf("pod %s is created before %s is available", pod.Name, podName(s.set, i))
			}
		}
	}
}

// checkDelete checks that a pod goes only as it is not wanted, has ended or is to be replaced, and in the update no more at a
// time than the set allows.
func (s *auditedSync) checkDelete(name string) {
	_, ordinal := parseOrdinal(name)
	pod := s.known(ordinal)
	switch {
	case s.set.DeletionTimestamp != nil:
		s.audit.errorf("pod %s of a set that is being deleted is deleted by its controller", name)
	case pod == nil:
		s.audit.errorf("pod %s is deleted, and not known to be the set's", name)
	case terminating(pod):
		s.audit.errorf("pod %s is deleted again", name)
	case terminal(pod):
	case !inRange(s.set, ordinal):
	case podRevision(pod) == s.update.Name:
		s.audit.errorf("pod %s is deleted, and up to date", name)
	case ordinal-startOrdinal(s.set) < partitionOf(s.set):
		s.audit.errorf("pod %s is replaced, and below the partition %d", name, partitionOf(s.set))
	case s.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		s.audit.errorf("pod %s is replaced, and its set updates on delete", name)
	default:
		s.checkBudget(pod)
	}
}

// checkBudget checks that a healthy pod is replaced only while fewer pods are down than may be.
func (s *auditedSync) checkBudget(pod *corev1.Pod) {
	if burst(s.set) && s.unavailable(pod) {
		return
	}
	s.updated++
	allowed, down := 1, 0
	if s.audit.version != apiserver.V136 {
		allowed, _ = maxUnavailable(s.set)
	}
	for _, other := range s.replicas {
		if s.unavailable(other) {
			down++
		}
	}
	// Up to 1.36 what is below the pod does not count: it comes next.
	if s.audit.version == apiserver.V136 {
		down = 0
	}
	if down+s.updated > allowed {
		s.audit.errorf("pod %s is replaced: %d are down then, and at most %d may be", pod.Name, down+s.updated, allowed)
	}
}

func (s *auditedSync) checkStatus(status *appsv1.StatefulSetStatus) {
	if status.ObservedGeneration != s.set.Generation {
		s.audit.errorf("status observes generation %d, of %d", status.ObservedGeneration, s.set.Generation)
	}
	pods := int32(len(s.pods))
	for name, count := range map[string]int32{
		"replicas": status.Replicas, "ready": status.ReadyReplicas, "available": status.AvailableReplicas,
		"current": status.CurrentReplicas, "updated": status.UpdatedReplicas,
	} {
		// The controller counts what it replaces as current also where it is older: the server refuses a status below zero.
		if count < 0 && name != "current" || count > pods {
			s.audit.errorf("status has %d %s replicas, of %d pods", count, name, pods)
		}
	}
	if status.AvailableReplicas > status.ReadyReplicas || status.ReadyReplicas > status.Replicas {
		s.audit.errorf("status has %d replicas, %d ready and %d available", status.Replicas, status.ReadyReplicas, status.AvailableReplicas)
	}
	onDelete := s.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	was := s.set.Status.CurrentRevision
	if s.audit.version == apiserver.V136 && onDelete && was != "" && s.has(was) && status.CurrentRevision != was {
		s.audit.errorf("status has the current revision %s, was %s: 1.36 does not do that for OnDelete", status.CurrentRevision, was)
	}
}

// has reports whether the pass knows a revision.
func (s *auditedSync) has(revision string) bool {
	for _, known := range s.history {
		if known.Name == revision {
			return true
		}
	}
	return false
}

func (s *auditedSync) checkRevision(revision *appsv1.ControllerRevision) {
	for _, known := range s.history {
		if known.Revision >= revision.Revision {
			s.audit.errorf("revision %s is created with the number %d, after %d", revision.Name, revision.Revision, known.Revision)
		}
	}
}

// checkLog checks all that was ever stored.
func (a *audit) checkLog(log func(kind string) []apiserver.Event) {
	sets := map[types.UID]string{}
	for _, event := range log("StatefulSet") {
		set := event.Object.(*appsv1.StatefulSet)
		sets[set.UID] = set.Name
		if set.Status.ObservedGeneration > set.Generation && !a.foreignStatus {
			a.errorf("StatefulSet %s observes generation %d, of %d", set.Name, set.Status.ObservedGeneration, set.Generation)
		}
		before, ok := event.Prev.(*appsv1.StatefulSet)
		if !ok || before.UID != set.UID || a.foreignStatus {
			continue
		}
		if was, is := before.Status.ObservedGeneration, set.Status.ObservedGeneration; was > is {
			a.errorf("StatefulSet %s: observedGeneration falls from %d to %d", set.Name, was, is)
		}
	}
	a.checkPods(log("Pod"), sets)
	for _, event := range log("ControllerRevision") {
		revision := event.Object.(*appsv1.ControllerRevision)
		before, ok := event.Prev.(*appsv1.ControllerRevision)
		if ok && before.UID == revision.UID && before.Revision > revision.Revision {
			a.errorf("ControllerRevision %s: its number falls from %d to %d", revision.Name, before.Revision, revision.Revision)
		}
		a.checkOwner(event.Object, sets)
	}
}

// checkPods checks that there never are two pods of one identity: of one set and ordinal.
func (a *audit) checkPods(events []apiserver.Event, sets map[types.UID]string) {
	live := map[string]string{}
	for _, event := range events {
		pod := event.Object.(*corev1.Pod)
		a.checkOwner(pod, sets)
		ref := metav1.GetControllerOf(pod)
		parent, ordinal := parseOrdinal(pod.Name)
		if ref == nil || ref.Kind != "StatefulSet" || ordinal < 0 {
			continue
		}
		identity := parent + "-" + strconv.Itoa(ordinal)
		switch {
		case event.Type == apiserver.Deleted:
			delete(live, identity)
		case live[identity] != "" && live[identity] != string(pod.UID):
			a.errorf("two pods are %s", identity)
		default:
			live[identity] = string(pod.UID)
		}
	}
}

// checkOwner checks that what a set controls has the name and UID of one set, and its own name says so.
func (a *audit) checkOwner(obj apiserver.Object, sets map[types.UID]string) {
	ref := metav1.GetControllerOf(obj)
	if ref == nil || ref.Kind != "StatefulSet" {
		return
	}
	if sets[ref.UID] != ref.Name || !strings.HasPrefix(obj.GetName(), ref.Name+"-") {
		a.errorf("%s is controlled by %s, which is not the set %s", obj.GetName(), ref.Name, ref.UID)
	}
}

var (
	laterRevision  = regexp.MustCompile(`^(ControllerRevision/rev\d+#)([2-9]|\d\d+)$`)
	observedInText = regexp.MustCompile(`^observed=\d+ `)
)

// comparable returns a final state without what depends on the order of steps on a real cluster as well:
//
//   - How often a revision is created anew while its set is being deleted, and whether it exists then: the garbage collector
//     deletes it, and every pass of the set's controller creates it.
//   - In how many steps a ReplicaSet grew or shrank, which its generation tells.
//   - The revision of a set that took it from a predecessor of its name, and what that predecessor's status had observed.
func (a *audit) comparable(states []traceState) []traceState {
	terminating := map[any]bool{}
	for _, state := range states {
		if state.Kind == "StatefulSet" && state.Fields["terminating"] == true {
			terminating[fmt.Sprintf("%s controller=true block=true", state.Fields["id"])] = true
		}
	}
	kept := []traceState{}
	for _, state := range states {
		fields := maps.Clone(state.Fields)
		switch state.Kind {
		case "ControllerRevision":
			if a.foreignRevision || terminating[fields["owner"]] {
				continue
			}
			fields["id"] = laterRevision.ReplaceAllString(fields["id"].(string), "${1}later")
		case "ReplicaSet":
			delete(fields, "generation")
			fields["status"] = observedInText.ReplaceAllString(fields["status"].(string), "")
		case "StatefulSet":
			if a.foreignStatus {
				fields["status"] = observedInText.ReplaceAllString(fields["status"].(string), "")
			}
		}
		kept = append(kept, traceState{state.Kind, state.Name, fields})
	}
	return kept
}
