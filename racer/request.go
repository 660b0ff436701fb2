package racer

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
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

// targetOf returns an object that a controller of kube-controller-manager makes calls about.
func targetOf(kind *apiserver.Kind, namespace, name string) target {
	return target{kind: kind, namespace: namespace, name: name, manager: managerControllers}
}

// targetAt is targetOf for the object of a key.
func targetAt(kind *apiserver.Kind, key string) target {
	namespace, name := splitKey(key)
	return targetOf(kind, namespace, name)
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

// call is the kind of request whose answer a step machine waits for.
type call uint8

const (
	callNone call = iota
	callRecheck
	callAdopt
	callRelease
	callCreate
	callInspect
	callRenumber
	callDelete
	callStatus
)

// failure returns the error of a response as an interface that is nil on success.
func failure(resp *apiserver.Response) error {
	if resp.Err == nil {
		return nil
	}
	return resp.Err
}

// over ends a pass. An object that is gone needs no retry. A conflict does: not every one comes from another write, whose
// event would bring the key back.
func over(err error) sim.Action {
	if err == nil || apierrors.IsNotFound(err) {
		return sim.Done()
	}
	return sim.Fail(err)
}

// firstError returns the first of the errors that came one after the other.
func firstError(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
