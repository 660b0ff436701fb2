// Package controller stands for the reconcilers of the reader's own operator.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
)

// WidgetReconciler keeps a StatefulSet for each Widget.
type WidgetReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// SetupWithManager is what scaffolds make of it.
func (r *WidgetReconciler) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&widgetv1.Widget{}).Owns(&appsv1.StatefulSet{}).Complete(r)
}

// Reconcile brings the StatefulSet to the size that its Widget asks for, and the Widget's phase up to date.
func (r *WidgetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var widget widgetv1.Widget
	if err := r.Get(ctx, req.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, set, func() error {
		labels := map[string]string{"app": widget.Name}
		set.Spec.Replicas = &widget.Spec.Replicas
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template.Labels = labels
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
		return controllerutil.SetControllerReference(&widget, set, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	phase := "Progressing"
	if set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == widget.Spec.Replicas {
		phase = "Ready"
	}
	if widget.Status.Phase == phase {
		return ctrl.Result{}, nil
	}
	widget.Status.Phase = phase
	return ctrl.Result{}, r.Status().Update(ctx, &widget)
}
