package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Kinds knows the kinds of a server that may learn of more of them while it runs.
type Kinds interface {
	// ByGVK returns a kind, or nil for one that the server does not have.
	ByGVK(gvk schema.GroupVersionKind) *apiserver.Kind
	// Place returns the kind that a request is for, which is the one of the request unless something else is learnt from it.
	Place(req *apiserver.Request) *apiserver.Kind
	// Mapper returns the REST mapper of the kinds.
	Mapper() meta.RESTMapper
}

// Direct is a client of a server, without an engine: requests are executed at once. It does what the client does that a manager
// reads live with, and watches. It may be used by several goroutines at once. Make one with [NewDirect], and close it in the end.
type Direct struct {
	*liveClient
	backend handler.Backend
	kinds   Kinds
	gap     func(string)

	mu      sync.Mutex
	indexes map[indexKey]*fieldIndex
	open    map[*eventReader]watch.Interface
}

var _ client.WithWatch = &Direct{}

type indexKey struct {
	gvk   schema.GroupVersionKind
	field string
}

// fieldIndex is what lists may select objects by.
type fieldIndex struct {
	form    reflect.Type // of the objects it is computed from
	extract client.IndexerFunc
}

// NewDirect makes a client. What it is asked for that is not modelled is told by gap.
func NewDirect(backend handler.Backend, kinds Kinds, scheme *runtime.Scheme, gap func(string)) *Direct {
	return &Direct{
		liveClient: &liveClient{
			server: backend, codec: &codec{kinds: kinds, scheme: scheme, gap: gap}, place: kinds.Place,
		},
		backend: backend, kinds: kinds, gap: gap,
		indexes: map[indexKey]*fieldIndex{}, open: map[*eventReader]watch.Interface{},
	}
}

// RESTMapper implements client.Client.
func (d *Direct) RESTMapper() meta.RESTMapper { return d.kinds.Mapper() }

// NewRESTMapper returns the REST mapper of a kinds table.
func NewRESTMapper(kinds *apiserver.Kinds) meta.RESTMapper { return mapperOf(kinds) }

// IndexField implements client.FieldIndexer: lists may select objects of the kind by the field, as they may of a manager's cache
// that has such an index. The function sees objects of the type of obj. The server itself knows nothing of it.
func (d *Direct) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind, err := d.codec.kindOf(obj)
	if err != nil {
		return err
	}
	key := indexKey{kind.GroupVersionKind, field}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.indexes[key] != nil {
		return errors.New("indexer conflict: map[" + indexName(field) + ":{}]") // as a cache says it
	}
	d.indexes[key] = &fieldIndex{form: reflect.TypeOf(obj), extract: extract}
	return nil
}

// List implements client.Client.
func (d *Direct) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	indexed, rest := d.split(list, options)
	if len(indexed) == 0 {
		return d.liveClient.List(ctx, list, opts...)
	}
	return d.listIndexed(ctx, list, options, indexed, rest)
}

// indexedField is a requirement of a field selector that an index answers.
type indexedField struct {
	*fieldIndex
	value string
}

// split tells the requirements of a field selector that an index answers from those that the server is to judge. An index answers
// nothing but equality.
func (d *Direct) split(list client.ObjectList, options *client.ListOptions) (indexed []indexedField, rest fields.Selector) {
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		return nil, nil
	}
	kind, err := d.codec.kindOf(list)
	if err != nil {
		return nil, nil // who lists hears of it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var others []fields.Selector
	for _, r := range options.FieldSelector.Requirements() {
		index := d.indexes[indexKey{kind.GroupVersionKind, r.Field}]
		switch {
		case r.Operator == selection.NotEquals:
			others = append(others, fields.OneTermNotEqualSelector(r.Field, r.Value))
		case index == nil:
			others = append(others, fields.OneTermEqualSelector(r.Field, r.Value))
		default:
			indexed = append(indexed, indexedField{index, r.Value})
		}
	}
	return indexed, fields.AndSelectors(others...)
}

