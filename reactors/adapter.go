package reactors

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// ClientGo is a chain of reactors as k8s.io/client-go/testing has them, for [FromClientGo].
type ClientGo struct {
	// Match chooses the requests that the reactors see. An empty selector chooses all, those of racers too, which a generated
	// clientset's fake does not have.
	Match schedule.Selector
	// Make makes the reactors of one run, as they may hold state. They are asked in their order, and the first that says it
	// has handled the action answers.
	Make func() []clientgotesting.Reactor
	// Scheme has the Go types of custom resources, if the reactors are to see those. Without it, or for one that it does not
	// know, they see *unstructured.Unstructured. Built-in kinds always have their types.
	Scheme *runtime.Scheme
}

// FromClientGo gives a chain of client-go's reactors a place in the engine's: the result goes into [sim.Config.Reactors].
//
// What they return stands in place of the server's answer, as the operator's client sees it in the end: an API status error
// as an answer, another error as a broken connection, an object or a list as the answer of a request that has changed nothing
// in the store. Where none of them has handled the action, the request goes on to the server.
//
// Unlike in a Fake, an action's object is a copy, so what a reactor changes in it without handling the action is lost.
// Watches are not requests here: WatchReactors have no place.
func FromClientGo(c ClientGo) func() sim.Reactor {
	return func() sim.Reactor {
		return &chain{counter: schedule.Counter{Selector: c.Match}, reactors: c.Make(), scheme: c.Scheme}
	}
}

// chain asks client-go's reactors about each request.
type chain struct {
	idle
	counter  schedule.Counter
	reactors []clientgotesting.Reactor
	scheme   *runtime.Scheme
}

// Before implements [sim.Reactor].
func (c *chain) Before(d *sim.Door) {
	if !c.counter.Match(d.Event()) {
		return
	}
	request := d.Request()
	action := actionOf(request, c.typed)
	if action == nil {
		return
	}
	for _, reactor := range c.reactors {
		if !reactor.Handles(action) {
			continue
		}
		if handled, obj, err := reactor.React(action); handled {
			response, err := responseOf(request, obj, err)
			if err != nil {
				d.Break(err)
			} else {
				d.AnswerClient(response)
			}
			return
		}
	}
}

// typed returns a copy of an object that a reactor may have, in its Go type if that is known.
func (c *chain) typed(obj apiserver.Object) runtime.Object {
	untyped, ok := obj.(*unstructured.Unstructured)
	if !ok || c.scheme == nil || !c.scheme.Recognizes(untyped.GroupVersionKind()) {
		return obj.DeepCopyObject()
	}
	typed, err := c.scheme.New(untyped.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, typed)
	}
	if err != nil {
		return obj.DeepCopyObject()
	}
	return typed
}

// actionOf returns the action that a generated clientset's fake would make of a request, nil if it has none.
func actionOf(r *apiserver.Request, copied func(apiserver.Object) runtime.Object) clientgotesting.Action {
	base := clientgotesting.ActionImpl{
		Namespace: r.Namespace, Resource: r.Kind.GroupVersion().WithResource(r.Kind.Resource), Subresource: r.Subresource,
	}
	var dryRun []string
	if r.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	switch r.Verb {
	case schedule.Get:
		base.Verb = "get"
		return clientgotesting.GetActionImpl{ActionImpl: base, Name: r.Name,
			GetOptions: metav1.GetOptions{ResourceVersion: r.ResourceVersion}}
	case schedule.List:
		base.Verb = "list"
		restrictions, options := listOptions(r)
		return clientgotesting.ListActionImpl{ActionImpl: base, Kind: r.Kind.GroupVersionKind,
			ListRestrictions: restrictions, ListOptions: options}
	case schedule.Create:
		base.Verb = "create"
		return clientgotesting.CreateActionImpl{ActionImpl: base, Name: r.Name, Object: copied(r.Object),
			CreateOptions: metav1.CreateOptions{DryRun: dryRun, FieldManager: r.FieldManager}}
	case schedule.Update:
		base.Verb = "update"
		return clientgotesting.UpdateActionImpl{ActionImpl: base, Object: copied(r.Object),
			UpdateOptions: metav1.UpdateOptions{DryRun: dryRun, FieldManager: r.FieldManager}}
	case schedule.Patch:
		base.Verb = "patch"
		return clientgotesting.PatchActionImpl{ActionImpl: base, Name: r.Name, PatchType: r.PatchType,
			Patch: append([]byte(nil), r.PatchData...), PatchOptions: metav1.PatchOptions{DryRun: dryRun, FieldManager: r.FieldManager}}
	case schedule.Delete:
		base.Verb = "delete"
		return clientgotesting.DeleteActionImpl{ActionImpl: base, Name: r.Name, DeleteOptions: *r.Delete.DeepCopy()}
	case schedule.DeleteCollection:
		base.Verb = "delete-collection"
		restrictions, options := listOptions(r)
		return clientgotesting.DeleteCollectionActionImpl{ActionImpl: base, DeleteOptions: *r.Delete.DeepCopy(),
			ListRestrictions: restrictions, ListOptions: options}
	default:
		return nil
	}
}

