package scenarios

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func TestScript(t *testing.T) {
	l := newLoader(treeOf(os.DirFS("testdata/valid"), "everything.yaml"))
	l.doc, l.diagnostics = openDocument(l.tree, "everything.yaml", KindScenario)
	if l.doc == nil {
		t.Fatal(l.diagnostics)
	}
	problems, _ := strictDecode(l.doc, l.doc.value, "", l.manifest)
	l.add(problems...)
	l.kinds = l.loadKinds()
	got := l.loadScript()
	if len(l.diagnostics) > 0 {
		t.Fatal(l.diagnostics)
	}
	for i, step := range got { // the objects are compared by their JSON
		if step.Create == nil {
			continue
		}
		text, err := json.Marshal(step.Create.Object)
		if err != nil {
			t.Fatal(err)
		}
		got[i].Create = &racer.UserCreate{Kind: step.Create.Kind + " " + string(text)}
	}
	foreground, main := metav1.DeletePropagationForeground, ""
	want := []racer.UserStep{
		{Patch: &racer.UserPatch{Kind: "Widget", Namespace: "default", Name: "a", Data: []byte(`{"spec":{"color":null,"size":3}}`)}},
		{At: 30 * time.Minute, Delete: &racer.UserDelete{
			Kind: "StatefulSet", Namespace: "other", Name: "web",
			Options: metav1.DeleteOptions{PropagationPolicy: &foreground},
		}},
		{
			After: &schedule.Selector{
				Actor: "operator", Verbs: []schedule.Verb{schedule.Create, schedule.Update}, Kind: "StatefulSet", Name: "web",
				Subresource: &main, Occurrence: 2,
			},
			RetryWhile: metav1.StatusReasonAlreadyExists,
			Create: &racer.UserCreate{Kind: `ConfigMap {"kind":"ConfigMap","apiVersion":"v1",` +
				`"metadata":{"name":"settings","namespace":"other"},"data":{"mode":"fast"}}`},
		},
		{
			RetryWhile: metav1.StatusReasonAlreadyExists,
			Create: &racer.UserCreate{Kind: `Node {"kind":"Node","apiVersion":"v1","metadata":{"name":"node1"},"spec":{},` +
				`"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"",` +
				`"kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"",` +
				`"operatingSystem":"","architecture":""}}}`},
		},
		{
			After: &schedule.Selector{
				Actor: "user", Verbs: []schedule.Verb{schedule.Create}, Kind: "ConfigMap", Namespace: "other",
			},
			Delete: &racer.UserDelete{Kind: "Node", Name: "node1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if version := l.kinds.Version(); version != apiserver.V137 {
		t.Errorf("version %s", version)
	}
}
