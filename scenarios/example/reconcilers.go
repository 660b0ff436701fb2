package example

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// publisher makes one pass over a Page.
type publisher func(ctx context.Context, c client.Client, page *Page) error

// hello publishes the text, and then says so. Whatever fails, it returns, so that the pass is made again.
func hello(ctx context.Context, c client.Client, page *Page) error {
	if err := publish(ctx, c, page); err != nil {
		return err
	}
	return report(ctx, c, page)
}

// raceBuggy takes a Page for done that was published at its generation, and says that one was even if publishing it failed.
func raceBuggy(ctx context.Context, c client.Client, page *Page) error {
	if page.Status.ObservedGeneration == page.Generation {
		return nil
	}
	if err := publish(ctx, c, page); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot publish") // and that is all
	}
	return report(ctx, c, page)
}

// raceFixed says so only if it was.
func raceFixed(ctx context.Context, c client.Client, page *Page) error {
	if page.Status.ObservedGeneration == page.Generation {
		return nil
	}
	return hello(ctx, c, page)
}

// faultsBuggy keeps every text that a Page had in an archive, and leaves the archive's name to the API server.
func faultsBuggy(ctx context.Context, c client.Client, page *Page) error {
	return archive(ctx, c, page, metav1.ObjectMeta{GenerateName: page.Name + "-"})
}

// faultsFixed names the archive after what is in it: to make it again does nothing.
func faultsFixed(ctx context.Context, c client.Client, page *Page) error {
	return archive(ctx, c, page, metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", page.Name, page.Generation)})
}

func archive(ctx context.Context, c client.Client, page *Page, meta metav1.ObjectMeta) error {
	if page.Status.ObservedGeneration == page.Generation {
		return nil
	}
	meta.Namespace = page.Namespace
	meta.Labels = map[string]string{"page": page.Name, "generation": fmt.Sprint(page.Generation)}
	copied := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": page.Spec.Text}}
	if err := ctrl.SetControllerReference(page, copied, c.Scheme()); err != nil {
		return err
	}
	if err := c.Create(ctx, copied); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return report(ctx, c, page)
}

// lagBuggy takes what it made away with the Page, if it sees it.
func lagBuggy(ctx context.Context, c client.Client, page *Page) error {
	if page.DeletionTimestamp.IsZero() {
		return publishUnowned(ctx, c, page)
	}
	published := &corev1.ConfigMap{}
	switch err := c.Get(ctx, client.ObjectKeyFromObject(page), published); {
	case apierrors.IsNotFound(err):
		return release(ctx, c, page) // nothing to take away: or the cache does not know yet
	case err != nil:
		return err
	}
	if err := c.Delete(ctx, published); client.IgnoreNotFound(err) != nil {
		return err
	}
	return release(ctx, c, page)
}

// lagFixed takes it away whether it sees it or not: the API server knows.
func lagFixed(ctx context.Context, c client.Client, page *Page) error {
	if page.DeletionTimestamp.IsZero() {
		return publishUnowned(ctx, c, page)
	}
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
	if err := c.Delete(ctx, published); client.IgnoreNotFound(err) != nil {
		return err
	}
	return release(ctx, c, page)
}

// crashBuggy says that a text is published, and then publishes it.
func crashBuggy(ctx context.Context, c client.Client, page *Page) error {
	if page.Status.ObservedGeneration == page.Generation {
		return nil
	}
	if err := report(ctx, c, page); err != nil {
		return err
	}
	return publish(ctx, c, page)
}

// crashFixed publishes first.
func crashFixed(ctx context.Context, c client.Client, page *Page) error {
	return raceFixed(ctx, c, page)
}
