package racer

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// protectionFinalizer keeps a claim while a pod uses it.
const protectionFinalizer = "kubernetes.io/pvc-protection"

// VolumeBinder plays the two controllers that PersistentVolumeClaims need. The volume binder makes a Pending claim
// Bound, with one write and without a PersistentVolume. The protection controller (pkg/controller/volume/pvcprotection,
// v1.36) takes its finalizer off a deleted claim once neither its cache nor a live list shows a pod that uses it.
type VolumeBinder struct {
	queue     sim.RacerQueue
	claimKind *apiserver.Kind
	podKind   *apiserver.Kind
	claims    *cache.View
	pods      *cache.View
}

// NewVolumeBinder returns the controllers for one run.
func NewVolumeBinder() *VolumeBinder { return &VolumeBinder{} }

// ProtectsClaims implements [sim.ClaimProtector].
func (v *VolumeBinder) ProtectsClaims() {}

// Start implements [sim.Racer].
func (v *VolumeBinder) Start(env sim.RacerEnv) {
	v.claimKind, v.podKind = env.Kind("PersistentVolumeClaim"), env.Kind("Pod")
	v.queue = env.Queue("claims", 1, func(key string) sim.Task {
		namespace, name := splitKey(key)
		return &claimSync{binder: v, target: target{
			kind: v.claimKind, namespace: namespace, name: name, manager: managerControllers}}
	})
	v.claims = env.Informer(v.claimKind, v.handleClaim)
	v.pods = env.Informer(v.podKind, v.handlePod)
}

func (v *VolumeBinder) handleClaim(d cache.Delta) {
	if d.Type != apiserver.Deleted {
		v.queue.Add(keyOf(d.Object))
	}
}

func (v *VolumeBinder) handlePod(d cache.Delta) {
	if pod := d.Object.(*corev1.Pod); d.Type == apiserver.Deleted || terminal(pod) {
		v.enqueueClaims(pod)
	}
	if d.Recreated() {
		v.enqueueClaims(d.Old.(*corev1.Pod)) // it has gone, and its successor may not use them
	}
}

func (v *VolumeBinder) enqueueClaims(pod *corev1.Pod) {
	for _, name := range claimsOf(pod) {
		v.queue.Add(key(pod.Namespace, name))
	}
}

func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// inUse reports whether a pod on a node uses the claim; one that no kubelet has seen yet does not count.
func inUse(pods []apiserver.Object, claim string) bool {
	return slices.ContainsFunc(pods, func(obj apiserver.Object) bool {
		pod := obj.(*corev1.Pod)
		return pod.Spec.NodeName != "" && slices.Contains(claimsOf(pod), claim)
	})
}

// claimSync is one pass over one claim.
type claimSync struct {
	binder *VolumeBinder
	target target
	step   claimSyncStep
	claim  *corev1.PersistentVolumeClaim
}

type claimSyncStep uint8

const (
	claimSyncBegin claimSyncStep = iota
	claimSyncListed
	claimSyncLast
)

// Next implements [sim.Task].
func (s *claimSync) Next(resp *apiserver.Response) sim.Action {
	switch s.step {
	case claimSyncBegin:
		return s.begin()
	case claimSyncListed:
		if err := failure(resp); err != nil {
			return sim.Fail(err)
		}
		if inUse(resp.Items, s.target.name) {
			return sim.Done()
		}
		changed := *s.claim
		changed.Finalizers = slices.DeleteFunc(slices.Clone(s.claim.Finalizers), func(finalizer string) bool {
			return finalizer == protectionFinalizer
		})
		s.step = claimSyncLast
		return sim.Call(s.target.update(&changed))
	default:
		return over(failure(resp))
	}
}

func (s *claimSync) begin() sim.Action {
	claim, ok := s.binder.claims.Get(s.target.namespace, s.target.name).(*corev1.PersistentVolumeClaim)
	if !ok {
		return sim.Done()
	}
	s.claim = claim
	deleting := claim.DeletionTimestamp != nil
	switch {
	case deleting && hasFinalizer(claim, protectionFinalizer) &&
		!inUse(s.binder.pods.List(claim.Namespace), claim.Name):
		s.step = claimSyncListed
		return sim.Call(&apiserver.Request{Verb: schedule.List, Kind: s.binder.podKind, Namespace: claim.Namespace})
	case !deleting && (claim.Status.Phase == "" || claim.Status.Phase == corev1.ClaimPending):
		s.step = claimSyncLast
		return sim.Call(s.target.patchStatus(types.StrategicMergePatchType, boundPatch(claim)))
	default:
		return sim.Done()
	}
}

func boundPatch(claim *corev1.PersistentVolumeClaim) []byte {
	status := corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID}, "status": status})
	if err != nil {
		panic(err) // a status always encodes
	}
	return data
}
