package ondelete

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// cluster is a set and its pods at one moment of a run.
type cluster struct {
	set  *appsv1.StatefulSet
	pods []*corev1.Pod // by name
}

// clusterAt returns the set and the pods as they were at a moment: after their last writes up to then, or before the first.
func clusterAt(t *testing.T, h *history.History, at time.Duration) cluster {
	t.Helper()
	var c cluster
	pods := map[string]*corev1.Pod{}
	seen := map[string]bool{}
	for i := range h.Records {
		r := &h.Records[i]
		name := r.Event.Kind + "/" + r.Event.Name
		obj := r.After
		switch {
		case r.Committed == 0:
			continue
		case r.At <= at:
		case seen[name]:
			continue
		default:
			obj = r.Before
		}
		seen[name] = true
		switch obj := obj.(type) {
		case *appsv1.StatefulSet:
			c.set = obj
		case *corev1.Pod:
			pods[name] = obj
			if gone(obj) {
				delete(pods, name)
			}
		}
	}
	if c.set == nil {
		t.Fatalf("no StatefulSet was written in the run")
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		c.pods = append(c.pods, pods[name])
	}
	return c
}

// gone reports whether the pod is the last that there was of one that is deleted.
func gone(pod *corev1.Pod) bool {
	return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// outOfDate is the blog's first series, "Out of Date Replicas".
func (c cluster) outOfDate() int32 { return *c.set.Spec.Replicas - c.set.Status.UpdatedReplicas }

// nonCurrent is the blog's second series, "Non-Current Replicas".
func (c cluster) nonCurrent() int32 { return c.set.Status.Replicas - c.set.Status.CurrentReplicas }

// oldPods counts the pods that were made from another template than the set has now, as far as its controller has seen that.
func (c cluster) oldPods() int {
	n := 0
	for _, pod := range c.pods {
		if revisionOf(pod) != c.set.Status.UpdateRevision {
			n++
		}
	}
	return n
}

// alert is the expression of KubeStatefulSetUpdateNotRolledOut (kubernetes-mixin), without the time that it must be true.
func (c cluster) alert() bool {
	return c.set.Status.CurrentRevision != c.set.Status.UpdateRevision && c.outOfDate() != 0
}

// letters names revisions A, B and so on, in the order of their numbers.
func letters(h *history.History) func(string) string {
	var names []string
	note := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range h.Records {
		for _, obj := range []apiserver.Object{h.Records[i].Before, h.Records[i].After} {
			if set, ok := obj.(*appsv1.StatefulSet); ok && h.Records[i].Committed != 0 {
				note(set.Status.CurrentRevision)
				note(set.Status.UpdateRevision)
			}
		}
	}
	return func(name string) string { return string(rune('A' + slices.Index(names, name))) }
}

// describe says the status of the set in the words of the oracle, and what dashboards make of it.
func (c cluster) describe(letter func(string) string) string {
	s := &c.set.Status
	return fmt.Sprintf("current=%s update=%s cur=%d upd=%d | out-of-date=%d non-current=%d alert=%t | old pods %d of %d",
		letter(s.CurrentRevision), letter(s.UpdateRevision), s.CurrentReplicas, s.UpdatedReplicas,
		c.outOfDate(), c.nonCurrent(), c.alert(), c.oldPods(), len(c.pods))
}

// TestOracle compares the status of a set of one under OnDelete, step by step, with what real controllers say: that of 1.36.3, and
// that with #136833. In the end that of 1.36 says A, A while the pod is at B: only currentReplicas and updatedReplicas give it
// away. The alert, which compares the revisions, is blind to it; and it is silent over the rollout that never ends.
func TestOracle(t *testing.T) {
	type step struct {
		at   time.Duration
		want string
	}
	begin := []step{
		{0, "current=A update=A cur=1 upd=1 | out-of-date=0 non-current=0 alert=false | old pods 0 of 1"},
		// The template is B now.
		{30 * time.Second, "current=A update=B cur=1 upd=0 | out-of-date=1 non-current=0 alert=true | old pods 1 of 1"},
	}
	tests := []struct {
		version string
		steps   []step
	}{
		{"1.36", append(slices.Clone(begin),
			// The pod is replaced, and ready.
			step{90 * time.Second, "current=A update=B cur=0 upd=1 | out-of-date=0 non-current=1 alert=false | old pods 0 of 1"},
			// The template is A again; the pod is not touched.
			step{time.Hour, "current=A update=A cur=0 upd=0 | out-of-date=1 non-current=1 alert=false | old pods 1 of 1"})},
		{"1.37", append(slices.Clone(begin),
			step{90 * time.Second, "current=B update=B cur=1 upd=1 | out-of-date=0 non-current=0 alert=false | old pods 0 of 1"},
			step{time.Hour, "current=B update=A cur=1 upd=0 | out-of-date=1 non-current=0 alert=true | old pods 1 of 1"})},
	}
	for _, test := range tests {
		t.Run(test.version, func(t *testing.T) {
			h := simtrack.Run(t, newWorld(t, "oracle.yaml", test.version, "ondelete/replacer"), sim.Plan{})
			letter := letters(h)
			for _, step := range test.steps {
				if diff := cmp.Diff(step.want, clusterAt(t, h, step.at).describe(letter)); diff != "" {
					t.Errorf("at %s (-want +got):\n%s", step.at, diff)
				}
			}
		})
	}
}

// TestRestart compares a restart, and a second one in the middle of it, with what the blog saw of its cockroachdb: the pods with
// READY and CONTROLLER-REVISION-HASH, and the status. (Of the last state the blog's text says readyReplicas=1, and the status that
// it shows 2.)
func TestRestart(t *testing.T) {
	h := simtrack.Run(t, newWorld(t, "restart.yaml", "", "ondelete/replacer"), sim.Plan{})
	letter := letters(h)
	tests := []struct {
		name         string
		at           time.Duration
		pods, status string
		outOfDate    int32
		nonCurrent   int32
	}{
		{"steady", 0, "1/1 A, 1/1 A, 1/1 A, 1/1 A", "current 4 at A, ready 4, replicas 4, updated 4 at A", 0, 0},
		{"restarted", 15 * time.Second, "1/1 A, 1/1 A, 1/1 A, 0/1 B", "current 3 at A, ready 3, replicas 4, updated 1 at B", 3, 1},
		{"three updated", 88 * time.Second, "1/1 A, 0/1 B, 1/1 B, 1/1 B", "current 1 at A, ready 3, replicas 4, updated 3 at B", 1, 3},
		{"restarted again", 107 * time.Second, "1/1 A, 0/1 B, 1/1 B, 0/1 C", "current 1 at A, ready 2, replicas 4, updated 1 at C", 3, 3},
		{"over", time.Hour, "1/1 C, 1/1 C, 1/1 C, 1/1 C", "current 4 at C, ready 4, replicas 4, updated 4 at C", 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := clusterAt(t, h, test.at)
			var pods []string
			for _, pod := range c.pods {
				ready := "1/1"
				if unfit(*pod) {
					ready = "0/1"
				}
				pods = append(pods, ready+" "+letter(revisionOf(pod)))
			}
			s := &c.set.Status
			status := fmt.Sprintf("current %d at %s, ready %d, replicas %d, updated %d at %s", s.CurrentReplicas,
				letter(s.CurrentRevision), s.ReadyReplicas, s.Replicas, s.UpdatedReplicas, letter(s.UpdateRevision))
			got := []any{strings.Join(pods, ", "), status, c.outOfDate(), c.nonCurrent()}
			if diff := cmp.Diff([]any{test.pods, test.status, test.outOfDate, test.nonCurrent}, got); diff != "" {
				t.Errorf("pods, status, out of date, non-current (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDashboard compares what the blog's dashboard shows of the restarts of an OnDelete set: the changes of its two series, out of
// date and non-current, over the run. The first ends at 0 whenever all pods are replaced; the second, of its vault, "stayed that way
// forever", up to 1.36.
func TestDashboard(t *testing.T) {
	steps := []string{
		"0/0", // at rest at A
		"2/0", // the template is B
		"2/1", // web-1 terminates: it counts as a replica, but not as a current one
		"2/0", // it is gone
		"1/1", // it is back at B
		"1/2", // web-0 terminates
		"2/2", // the template is C: web-1 is out of date again
		"2/1", // web-0 is gone
		"1/2", // it is back at C; web-1 terminates, which it was counted for neither before nor now
		"1/1", // web-1 is gone
		"0/2", // it is back at C: the rollout is over
	}
	tests := map[string][]string{
		"1.36": steps,
		"1.37": append(slices.Clone(steps), "0/0"), // and ready: C is the current revision
	}
	for version, want := range tests {
		t.Run(version, func(t *testing.T) {
			h := simtrack.Run(t, newWorld(t, "rollout-"+version+".yaml", "", "ondelete/replacer"), sim.Plan{})
			var points []string
			for i := range h.Records {
				c := clusterAt(t, h, h.Records[i].At)
				point := fmt.Sprintf("%d/%d", c.outOfDate(), c.nonCurrent())
				if len(points) == 0 || points[len(points)-1] != point {
					points = append(points, point)
				}
			}
			if diff := cmp.Diff(want, points); diff != "" {
				t.Errorf("out of date/non-current (-want +got):\n%s", diff)
			}
		})
	}
}
