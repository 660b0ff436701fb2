package racer

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// AnnotatorOptions configures an [Annotator].
type AnnotatorOptions struct {
	// Kind, Namespace and Name say which object to annotate.
	Kind, Namespace, Name string
	// Annotation is the key to change; empty means "stalemate.dev/touched". Its value is the number of the tick.
	Annotation string
	// Interval is the virtual time between two ticks, and before the first; zero means 200 ms.
	Interval time.Duration
	// Times is how many ticks there are; zero means until the object is gone. An annotator that never stops keeps a run
	// from ever becoming quiet.
	Times int
}

// Annotator changes an annotation of an object again and again, as GitOps tools, backup agents and people do: Get, change,
// Update at the revision read. A conflict is left to the next tick. Once the object is not found it stops for good, also
// if another of that name comes.
type Annotator struct {
	options AnnotatorOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue
	target  target
	ticks   int
	stopped bool
}

// NewAnnotator returns the annotator for one run.
func NewAnnotator(options AnnotatorOptions) *Annotator {
	options.Annotation = cmp.Or(options.Annotation, "stalemate.dev/touched")
	options.Interval = cmp.Or(options.Interval, 200*time.Millisecond)
	return &Annotator{options: options}
}

// Start implements [sim.Racer].
func (a *Annotator) Start(env sim.RacerEnv) {
	a.env = env
	kind := env.Kind(a.options.Kind)
	if kind == nil {
		env.Log(fmt.Sprintf("no kind %q in this scenario: nothing to annotate", a.options.Kind))
		return
	}
	a.target = target{kind: kind, namespace: a.options.Namespace, name: a.options.Name, manager: managerUser}
	a.queue = env.Queue("annotations", 1, func(string) sim.Task { return &annotation{annotator: a} })
	a.arm()
}

func (a *Annotator) arm() {
	if a.stopped || a.options.Times > 0 && a.ticks == a.options.Times {
		return
	}
	a.env.After("tick", a.options.Interval, a.tick)
}

func (a *Annotator) tick() {
	if a.stopped {
		return
	}
	a.ticks++
	a.queue.Add(key(a.options.Namespace, a.options.Name))
	a.arm()
}

// annotation is one Get and Update.
type annotation struct {
	annotator *Annotator
	step      annotationStep
}

type annotationStep uint8

const (
	annotationBegin annotationStep = iota
	annotationRead
	annotationWritten
)

// Next implements [sim.Task].
func (n *annotation) Next(resp *apiserver.Response) sim.Action {
	a := n.annotator
	if n.step == annotationBegin {
		n.step = annotationRead
		return sim.Call(a.target.get())
	}
	if err := failure(resp); err != nil {
		a.stopped = a.stopped || apierrors.IsNotFound(err)
		return sim.Done()
	}
	if n.step == annotationWritten {
		return sim.Done()
	}
	n.step = annotationWritten
	obj := resp.Object.DeepCopyObject().(apiserver.Object)
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[a.options.Annotation] = strconv.Itoa(a.ticks)
	obj.SetAnnotations(annotations)
	return sim.Call(a.target.update(obj))
}
