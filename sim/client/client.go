package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// liveClient is a client whose reads and writes are requests to the server.
type liveClient struct {
	env    *sim.Env // nil without an engine
	server requester
	codec  *codec
	mapper meta.RESTMapper
	// place says what kind a request is for, where that depends on the request; nil for a client of an engine.
	place func(*apiserver.Request) *apiserver.Kind
}

// requester carries requests to the server. The error is that of a request which is not answered.
type requester interface {
	Do(ctx context.Context, r *apiserver.Request) (*apiserver.Response, error)
}

// cachingClient is a manager's client: it reads from informers' caches, but for what its options say, and writes to the
// server.
type cachingClient struct {
	*liveClient
	cache *cacheHandle
	// unstructured objects, too, are read from the cache; otherwise, and by default, from the server.
	unstructured bool
	live         map[schema.GroupVersionKind]bool // what is read from the server
}

var (
	_ client.Client = &liveClient{}
	_ client.Client = &cachingClient{}
)

// Get implements client.Client.
func (c *cachingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	bypass, err := c.bypassesCache(obj)
	switch {
	case err != nil:
		return err
	case bypass:
		return c.liveClient.Get(ctx, key, obj, opts...)
	}
	return c.cache.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (c *cachingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	bypass, err := c.bypassesCache(list)
	switch {
	case err != nil:
		return err
	case bypass:
		return c.liveClient.List(ctx, list, opts...)
	}
	return c.cache.List(ctx, list, opts...)
}

// bypassesCache reports whether an object or list is read from the server; shouldBypassCache of
// sigs.k8s.io/controller-runtime/pkg/client/client.go.
func (c *cachingClient) bypassesCache(obj runtime.Object) (bool, error) {
	if !c.unstructured && isUnstructured(obj) {
		return true, nil
	}
	if len(c.live) == 0 {
		return false, nil
	}
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return false, err
	}
	if meta.IsListType(obj) {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return c.live[gvk], nil
}

func isUnstructured(obj runtime.Object) bool {
	_, ok := obj.(runtime.Unstructured)
	return ok
}

// do makes a request, and turns an answer that is an error into one.
func (c *liveClient) do(ctx context.Context, r *apiserver.Request) (*apiserver.Response, error) {
	if c.place != nil {
		r.Kind = c.place(r)
	}
	if err := preflight(r); err != nil {
		return nil, err
	}
	response, err := c.server.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, text := range response.Warnings {
		c.warn(ctx, text)
	}
	if response.Err != nil {
		return nil, response.Err
	}
	return response, nil
}

// preflight refuses what client-go sends nowhere; Name, Namespace and requestPreflightCheck of k8s.io/client-go/rest.
func preflight(r *apiserver.Request) error {
	named := r.Name != ""
	switch r.Verb {
	case schedule.List, schedule.DeleteCollection:
		named = false
	case schedule.Create:
		named = r.Subresource != ""
		if r.Kind.Namespaced && r.Namespace == "" {
			return errors.New("an empty namespace may not be set during creation")
		}
	default:
		if r.Name == "" {
			return errors.New("resource name may not be empty")
		}
	}
	if r.Kind.Namespaced {
		if problems := rest.IsValidPathSegmentName(r.Namespace); len(problems) > 0 {
			return fmt.Errorf("invalid namespace %q: %v", r.Namespace, problems)
		}
	}
	if !named {
		return nil
	}
	if problems := rest.IsValidPathSegmentName(r.Name); len(problems) > 0 {
		return fmt.Errorf("invalid resource name %q: %v", r.Name, problems)
	}
	if r.Kind.Namespaced && r.Namespace == "" && r.Verb != schedule.Patch {
		return errors.New("an empty namespace may not be set when a resource name is provided")
	}
	return nil
}

// metadataPreflight refuses what the client of metadata-only objects does not send or what it puts into a path that no server
// has; k8s.io/client-go/metadata/metadata.go.
func metadataPreflight(kind *apiserver.Kind, method, namespace, name string) error {
	switch {
	case name == "":
		return errors.New("name is required")
	case kind.Namespaced && namespace == "":
		return apierrors.NewGenericServerResponse(http.StatusNotFound, method, schema.GroupResource{}, "", "404 page not found", 0, true)
	default:
		return nil
	}
}

// fill copies the object of an answer into the caller's.
func (c *liveClient) fill(kind *apiserver.Kind, response *apiserver.Response, obj client.Object) error {
	if response.Object == nil {
		return nil
	}
	return c.codec.copyInto(kind, response.Object, obj, false)
}

// keepTypeMeta sets apiVersion and kind back to what they were, as controller-runtime does after most calls: decoding an
// answer has cleared those of a typed object.
func keepTypeMeta(obj client.Object, gvk schema.GroupVersionKind) {
	if !gvk.Empty() {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
}

// isMetadata reports whether the object is metadata only, of which few writes can be made.
func isMetadata(obj client.Object) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}

// Get implements client.Client.
func (c *liveClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	if isMetadata(obj) {
		if err := metadataPreflight(kind, http.MethodGet, key.Namespace, key.Name); err != nil {
			return err
		}
	}
	options := (&client.GetOptions{}).ApplyOptions(opts).AsGetOptions()
	response, err := c.do(ctx, &apiserver.Request{
		Verb: schedule.Get, Kind: kind, Namespace: scoped(kind, key.Namespace), Name: key.Name,
		ResourceVersion: options.ResourceVersion,
	})
	if err != nil {
		return err
	}
	return c.codec.copyInto(kind, response.Object, obj, false)
}

// scoped returns the namespace, or none for a kind that has no namespaces.
func scoped(kind *apiserver.Kind, namespace string) string {
	if kind.Namespaced {
		return namespace
	}
	return ""
}

// List implements client.Client.
func (c *liveClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := c.codec.kindOf(list)
	if err != nil {
		return err
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	raw := options.AsListOptions()
	byLabel, byField, err := sentSelectors(raw)
	if err != nil {
		return err
	}
	response, err := c.do(ctx, &apiserver.Request{
		Verb: schedule.List, Kind: kind, Namespace: scoped(kind, options.Namespace),
		LabelSelector: byLabel, FieldSelector: byField, Limit: options.Limit, Continue: options.Continue,
		ResourceVersion: raw.ResourceVersion, ResourceVersionMatch: raw.ResourceVersionMatch,
	})
	if err != nil {
		return err
	}
	// A server writes apiVersion and kind into the items of a list only of custom resources, and there they stay.
	if err := c.codec.copyList(kind, response.Items, list, kind.Custom()); err != nil {
		return err
	}
	if untyped, ok := list.(*unstructured.UnstructuredList); ok {
		untyped.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	}
	list.SetResourceVersion(formatRevision(response.Revision))
	list.SetContinue(response.Continue)
	list.SetRemainingItemCount(response.Remaining)
	return nil
}

// write makes a request with the object as its body, and fills the object with the answer.
func (c *liveClient) write(
	ctx context.Context, verb schedule.Verb, obj client.Object, body client.Object, subresource string, options writeOptions,
) error {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	if err := c.validateFields(ctx, kind, body, options.fieldValidation); err != nil {
		return err
	}
	encoded, err := c.codec.encode(kind, body, subresource)
	if err != nil {
		return err
	}
	response, err := c.do(ctx, &apiserver.Request{
		Verb: verb, Kind: kind, Namespace: scoped(kind, obj.GetNamespace()), Name: obj.GetName(), Subresource: subresource,
		Object: encoded, DryRun: len(options.dryRun) > 0, FieldManager: options.fieldManager,
	})
	if err != nil {
		return err
	}
	return c.fill(kind, response, body)
}

type writeOptions struct {
	dryRun          []string
	fieldManager    string
	fieldValidation string
	force           *bool
}

// updateOptions are those of an update as they are sent.
func updateOptions(o *client.UpdateOptions) writeOptions {
	return writeOptions{dryRun: o.DryRun, fieldManager: o.FieldManager, fieldValidation: o.FieldValidation}
}

// patchOptions are those of a patch as they are sent.
func patchOptions(raw *metav1.PatchOptions) writeOptions {
	return writeOptions{
		dryRun: raw.DryRun, fieldManager: raw.FieldManager, fieldValidation: raw.FieldValidation, force: raw.Force,
	}
}

// Create implements client.Client. It clears apiVersion and kind of a typed object, as controller-runtime's does.
func (c *liveClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if isMetadata(obj) {
		return errors.New("cannot create using only metadata")
	}
	options := (&client.CreateOptions{}).ApplyOptions(opts)
	return c.write(ctx, schedule.Create, obj, obj, "", writeOptions{
		dryRun: options.DryRun, fieldManager: options.FieldManager, fieldValidation: options.FieldValidation,
	})
}

// Update implements client.Client.
func (c *liveClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if isMetadata(obj) {
		return errors.New("cannot update using only metadata -- did you mean to patch?")
	}
	defer keepTypeMeta(obj, obj.GetObjectKind().GroupVersionKind())
	options := (&client.UpdateOptions{}).ApplyOptions(opts)
	return c.write(ctx, schedule.Update, obj, obj, "", updateOptions(options))
}

// Patch implements client.Client.
func (c *liveClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	defer keepTypeMeta(obj, obj.GetObjectKind().GroupVersionKind())
	options := (&client.PatchOptions{}).ApplyOptions(opts)
	return c.patch(ctx, obj, obj, patch, "", patchOptions(options.AsPatchOptions()))
}

func (c *liveClient) patch(
	ctx context.Context, obj, body client.Object, patch client.Patch, subresource string, options writeOptions,
) error {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	data, err := patch.Data(body)
	if err != nil {
		return err
	}
	if isMetadata(obj) {
		if err := metadataPreflight(kind, http.MethodPatch, obj.GetNamespace(), obj.GetName()); err != nil {
			return err
		}
	}
	response, err := c.do(ctx, &apiserver.Request{
		Verb: schedule.Patch, Kind: kind, Namespace: scoped(kind, obj.GetNamespace()), Name: obj.GetName(),
		Subresource: subresource, PatchType: patch.Type(), PatchData: data,
		DryRun: len(options.dryRun) > 0, FieldManager: options.fieldManager, FieldValidation: options.fieldValidation,
		Force: options.force,
	})
	if err != nil {
		return err
	}
	return c.fill(kind, response, body)
}

// Apply implements client.Client.
func (c *liveClient) Apply(ctx context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	options := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.apply(ctx, config, config, "", patchOptions(options.AsPatchOptions()))
}

// apply applies a configuration to the object that config names. What the server answers is read into the configuration, as
// controller-runtime does: fields of a typed one that the answer does not have stay.
func (c *liveClient) apply(
	ctx context.Context, config, body runtime.ApplyConfiguration, subresource string, options writeOptions,
) error {
	target, err := targetOf(config)
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("failed to create apply request: failed to marshal apply configuration: %w", err)
	}
	kind, err := c.codec.kind(target.GroupVersionKind())
	if err != nil {
		return err
	}
	response, err := c.do(ctx, &apiserver.Request{
		Verb: schedule.Patch, Kind: kind, Namespace: scoped(kind, target.Namespace), Name: target.Name,
		Subresource: subresource, PatchType: types.ApplyPatchType, PatchData: data,
		DryRun: len(options.dryRun) > 0, FieldManager: options.fieldManager, Force: options.force,
	})
	if err != nil {
		return err
	}
	answer, err := json.Marshal(response.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, config)
}

// Delete implements client.Client.
func (c *liveClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	_, err := c.delete(ctx, obj, opts...)
	return err
}

// delete returns the object if the server answers with it, which may still exist then; nil if it says that it is gone.
func (c *liveClient) delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) (apiserver.Object, error) {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return nil, err
	}
	options := (&client.DeleteOptions{}).ApplyOptions(opts).AsDeleteOptions()
	response, err := c.do(ctx, &apiserver.Request{
		Verb: schedule.Delete, Kind: kind, Namespace: scoped(kind, obj.GetNamespace()), Name: obj.GetName(),
		Delete: *options, DryRun: len(options.DryRun) > 0,
	})
	if err != nil {
		return nil, err
	}
	return response.Object, nil
}

