package patterns

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// terminatingClaim is CloudNativePG's issue 10985: an instance, a pod with a volume for data and one for the log, is deleted
// with both. The two claims go one after the other, and in between the operator takes the absence of the first for the absence
// of both. It makes the instance anew, takes the AlreadyExists of the second claim for a success, and has a pod on a claim that
// goes away under it. As there is a pod now, it never looks at the claims again.
//
// A pass is, after the cached GET of the App:
//
//	1  GET pod (cached)        it is there: report whether it is ready, and be done
//	2  GET data claim (cached) it is terminating: wait for the event
//	3  POST data, log claims   AlreadyExists is a success; the correct one GETs each first (live), and waits while it is terminating
//	4  POST pod                AlreadyExists is a success: there can be none but its own
//
// In the original step 4 makes a Job, the pod of which joins the cluster; and where its claim is being deleted or gone, that pod
// stays Pending. The simulated kubelet binds it all the same, so the scenario looks at the claims.
var terminatingClaim = pattern{
	number: 2,
	name:   "terminating-claim",
	owns:   []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}},
	buggy: variant{
		doc: "[CloudNativePG #10985](https://github.com/cloudnative-pg/cloudnative-pg/issues/10985): " +
			"AlreadyExists counts as created, also where what exists is terminating",
		new: newInstances((*instances).createIfNotExists),
	},
	correct: variant{
		doc: "what is terminating must have gone before anything is made",
		new: newInstances((*instances).createOnceGone),
	},
	breaks: []string{"instance-has-its-volumes"},
	budget: 50,
}

// errTerminating says that something must go before it can be made anew.
var errTerminating = errors.New("still terminating")

// terminatingPause is how long the correct one waits until it looks again.
const terminatingPause = time.Second

// instances makes the one instance of an app, the pod "<app>-1" with the claims "<app>-1" and "<app>-1-wal".
type instances struct {
	clients
	// ensure makes a claim. It returns errTerminating if the pass must wait.
	ensure func(*instances, context.Context, *App, *corev1.PersistentVolumeClaim) error
}

func newInstances(
	ensure func(*instances, context.Context, *App, *corev1.PersistentVolumeClaim) error,
) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &instances{clients: clientsOf(m), ensure: ensure}
	}
}

// Reconcile makes one pass.
func (r *instances) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	key := client.ObjectKey{Namespace: app.Namespace, Name: app.Name + "-1"}
	pod := &corev1.Pod{}
	err := r.Get(ctx, key, pod)
	if err == nil {
		return reconcile.Result{}, r.report(ctx, app, phase(podReady(pod)))
	}
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	data := &corev1.PersistentVolumeClaim{}
	err = client.IgnoreNotFound(r.Get(ctx, key, data))
	if err != nil || terminating(data) {
		return reconcile.Result{}, err
	}
	spec, err := claimSpec(app)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	pod = &corev1.Pod{ObjectMeta: meta(app, key.Name), Spec: podSpec(app)}
	for _, name := range []string{key.Name, key.Name + "-wal"} {
		err := r.ensure(r, ctx, app, &corev1.PersistentVolumeClaim{ObjectMeta: meta(app, name), Spec: spec})
		if errors.Is(err, errTerminating) {
			return reconcile.Result{RequeueAfter: terminatingPause}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		mount(&pod.Spec, name)
	}
	return reconcile.Result{}, client.IgnoreAlreadyExists(r.create(ctx, app, pod))
}

// createIfNotExists is the original's.
func (r *instances) createIfNotExists(ctx context.Context, app *App, claim *corev1.PersistentVolumeClaim) error {
	return client.IgnoreAlreadyExists(r.create(ctx, app, claim))
}

// createOnceGone asks the server, not the cache, what there is.
func (r *instances) createOnceGone(ctx context.Context, app *App, claim *corev1.PersistentVolumeClaim) error {
	current := &corev1.PersistentVolumeClaim{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(claim), current)
	switch {
	case apierrors.IsNotFound(err):
		return r.create(ctx, app, claim)
	case err == nil && terminating(current):
		return errTerminating
	default:
		return err
	}
}
