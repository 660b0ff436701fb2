package example

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// finalizer keeps a Page until its ConfigMap is gone, where that has no owner.
const finalizer = "example.com/published"

// publish has the ConfigMap of a Page hold its text. The Page owns it.
func publish(ctx context.Context, c client.Client, page *Page) error {
	published := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKeyFromObject(page), published)
	if apierrors.IsNotFound(err) {
		published = newConfigMap(page)
		if err := ctrl.SetControllerReference(page, published, c.Scheme()); err != nil {
			return err
		}
		return c.Create(ctx, published)
	}
	if err != nil || published.Data["text"] == page.Spec.Text {
		return err
	}
	published.Data = newConfigMap(page).Data
	return c.Update(ctx, published)
}

// publishUnowned makes the ConfigMap of a Page without an owner, and has a finalizer see to its end.
func publishUnowned(ctx context.Context, c client.Client, page *Page) error {
	if controllerutil.AddFinalizer(page, finalizer) {
		return c.Update(ctx, page) // its event begins the next pass
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, newConfigMap(page)))
}

// release lets a Page go.
func release(ctx context.Context, c client.Client, page *Page) error {
	if !controllerutil.RemoveFinalizer(page, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Update(ctx, page))
}

func newConfigMap(page *Page) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Data:       map[string]string{"text": page.Spec.Text},
	}
}

// report says in the status that the Page is published, if that is news.
func report(ctx context.Context, c client.Client, page *Page) error {
	status := PageStatus{Phase: Published, ObservedGeneration: page.Generation}
	if page.Status == status {
		return nil
	}
	page.Status = status
	return c.Status().Update(ctx, page)
}
