package apiserver_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Two clients read the same revision and both write: the second is refused, as on a cluster.
func Example() {
	kinds := apiserver.NewKinds(apiserver.V136)
	server := apiserver.NewServer(kinds, func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) })
	kind := kinds.ByName("ConfigMap")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	server.Do(&apiserver.Request{Verb: schedule.Create, Kind: kind, Namespace: "default", Object: config})

	read := server.Do(&apiserver.Request{Verb: schedule.Get, Kind: kind, Namespace: "default", Name: "config"}).Object
	for _, value := range []string{"first", "second"} {
		mine := read.DeepCopyObject().(*corev1.ConfigMap)
		mine.Data = map[string]string{"writer": value}
		answer := server.Do(&apiserver.Request{
			Verb: schedule.Update, Kind: kind, Namespace: "default", Name: "config", Object: mine,
		})
		fmt.Println(answer.Code, answer.Committed > 0)
	}
	for _, event := range server.Log(kind) {
		fmt.Println(event.Type, event.Object.(*corev1.ConfigMap).Data)
	}
	// Output:
	// 200 true
	// 409 false
	// ADDED map[]
	// MODIFIED map[writer:first]
}
