package racer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"
)

// The annotations by which the Deployment controller keeps its books (pkg/controller/deployment/util, v1.36.3).
const (
	revisionAnnotation        = "deployment.kubernetes.io/revision"
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxReplicasAnnotation     = "deployment.kubernetes.io/max-replicas"
)

// maxRevisionHistory is the longest text of the revisions that a ReplicaSet has had: maxRevHistoryLengthInChars.
const maxRevisionHistory = 2000

// ownAnnotations are the annotations that a ReplicaSet does not get from its Deployment, nor a Deployment from the ReplicaSet
// that it is rolled back to.
var ownAnnotations = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true, revisionAnnotation: true, revisionHistoryAnnotation: true,
	desiredReplicasAnnotation: true, maxReplicasAnnotation: true, appsv1.DeprecatedRollbackTo: true,
}

// templateHash returns the hash that names the ReplicaSet of a template: ComputeHash of pkg/controller.
func templateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, dump.ForHash(*template)) // a hash takes everything
	if collisions != nil {
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisions))
		hash.Write(count[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// newReplicaSet returns the ReplicaSet for a Deployment's template, still without replicas and annotations.
func newReplicaSet(deployment *appsv1.Deployment) *appsv1.ReplicaSet {
	hash := templateHash(&deployment.Spec.Template, deployment.Status.CollisionCount)
	template := *deployment.Spec.Template.DeepCopy()
	template.Labels = withEntry(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	selector := deployment.Spec.Selector.DeepCopy()
	selector.MatchLabels = withEntry(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	name := deployment.Name[:min(len(deployment.Name), validation.DNS1123SubdomainMaxLength-1-len(hash))] + "-" + hash
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: name, Labels: maps.Clone(template.Labels), Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, deploymentGVK)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), MinReadySeconds: deployment.Spec.MinReadySeconds, Selector: selector, Template: template,
		},
	}
}

// sameTemplateButHash reports whether two templates are equal but for the hash in their labels: EqualIgnoreHash.
func sameTemplateButHash(a, b *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(withoutHash(a), withoutHash(b))
}

func withoutHash(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if _, ok := template.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
		return template
	}
	without := *template
	without.Labels = maps.Clone(template.Labels)
	delete(without.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return &without
}

// byCreation orders ReplicaSets from old to new.
func byCreation(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// byRevision orders ReplicaSets by their revisions, and those of malformed or equal ones from old to new.
func byRevision(a, b *appsv1.ReplicaSet) int {
	revisionA, errA := revisionOf(a)
	revisionB, errB := revisionOf(b)
	if errA != nil || errB != nil || revisionA == revisionB {
		return byCreation(a, b)
	}
	return cmp.Compare(revisionA, revisionB)
}

// revisionOf returns the revision of a ReplicaSet; zero if it has none.
func revisionOf(set *appsv1.ReplicaSet) (int64, error) {
	text, ok := set.Annotations[revisionAnnotation]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// lastRevisions returns the two highest revisions of ReplicaSets.
func lastRevisions(sets []*appsv1.ReplicaSet) (highest, second int64) {
	for _, set := range sets {
		switch revision, err := revisionOf(set); {
		case err != nil:
		case revision >= highest:
			highest, second = revision, highest
		default:
			second = max(second, revision)
		}
	}
	return highest, second
}

// annotate gives a ReplicaSet's annotations, which it changes, those of its Deployment and its revision, and reports whether
// that changed anything: SetNewReplicaSetAnnotations.
func annotate(annotations map[string]string, deployment *appsv1.Deployment, revision int64) bool {
	changed := false
	for name, value := range deployment.Annotations {
		if old, ok := annotations[name]; ownAnnotations[name] || ok && old == value {
			continue
		}
		annotations[name] = value
		changed = true
	}
	text, had := annotations[revisionAnnotation]
	old, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" {
		return false
	}
	if old >= revision {
		return changed
	}
	annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
	if had {
		noteRevision(annotations, text)
	}
	return true
}

// noteRevision adds a revision to those that a ReplicaSet has had before. The oldest make room for it.
func noteRevision(annotations map[string]string, revision string) {
	history := annotations[revisionHistoryAnnotation]
	for history != "" && len(history)+len(revision)+1 > maxRevisionHistory {
		_, history, _ = strings.Cut(history, ",")
	}
	if history != "" {
		history += ","
	}
	annotations[revisionHistoryAnnotation] = history + revision
}

// annotateReplicas says in a ReplicaSet's annotations how large its Deployment is, and reports whether that is news.
func annotateReplicas(annotations map[string]string, deployment *appsv1.Deployment) bool {
	changed := false
	for name, replicas := range map[string]int32{
		desiredReplicasAnnotation: *deployment.Spec.Replicas, maxReplicasAnnotation: *deployment.Spec.Replicas + maxSurge(deployment),
	} {
		if text := strconv.Itoa(int(replicas)); annotations[name] != text {
			annotations[name] = text
			changed = true
		}
	}
	return changed
}

// replicasIn returns a number that an annotation holds.
func replicasIn(set *appsv1.ReplicaSet, name string) (int32, bool) {
	n, err := strconv.ParseUint(set.Annotations[name], 10, 32)
	return int32(n), err == nil && n <= math.MaxInt32
}

// rolling reports whether a Deployment replaces its pods bit by bit.
func rolling(deployment *appsv1.Deployment) bool {
	return deployment.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// fenceposts returns how many pods more than its replicas, and how many fewer, a rolling update may have: ResolveFenceposts.
func fenceposts(deployment *appsv1.Deployment) (surge, unavailable int32) {
	strategy := deployment.Spec.Strategy.RollingUpdate
	if !rolling(deployment) || strategy == nil {
		return 0, 0
	}
	resolve := func(value *intstr.IntOrString, up bool) int32 {
		n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromInt32(0)), int(*deployment.Spec.Replicas), up)
		if err != nil {
			return 0 // the server refuses what is neither a number nor a percentage
		}
		return int32(n)
	}
	surge, unavailable = resolve(strategy.MaxSurge, true), resolve(strategy.MaxUnavailable, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1 // percentages of few pods: something must move
	}
	return surge, min(unavailable, *deployment.Spec.Replicas)
}

func maxSurge(deployment *appsv1.Deployment) int32 {
	surge, _ := fenceposts(deployment)
	return surge
}

// minAvailable returns how many pods a Deployment does not go below of its own accord.
func minAvailable(deployment *appsv1.Deployment) int32 {
	_, unavailable := fenceposts(deployment)
	return *deployment.Spec.Replicas - unavailable
}

// isActive reports whether a ReplicaSet is to have pods.
func isActive(set *appsv1.ReplicaSet) bool { return *set.Spec.Replicas > 0 }

func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(set *appsv1.ReplicaSet) bool { return !isActive(set) })
}

// totals are the sums of what ReplicaSets are to have, and have.
type totals struct {
	wanted, replicas, ready, available int32
	terminating                        *int32 // nil if one of them does not say
}

func total(sets []*appsv1.ReplicaSet) totals {
	sum := totals{terminating: new(int32)}
	for _, set := range sets {
		status := &set.Status
		sum.wanted += *set.Spec.Replicas
		sum.replicas += status.Replicas
		sum.ready += status.ReadyReplicas
		sum.available += status.AvailableReplicas
		switch {
		case status.TerminatingReplicas == nil && status.ObservedGeneration > 0:
			sum.terminating = nil
		case status.TerminatingReplicas != nil && sum.terminating != nil:
			*sum.terminating += *status.TerminatingReplicas
		}
	}
	return sum
}
