package cmd

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

// notes are the operators that scripts explore: each notes in a ConfigMap that it has seen it.
var notes = map[string]func(*corev1.ConfigMap){
	"note/buggy":   func(cm *corev1.ConfigMap) { cm.ResourceVersion = "" }, // and overwrites what others have written
	"note/correct": func(*corev1.ConfigMap) {},
	"note/exits":   func(*corev1.ConfigMap) { os.Exit(7) },
}

// noteRegistry has the operators, and one that is known to be broken, where a scenario's file is named known.yaml.
func noteRegistry() *scenarios.Registry {
	r := &scenarios.Registry{}
	for name, prepare := range notes {
		r.Add(name, scenarios.Reconciler{Doc: name, Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Reconcilers(o.Scheme, client.Reconciler{For: &corev1.ConfigMap{}, New: func(d sim.Deps) (reconcile.Reconciler, error) {
				n := &noter{d.Client, prepare}
				return reconcile.AsReconciler(d.Client, reconcile.ObjectReconciler[*corev1.ConfigMap](n)), nil
			}})
		}})
	}
	known := func(name string, breaks ...string) scenarios.Variant {
		return scenarios.Variant{Scenario: "known.yaml", Reconcilers: map[string]string{"operator": name}, Breaks: breaks}
	}
	r.AddVariant(known("note/buggy", "no-lost-update"))
	r.AddVariant(known("note/correct"))
	return r
}

type noter struct {
	client  ctrlclient.Client
	prepare func(*corev1.ConfigMap)
}

func (n *noter) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (ctrl.Result, error) {
	if cm.Data["asked"] != "yes" || cm.Data["seen"] == "yes" {
		return ctrl.Result{}, nil
	}
	cm.Data["seen"] = "yes"
	n.prepare(cm)
	return ctrl.Result{}, n.client.Update(ctx, cm)
}
