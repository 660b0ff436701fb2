package clickhouse

import (
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRoles checks that an operator whose role lacks one verb is found out, and that the one with the whole role passes.
func TestRoles(t *testing.T) {
	tests := []struct {
		file   string
		want   property.Status
		denied []string
	}{
		{"testdata/rbac/complete.yaml", property.Held, nil},
		{"testdata/rbac/lacking.yaml", property.Broken,
			[]string{`{apiGroups: ["apps"], resources: ["statefulsets"], verbs: ["delete"]} in namespace "default"`}},
	}
	for _, test := range tests {
		for _, v := range variants {
			t.Run(test.file+"/"+v.name, func(t *testing.T) {
				h := run(t, newWorld(t, test.file, v.name), sim.Plan{})
				for _, verdict := range h.Verdicts {
					if verdict.Status != test.want && verdict.Property.Type != property.Detector {
						t.Errorf("%s: %s, want %s", verdict.Property.Name, verdict.Status, test.want)
					}
				}
				var denied []string
				for _, d := range h.Denied {
					denied = append(denied, d.Rule)
					first := h.Records[d.Record]
					if first.Event.Verb != schedule.Delete || !strings.Contains(first.Message,
						`statefulsets.apps "chi-a-0-0" is forbidden: `+
							`User "system:serviceaccount:default:operator" cannot delete resource "statefulsets" in API group "apps" `+
							`in the namespace "default"`) {
						t.Errorf("the first request that was refused is %s: %s", first.Event, first.Message)
					}
				}
				if !slices.Equal(denied, test.denied) {
					t.Errorf("denied %q, want %q", denied, test.denied)
				}
			})
		}
	}
}
