package leaderworkerset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// labelKey is the label that says which revision an object is of: on revisions, the leaders' set, and its pods. Its value is
// called the key of the revision.
const labelKey = "leaderworkerset.sigs.k8s.io/template-revision-hash"

// keyOf returns the key of an object, empty if it has none.
func keyOf(obj metav1.Object) string { return obj.GetLabels()[labelKey] }

// currentRevision is step 3: the revision with the key of the set. If there is none it is created, of the LWS as it is: for a
// new LWS, or one whose set is from a version of the operator that had no revisions.
func (p *pass) currentRevision(ctx context.Context, set *appsv1.StatefulSet) (*appsv1.ControllerRevision, error) {
	key := ""
	if set != nil {
		key = keyOf(set)
	}
	if key != "" {
		found, err := p.listRevisions(ctx, client.MatchingLabels{labelName: p.lws.Name, labelKey: key})
		if err != nil {
			return nil, err
		}
		if len(found) > 1 {
			p.log.Error(nil, "More than one revision exists for the given template hash; returning the latest revision")
		}
		if len(found) > 0 {
			return newest(found), nil
		}
	}
	revision, others, err := p.newRevision(ctx, key)
	if err != nil {
		return nil, err
	}
	if same := equalOf(others, revision); same != nil && p.variant.reusesRevision {
		return same, nil
	}
	if err := p.client.Create(ctx, revision); err != nil {
		return nil, err
	}
	message := "Creating revision with key %s for a newly created LeaderWorkerSet"
	if key != "" {
		message = "Creating missing revision with key %s for existing LeaderWorkerSet"
	}
	p.event(corev1.EventTypeNormal, reasonRevision, message, keyOf(revision))
	return revision, nil
}

// updatedRevision is step 4: the revision of the LWS as it is, created if it is another than the current one; else nil.
func (p *pass) updatedRevision(
	ctx context.Context, set *appsv1.StatefulSet, current *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	if set == nil {
		return nil, nil
	}
	revision, _, err := p.newRevision(ctx, "")
	if err != nil || bytes.Equal(revision.Data.Raw, current.Data.Raw) {
		return nil, err
	}
	if err := p.client.Create(ctx, revision); err != nil {
		return nil, err
	}
	p.event(corev1.EventTypeNormal, reasonRevision, "Creating revision with key %s for updated LWS", keyOf(revision))
	return revision, nil
}

// truncateRevisions is step 9: it deletes the revisions that have another key.
func (p *pass) truncateRevisions(ctx context.Context, key string) error {
	all, err := p.listRevisions(ctx, client.MatchingLabels{labelName: p.lws.Name})
	if err != nil {
		return err
	}
	for i := range all {
		if keyOf(&all[i]) == key {
			continue
		}
		if err := p.client.Delete(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// listRevisions lists the revisions with the labels that this LWS controls, or nobody.
func (p *pass) listRevisions(ctx context.Context, labels client.MatchingLabels) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := p.client.List(ctx, list, client.InNamespace(p.lws.Namespace), labels); err != nil {
		return nil, err
	}
	var own []appsv1.ControllerRevision
	for _, revision := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&revision); owner == nil || owner.UID == p.lws.UID {
			own = append(own, revision)
		}
	}
	return own, nil
}

// newest returns the revision with the highest number, the last of several; nil if there is none.
func newest(revisions []appsv1.ControllerRevision) *appsv1.ControllerRevision {
	var found *appsv1.ControllerRevision
	for i := range revisions {
		if found == nil || revisions[i].Revision >= found.Revision {
			found = &revisions[i]
		}
	}
	return found
}

// equalOf returns a revision that has the key and holds what another does; nil if there is none.
func equalOf(revisions []appsv1.ControllerRevision, other *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	for i := range revisions {
		if keyOf(&revisions[i]) == keyOf(other) && bytes.Equal(revisions[i].Data.Raw, other.Data.Raw) {
			return &revisions[i]
		}
	}
	return nil
}

// newRevision makes the revision of the LWS as it is, numbered after those there are, which it returns, too. Its key is the hash
// of what it holds if none is given.
func (p *pass) newRevision(
	ctx context.Context, key string,
) (revision *appsv1.ControllerRevision, others []appsv1.ControllerRevision, err error) {
	others, err = p.listRevisions(ctx, client.MatchingLabels{labelName: p.lws.Name})
	if err != nil {
		return nil, nil, err
	}
	number := int64(1)
	if last := newest(others); last != nil {
		number = last.Revision + 1
	}
	data, err := revisionData(p.lws)
	if err != nil {
		return nil, nil, err
	}
	hash := hashOf(data)
	key = cmp.Or(key, hash)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       p.lws.Namespace,
			Name:            fmt.Sprintf("%s-%s-%d", p.lws.Name, hash, number),
			Labels:          map[string]string{labelName: p.lws.Name, labelKey: key},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.lws, lwsKind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}, others, nil
}

// revisionData is what a revision holds: a strategic merge patch that brings the template and the network of an LWS back.
func revisionData(lws *LeaderWorkerSet) ([]byte, error) {
	network := lws.Spec.NetworkConfig
	if network == nil { // one from before there was a default
		network = &NetworkConfig{SubdomainPolicy: new(subdomainShared)}
	}
	spec := map[string]any{}
	for name, value := range map[string]any{"networkConfig": network, "leaderWorkerTemplate": lws.Spec.LeaderWorkerTemplate} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields := map[string]any{}
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		fields["$patch"] = "replace"
		spec[name] = fields
	}
	return json.Marshal(map[string]any{"spec": spec})
}

func hashOf(data []byte) string {
	h := fnv.New32()
	_, _ = h.Write(data) // never fails
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
