package patterns

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios/track"
)

// externalCreate is what crossplane-runtime's pull request 283 is about: an operator has something made outside the cluster, and
// learns of its name by the answer only. If the operator dies before it has written the name down, or cannot write it, or reads
// a copy of the custom resource without it, then it makes another one; and nobody knows of the first, which is paid for.
//
// The outside is a kind of its own here, Volume, of which the operator knows nothing but what it asks the server. A pass is,
// after the cached GET of the App:
//
//	1  GET volume       by the App's annotation, if it has one: PUT App/status, and be done
//	2  POST volume      the server makes the name
//	3  PUT App          with the name in the annotation, under its resourceVersion
//
// The correct one gives its own name for the volume, as a cloud's API would take an idempotency token, and an AlreadyExists for
// the answer. The one with the pending annotation does what the pull request does:
//
//	0                   a creation is pending, by the annotations: PUT App/status, and do nothing until a human has looked
//	2  PUT App          a creation is pending since now; refused if the cache is behind
//	   POST volume      on an error: PUT App with "failed since now", and all over again
//	3  GET (cached), PUT App  with "succeeded since now" and the name, five times at most
//
// That leaves a volume behind where the POST is carried out and its client sees an error, and an App that waits for a human
// wherever the operator dies in between. The finalizer, and the deletion of the volume, are left out.
var externalCreate = pattern{
	number: 13,
	name:   "external-create",
	buggy: variant{
		doc: "[crossplane-runtime PR283](https://github.com/crossplane/crossplane-runtime/pull/283): " +
			"what was made outside is made again, where its name was not written down",
		new: newProvisioner((*provisioner).provisionGenerated),
	},
	partial: map[string]variant{"pending": {
		doc: "crossplane's: that it is about to be made is written down before",
		new: newProvisioner((*provisioner).provisionPending),
	}},
	correct: variant{
		doc: "the operator names what it has made, so that to make it again does nothing",
		new: newProvisioner((*provisioner).provisionNamed),
	},
	breaks: []string{"one-volume"},
	budget: 50,
	beyond: []track.Row{{
		Bug: "the fix of PR283 waits for a human where the operator died, " +
			"and makes a second one where it took the answer for a failure",
		Pattern: 13, Scenario: "external-create.yaml", Controller: operator, Reconciler: "patterns/external-create-pending",
		Breaks: []string{"one-volume", "app-gets-its-volume"}, Budget: 100,
	}},
}

// The annotations of an app: the name of its volume, and what has become of its creation and when.
const (
	annotationVolume    = "patterns.example.com/volume"
	annotationPending   = "patterns.example.com/create-pending"
	annotationSucceeded = "patterns.example.com/create-succeeded"
	annotationFailed    = "patterns.example.com/create-failed"
)

// provisioner has a volume made for each app, outside the cluster.
type provisioner struct {
	clients
	// provision makes the volume of an app that knows of none, and writes its name down.
	provision func(*provisioner, context.Context, *App) error
}

func newProvisioner(
	provision func(*provisioner, context.Context, *App) error,
) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &provisioner{clients: clientsOf(m), provision: provision}
	}
}

func newVolume(app *App) *unstructured.Unstructured {
	volume := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": app.Spec.Storage}}}
	volume.SetGroupVersionKind(schema.GroupVersionKind{Group: "cloud.example.com", Version: "v1", Kind: "Volume"})
	return volume
}

// Reconcile makes one pass.
func (r *provisioner) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	name := app.Annotations[annotationVolume]
	if name == "" {
		return reconcile.Result{}, r.provision(r, ctx, app) // the event of what it writes begins the next pass
	}
	if err := r.live.Get(ctx, client.ObjectKey{Name: name}, newVolume(app)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.report(ctx, app, PhaseReady)
}

// provisionGenerated leaves the name to whoever makes the volume.
func (r *provisioner) provisionGenerated(ctx context.Context, app *App) error {
	volume := newVolume(app)
	volume.SetGenerateName("vol-")
	if err := r.Create(ctx, volume); err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, annotationVolume, volume.GetName())
	return r.Update(ctx, app)
}

// provisionNamed gives it one that is the same each time, and no other app's.
func (r *provisioner) provisionNamed(ctx context.Context, app *App) error {
	volume := newVolume(app)
	volume.SetName("vol-" + string(app.UID))
	if err := r.Create(ctx, volume); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, annotationVolume, volume.GetName())
	return r.Update(ctx, app)
}

// provisionPending writes down before that it is about to.
func (r *provisioner) provisionPending(ctx context.Context, app *App) error {
	if createPending(app) {
		ctrl.LoggerFrom(ctx).Info("cannot determine creation result: remove the annotation " + annotationPending + " if it is safe")
		return r.report(ctx, app, PhaseProgressing)
	}
	setTime(app, annotationPending)
	if err := r.Update(ctx, app); err != nil {
		return err
	}
	volume := newVolume(app)
	volume.SetGenerateName("vol-")
	if err := r.Create(ctx, volume); err != nil {
		setTime(app, annotationFailed)
		return errors.Join(err, r.annotate(ctx, app))
	}
	setTime(app, annotationSucceeded)
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, annotationVolume, volume.GetName())
	return r.annotate(ctx, app)
}

// createPending reports whether a creation was begun, and no end of it was written down.
func createPending(app *App) bool {
	pending := timeOf(app, annotationPending)
	return pending.After(timeOf(app, annotationSucceeded)) && pending.After(timeOf(app, annotationFailed))
}

func setTime(app *App, annotation string) {
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, annotation, time.Now().Format(time.RFC3339Nano))
}

// timeOf returns the time in an annotation; zero if there is none.
func timeOf(app *App, annotation string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, app.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// annotate writes the annotations of an app down, whatever else has become of it.
func (r *provisioner) annotate(ctx context.Context, app *App) error {
	annotations := app.Annotations
	return retry.OnError(retry.DefaultRetry, isStatus, func() error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		if app.Annotations == nil {
			app.Annotations = map[string]string{}
		}
		maps.Copy(app.Annotations, annotations)
		return r.Update(ctx, app)
	})
}

// isStatus reports whether an error is the server's answer.
func isStatus(err error) bool { return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown }
