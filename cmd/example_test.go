package cmd_test

import (
	"context"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

// Widget and its reconciler stand for the reader's own.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	return &Widget{TypeMeta: w.TypeMeta, ObjectMeta: *w.ObjectMeta.DeepCopy()}
}

func addWidgets(s *runtime.Scheme) error {
	s.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &Widget{})
	return nil
}

type WidgetReconciler struct {
	ctrlclient.Client
	Scheme *runtime.Scheme
}

func (r *WidgetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w Widget
	return ctrl.Result{}, ctrlclient.IgnoreNotFound(r.Get(ctx, req.NamespacedName, &w))
}

// A team's own command: the stalemate command with a reconciler of theirs.
func Example() {
	registry := &scenarios.Registry{}
	registry.Add("widget/ours", scenarios.Reconciler{
		Doc:         "the widget operator as it is on main",
		AddToScheme: addWidgets,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Reconcilers(o.Scheme, client.Reconciler{
				For:  &Widget{},
				Owns: []ctrlclient.Object{&appsv1.StatefulSet{}},
				New: func(d sim.Deps) (reconcile.Reconciler, error) {
					return &WidgetReconciler{Client: d.Client, Scheme: d.Scheme}, nil
				},
			})
		},
	})
	cmd.Main([]string{"ours", "list"}, firstSection{os.Stdout}, os.Stderr, registry) // os.Args, in a command of one's own
	// Output:
	// Reconcilers (spec.controllers[].reconciler, --reconciler)
	//   widget/ours   the widget operator as it is on main
}

// firstSection cuts a text at its first empty line.
type firstSection struct{ file *os.File }

func (w firstSection) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(string(p), "\n\n")
	if _, err := w.file.WriteString(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestReadmeHasTheExample keeps the snippet of the README equal to what compiles here.
func TestReadmeHasTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "registry := &scenarios.Registry{}\n", "\n})\n"
	_, rest, found := strings.Cut(string(readme), begin)
	snippet, _, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the README has no snippet that registers a reconciler")
	}
	indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(begin+snippet+end, "\n"), "\n", "\n\t") + "\n"
	if !strings.Contains(string(source), indented) {
		t.Errorf("the README's snippet is not that of the example:\n%s", snippet)
	}
}
