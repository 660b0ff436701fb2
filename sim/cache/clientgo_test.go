package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// reflected is a client-go informer over a source, whose watch is ours to feed and to break.
type reflected struct {
	source   *pods
	informer toolscache.SharedIndexInformer
	watch    *watch.FakeWatcher // the one that is open

	mu   sync.Mutex
	told []string
}

func newReflected(ctx context.Context, source *pods) *reflected {
	r := &reflected{source: source}
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(max(1, source.revision), 10)}}
			for _, pod := range sorted(source.state) {
				list.Items = append(list.Items, *pod)
			}
			return list, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil {
				return nil, errors.New("no streaming lists: client-go hands on what they hold in no order")
			}
			r.watch = watch.NewFakeWithChanSize(1000, false)
			return r.watch, nil
		},
	}
	r.informer = toolscache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, toolscache.Indexers{})
	_, err := r.informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			r.tell(cache.Delta{Type: apiserver.Added, Object: obj.(*corev1.Pod), Initial: initial})
		},
		UpdateFunc: func(old, obj any) {
			r.tell(cache.Delta{Type: apiserver.Modified, Object: obj.(*corev1.Pod), Old: old.(*corev1.Pod)})
		},
		DeleteFunc: func(obj any) {
			tombstone, unknown := obj.(toolscache.DeletedFinalStateUnknown)
			if unknown {
				obj = tombstone.Obj
			}
			r.tell(cache.Delta{Type: apiserver.Deleted, Object: obj.(*corev1.Pod), Unknown: unknown})
		},
	})
	if err != nil {
		panic(err)
	}
	go r.informer.RunWithContext(ctx)
	synctest.Wait()
	return r
}

func (r *reflected) tell(d cache.Delta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, heard(d))
}

// heard returns what a handler learns of a delta: at a deletion not what was there before.
func heard(d cache.Delta) string {
	if d.Type == apiserver.Deleted {
		d.Old = nil
	}
	return text(d)
}

// advance feeds one event of the log to the watch.
func (r *reflected) advance(event apiserver.Event) {
	r.watch.Action(watch.EventType(event.Type.String()), event.Object.(*corev1.Pod))
	synctest.Wait()
}

// relist breaks the watch, in such a way that it cannot go on, and waits for the list that follows.
func (r *reflected) relist() {
	r.watch.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
	time.Sleep(time.Hour) // of virtual time: the reflector's back-off is shorter
	synctest.Wait()
}

// TestClientGo checks that the followers of a view are told what the handlers of a client-go informer are told, and in the
// same order but for the deletions that a new list shows, for which client-go has none.
func TestClientGo(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			random := rand.New(rand.NewPCG(seed, 3))
			source := &pods{state: map[types.NamespacedName]*corev1.Pod{}}
			for range random.IntN(10) {
				source.change(random)
			}
			view := cache.New(source, podKind, cache.Selector{})
			informer := newReflected(ctx, source)
			var told []string
			follow := func(deltas ...cache.Delta) {
				for _, d := range deltas {
					told = append(told, heard(d))
				}
			}
			follow(view.Sync()...)
			next := len(source.log)
			for range 60 {
				switch random.IntN(8) {
				case 0:
					next = len(source.log)
					informer.relist()
					follow(view.Relist()...)
				case 1, 2, 3:
					if next < len(source.log) {
						informer.advance(source.log[next])
						follow(view.Advance())
						next++
					}
				default:
					source.change(random)
				}
				synctest.Wait()
				if got, want := inOrder(told), inOrder(informer.told); !slices.Equal(got, want) {
					t.Fatalf("seed %d: the view's followers were told\n%s\nclient-go's handlers\n%s", seed,
						strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if got, want := contents(view), stored(informer.informer); got != want {
					t.Fatalf("seed %d: the view holds %s, client-go's store %s", seed, got, want)
				}
			}
		})
	}
}

// inOrder sorts the deletions that one list showed.
func inOrder(told []string) []string {
	told = slices.Clone(told)
	unknown := func(line string) bool { return strings.HasSuffix(line, "unknown") }
	for begin := 0; begin < len(told); begin++ {
		end := begin
		for end < len(told) && unknown(told[end]) {
			end++
		}
		slices.Sort(told[begin:end])
		begin = end
	}
	return told
}

func contents(view *cache.View) string {
	var list []string
	for _, obj := range view.List("") {
		list = append(list, fmt.Sprintf("%s/%s at %s", obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion()))
	}
	return strings.Join(list, ", ")
}

func stored(informer toolscache.SharedIndexInformer) string {
	state := map[types.NamespacedName]*corev1.Pod{}
	for _, obj := range informer.GetStore().List() {
		pod := obj.(*corev1.Pod)
		state[key(pod)] = pod
	}
	var list []string
	for _, pod := range sorted(state) {
		list = append(list, fmt.Sprintf("%s at %s", key(pod), pod.ResourceVersion))
	}
	return strings.Join(list, ", ")
}
