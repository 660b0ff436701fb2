package racer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// nodes is a cluster of nodes that are well, with a StatefulSet "web" of two pods: web-0 on n1, and web-1 on n2.
type nodes struct {
	*driver
	begun time.Time
}

func newNodes(t *testing.T, lost ...Outage) *nodes {
	n := &nodes{driver: newDriver(t, apiserver.V136)}
	for _, name := range []string{"n1", "n2", "n3"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.must(n.node(name).create(node))
		n.must(n.node(name).patchStatus("application/merge-patch+json",
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`)))
	}
	n.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{Version: apiserver.V136}))
	lifecycle, kubelet := NewNodeLifecycle(NodeLifecycleOptions{Lost: lost}), NewKubelet(KubeletOptions{Lost: lost})
	n.start("nodes", lifecycle)
	n.start("scheduler", NewScheduler(SchedulerOptions{}))
	n.start("kubelet", kubelet)
	n.create("StatefulSet", newSet(2))
	n.settle()
	n.calls = nil
	n.begun = n.now
	lifecycle.ScriptBegins()
	kubelet.ScriptBegins()
	return n
}

func (n *nodes) node(name string) target {
	t := n.target("Node", name)
	t.namespace = ""
	return t
}

// until lets time pass, since the script began.
func (n *nodes) until(at time.Duration) {
	for n.now.Sub(n.begun) < at {
		if next, ok := n.deadline(); len(n.choices()) == 0 && (!ok || next.Sub(n.begun) > at) {
			return
		}
		n.step()
	}
}

// state is where the pods are, and how, and the taints of n1.
func (n *nodes) state() string {
	var parts []string
	for _, obj := range n.server.List(n.kind("Pod"), n.namespace) {
		pod := obj.(*corev1.Pod)
		text := fmt.Sprintf("%s on %s %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
		if !podReady(pod) {
			text += " not ready"
		}
		if c := podCondition(pod, corev1.DisruptionTarget); c != nil {
			text += " " + c.Reason
		}
		if terminating(pod) {
			text += " terminating"
		}
		parts = append(parts, text)
	}
	if node, ok := n.server.Get(n.kind("Node"), "", "n1").(*corev1.Node); ok {
		text := "n1 " + string(nodeReadiness(node))
		for _, taint := range node.Spec.Taints {
			text += " " + taint.Key + ":" + string(taint.Effect)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

const (
	wellState    = "web-0 on n1 Running\nweb-1 on n2 Running\nn1 True"
	lostTaints   = "n1 Unknown node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute"
	lostState    = "web-0 on n1 Running not ready\nweb-1 on n2 Running\n" + lostTaints
	evictedState = "web-0 on n1 Running not ready DeletionByTaintManager terminating\nweb-1 on n2 Running\n" + lostTaints
)

// TestLostNode follows a node that is lost for ever: what is written to it and to its pod, and that the pod then stays.
func TestLostNode(t *testing.T) {
	n := newNodes(t, Outage{Node: "n1", At: 10 * time.Second})
	for _, moment := range []struct {
		at   time.Duration
		want string
	}{
		{59 * time.Second, wellState}, {61 * time.Second, lostState}, {359 * time.Second, lostState},
		{361 * time.Second, evictedState}, {10 * time.Hour, evictedState},
	} {
		n.until(moment.at)
		if diff := cmp.Diff(moment.want, n.state()); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", moment.at, diff)
		}
	}
	want := []string{"Update Node/status n1", "Update Pod/status web-0", "Patch Node n1", "Patch Node n1",
		"Patch Pod/status web-0", "Delete Pod web-0"}
	if diff := cmp.Diff(want, n.writes("nodes")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestLostNodeEnds ends what would last for ever, in each of the ways there are; the set then has all its pods again.
func TestLostNodeEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		back time.Duration
		end  func(n *nodes)
		want string
	}{
		"the kubelet is back in time": {back: 2 * time.Minute, want: wellState},
		"the kubelet is back too late": {back: 10 * time.Minute,
			want: "web-0 on n3 Running\nweb-1 on n2 Running\nn1 True"},
		"somebody deletes the pod by force": {
			end: func(n *nodes) {
				n.must(n.target("Pod", "web-0").delete(deleteNow(n.get("Pod", "web-0").GetUID())))
			},
			want: "web-0 on n2 Running\nweb-1 on n2 Running\n" + lostTaints,
		},
		"somebody deletes the node": {
			end:  func(n *nodes) { n.must(n.node("n1").delete(metav1.DeleteOptions{})) },
			want: "web-0 on n2 Running\nweb-1 on n2 Running",
		},
		"somebody says that it is out of service": {
			end: func(n *nodes) {
				n.must(n.node("n1").patch("application/json-patch+json", []byte(`[{"op":"add","path":"/spec/taints/-",
					"value":{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}}]`)))
			},
			want: "web-0 on n2 Running\nweb-1 on n2 Running\n" + lostTaints + " node.kubernetes.io/out-of-service:NoExecute",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				n := newNodes(t, Outage{Node: "n1", At: 10 * time.Second, Back: tt.back})
				if seed > 0 {
					n.random = rand.New(rand.NewPCG(seed, 0))
				}
				if tt.end != nil {
					n.until(400 * time.Second)
					if diff := cmp.Diff(evictedState, n.state()); diff != "" {
						t.Fatalf("seed %d, after the eviction (-want +got):\n%s", seed, diff)
					}
					tt.end(n)
				}
				n.settle()
				if got := anyNode(n.state()); got != anyNode(tt.want) {
					t.Fatalf("seed %d: %s\nwant %s", seed, n.state(), tt.want)
				}
			}
		})
	}
}

// anyNode makes the node of pods that can be on either the same.
func anyNode(state string) string { return strings.NewReplacer("on n2", "on n3").Replace(state) }

// TestLostAlone loses the only nodes there are: then nothing is evicted, as the trouble may be the control plane's own.
func TestLostAlone(t *testing.T) {
	n := newNodes(t, Outage{Node: "n1"}, Outage{Node: "n2"}, Outage{Node: "n3"})
	n.settle()
	want := "web-0 on n1 Running not ready\nweb-1 on n2 Running not ready\nn1 Unknown node.kubernetes.io/unreachable:NoSchedule"
	if diff := cmp.Diff(want, n.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestTolerationTime(t *testing.T) {
	taint := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Value: "v", Effect: corev1.TaintEffectNoExecute}
	}
	exists := func(key string, seconds ...int64) corev1.Toleration {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
		if len(seconds) > 0 {
			toleration.TolerationSeconds = &seconds[0]
		}
		return toleration
	}
	for _, tt := range []struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string
	}{
		{nil, nil, "0s true true"},
		{[]corev1.Taint{taint("a")}, nil, "0s false false"},
		{[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("")}, "0s true true"},
		{[]corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{exists("a", 30), exists("b", 20)}, "20s true false"},
		{[]corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{exists("a"), exists("b", 20)}, "20s true false"},
		{[]corev1.Taint{taint("a"), taint("b")}, []corev1.Toleration{exists("a")}, "0s false false"},
		{[]corev1.Taint{taint("a")}, []corev1.Toleration{exists("a", -5)}, "0s true false"},
		{[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "w"}}, "0s false false"},
		{[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "v"}}, "0s true true"},
		{[]corev1.Taint{taint("a")}, []corev1.Toleration{{Key: "a", Value: "v", Effect: corev1.TaintEffectNoSchedule}}, "0s false false"},
	} {
		least, tolerated, forever := tolerationTime(tt.taints, tt.tolerations)
		if got := fmt.Sprint(least, tolerated, forever); got != tt.want {
			t.Errorf("%v of %v: %s, want %s", tt.tolerations, tt.taints, got, tt.want)
		}
	}
}
