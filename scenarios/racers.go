package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
)

// racerType is a row of the table of racers: what a type in a scenario stands for.
type racerType struct {
	// doc says in one line what it is.
	doc string
	// block is the field that configures it; empty if there is none.
	block string
	// withScript is set for racers that are part of the script rather than of the cluster.
	withScript bool
	// several is set for racers that are about one object, of which there may be many.
	several bool
	// real are the controllers of kube-controller-manager that it is; none if it is something else.
	real []string
	// build returns what makes the racer of a run.
	build func(l *loader, r Racer) func() sim.Racer
}

// racerTypes is the table of racers.
var racerTypes = map[RacerType]racerType{
	RacerStatefulSetController: {
		doc: "kube-controller-manager's StatefulSet controller", real: []string{"statefulset-controller"},
		build: func(l *loader, _ Racer) func() sim.Racer {
			options := racer.StatefulSetControllerOptions{Version: l.kinds.Version()}
			return func() sim.Racer { return racer.NewStatefulSetController(options) }
		},
	},
	RacerDeploymentController: {
		doc:  "kube-controller-manager's Deployment controller; its ReplicaSet controller as well, unless that is a racer of its own",
		real: []string{"deployment-controller", "replicaset-controller"},
		build: func(l *loader, _ Racer) func() sim.Racer {
			options := racer.DeploymentControllerOptions{Version: l.kinds.Version(), ReplicaSets: !l.hasRacer(RacerReplicaSetController)}
			return func() sim.Racer { return racer.NewDeploymentController(options) }
		},
	},
	RacerReplicaSetController: {
		doc: "kube-controller-manager's ReplicaSet controller", real: []string{"replicaset-controller"},
		build: func(*loader, Racer) func() sim.Racer {
			return func() sim.Racer { return racer.NewReplicaSetController(racer.ReplicaSetControllerOptions{}) }
		},
	},
	RacerGarbageCollector: {
		doc:   "kube-controller-manager's garbage collector",
		real:  []string{"garbage-collector-controller"},
		block: "garbageCollector",
		build: func(_ *loader, r Racer) func() sim.Racer {
			var options racer.GarbageCollectorOptions
			if r.GarbageCollector != nil {
				options.Delay = duration(r.GarbageCollector.Delay)
			}
			return func() sim.Racer { return racer.NewGarbageCollector(options) }
		},
	},
	RacerNamespaceController: {
		doc:   "kube-controller-manager's namespace controller: empties a namespace that is deleted, which otherwise stays",
		real:  []string{"namespace-controller"},
		block: "namespaceController",
		build: func(_ *loader, r Racer) func() sim.Racer {
			var options racer.NamespaceControllerOptions
			if r.NamespaceController != nil {
				options.Delay = duration(r.NamespaceController.Delay)
			}
			return func() sim.Racer { return racer.NewNamespaceController(options) }
		},
	},
	RacerDisruptionController: {
		doc:  "kube-controller-manager's disruption controller: says how many pods of a PodDisruptionBudget may be evicted",
		real: []string{"disruption-controller"},
		build: func(*loader, Racer) func() sim.Racer {
			return func() sim.Racer { return racer.NewDisruptionController() }
		},
	},
	RacerJobController: {
		doc:  "kube-controller-manager's Job controller, and the one that deletes Jobs some time after they have finished",
		real: []string{"job-controller", "ttl-after-finished-controller"},
		build: func(*loader, Racer) func() sim.Racer {
			return func() sim.Racer { return racer.NewJobController() }
		},
	},
	RacerHorizontalPodAutoscaler: {
		doc:     "kube-controller-manager's horizontal pod autoscaler, which is told what the metrics would lead to",
		block:   "horizontalPodAutoscaler",
		several: true,
		build:   buildAutoscaler,
	},
	RacerNodeLifecycle: {
		doc: "what kube-controller-manager does about a lost node: taints it, evicts its pods, and deletes them if the node is gone",
		build: func(l *loader, _ Racer) func() sim.Racer {
			options := racer.NodeLifecycleOptions{Lost: l.outages()}
			return func() sim.Racer { return racer.NewNodeLifecycle(options) }
		},
	},
	RacerScheduler: {
		doc: "binds pods to nodes in turn; without one, the kubelet binds them",
		build: func(*loader, Racer) func() sim.Racer {
			return func() sim.Racer { return racer.NewScheduler(racer.SchedulerOptions{}) }
		},
	},
	RacerKubelet: {
		doc:   "makes pods ready and takes terminating ones away",
		block: "kubelet",
		build: buildKubelet,
	},
	RacerVolumeBinder: {
		doc: "binds claims, and lets a claim go that no pod uses; without one, claims stay Pending",
		build: func(*loader, Racer) func() sim.Racer {
			return func() sim.Racer { return racer.NewVolumeBinder() }
		},
	},
	RacerAnnotator: {
		doc:        "changes an annotation again and again, like a tool that stamps what it has seen",
		block:      "annotator",
		withScript: true,
		several:    true,
		build:      buildAnnotator,
	},
}

