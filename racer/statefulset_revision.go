package racer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// revisionHashLabel is the label that holds the hash of a ControllerRevision's data.
const revisionHashLabel = "controller.kubernetes.io/hash"

// maxRevisionPrefix is the longest part of a set's name that goes into the name of a revision.
const maxRevisionPrefix = 223

var setGVK = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// NewRevision returns the ControllerRevision that the StatefulSet controller records for a set's template, with the
// name, hash and data it has on a real cluster. The set must be as a server stores it: with its defaults and its UID.
func NewRevision(set *appsv1.StatefulSet, number int64) (*appsv1.ControllerRevision, error) {
	data, err := revisionData(set)
	if err != nil {
		return nil, err
	}
	var collisions int32
	if set.Status.CollisionCount != nil {
		collisions = *set.Status.CollisionCount
	}
	return newRevision(set, data, number, collisions), nil
}

func newRevision(set *appsv1.StatefulSet, data []byte, number int64, collisions int32) *appsv1.ControllerRevision {
	hash := revisionHash(data, collisions)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Name:            revisionName(set.Name, hash),
			Labels:          withEntry(set.Spec.Template.Labels, revisionHashLabel, hash),
			Annotations:     maps.Clone(set.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, setGVK)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// revisionData returns what a revision records of a set: a strategic merge patch that replaces the template.
func revisionData(set *appsv1.StatefulSet) ([]byte, error) {
	encoded, err := json.Marshal(&set.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("StatefulSet %s/%s: encode the template: %w", set.Namespace, set.Name, err)
	}
	var template map[string]any
	if err := json.Unmarshal(encoded, &template); err != nil {
		return nil, fmt.Errorf("StatefulSet %s/%s: decode the template: %w", set.Namespace, set.Name, err)
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}

// encodedTemplates remembers what revisions record of templates, over all runs: encoding one costs more than most steps.
// It has no influence on a run, as it only ever returns what encoding would.
var encodedTemplates = &templateMemo{}

type templateMemo struct {
	mu      sync.Mutex
	entries map[uint64]encodedTemplate // by the hash of the template
}

type encodedTemplate struct {
	template *corev1.PodTemplateSpec
	data     []byte
}

// maxTemplates bounds the memory that templates take; a scenario has a few.
const maxTemplates = 256

func (m *templateMemo) data(set *appsv1.StatefulSet) ([]byte, error) {
	template := &set.Spec.Template
	hash := canon.Hash(template)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.entries[hash]; ok && canon.Equal(known.template, template) {
		return known.data, nil
	}
	data, err := revisionData(set)
	if err != nil {
		return nil, err
	}
	if m.entries == nil || len(m.entries) >= maxTemplates {
		m.entries = map[uint64]encodedTemplate{}
	}
	m.entries[hash] = encodedTemplate{template, data}
	return data, nil
}

// templateOf returns the template a revision has recorded.
func templateOf(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: decode the data: %w", revision.Namespace, revision.Name, err)
	}
	return &data.Spec.Template, nil
}

// revisionHash hashes a revision's data as history.HashControllerRevision does (pkg/controller/history, v1.36).
func revisionHash(data []byte, collisions int32) string {
	h := fnv.New32()
	h.Write(data)
	h.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

func revisionName(set, hash string) string {
	return set[:min(len(set), maxRevisionPrefix)] + "-" + hash
}

// sameRevision reports whether two revisions record the same data. Hash labels count only where both read as numbers,
// which a safely encoded hash rarely does: that is how upstream compares them.
func sameRevision(a, b *appsv1.ControllerRevision) bool {
	x, errX := strconv.ParseInt(a.Labels[revisionHashLabel], 10, 32)
	y, errY := strconv.ParseInt(b.Labels[revisionHashLabel], 10, 32)
	if errX == nil && errY == nil && x != y {
		return false
	}
	return bytes.Equal(a.Data.Raw, b.Data.Raw)
}

// listRevisions returns the cached revisions that a set owns or could adopt, oldest first.
func (c *StatefulSetController) listRevisions(
	set *appsv1.StatefulSet, selector labels.Selector,
) []*appsv1.ControllerRevision {
	var revisions []*appsv1.ControllerRevision
	for _, obj := range c.revisions.List(set.Namespace) {
		revision := obj.(*appsv1.ControllerRevision)
		if !selector.Matches(labels.Set(revision.Labels)) {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(revision); ref == nil || ref.UID == set.UID {
			revisions = append(revisions, revision)
		}
	}
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
	return revisions
}

// recordedData returns the revision data of the set's template.
func (c *StatefulSetController) recordedData(set *appsv1.StatefulSet) ([]byte, error) {
	if memo, ok := c.recorded[set.UID]; ok && memo.generation == set.Generation {
		return memo.data, nil
	}
	data, err := encodedTemplates.data(set)
	if err != nil {
		return nil, err
	}
	c.recorded[set.UID] = recordedTemplate{generation: set.Generation, data: data}
	return data, nil
}

// sameTemplate reports whether a revision, once defaulted, describes the set's template although its bytes differ, as
// when an older server recorded it (the feature gate StatefulSetSemanticRevisionComparison, on by default).
func (c *StatefulSetController) sameTemplate(set *appsv1.StatefulSet, revision *appsv1.ControllerRevision) bool {
	template, err := templateOf(revision)
	if err != nil {
		return false
	}
	restored := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: set.Spec.Selector, Template: *template}}
	if c.setKind.Default != nil {
		c.setKind.Default(restored)
	}
	return equality.Semantic.DeepEqual(restored.Spec.Template, set.Spec.Template)
}
