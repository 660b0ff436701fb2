package apiserver

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	batchv1 "k8s.io/api/batch/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The recordings of testdata/kinds are what the strategies of k8s.io/kubernetes v1.36.3 and v1.37.1 make of the built-in kinds. A
// program linked the registries (pkg/registry/<group>/<kind>) with their defaults, validation and declarative validation at the
// gates of those versions, and called rest.BeforeCreate and rest.BeforeUpdate with them, for Services what
// pkg/registry/core/service/storage does before and after, too. For each kind there are a few objects that have most of the fields;
// each field was left out, emptied, doubled, reversed and given values that it cannot have, on creation, on an update and on a
// write of the status. Of many answers that are alike (the same causes at the same fields) one was kept. Left out is what the
// strategies do not decide: what admission plugins do, what cannot be decoded, and errors that print an empty list or map, which
// a client that sends protobuf cannot tell from none. What both versions store alike was recorded of 1.36 alone.

// strategyFile is what was recorded of a kind.
type strategyFile struct {
	Bases map[string]struct {
		Object json.RawMessage `json:"object"` // what is created
		Answer json.RawMessage `json:"answer"` // what is stored then
	} `json:"bases"`
	Cases []strategyCase `json:"cases"`
}

// strategyCase is a create, or an update of what a create made.
type strategyCase struct {
	Name   string          `json:"name"`
	Base   string          `json:"base"`
	Op     string          `json:"op"`               // "create", "update" or "status"
	Patch  json.RawMessage `json:"patch"`            // what is other than in the base, or is to become so, as a merge patch
	Status json.RawMessage `json:"status,omitempty"` // a merge patch that gives the stored object a status first
	Error  *metav1.Status  `json:"error,omitempty"`  // the answer
	Change json.RawMessage `json:"change,omitempty"` // or how it differs from that to the base, as a merge patch
}

// strategyAnswer is what became of it.
type strategyAnswer struct {
	Object json.RawMessage
	Error  *metav1.Status
}

// recordedUID is the UID of all objects in the recordings.
const recordedUID = "00000000-0000-4000-8000-000000000001"

// recordedClock is the time of the recordings.
func recordedClock() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }

