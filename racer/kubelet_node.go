package racer

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// nodeReturn says of a node that it is back: GET, and a strategic merge patch of its status; pkg/kubelet/kubelet_node_status.go.
type nodeReturn struct {
	kubelet *Kubelet
	target  target
	step    podSyncStep
}

// Next implements [sim.Task].
func (n *nodeReturn) Next(resp *apiserver.Response) sim.Action {
	switch n.step {
	case podSyncBegin:
		n.step = podSyncRead
		return sim.Call(n.target.get())
	case podSyncRead:
		if err := failure(resp); err != nil {
			return over(err)
		}
		n.step = podSyncLast
		return sim.Call(n.target.patchStatus(types.StrategicMergePatchType, n.patch(resp.Object.(*corev1.Node))))
	default:
		return over(failure(resp))
	}
}

// patch makes every condition again what a kubelet that is well makes it.
func (n *nodeReturn) patch(node *corev1.Node) []byte {
	at := metav1.NewTime(n.kubelet.env.Now())
	var conditions []corev1.NodeCondition
	for _, condition := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	} {
		condition.LastHeartbeatTime, condition.LastTransitionTime = at, at
		for _, old := range node.Status.Conditions {
			if old.Type == condition.Type && old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
		}
		conditions = append(conditions, condition)
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		panic(err) // conditions always encode
	}
	return data
}