// DeleteAllOf implements client.Client.
func (c *liveClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return err
	}
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	deletion, raw := options.AsDeleteOptions(), options.AsListOptions()
	byLabel, byField, err := sentSelectors(raw)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, &apiserver.Request{
		Verb: schedule.DeleteCollection, Kind: kind, Namespace: scoped(kind, options.Namespace),
		LabelSelector: byLabel, FieldSelector: byField, Limit: options.Limit, Continue: options.Continue,
		ResourceVersion: raw.ResourceVersion, ResourceVersionMatch: raw.ResourceVersionMatch,
		Delete: *deletion, DryRun: len(deletion.DryRun) > 0,
	})
	return err
}

// Status implements client.Client.
func (c *liveClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *liveClient) SubResource(name string) client.SubResourceClient { return &subresource{c, name} }

// Scheme implements client.Client.
func (c *liveClient) Scheme() *runtime.Scheme { return c.codec.scheme }

// RESTMapper implements client.Client.
func (c *liveClient) RESTMapper() meta.RESTMapper { return c.mapper }

// GroupVersionKindFor implements client.Client.
func (c *liveClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.codec.scheme)
}

// IsObjectNamespaced implements client.Client.
func (c *liveClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	kind, err := c.codec.kindOf(obj)
	if err != nil {
		return false, err
	}
	return kind.Namespaced, nil
}

