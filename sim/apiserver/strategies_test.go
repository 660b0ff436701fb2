package apiserver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// strategyCase is a create, or an update of what a create made, as the strategies of a real server answer it.
type strategyCase struct {
	Name   string          `json:"name"`
	Create json.RawMessage `json:"create"`           // the object
	Op     string          `json:"op,omitempty"`     // "" for the create, "update" or "status" for what follows
	Status json.RawMessage `json:"status,omitempty"` // a merge patch that gives the stored object a status first
	Patch  json.RawMessage `json:"patch,omitempty"`  // what the update changes, as a merge patch
	Update json.RawMessage `json:"update,omitempty"` // or what the object is to become
}

// strategyAnswer is what became of it.
type strategyAnswer struct {
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object,omitempty"`
	Error  *metav1.Status  `json:"error,omitempty"`
}

// recordedUID is the UID of all objects in the recordings.
const recordedUID = "00000000-0000-4000-8000-000000000001"

// strategyPlayer plays cases on a server of its own.
type strategyPlayer struct {
	kinds *Kinds
}

func (p strategyPlayer) play(t testing.TB, c strategyCase) strategyAnswer {
	t.Helper()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	server := NewServer(p.kinds, func() time.Time { return now })
	var meta metav1.TypeMeta
	if err := json.Unmarshal(c.Create, &meta); err != nil {
		t.Fatal(err)
	}
	k := p.kinds.ByGVK(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if k == nil {
		t.Fatalf("%s: no kind %s", c.Name, meta)
	}
	a := strategyAnswer{Name: c.Name}
	obj, err := k.Decode(c.Create)
	if err != nil {
		a.Error = &metav1.Status{Message: "DECODE: " + err.Error()}
		return a
	}
	create := &Request{Verb: schedule.Create, Kind: k, Namespace: obj.GetNamespace(), Object: obj}
	response := server.Do(create)
	if response.Err != nil || c.Op == "" {
		return p.answer(t, a, k, response, uidFor(uidKey(k.behind(), obj.GetNamespace(), obj.GetName()), 0))
	}
	stored := response.Object
	before := p.encode(t, k, stored)
	if c.Status != nil {
		withStatus, err := jsonpatch.MergePatch(before, c.Status)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := k.Decode(withStatus)
		if err != nil {
			t.Fatal(err)
		}
		behind := k.behind()
		if k.Alias != nil {
			loaded, _ = k.Alias.To(loaded)
		}
		behind.receive(loaded, -1)
		loaded.SetUID(stored.GetUID())
		server.commit(behind, loaded, server.Get(behind, stored.GetNamespace(), stored.GetName()))
		stored = server.Get(k, stored.GetNamespace(), stored.GetName())
		before = p.encode(t, k, stored)
	}
	changed := []byte(c.Update)
	if changed == nil {
		if changed, err = jsonpatch.MergePatch(before, c.Patch); err != nil {
			t.Fatal(err)
		}
	}
	changed = []byte(strings.ReplaceAll(string(changed), recordedUID, string(stored.GetUID())))
	obj, err = k.Decode(changed)
	if err != nil {
		a.Error = &metav1.Status{Message: "DECODE: " + err.Error()}
		return a
	}
	obj.SetResourceVersion(stored.GetResourceVersion())
	update := &Request{Verb: schedule.Update, Kind: k, Namespace: stored.GetNamespace(), Name: stored.GetName(), Object: obj}
	if c.Op == "status" {
		update.Subresource = "status"
	}
	return p.answer(t, a, k, server.Do(update), stored.GetUID())
}

func (p strategyPlayer) answer(t testing.TB, a strategyAnswer, k *Kind, response *Response, uid types.UID) strategyAnswer {
	t.Helper()
	if response.Err != nil {
		text, err := json.Marshal(response.Err.ErrStatus)
		if err != nil {
			t.Fatal(err)
		}
		a.Error = &metav1.Status{}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), string(uid), recordedUID)), a.Error); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a.Object = p.encode(t, k, response.Object)
	return a
}

// encode returns an object as the recordings show it.
func (p strategyPlayer) encode(t testing.TB, k *Kind, obj Object) []byte {
	t.Helper()
	data, err := k.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(data), string(obj.GetUID()), recordedUID))
}

// tree decodes an object without what only a server's store decides.
func tree(t testing.TB, data []byte) map[string]any {
	t.Helper()
	content := map[string]any{}
	if len(data) == 0 {
		return content
	}
	if err := json.Unmarshal(data, &content); err != nil {
		t.Fatal(err)
	}
	if m, ok := content["metadata"].(map[string]any); ok {
		delete(m, "resourceVersion")
		delete(m, "managedFields")
	}
	return content
}

var _ = corev1.Pod{}