func buildKubelet(l *loader, r Racer) func() sim.Racer {
	options := racer.KubeletOptions{Binds: !l.hasRacer(RacerScheduler)}
	if r.Kubelet != nil {
		options.ReadyAfter = duration(r.Kubelet.ReadyAfter)
		options.TerminationAfter = duration(r.Kubelet.TerminationAfter)
		options.Wedged = r.Kubelet.Wedged
		options.CompletesAfter = duration(r.Kubelet.CompletesAfter)
		for _, f := range r.Kubelet.Fails {
			options.Fails = append(options.Fails, racer.PodFailure{Labels: f.Labels, Times: value(f.Times), ExitCode: value(f.ExitCode)})
		}
		if r.Kubelet.Unready != nil {
			options.Unready = r.Kubelet.Unready.Images
		}
		options.Lost = outages(r.Kubelet)
	}
	return func() sim.Racer { return racer.NewKubelet(options) }
}

// outages returns the nodes that a kubelet loses.
func outages(k *Kubelet) []racer.Outage {
	var lost []racer.Outage
	for _, n := range k.Lost {
		lost = append(lost, racer.Outage{Node: n.Node, At: n.at(), Back: duration(n.Back)})
	}
	return lost
}

// at and back are when a node is lost, and when it is back.
func (n LostNode) at() time.Duration { return duration(n.At) }

func (n LostNode) back() time.Duration {
	if n.Back == nil {
		return math.MaxInt64
	}
	return n.Back.Duration
}

// outages returns the nodes that any kubelet loses.
func (l *loader) outages() []racer.Outage {
	var lost []racer.Outage
	for _, r := range l.manifest.Spec.Racers {
		if r.Kubelet != nil {
			lost = append(lost, outages(r.Kubelet)...)
		}
	}
	return lost
}

func buildAutoscaler(l *loader, r Racer) func() sim.Racer {
	block := r.HorizontalPodAutoscaler
	options := racer.HorizontalPodAutoscalerOptions{Name: block.Name}
	kind := "HorizontalPodAutoscaler"
	if block.Target != nil {
		kind = block.Target.Kind
		options.Target = racer.ScaleTarget{Kind: kind, Name: block.Target.Name}
	}
	options.Namespace = l.namespace(kind, block.Namespace)
	for _, recommended := range block.Recommends {
		options.Recommends = append(options.Recommends, racer.Recommendation{
			At: duration(recommended.At), Replicas: value(recommended.Replicas),
		})
	}
	return func() sim.Racer { return racer.NewHorizontalPodAutoscaler(options) }
}

func buildAnnotator(l *loader, r Racer) func() sim.Racer {
	options := racer.AnnotatorOptions{
		Kind:       r.Annotator.Kind,
		Namespace:  l.namespace(r.Annotator.Kind, r.Annotator.Namespace),
		Name:       r.Annotator.Name,
		Annotation: r.Annotator.Annotation,
		Interval:   r.Annotator.Every.Duration,
		Times:      r.Annotator.Times,
	}
	return func() sim.Racer { return racer.NewAnnotator(options) }
}

