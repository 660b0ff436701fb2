package scenarios

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// checkNodes reports what racers are to do with nodes that are not there: nothing would come of it.
func (l *loader) checkNodes(given []apiserver.Object, script []racer.UserStep) {
	objects := slices.Clone(given)
	for _, step := range script {
		if step.Create != nil {
			objects = append(objects, step.Create.Object)
		}
	}
	nodes := sets.New[string]()
	if !l.hasRacer(RacerScheduler) {
		nodes.Insert(racer.DefaultNode)
	}
	known := false // whether there is a Node object
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Node:
			known = true
			nodes.Insert(o.Name)
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				nodes.Insert(o.Spec.NodeName)
			}
		}
	}
	for i, r := range l.manifest.Spec.Racers {
		path := indexed("racers", i)
		if r.Type == RacerNodeLifecycle && !known {
			l.add(l.doc.at(path+".type", path+".type: a NodeLifecycle looks after Node objects, and there is none: name their file in spec.given"))
		}
		if r.Kubelet == nil {
			continue
		}
		for j, lost := range r.Kubelet.Lost {
			if lost.Node == "" || nodes.Has(lost.Node) {
				continue
			}
			at := fmt.Sprintf("%s.kubelet.lost[%d].node", path, j)
			l.add(l.doc.at(at, fmt.Sprintf("%s: there is no node %q%s", at, lost.Node, thereIs(lost.Node, sets.List(nodes)))))
		}
	}
}

// thereIs says which name may have been meant, or which there are.
func thereIs(name string, names []string) string {
	if hint := didYouMean(name, names); hint != "" || len(names) == 0 {
		return hint
	}
	return "; there is " + quoted(names)
}
