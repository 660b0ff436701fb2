package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

// The commands that make the test binary something else.
const (
	asWorker     = "worker"
	asSupervisor = "supervisor"
)

// TestMain makes the test binary a worker, or a supervisor, if it is started as one.
func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if len(os.Args) == 3 && os.Args[1] == asWorker {
		os.Exit(Work(registry(), os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == asSupervisor {
		os.Exit(supervise(os.Args[2]))
	}
	os.Exit(m.Run())
}

// supervise explores as options say that are JSON.
func supervise(text string) int {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o.Registry, o.Replay = registry(), replayLine
	if _, err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func replayLine(file string) string { return "replay " + filepath.Base(file) }

// acts are what a planted operator does where another one has written to what it has read.
var acts = map[string]func(context.Context, ctrlclient.Client){
	"nothing": func(context.Context, ctrlclient.Client) {},
	"print":   func(context.Context, ctrlclient.Client) { _, _ = fmt.Fprintln(printed, "words, and no reply") },
	"exit":    func(context.Context, ctrlclient.Client) { os.Exit(3) },
	"panic": func(context.Context, ctrlclient.Client) {
		go func() { panic("planted") }()
	},
	"mutex": func(ctx context.Context, c ctrlclient.Client) {
		var mutex sync.Mutex
		mutex.Lock()
		defer mutex.Unlock()
		go waitFor(&mutex)
		_ = c.Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "locked"}, &corev1.ConfigMap{})
	},
	"leak": func(context.Context, ctrlclient.Client) { go waitForEver() },
	"spin": func(context.Context, ctrlclient.Client) { spin() },
	"memory": func(context.Context, ctrlclient.Client) {
		for {
			grow()
		}
	},
	"freeze": func(context.Context, ctrlclient.Client) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
	"kill":   func(context.Context, ctrlclient.Client) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
}

// printed is standard output as a logger has it that was made when the program began.
var printed = os.Stdout

func waitFor(mutex *sync.Mutex) {
	mutex.Lock()
	defer mutex.Unlock()
}

func waitForEver() { <-make(chan struct{}) }

func spin() {
	for n := 0; ; n++ {
		if n < 0 {
			n = 0
		}
	}
}

// memory is what the operator grows.
var memory [][]byte

func grow() {
	page := make([]byte, 1<<20)
	for i := range page {
		page[i] = 1
	}
	memory = append(memory, page)
}

// registry has a planted operator for each act.
func registry() *scenarios.Registry {
	r := &scenarios.Registry{}
	for name, act := range acts {
		r.Add("planted/"+name, scenarios.Reconciler{Doc: name, Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Reconcilers(o.Scheme, client.Reconciler{
				For: &corev1.ConfigMap{},
				New: func(d sim.Deps) (reconcile.Reconciler, error) {
					return reconcile.AsReconciler(d.Client, reconcile.ObjectReconciler[*corev1.ConfigMap](&planted{d.Client, act})), nil
				},
			})
		}})
	}
	r.AddVariant(scenarios.Variant{Scenario: "variants/scenario.yaml", Reconcilers: map[string]string{"operator": "planted/exit"}})
	return r
}

// planted overwrites what others write to the ConfigMap shared, which is one bug. When others write to the ConfigMap locked, it acts.
type planted struct {
	client ctrlclient.Client
	act    func(context.Context, ctrlclient.Client)
}

func (p *planted) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (ctrl.Result, error) {
	if cm.Data["asked"] != "yes" || cm.Data["seen"] == "yes" {
		return ctrl.Result{}, nil
	}
	cm.Data["seen"] = "yes"
	if cm.Name == "shared" {
		cm.ResourceVersion = ""
	}
	err := p.client.Update(ctx, cm)
	if apierrors.IsConflict(err) {
		p.act(ctx, p.client)
	}
	return ctrl.Result{}, err
}

// scenario is one with a planted operator, whose name is to be filled in.
const scenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: %s}
spec:
  given: [{path: objects.yaml}]
  controllers:
  - {name: operator, reconciler: planted/%s}
  script:
  - patch: {kind: ConfigMap, name: shared, merge: {data: {asked: "yes"}}}
  - patch: {kind: ConfigMap, name: shared, merge: {data: {color: red}}}
  - patch: {kind: ConfigMap, name: locked, merge: {data: {asked: "yes"}}}
  - patch: {kind: ConfigMap, name: locked, merge: {data: {color: red}}}
  faults:
    rules:
    - {name: refused, types: [ServiceUnavailable, InternalError], match: {actor: operator, verbs: [Update]}}
  variables:
  - {name: shared, object: {kind: ConfigMap, name: shared}}
  - {name: locked, object: {kind: ConfigMap, name: locked}}
  properties:
  - name: no-lost-update
    type: Terminal
    rule: shared != null && shared.data.?color.orValue("") == "red"
  - name: seen
    type: Terminal
    rule: locked != null && locked.data.?seen.orValue("") == "yes"
`

// objects are the scenario's.
const objects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {asked: "no"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: locked}, data: {asked: "no"}}
`

// writeScenario writes a scenario with a planted operator into a folder, and returns the folder.
func writeScenario(t *testing.T, folder, act string) string {
	t.Helper()
	write(t, filepath.Join(folder, "scenario.yaml"), fmt.Sprintf(scenario, "planted", act))
	write(t, filepath.Join(folder, "objects.yaml"), objects)
	return folder
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// options are those of a short exploration of a folder.
func options(t *testing.T, folder string) Options {
	t.Helper()
	corpus := t.TempDir()
	return Options{
		Dirs: []string{folder}, Registry: registry(), Seed: 1, Runs: 40, Workers: 2, Corpus: corpus, Out: filepath.Join(corpus, "findings"),
		Shard: 1, Shards: 1, Stuck: 2 * time.Second, Worker: []string{os.Args[0], asWorker}, Replay: replayLine,
		Log: func(text string) { t.Log(text) },
	}
}

// explored explores, and fails the test if that fails.
func explored(t *testing.T, o Options) *Night {
	t.Helper()
	night, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return night
}

// target returns the target that runs a reconciler.
func target(t *testing.T, n *Night, reconciler string) *NightTarget {
	t.Helper()
	i := slices.IndexFunc(n.Targets, func(t *NightTarget) bool {
		return slices.ContainsFunc(t.header.Reconcilers, func(pair string) bool { return strings.HasSuffix(pair, "="+reconciler) })
	})
	if i < 0 {
		t.Fatalf("no target runs %s", reconciler)
	}
	return n.Targets[i]
}

// tree returns the files below a folder, by their names relative to it.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		files[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