func listOptions(r *apiserver.Request) (clientgotesting.ListRestrictions, metav1.ListOptions) {
	restrictions := clientgotesting.ListRestrictions{Labels: r.LabelSelector, Fields: r.FieldSelector}
	if restrictions.Labels == nil {
		restrictions.Labels = labels.Everything()
	}
	if restrictions.Fields == nil {
		restrictions.Fields = fields.Everything()
	}
	return restrictions, metav1.ListOptions{
		LabelSelector: restrictions.Labels.String(), FieldSelector: restrictions.Fields.String(),
		ResourceVersion: r.ResourceVersion, ResourceVersionMatch: r.ResourceVersionMatch, Limit: r.Limit, Continue: r.Continue,
	}
}

// responseOf returns the answer that stands for what a reactor returned, or the error that is no answer.
func responseOf(r *apiserver.Request, obj runtime.Object, err error) (*apiserver.Response, error) {
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		failure := &apierrors.StatusError{ErrStatus: status.Status()}
		if failure.ErrStatus.Code == 0 {
			failure.ErrStatus.Code = http.StatusInternalServerError
		}
		return &apiserver.Response{Code: int(failure.ErrStatus.Code), Err: failure}, nil
	}
	switch r.Verb {
	case schedule.Delete, schedule.DeleteCollection:
		return &apiserver.Response{Code: http.StatusOK}, nil
	case schedule.List:
		return listed(r, obj)
	default:
		return answered(r, obj)
	}
}

// answered is the answer of a request for one object; an empty one if the reactor returned none, as a Fake does.
func answered(r *apiserver.Request, obj runtime.Object) (*apiserver.Response, error) {
	response := &apiserver.Response{Code: http.StatusOK, Object: r.Kind.New()}
	if r.Verb == schedule.Create {
		response.Code = http.StatusCreated
	}
	if obj == nil {
		return response, nil
	}
	var err error
	if response.Object, err = stored(r, obj); err != nil {
		return nil, err
	}
	response.Revision = revisionOf(response.Object.GetResourceVersion())
	return response, nil
}

// listed is the answer of a list.
func listed(r *apiserver.Request, obj runtime.Object) (*apiserver.Response, error) {
	response := &apiserver.Response{Code: http.StatusOK}
	if obj == nil {
		return response, nil
	}
	list, err := meta.ListAccessor(obj)
	if err != nil || !meta.IsListType(obj) {
		return nil, fmt.Errorf("reactor: it answered a list of %s with a %T: return a list", r.Kind.Resource, obj)
	}
	response.Revision, response.Continue = revisionOf(list.GetResourceVersion()), list.GetContinue()
	response.Remaining = list.GetRemainingItemCount()
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil, fmt.Errorf("reactor: the list of %s it answered with: %w", r.Kind.Resource, err)
	}
	for _, item := range items {
		one, err := stored(r, item)
		if err != nil {
			return nil, err
		}
		response.Items = append(response.Items, one)
	}
	return response, nil
}

// stored returns a copy of an object that a reactor returned, in the form that the store has. What the subresources that have
// a kind of their own answer with is left in its type.
func stored(r *apiserver.Request, obj runtime.Object) (apiserver.Object, error) {
	object, ok := obj.(apiserver.Object)
	if !ok {
		return nil, fmt.Errorf("reactor: it answered a request for %s with a %T: return an object", r.Kind.Resource, obj)
	}
	if r.Subresource != "" && r.Subresource != "status" {
		return object.DeepCopyObject().(apiserver.Object), nil
	}
	copied, err := r.Kind.StoredCopy(object)
	if err != nil {
		return nil, fmt.Errorf("reactor: its answer to a request for %s: %w", r.Kind.Resource, err)
	}
	return copied, nil
}

// revisionOf returns a resourceVersion as a number, zero if it is none.
func revisionOf(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
