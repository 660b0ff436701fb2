package racer

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

func TestRevisionOfRecreatedPod(t *testing.T) {
	rolling := func(partition int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
		}
	}
	bare := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	manual := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	odd := rolling(2)
	odd.Type = appsv1.OnDeleteStatefulSetStrategyType
	for _, test := range []struct {
		name     string
		strategy appsv1.StatefulSetUpdateStrategy
		start    int32
		current  int32 // status.currentReplicas
		ordinal  int
		want     bool
	}{
		{"partition 0", rolling(0), 0, 3, 0, false},
		{"below the partition", rolling(2), 0, 0, 1, true},
		{"at the partition", rolling(2), 0, 3, 2, false},
		{"below the partition, from ordinal 5", rolling(2), 5, 0, 6, true},
		{"at the partition, from ordinal 5", rolling(2), 5, 0, 7, false},
		{"no rollingUpdate, dies in mid-rollout", bare, 0, 2, 1, true},
		{"no rollingUpdate, rolled out already", bare, 0, 2, 2, false},
		{"no rollingUpdate, from ordinal 5", bare, 5, 2, 6, true},
		{"OnDelete", manual, 0, 3, 0, false},
		{"OnDelete with a partition", odd, 0, 0, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(3)
			set.Spec.UpdateStrategy, set.Status.CurrentReplicas = test.strategy, test.current
			set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: test.start}
			if got := atCurrentRevision(set, test.ordinal); got != test.want {
				t.Errorf("at the current revision: %t, want %t", got, test.want)
			}
		})
	}
}

// TestPodDiesInMidRollout has an explicit RollingUpdate without its struct: the dead pod comes back old.
func TestPodDiesInMidRollout(t *testing.T) {
	for _, test := range []struct {
		strategy string
		same     bool
	}{
		{`{"type":"RollingUpdate","rollingUpdate":null}`, true},
		{`{"type":"RollingUpdate","rollingUpdate":{"partition":0}}`, false},
	} {
		k := newKCM(t, StatefulSetControllerOptions{})
		k.up(newSet(3, func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		}))
		old := podRevision(k.pod("web-0"))
		k.patch("StatefulSet", "web",
			`{"spec":{"updateStrategy":`+test.strategy+`,"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
		k.settle()
		k.remove("web-2")
		k.settle()
		k.remove("web-0")
		k.settle()
		if got := podRevision(k.pod("web-0")) == old; got != test.same {
			t.Errorf("%s: web-0 came back at the old revision: %t, want %t", test.strategy, got, test.same)
		}
		if podRevision(k.pod("web-2")) == old {
			t.Errorf("%s: web-2 came back at the old revision", test.strategy)
		}
	}
}

func TestCompleteUpdate(t *testing.T) {
	for _, test := range []struct {
		name     string
		version  apiserver.Version
		change   func(*appsv1.StatefulSet)
		status   appsv1.StatefulSetStatus
		complete bool
	}{
		{"all updated", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, true},
		{"one not ready", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 1, UpdatedReplicas: 2}, false},
		{"one too many", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3}, false},
		{"OnDelete in 1.36", apiserver.V136, onDelete,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, false},
		{"OnDelete in 1.37", apiserver.V137, onDelete,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(2, func(set *appsv1.StatefulSet) {
				set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
			}, test.change)
			status := test.status
			status.CurrentRevision, status.UpdateRevision = "old", "new"
			completeUpdate(set, &status, test.version)
			if got := status.CurrentRevision == "new" && status.CurrentReplicas == 2; got != test.complete {
				t.Errorf("complete: %t, want %t", got, test.complete)
			}
		})
	}
}

// TestRollbackOnDelete is the oracle of the OnDelete story: A, B by hand, back to A.
func TestRollbackOnDelete(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, onDelete))
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"b"}}}}}`)
	k.expect("Create ControllerRevision rev", "Update StatefulSet/status web {gen=2 repl=1 ready=1 cur=1 upd=0}")
	k.remove("web-0")
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.settle()
	if s := k.set().Status; s.CurrentRevision == s.UpdateRevision || s.CurrentReplicas != 0 || s.UpdatedReplicas != 1 {
		t.Errorf("after the manual update: %+v", s)
	}
	k.writes("kcm")
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect("Update ControllerRevision rev", "Update StatefulSet/status web {gen=3 repl=1 ready=1 cur=0 upd=0 c=u}")
}

// TestMaxUnavailable plays 1.37, where several pods may be updated at a time.
func TestMaxUnavailable(t *testing.T) {
	for _, test := range []struct {
		name   string
		budget intstr.IntOrString
		change func(*appsv1.StatefulSet)
		broken string
		want   []string
	}{
		{"default", intstr.FromInt32(1), func(*appsv1.StatefulSet) {}, "", []string{"web-3"}},
		{"two", intstr.FromInt32(2), func(*appsv1.StatefulSet) {}, "", []string{"web-3", "web-2"}},
		{"half", intstr.FromString("50%"), func(*appsv1.StatefulSet) {}, "", []string{"web-3", "web-2"}},
		{"rounded down to none counts as one", intstr.FromString("10%"), func(*appsv1.StatefulSet) {}, "",
			[]string{"web-3"}},
		{"parallel: broken first, then the budget", intstr.FromInt32(2), parallel, "web-1", []string{"web-1", "web-3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKCM(t, StatefulSetControllerOptions{Version: apiserver.V137})
			k.up(newSet(4, test.change, func(set *appsv1.StatefulSet) {
				set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
				set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
					Partition: new(int32(0)), MaxUnavailable: &test.budget}
			}))
			if test.broken != "" {
				k.setReady(test.broken, "False")
			}
			k.settle()
			k.writes("kcm")
			k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
			k.settle()
			var got []string
			for _, call := range k.writes("kcm") {
				if name, ok := strings.CutPrefix(call, "Delete Pod "); ok {
					got = append(got, name)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("deleted %v, want %v", got, test.want)
			}
		})
	}
}
