package patterns

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// duplicateRequest is cert-manager's issue 4956: for each revision of a certificate there is to be one request, with a generated
// name. A POST that is carried out while its client sees an error is repeated, there are two, and as the operator does not know
// which of them counts, it does nothing about either: nothing is ever issued again.
//
// A pass is, after the cached GET of the App:
//
//	1  the status is about this generation: nothing to do. Else the next revision is due
//	2  LIST requests (cached)  two or more for that revision: nothing to do; one: on to step 5; none:
//	3  POST request            with a generated name; the correct one makes the name from the revision, and takes one of its own
//	                           that is there already (GET, live) for the answer to the POST
//	4  GET request (cached)    every 100 ms, until the cache shows it; the event begins the next pass. After 5 s the pass fails
//	5  PUT App/status          the revision is issued
//
// A request is a ConfigMap here, which nobody needs to sign; the original's key manager and issuers are left out, and so are
// requests that fail. The correct one does as cert-manager's feature StableCertificateRequestName.
var duplicateRequest = pattern{
	number: 5,
	name:   "duplicate-request",
	owns:   []client.Object{&corev1.ConfigMap{}},
	buggy: variant{
		doc: "[cert-manager #4956](https://github.com/cert-manager/cert-manager/issues/4956): " +
			"two requests for one revision, and none of them is ever looked at",
		new: newIssuer((*issuer).createGenerated),
	},
	correct: variant{
		doc: "the request's name follows from the revision, so that there cannot be two",
		new: newIssuer((*issuer).createNamed),
	},
	breaks: []string{"change-is-issued"},
	budget: 50,
}

// annotationRevision is on requests, with the revision they are for.
const annotationRevision = "patterns.example.com/revision"

// How often, and with what pause, a pass looks whether the cache shows what it has made.
const (
	shownTries = 50
	shownPause = 100 * time.Millisecond
)

// issuer has something issued for each generation of an app.
type issuer struct {
	clients
	// request makes the request for a revision, which is given but for its name.
	request func(*issuer, context.Context, *App, *corev1.ConfigMap) error
}

func newIssuer(
	request func(*issuer, context.Context, *App, *corev1.ConfigMap) error,
) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &issuer{clients: clientsOf(m), request: request}
	}
}

// Reconcile makes one pass.
func (r *issuer) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	if app.Status.ObservedGeneration == app.Generation {
		return reconcile.Result{}, nil
	}
	revision := strconv.FormatInt(app.Status.Revision+1, 10)
	var requests corev1.ConfigMapList
	if err := r.List(ctx, &requests, client.InNamespace(app.Namespace), client.MatchingLabels(labelsOf(app))); err != nil {
		return reconcile.Result{}, err
	}
	due := slices.DeleteFunc(requests.Items, func(request corev1.ConfigMap) bool {
		return !metav1.IsControlledBy(&request, app) || request.Annotations[annotationRevision] != revision
	})
	switch len(due) {
	case 0:
		request := &corev1.ConfigMap{ObjectMeta: meta(app, ""), Data: map[string]string{"image": app.Spec.Image}}
		request.Annotations = map[string]string{annotationRevision: revision}
		if err := r.request(r, ctx, app, request); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, r.waitForRequest(ctx, client.ObjectKeyFromObject(request))
	case 1:
		app.Status.Revision++
		return reconcile.Result{}, r.report(ctx, app, PhaseReady)
	default:
		ctrl.LoggerFrom(ctx).Info("multiple requests were found for the next revision", "revision", revision)
		return reconcile.Result{}, nil
	}
}

// createGenerated leaves the name to the server.
func (r *issuer) createGenerated(ctx context.Context, app *App, request *corev1.ConfigMap) error {
	request.GenerateName = app.Name + "-"
	return r.create(ctx, app, request)
}

// createNamed lets the server see to it that there is one request for each revision.
func (r *issuer) createNamed(ctx context.Context, app *App, request *corev1.ConfigMap) error {
	request.Name = app.Name + "-" + request.Annotations[annotationRevision]
	err := r.create(ctx, app, request)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	current := &corev1.ConfigMap{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(request), current); err != nil {
		return err
	}
	if !metav1.IsControlledBy(current, app) {
		return fmt.Errorf("config map %s: is not this app's, delete it", current.Name)
	}
	return nil
}

// waitForRequest waits until the cache shows what was made.
func (r *issuer) waitForRequest(ctx context.Context, key client.ObjectKey) error {
	for range shownTries {
		if err := r.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(shownPause):
		}
	}
	return fmt.Errorf("config map %s: the cache does not show it", key.Name)
}
