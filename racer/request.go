package racer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The field managers of the racers, as the real programs send them.
const (
	managerControllers = "kube-controller-manager"
	managerScheduler   = "kube-scheduler"
	managerKubelet     = "kubelet"
	managerUser        = "kubectl"
)

// target is an object a racer makes calls about, and the field manager it makes them as.
type target struct {
	kind      *apiserver.Kind
	namespace string
	name      string
	manager   string
}

func (t target) request(verb schedule.Verb) *apiserver.Request {
	return &apiserver.Request{Verb: verb, Kind: t.kind, Namespace: t.namespace, Name: t.name}
}

func (t target) get() *apiserver.Request { return t.request(schedule.Get) }

// scale asks for the Scale of the object.
func (t target) scale() *apiserver.Request {
	r := t.get()
	r.Subresource = "scale"
	return r
}

func (t target) create(obj apiserver.Object) *apiserver.Request {
	r := t.request(schedule.Create)
	r.Object, r.FieldManager = obj, t.manager
	return r
}

func (t target) update(obj apiserver.Object) *apiserver.Request {
	r := t.request(schedule.Update)
	r.Object, r.FieldManager = obj, t.manager
	return r
}

func (t target) updateStatus(obj apiserver.Object) *apiserver.Request {
	r := t.update(obj)
	r.Subresource = "status"
	return r
}

func (t target) patch(patchType types.PatchType, data []byte) *apiserver.Request {
	r := t.request(schedule.Patch)
	r.PatchType, r.PatchData, r.FieldManager = patchType, data, t.manager
	return r
}

func (t target) patchStatus(patchType types.PatchType, data []byte) *apiserver.Request {
	r := t.patch(patchType, data)
	r.Subresource = "status"
	return r
}

func (t target) delete(options metav1.DeleteOptions) *apiserver.Request {
	r := t.request(schedule.Delete)
	r.Delete = options
	return r
}

// bind asks for the pod to be put on a node: POST pods/{name}/binding.
func (t target) bind(uid types.UID, node string) *apiserver.Request {
	r := t.create(&corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: t.name, UID: uid},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
	r.Subresource = "binding"
	return r
}

// failure returns the error of a response as an interface that is nil on success.
func failure(resp *apiserver.Response) error {
	if resp.Err == nil {
		return nil
	}
	return resp.Err
}

// backoff is one of the schedules of client-go's retry.RetryOnConflict, without its 10 % of jitter.
type backoff struct {
	tries  int
	pause  time.Duration
	factor int
}

// The schedules of client-go/util/retry, v0.36.
var (
	defaultRetry   = backoff{tries: 5, pause: 10 * time.Millisecond, factor: 1}
	defaultBackoff = backoff{tries: 4, pause: 10 * time.Millisecond, factor: 5}
)

// after returns how long to pause after a number of failed tries, and false if that was the last try.
func (b backoff) after(failed int) (time.Duration, bool) {
	if failed >= b.tries {
		return 0, false
	}
	pause := b.pause
	for range failed - 1 {
		pause *= time.Duration(b.factor)
	}
	return pause, true
}

// key returns the name of an object as a work queue's key: "namespace/name", or "name" for a cluster-scoped object.
func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