// subresource is a client of one subresource.
type subresource struct {
	client *liveClient
	name   string
}

var _ client.SubResourceClient = &subresource{}

// Get implements client.SubResourceClient.
func (s *subresource) Get(ctx context.Context, obj, body client.Object, _ ...client.SubResourceGetOption) error {
	if isMetadata(obj) {
		return errors.New("can not get subresource using only metadata")
	}
	if err := bothUnstructured(obj, body); err != nil {
		return err
	}
	nameAlike(body, obj, false)
	kind, err := s.client.codec.kindOf(obj)
	if err != nil {
		return err
	}
	response, err := s.client.do(ctx, &apiserver.Request{
		Verb: schedule.Get, Kind: kind, Namespace: scoped(kind, obj.GetNamespace()), Name: obj.GetName(), Subresource: s.name,
	})
	if err != nil {
		return err
	}
	return s.client.codec.copyInto(kind, response.Object, body, false)
}

// Create implements client.SubResourceClient.
func (s *subresource) Create(ctx context.Context, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
	if isMetadata(obj) {
		return errors.New("cannot update status using only metadata -- did you mean to patch?")
	}
	if err := bothUnstructured(obj, body); err != nil {
		return err
	}
	nameAlike(body, obj, false)
	options := (&client.SubResourceCreateOptions{}).ApplyOptions(opts)
	kind, err := s.client.codec.kindOf(obj)
	if err != nil {
		return err
	}
	response, err := s.client.do(ctx, &apiserver.Request{
		Verb: schedule.Create, Kind: kind, Namespace: scoped(kind, obj.GetNamespace()), Name: obj.GetName(),
		Subresource: s.name, Object: body.DeepCopyObject().(client.Object),
		DryRun: len(options.DryRun) > 0, FieldManager: options.FieldManager,
	})
	if err != nil {
		return err
	}
	defer keepTypeMeta(body, body.GetObjectKind().GroupVersionKind())
	return s.client.fill(kind, response, body)
}

