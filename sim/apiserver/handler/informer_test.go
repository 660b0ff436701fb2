package handler_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// network is a backend whose watches break when it is down, and cannot begin again until it is up.
type network struct {
	*handler.Local

	mu    sync.Mutex
	down  chan struct{} // closed when it goes down; a new one when it is up again
	isUp  bool
	lists int // and watches that begin with a list
}

func newNetwork(local *handler.Local) *network {
	return &network{Local: local, down: make(chan struct{}), isUp: true}
}

// errNetwork is what makes a reflector go on trying instead of listing again.
var errNetwork = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)

func (n *network) setUp(up bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isUp && !up {
		close(n.down)
	}
	if !n.isUp && up {
		n.down = make(chan struct{})
	}
	n.isUp = up
}

func (n *network) enter(lists bool) (<-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isUp {
		return nil, errNetwork
	}
	if lists {
		n.lists++
	}
	return n.down, nil
}

func (n *network) Do(ctx context.Context, req *apiserver.Request) (*apiserver.Response, error) {
	if _, err := n.enter(req.Verb == schedule.List); err != nil {
		return nil, err
	}
	return n.Local.Do(ctx, req)
}

func (n *network) Watch(ctx context.Context, req *apiserver.Request, initial bool) (*handler.Watch, error) {
	down, err := n.enter(initial)
	if err != nil {
		return nil, err
	}
	w, err := n.Local.Watch(ctx, req, initial)
	if err == nil && w.Events != nil {
		w.Events = &connection{w.Events, down}
	}
	return w, err
}

// connection is the events of a watch over the network.
type connection struct {
	handler.Events
	down <-chan struct{}
}

func (c *connection) Next(ctx context.Context) (apiserver.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.down:
			cancel()
		case <-stop:
		}
	}()
	event, err := c.Events.Next(ctx)
	select {
	case <-c.down:
		return apiserver.Event{}, io.EOF
	default:
		return event, err
	}
}

// diary writes down what an informer's handlers are told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns the lines since the last time.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.add("add %s", obj.(*corev1.ConfigMap).Name) },
		UpdateFunc: func(old, obj any) {
			a, b := old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)
			d.add("update %s %s->%s, same object: %t", b.Name, a.Data["k"], b.Data["k"], a.UID == b.UID)
		},
		DeleteFunc: func(obj any) {
			switch obj := obj.(type) {
			case *corev1.ConfigMap:
				d.add("delete %s", obj.Name)
			case cache.DeletedFinalStateUnknown:
				d.add("tombstone %s", obj.Key)
			}
		},
	}
}

// informed is an informer behind a network, and a client for whom the network is never down.
type informed struct {
	*testing.T

	net    *network
	maps   clientv1.ConfigMapInterface
	listed int // how often it had listed when it was last looked at
	diary
}

func (i *informed) write(name, value string) {
	i.Helper()
	if _, err := i.maps.Create(i.Context(), configMap(name, value), metav1.CreateOptions{}); err != nil {
		i.Fatal(err)
	}
}

func (i *informed) remove(name string) {
	i.Helper()
	if err := i.maps.Delete(i.Context(), name, metav1.DeleteOptions{}); err != nil {
		i.Fatal(err)
	}
}

// expect waits longer than a reflector does between its attempts, and checks what the handlers have been told by then. It is in
// the order of the events; only what follows from a list is in the order of a Go map.
func (i *informed) expect(want ...string) {
	i.Helper()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	got := i.take()
	if i.net.lists != i.listed {
		slices.Sort(got)
		slices.Sort(want)
	}
	i.listed = i.net.lists
	if !slices.Equal(got, want) {
		i.Errorf("told %q, want %q", got, want)
	}
}

// start starts the informer with a factory of client-go, as programs do.
func (i *informed) start(ctx context.Context) informers.SharedInformerFactory {
	i.Helper()
	clientset, err := kubernetes.NewForConfig(handler.New(i.net).Config())
	if err != nil {
		i.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(i.handler()); err != nil {
		i.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		i.Fatal("not synced")
	}
	return factory
}

// TestInformers runs client-go's informers with their defaults, a list that is streamed as a watch: what happens is told in
// order, what happens while the network is down is told when it is up again; and if history has been compacted by then, the
// informer is told 410 and lists again, and its handlers get what differs.
func TestInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := newLocal(t)
		other, err := kubernetes.NewForConfig(handler.New(local).Config())
		if err != nil {
			t.Fatal(err)
		}
		i := &informed{T: t, net: newNetwork(local), maps: other.CoreV1().ConfigMaps("default")}
		i.write("a", "1")
		i.write("b", "1")
		ctx, cancel := context.WithCancel(t.Context())
		factory := i.start(ctx)
		defer func() { cancel(); factory.Shutdown() }()
		i.expect("add a", "add b")

		i.write("c", "1")
		i.remove("a")
		i.expect("add c", "delete a")

		i.net.setUp(false)
		i.write("d", "1")
		i.remove("c")
		i.expect()
		i.net.setUp(true)
		i.expect("add d", "delete c")
		if i.net.lists != 1 {
			t.Errorf("%d lists, want one: what is missing is in the history", i.net.lists)
		}

		i.net.setUp(false)
		i.write("e", "1")
		i.remove("d")
		i.remove("b")
		i.write("b", "2")
		local.Use(func(s *apiserver.Server) { s.Compact(s.Revision()) })
		i.net.setUp(true)
		i.expect("tombstone default/d", "update b 1->2, same object: false", "add e")
		if i.net.lists != 2 {
			t.Errorf("%d lists, want two: the history is gone", i.net.lists)
		}
	})
}

// listing is a source that cannot be asked for a list that is streamed as a watch.
type listing struct{ cache.ListerWatcher }

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// TestListThenWatch runs an informer the old way, which lists page by page and then watches.
func TestListThenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(handler.New(newLocal(t)).Config())
		if err != nil {
			t.Fatal(err)
		}
		maps := clientset.CoreV1().ConfigMaps("default")
		if _, err := maps.Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var d diary
		lw := listing{cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps", "default", fields.Everything())}
		_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: lw, ObjectType: &corev1.ConfigMap{}, Handler: d.handler(),
		})
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { controller.Run(stop); close(done) }()
		synctest.Wait()
		if _, err := maps.Create(t.Context(), configMap("b", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := strings.Join(d.take(), ", "), "add a, add b"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		close(stop)
		<-done
	})
}
