package property_test

import (
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/property"
)

// A rule is compiled against the types of what it reads, and a monitor finds the state in which it is false.
func Example() {
	kinds := kindTable{"StatefulSet": {
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		Type:             reflect.TypeFor[appsv1.StatefulSet](),
	}}
	variables := []property.Variable{{Name: "sts", Kind: "StatefulSet", Namespace: "default", ObjectName: "web"}}

	_, errs := property.Compile(kinds, variables, []property.Definition{
		{Name: "never-at-zero", Type: property.Always, Rule: "sts == null || sts.spec.replica > 0"},
	})
	fmt.Println(errs[0])

	set, _ := property.Compile(kinds, variables, []property.Definition{
		{Name: "never-at-zero", Type: property.Always, Rule: "sts == null || sts.spec.replicas > 0"},
	})
	cluster := newCluster()
	monitor := set.NewMonitor(cluster)
	monitor.Start(0)
	cluster.put("StatefulSet", statefulSet("web", 0))
	monitor.Committed(3*time.Second, "StatefulSet")

	verdict := monitor.Verdicts()[0]
	fmt.Printf("%s: %s after %s\n", verdict.Property.Name, verdict.Status, verdict.At)
	for _, value := range verdict.Values {
		fmt.Printf("  %s = %s\n", value.Path, value.Value)
	}
	// Output:
	// properties[0].rule:1:24: undefined field 'replica' in apps/v1.StatefulSetSpec, did you mean 'replicas'?
	// never-at-zero: Broken after 3s
	//   sts = StatefulSet default/web
	//   sts.spec.replicas = 0
}