// RacerDoc says what a type of racer is.
type RacerDoc struct {
	Type RacerType
	Doc  string // one line
}

// RacerDocs returns the types of racers that scenarios may name, sorted.
func RacerDocs() []RacerDoc {
	var docs []RacerDoc
	for _, name := range slices.Sorted(maps.Keys(racerTypes)) {
		docs = append(docs, RacerDoc{name, racerTypes[name].doc})
	}
	return docs
}

// hasRacer reports whether there is a racer of a type.
func (l *loader) hasRacer(t RacerType) bool {
	return slices.ContainsFunc(l.manifest.Spec.Racers, func(r Racer) bool { return r.Type == t })
}

// duration returns a duration that may be left out.
func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

// value returns a number that may be left out.
func value[T any](p *T) T {
	var v T
	if p != nil {
		v = *p
	}
	return v
}

// racers puts the racers together, the script last: it is told against the cluster that the others make.
func (l *loader) racers(script []racer.UserStep) []sim.RacerConfig {
	var configs []sim.RacerConfig
	for _, r := range l.manifest.Spec.Racers {
		row := racerTypes[r.Type]
		config := sim.RacerConfig{Name: r.Name, New: row.build(l, r), WithScript: row.withScript}
		if !delayed(r) {
			config.Real = row.real
		}
		configs = append(configs, config)
	}
	if len(script) > 0 {
		newUser := func() sim.Racer { return racer.NewUser(racer.UserOptions{Steps: script}) }
		configs = append(configs, sim.RacerConfig{Name: UserActor, New: newUser, WithScript: true})
	}
	return configs
}

// delayed reports whether a racer is slower than the real one would be.
func delayed(r Racer) bool {
	return r.GarbageCollector != nil && r.GarbageCollector.Delay != nil ||
		r.NamespaceController != nil && r.NamespaceController.Delay != nil
}

// loadScript reads the script, with the files it creates objects from.
func (l *loader) loadScript() []racer.UserStep {
	var steps []racer.UserStep
	for i, step := range l.manifest.Spec.Script {
		due := racer.UserStep{At: duration(step.At), RetryWhile: step.RetryWhile}
		if step.After != nil {
			after := step.After.selector()
			due.After = &after
		}
		switch {
		case step.Create != nil:
			_, objects := l.loadObjects(*step.Create, indexed("script", i)+".create")
			for _, object := range objects {
				due.Create = &racer.UserCreate{Kind: l.kinds.Of(object).Name(), Object: object}
				steps = append(steps, due)
				due = racer.UserStep{RetryWhile: step.RetryWhile}
			}
		case step.Patch != nil:
			if kind := l.kinds.ByName(step.Patch.Kind); kind != nil {
				l.checkMerge(i, kind)
			}
			due.Patch = l.patch(*step.Patch)
			steps = append(steps, due)
		case step.Delete != nil:
			due.Delete = l.delete(*step.Delete)
			steps = append(steps, due)
		}
	}
	return steps
}

// patch converts a patch of the script.
func (l *loader) patch(p PatchStep) *racer.UserPatch {
	data, err := json.Marshal(p.Merge)
	if err != nil { // it was decoded from JSON
		panic(fmt.Sprintf("scenarios: a patch cannot be written as JSON: %v", err))
	}
	return &racer.UserPatch{Kind: p.Kind, Namespace: l.namespace(p.Kind, p.Namespace), Name: p.Name, Data: data}
}

// delete converts a delete of the script.
func (l *loader) delete(d DeleteStep) *racer.UserDelete {
	var options metav1.DeleteOptions
	if d.PropagationPolicy != "" {
		options.PropagationPolicy = &d.PropagationPolicy
	}
	return &racer.UserDelete{Kind: d.Kind, Namespace: l.namespace(d.Kind, d.Namespace), Name: d.Name, Options: options}
}