// TestKinds plays the recordings of the built-in kinds.
func TestKinds(t *testing.T) {
	for _, version := range []Version{V136, V137} {
		files, err := filepath.Glob(filepath.Join("testdata", "kinds", string(version), "*.json.gz"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no recordings of %s: %v", version, err)
		}
		kinds := NewKinds(version)
		for _, file := range files {
			name, _, _ := strings.Cut(filepath.Base(file), ".json")
			t.Run(string(version)+"/"+name, func(t *testing.T) {
				t.Parallel()
				if newerTypes && name == "CSINode" && version == V136 {
					t.Skip("with libraries of 1.37 the Go type has a status, which 1.36 does not know")
				}
				p := &strategyPlayer{kinds, readStrategies(t, file), map[string]*storedBase{}}
				for _, c := range p.recorded.Cases {
					t.Run(c.Name, func(t *testing.T) { p.check(t, c) })
				}
			})
		}
	}
}

// newerTypes says that the Go types are of libraries of 1.37, which have fields that 1.36 does not know.
var _, newerTypes = reflect.TypeFor[storagev1.CSINode]().FieldByName("Status")

// withoutDiffs returns an error without the differences between two objects that its messages end with: these show every field
// that the Go type has.
func withoutDiffs(status *metav1.Status) *metav1.Status {
	if status == nil {
		return nil
	}
	cut := status.DeepCopy()
	cut.Message, _, _ = strings.Cut(cut.Message, "\n@@ ")
	for i := range cut.Details.Causes {
		cause := &cut.Details.Causes[i]
		cause.Message, _, _ = strings.Cut(cause.Message, "\n@@ ")
	}
	return cut
}

// withoutSharedLabels leaves out what is said of the labels of a Job. They may be its template's own, of which the same is said; what
// was recorded was copied in between, so that they were not.
func withoutSharedLabels(status *metav1.Status) *metav1.Status {
	if status == nil || status.Details == nil || status.Details.Kind != "Job" {
		return status
	}
	cut := status.DeepCopy()
	cut.Message = ""
	cut.Details.Causes = slices.DeleteFunc(cut.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.labels" })
	return cut
}

func readStrategies(t *testing.T, file string) strategyFile {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var recorded strategyFile
	if err := json.NewDecoder(unzipped).Decode(&recorded); err != nil {
		t.Fatal(err)
	}
	return recorded
}

// strategyPlayer plays cases, each on a server of its own.
type strategyPlayer struct {
	kinds    *Kinds
	recorded strategyFile
	bases    map[string]*storedBase
}

func (p *strategyPlayer) check(t *testing.T, c strategyCase) {
	got := p.play(t, c)
	if newerTypes {
		c.Error, got.Error = withoutDiffs(c.Error), withoutDiffs(got.Error)
	}
	c.Error, got.Error = withoutSharedLabels(c.Error), withoutSharedLabels(got.Error)
	if !reflect.DeepEqual(c.Error, got.Error) {
		t.Fatalf("error (-recorded +ours):\n%s", cmp.Diff(c.Error, got.Error))
	}
	if c.Error != nil {
		return
	}
	want := p.recorded.Bases[c.Base].Answer
	if c.Change != nil {
		want = merged(t, want, c.Change)
	}
	if have, want := tree(t, got.Object), tree(t, want); !reflect.DeepEqual(have, want) {
		t.Errorf("object (-recorded +ours):\n%s", cmp.Diff(want, have))
	}
}

func merged(t testing.TB, document, patch json.RawMessage) json.RawMessage {
	t.Helper()
	result, err := jsonpatch.MergePatch(document, patch)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (p *strategyPlayer) play(t testing.TB, c strategyCase) strategyAnswer {
	t.Helper()
	if c.Op == "create" {
		_, k, response, uid := p.create(t, merged(t, p.recorded.Bases[c.Base].Object, c.Patch))
		return p.answer(t, k, response, uid)
	}
	from := p.stored(t, c)
	changed := merged(t, from.text, c.Patch)
	obj, err := from.kind.Decode([]byte(strings.ReplaceAll(string(changed), recordedUID, string(from.object.GetUID()))))
	if err != nil {
		t.Fatal(err)
	}
	obj.SetResourceVersion(from.object.GetResourceVersion())
	update := &Request{
		Verb: schedule.Update, Kind: from.kind, Namespace: from.object.GetNamespace(), Name: from.object.GetName(), Object: obj,
	}
	if c.Op == "status" {
		update.Subresource = "status"
	}
	return p.answer(t, from.kind, from.snapshot.NewServer(recordedClock).Do(update), from.object.GetUID())
}

func (p *strategyPlayer) create(t testing.TB, document json.RawMessage) (*Server, *Kind, *Response, types.UID) {
	t.Helper()
	server := NewServer(p.kinds, recordedClock)
	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil {
		t.Fatal(err)
	}
	k := p.kinds.ByGVK(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	obj, err := k.Decode(document)
	if err != nil {
		t.Fatal(err)
	}
	response := server.Do(&Request{Verb: schedule.Create, Kind: k, Namespace: obj.GetNamespace(), Object: obj})
	return server, k, response, uidFor(uidKey(k.behind(), obj.GetNamespace(), obj.GetName()), 0)
}

// storedBase is what updates start from.
type storedBase struct {
	snapshot *Snapshot
	kind     *Kind
	object   Object
	text     json.RawMessage
}

// stored returns what the case updates, which most cases share.
func (p *strategyPlayer) stored(t testing.TB, c strategyCase) *storedBase {
	t.Helper()
	key := c.Base + string(c.Status)
	if p.bases[key] == nil {
		server, k, response, _ := p.create(t, p.recorded.Bases[c.Base].Object)
		if response.Err != nil {
			t.Fatal(response.Err)
		}
		object := response.Object
		if c.Status != nil {
			object = p.withStatus(t, server, k, object, c.Status)
		}
		text := map[string]any{}
		if err := json.Unmarshal(p.encode(t, k, object), &text); err != nil {
			t.Fatal(err)
		}
		dropSharedLabels(text)
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		p.bases[key] = &storedBase{server.Snapshot(), k, object, encoded}
	}
	return p.bases[key]
}

// withStatus stores a status that no request could write in one go.
func (p *strategyPlayer) withStatus(t testing.TB, server *Server, k *Kind, stored Object, status json.RawMessage) Object {
	t.Helper()
	loaded, err := k.Decode(merged(t, p.encode(t, k, stored), status))
	if err != nil {
		t.Fatal(err)
	}
	behind := k.behind()
	if k.Alias != nil {
		if loaded, err = k.Alias.To(loaded); err != nil {
			t.Fatal(err)
		}
	}
	behind.receive(loaded, -1)
	loaded.SetUID(stored.GetUID())
	server.commit(behind, loaded, server.Get(behind, stored.GetNamespace(), stored.GetName()))
	return server.Get(k, stored.GetNamespace(), stored.GetName())
}

func (p *strategyPlayer) answer(t testing.TB, k *Kind, response *Response, uid types.UID) strategyAnswer {
	t.Helper()
	if response.Err == nil {
		return strategyAnswer{Object: p.encode(t, k, response.Object)}
	}
	text, err := json.Marshal(response.Err.ErrStatus)
	if err != nil {
		t.Fatal(err)
	}
	a := strategyAnswer{Error: &metav1.Status{}}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), string(uid), recordedUID)), a.Error); err != nil {
		t.Fatal(err)
	}
	return a
}

// encode returns an object as the recordings show it.
func (p *strategyPlayer) encode(t testing.TB, k *Kind, obj Object) []byte {
	t.Helper()
	data, err := k.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(data), string(obj.GetUID()), recordedUID))
}

// nodePorts are chosen by chance on a real server.
var nodePorts = regexp.MustCompile(`"(nodePort|healthCheckNodePort)":\d+`)

// tree decodes an object without what only a server's store decides, without nulls, which a merge patch cannot say, and without empty
// lists: the recordings show what strategies make of an object, and in the store those are nulls too.
func tree(t testing.TB, data []byte) map[string]any {
	t.Helper()
	content := map[string]any{}
	if err := json.Unmarshal(nodePorts.ReplaceAll(data, []byte(`"$1":0`)), &content); err != nil {
		t.Fatal(err)
	}
	if m, ok := content["metadata"].(map[string]any); ok {
		delete(m, "resourceVersion")
		delete(m, "managedFields")
	}
	dropSharedLabels(content)
	return withoutNulls(content).(map[string]any)
}

// dropSharedLabels takes the generated labels of its template from a Job, which it has where both maps of labels are one: what was
// recorded was copied in between.
func dropSharedLabels(content map[string]any) {
	m, _ := content["metadata"].(map[string]any)
	labels, ok := m["labels"].(map[string]any)
	if content["kind"] != "Job" || !ok {
		return
	}
	for _, name := range []string{"controller-uid", "job-name", batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		delete(labels, name)
	}
	if len(labels) == 0 {
		delete(m, "labels")
	}
}

func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			list, isList := element.([]any)
			if withoutNulls(element) == nil || isList && len(list) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for _, element := range v {
			withoutNulls(element)
		}
	}
	return value
}