// bothUnstructured refuses the body of another form that goes with an unstructured object.
func bothUnstructured(obj, body client.Object) error {
	if isUnstructured(obj) && !isUnstructured(body) {
		return fmt.Errorf("unstructured client did not understand object: %T", body)
	}
	return nil
}

// nameAlike names the body of a request to a subresource as the object, where it has no name.
func nameAlike(body, obj client.Object, namespace bool) {
	if body.GetName() == "" {
		body.SetName(obj.GetName())
	}
	if namespace && body.GetNamespace() == "" {
		body.SetNamespace(obj.GetNamespace())
	}
}

// Update implements client.SubResourceClient.
func (s *subresource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if isMetadata(obj) {
		return errors.New("cannot update status using only metadata -- did you mean to patch?")
	}
	defer keepTypeMeta(obj, obj.GetObjectKind().GroupVersionKind())
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	body := obj
	if options.SubResourceBody != nil {
		body = options.SubResourceBody
	}
	nameAlike(body, obj, true)
	return s.client.write(ctx, schedule.Update, obj, body, s.name, updateOptions(&options.UpdateOptions))
}

// Patch implements client.SubResourceClient.
func (s *subresource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	defer keepTypeMeta(obj, obj.GetObjectKind().GroupVersionKind())
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	body := obj
	if options.SubResourceBody != nil {
		body = options.SubResourceBody
	}
	return s.client.patch(ctx, obj, body, patch, s.name, patchOptions(options.AsPatchOptions()))
}

// Apply implements client.SubResourceClient.
func (s *subresource) Apply(
	ctx context.Context, config runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	options := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	body := config
	if options.SubResourceBody != nil {
		body = options.SubResourceBody
	}
	return s.client.apply(ctx, config, body, s.name, patchOptions(options.AsPatchOptions()))
}
