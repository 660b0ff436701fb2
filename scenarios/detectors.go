package scenarios

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/detect"
)

func (d Detector) enabled() bool { return d.Enabled == nil || *d.Enabled }

// detectors returns those that are on: what the list says, and for the others what goes without saying.
func detectors(list []Detector) *detect.Set {
	switches := map[detect.Type]bool{}
	for _, d := range list {
		switches[detect.Type(d.Type)] = d.enabled()
	}
	return detect.NewSet(switches)
}

func (v *validator) detectors(path *field.Path) {
	var types, seen []DetectorType
	for _, t := range detect.Types() {
		types = append(types, DetectorType(t))
	}
	for i, d := range v.spec.Detectors {
		path := path.Index(i).Child("type")
		if oneOf(v, d.Type, types, path) && slices.Contains(seen, d.Type) {
			v.add(field.Duplicate(path, d.Type))
		}
		seen = append(seen, d.Type)
	}
}