// listIndexed lists what indexes choose. As from a cache, there are no pages: a limit cuts the list off.
func (d *Direct) listIndexed(
	ctx context.Context, list client.ObjectList, options *client.ListOptions, indexed []indexedField, rest fields.Selector,
) error {
	kind, err := d.codec.kindOf(list)
	if err != nil {
		return err
	}
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	response, err := d.do(ctx, &apiserver.Request{
		Verb: schedule.List, Kind: kind, Namespace: scoped(kind, options.Namespace),
		LabelSelector: options.LabelSelector, FieldSelector: rest,
	})
	if err != nil {
		return err
	}
	var chosen []apiserver.Object
	for _, obj := range response.Items {
		if options.Limit > 0 && int64(len(chosen)) == options.Limit {
			break
		}
		ok, err := d.matches(kind, obj, indexed)
		if err != nil {
			return err
		}
		if ok {
			chosen = append(chosen, obj)
		}
	}
	if err := d.codec.copyList(kind, chosen, list, kind.Custom()); err != nil {
		return err
	}
	list.SetResourceVersion(formatRevision(response.Revision))
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	return nil
}

// matches reports whether all indexes find an object under the values asked for.
func (d *Direct) matches(kind *apiserver.Kind, stored apiserver.Object, indexed []indexedField) (bool, error) {
	for _, index := range indexed {
		obj, err := d.codec.newCopy(kind, stored, index.form, true)
		if err != nil {
			return false, err
		}
		if !slices.Contains(index.extract(obj), index.value) {
			return false, nil
		}
	}
	return true, nil
}

// Watch implements client.WithWatch.
func (d *Direct) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	kind, err := d.codec.kindOf(list)
	if err != nil {
		return nil, err
	}
	model, err := d.codec.itemModel(kind, list)
	if err != nil {
		return nil, err
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	req := &apiserver.Request{
		Verb: schedule.Watch, Kind: kind, Namespace: scoped(kind, options.Namespace),
		LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector,
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := handler.Open(ctx, d.backend, req, options.AsListOptions())
	if err != nil {
		cancel()
		return nil, err
	}
	r := &eventReader{client: d, kind: kind, form: reflect.TypeOf(model), stream: stream, ctx: ctx, cancel: cancel}
	d.mu.Lock()
	defer d.mu.Unlock()
	// What client-go makes of what a server sends, by the rules of Request.Watch in k8s.io/client-go/rest.
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
	w := watch.NewStreamWatcherWithLogger(klog.FromContext(ctx), r, reporter)
	if !r.ended() {
		d.open[r] = w
	}
	return w, nil
}

// Close ends all watches, and waits until they have ended.
func (d *Direct) Close() {
	d.mu.Lock()
	var open []watch.Interface
	for _, w := range d.open {
		open = append(open, w)
	}
	d.mu.Unlock()
	for _, w := range open {
		w.Stop()
		for range w.ResultChan() {
			continue // until the goroutine that ends closes it
		}
	}
}

// eventReader reads the events of a watch, in the form in which the client's user holds objects.
type eventReader struct {
	client *Direct
	kind   *apiserver.Kind
	form   reflect.Type
	stream *handler.Stream
	ctx    context.Context
	cancel context.CancelFunc

	mu              sync.Mutex
	reading, closed bool
}

// Decode implements watch.Decoder.
func (r *eventReader) Decode() (watch.EventType, runtime.Object, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return "", nil, io.EOF
	}
	r.reading = true
	r.mu.Unlock()
	eventType, obj, err := r.stream.Next(r.ctx)
	r.mu.Lock()
	r.reading = false
	if r.closed {
		r.stream.Close()
		err = io.EOF // nobody cares any more
	}
	r.mu.Unlock()
	if err != nil {
		return "", nil, err
	}
	if status, ok := obj.(*metav1.Status); ok {
		if r.form != reflect.TypeFor[*unstructured.Unstructured]() {
			status = status.DeepCopy()
			status.TypeMeta = metav1.TypeMeta{} // decoding clears it
		}
		return eventType, status, nil
	}
	stored := obj.(apiserver.Object)
	out, err := r.client.codec.newCopy(r.kind, stored, r.form, false)
	if metadata, ok := out.(*metav1.PartialObjectMetadata); ok {
		metadata.TypeMeta = metav1.TypeMeta{}
	}
	return eventType, out, err
}

// Close implements watch.Decoder. It does not wait for a Decode that is under way, which returns by itself.
func (r *eventReader) Close() {
	r.cancel()
	r.mu.Lock()
	if !r.closed && !r.reading {
		r.stream.Close()
	}
	r.closed = true
	r.mu.Unlock()
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	delete(r.client.open, r)
}

func (r *eventReader) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}
