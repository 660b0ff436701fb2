package builtin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// TestPrepareNamespaceLabel checks that a namespace is labelled whose name came after its defaults, and that the labels of the
// client stay its own.
func TestPrepareNamespaceLabel(t *testing.T) {
	labels := map[string]string{"a": "1"}
	namespace := &corev1.Namespace{}
	namespace.GenerateName, namespace.Labels = "n-", labels
	builtin.DefaultNamespace(namespace, "1.36")
	namespace.Name = "n-abcde"
	builtin.PrepareNamespace(namespace)
	if got := namespace.Labels[corev1.LabelMetadataName]; got != "n-abcde" || namespace.Labels["a"] != "1" {
		t.Errorf("the labels are %v", namespace.Labels)
	}
	if len(labels) != 1 {
		t.Errorf("the labels of the client are %v", labels)
	}
}

// TestPreparePodUpdate checks that a pod gets back what admission added to it when it was new, and only that.
func TestPreparePodUpdate(t *testing.T) {
	old := &corev1.Pod{}
	builtin.PreparePod(old)
	pod := &corev1.Pod{}
	own := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}
	pod.Spec.Tolerations = []corev1.Toleration{own}
	builtin.PreparePodUpdate(pod, old)
	if pod.Spec.Priority == nil || *pod.Spec.Priority != *old.Spec.Priority || pod.Spec.PreemptionPolicy == nil {
		t.Errorf("priority %v, preemption policy %v", pod.Spec.Priority, pod.Spec.PreemptionPolicy)
	}
	if got := pod.Spec.Tolerations; len(got) != 2 || got[0] != own || got[1].Key != corev1.TaintNodeUnreachable {
		t.Errorf("the tolerations are %v", got)
	}
	other := &corev1.Pod{}
	other.Spec.Priority = new(int32(7))
	if builtin.PreparePodUpdate(other, old); *other.Spec.Priority != 7 {
		t.Errorf("priority %d, want the client's", *other.Spec.Priority)
	}
}
