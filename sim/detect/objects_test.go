package detect_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/detect"
)

// objectCanaries take one object for another.
var objectCanaries = []canary{
	{
		name: "makes a child for who is dying", finds: detect.DyingParent,
		world: world{given: []apiserver.Object{dying(app(nil))}},
		buggy: childOf(func(*unstructured.Unstructured) ctrlclient.Object { return secret("child") }),
		twins: []twin{
			{name: "of one that lives", operator: childOf(func(*unstructured.Unstructured) ctrlclient.Object { return secret("child") }),
				world: world{given: []apiserver.Object{app(nil)}}},
			{name: "looks first", operator: childOf(func(app *unstructured.Unstructured) ctrlclient.Object {
				if app.GetDeletionTimestamp() != nil {
					return nil
				}
				return secret("child")
			})},
			{name: "a last backup", operator: childOf(func(*unstructured.Unstructured) ctrlclient.Object {
				backup := pod()
				backup.Spec.RestartPolicy = corev1.RestartPolicyNever
				return backup
			})},
			{name: "a job that cleans up", operator: childOf(func(*unstructured.Unstructured) ctrlclient.Object { return job("") })},
		},
	},
	{
		name: "makes a revision out of a predecessor's set", finds: detect.DyingParent,
		world: world{given: []apiserver.Object{app(map[string]any{"image": "a"})}, settled: true,
			racers: []sim.RacerConfig{user(renewed(map[string]any{"image": "b"})...)}},
		buggy: revising(func(*unstructured.Unstructured, *corev1.Secret) bool { return true }),
		twins: []twin{
			{name: "which asked for the same", operator: revising(func(*unstructured.Unstructured, *corev1.Secret) bool { return true }),
				world: world{racers: []sim.RacerConfig{user(renewed(map[string]any{"image": "a"})...)}}},
			{name: "but looks whose it is", operator: revising(func(app *unstructured.Unstructured, set *corev1.Secret) bool {
				return metav1.IsControlledBy(set, app)
			})},
		},
	},
	{
		name: "deletes what it does not remember", finds: detect.SelfDelete, also: []detect.Type{detect.HotLoop},
		world: world{given: []apiserver.Object{app(map[string]any{"child": "yes"})}, owns: []ctrlclient.Object{&corev1.Secret{}}},
		buggy: tracking(false, 2),
		twins: []twin{
			{name: "remembers", operator: tracking(true, 2)},
			{name: "is told to", operator: wanted(), world: world{racers: []sim.RacerConfig{
				user(patch(time.Minute, "App", "app", `{"spec":{"child":"no"}}`))}}},
			{name: "is told to by another object", operator: allowed(), world: world{
				given:  []apiserver.Object{app(nil), configMap("limits", map[string]string{"child": "yes"})},
				racers: []sim.RacerConfig{user(patch(time.Minute, "ConfigMap", "limits", `{"data":{"child":"no"}}`))}}},
			{name: "takes back what it cannot complete", operator: pairing(),
				world: world{rules: atCreates("Forbidden"), given: []apiserver.Object{app(nil)}}},
			{name: "tidies up", operator: finishing(), world: world{given: []apiserver.Object{app(nil)}, racers: []sim.RacerConfig{user(
				racer.UserStep{At: 5 * time.Second, Patch: &racer.UserPatch{Kind: "Pod", Namespace: "default", Name: "pod",
					Subresource: "status", Data: []byte(`{"status":{"phase":"Succeeded"}}`)}})}}},
			{name: "changes its mind much later", operator: temporary(2 * time.Minute)},
		},
	},
	{
		name: "deletes by name", finds: detect.MistakenDelete,
		world: world{given: []apiserver.Object{app(nil), labelled("old")}, settled: false,
			racers: []sim.RacerConfig{user(deletion(time.Minute, "Secret", "child"), creation(time.Minute, "Secret", secret("child")))}},
		buggy: replacing(live),
		twins: []twin{
			{name: "with a precondition", operator: replacing(live, func(s *corev1.Secret) ctrlclient.DeleteOption {
				return ctrlclient.Preconditions{UID: &s.UID}
			})},
			{name: "which nobody else uses", operator: replacing(live), world: world{racers: []sim.RacerConfig{
				user(patch(time.Minute, "App", "app", `{"spec":{"a":"b"}}`))}}},
		},
	},
	{
		name: "deletes by name what a cache lists", finds: detect.MistakenDelete,
		world: world{given: []apiserver.Object{app(nil), labelled("old")}, owns: []ctrlclient.Object{&corev1.Secret{}},
			racers: []sim.RacerConfig{user(deletion(time.Minute, "Secret", "child"), creation(time.Minute, "Secret", secret("child")))}},
		buggy: replacing(listed),
		twins: []twin{{name: "with a precondition", operator: replacing(listed, func(s *corev1.Secret) ctrlclient.DeleteOption {
			return ctrlclient.Preconditions{UID: &s.UID}
		})}},
	},
	{
		name: "leaves things behind", finds: detect.Orphans,
		world: world{given: []apiserver.Object{app(nil)}, settled: true, racers: goes()},
		buggy: leaving(secret("app-password")),
		twins: []twin{
			{name: "that the garbage collector takes", operator: leavingOwned(),
				world: world{racers: append(goes(), sim.RacerConfig{Name: "gc", New: func() sim.Racer {
					return racer.NewGarbageCollector(racer.GarbageCollectorOptions{})
				}})}},
			{name: "that a garbage collector would take", operator: leavingOwned()},
			{name: "that are for others, too", operator: leaving(secret("ca"))},
			{name: "on purpose", operator: leaving(&corev1.PersistentVolumeClaim{ObjectMeta: object("app-data"),
				Spec: claim()})},
			{name: "and says so", operator: leaving(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
				Name: "app-password", Annotations: map[string]string{"helm.sh/resource-policy": "keep"}}})},
			{name: "but it comes back", operator: leaving(secret("app-password")), world: world{racers: []sim.RacerConfig{
				user(renewed(nil)...)}}},
			{name: "no, it stays", operator: leaving(secret("app-password")), world: world{racers: []sim.RacerConfig{
				user(patch(time.Minute, "App", "app", `{"spec":{"a":"b"}}`))}}},
		},
	},
	{
		name: "leaves behind what only a label names", finds: detect.Orphans,
		world: world{given: []apiserver.Object{app(nil)}, racers: goes()},
		buggy: leaving(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password",
			Labels: map[string]string{"of": "app"}}}),
		twins: []twin{{name: "cleans up", operator: cleaning()}},
	},
}

// dying marks an object as deleted; a finalizer keeps it.
func dying(obj *unstructured.Unstructured) *unstructured.Unstructured {
	now := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	obj.SetDeletionTimestamp(&now)
	obj.SetFinalizers([]string{"example.com/kept"})
	return obj
}

// childOf makes a child of the App.
func childOf(child func(*unstructured.Unstructured) ctrlclient.Object) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		obj := child(app)
		if obj == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, owned(obj, app)))
	}))
}

// renewed deletes the App and creates another one.
func renewed(spec map[string]any) []racer.UserStep {
	return []racer.UserStep{deletion(time.Minute, "App", "app"), creation(time.Minute+time.Second, "App", app(spec))}
}

// hashOf is what an operator calls a version of the specification.
func hashOf(app *unstructured.Unstructured) string { return "5f7c8" + field(app, "spec", "image") }

// revising keeps a set and a revision of it, as LeaderWorkerSet does: where there is a set, the revision has its label. A set
// that is another's is left alone.
func revising(takes func(*unstructured.Unstructured, *corev1.Secret) bool) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		set := secret("app-set")
		err := deps.Client.Get(ctx, ctrlclient.ObjectKeyFromObject(set), set)
		if ctrlclient.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		hash := hashOf(app)
		if err == nil && takes(app, set) {
			hash = set.Labels["revision"]
		}
		revision := configMap("revision-"+string(app.GetUID()[len(app.GetUID())-4:]), nil)
		revision.Labels = map[string]string{"revision": hash, "managed-by": "operator", "tier": "backend"}
		if err := deps.Live.Create(ctx, owned(revision, app)); ctrlclient.IgnoreAlreadyExists(err) != nil {
			return ctrl.Result{}, err
		}
		set = secret("app-set")
		set.Labels = map[string]string{"revision": hash, "managed-by": "operator", "tier": "backend"}
		return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, owned(set, app)))
	}))
}

// tracking keeps a child whose UID it remembers, as SeiNode does with its StatefulSet: one with another UID is an impostor, and
// deleted. It stops after some.
func tracking(remembers bool, most int) operator {
	return func() pass {
		made := 0
		return onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			child := secret("child")
			err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(child), child)
			switch {
			case err == nil && string(child.UID) != field(app, "status", "child"):
				err = deps.Live.Delete(ctx, child, ctrlclient.Preconditions{UID: &child.UID})
				return ctrl.Result{RequeueAfter: time.Second}, ctrlclient.IgnoreNotFound(err)
			case err == nil || !apierrors.IsNotFound(err):
				return ctrl.Result{}, err
			case made >= most:
				return ctrl.Result{}, nil
			}
			made++
			child = owned(secret("child"), app)
			if err := deps.Live.Create(ctx, child); err != nil || !remembers {
				return ctrl.Result{}, err
			}
			setField(app, string(child.UID), "status", "child")
			return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
		})
	}
}

// keep makes the child there, or not, as it is to be.
func keep(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured, wanted bool) error {
	if wanted {
		return ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, owned(secret("child"), app)))
	}
	return ctrlclient.IgnoreNotFound(deps.Live.Delete(ctx, secret("child")))
}

// wanted has a child if the App says so.
func wanted() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		return ctrl.Result{}, keep(ctx, deps, app, field(app, "spec", "child") == "yes")
	}))
}

// allowed has a child if a ConfigMap says so, at which it looks now and then.
func allowed() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		limits := configMap("limits", nil)
		if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(limits), limits); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: 40 * time.Second}, keep(ctx, deps, app, limits.Data["child"] == "yes")
	}))
}

// pairing makes two children, or none: once.
func pairing() operator {
	return func() pass {
		done := false
		return onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			if done {
				return ctrl.Result{}, nil
			}
			done = true
			err := keep(ctx, deps, app, true)
			if err == nil {
				err = deps.Live.Create(ctx, owned(configMap("child", nil), app))
			}
			if err == nil {
				return ctrl.Result{}, nil
			}
			if err := keep(ctx, deps, app, false); err != nil {
				return ctrl.Result{}, err
			}
			setField(app, "failed", "status", "phase")
			return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
		})
	}
}

// finishing runs a pod, once, and deletes it when it has succeeded.
func finishing() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		if field(app, "status", "ran") == "yes" {
			return ctrl.Result{}, nil
		}
		p := pod()
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(p), p)
		switch {
		case apierrors.IsNotFound(err):
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			return ctrl.Result{RequeueAfter: 10 * time.Second}, deps.Live.Create(ctx, owned(p, app))
		case err != nil:
			return ctrl.Result{}, err
		case p.Status.Phase != corev1.PodSucceeded:
			return ctrl.Result{RequeueAfter: 10 * time.Second}, nil
		}
		setField(app, "yes", "status", "ran")
		if err := deps.Live.Status().Update(ctx, app); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, deps.Live.Delete(ctx, p, ctrlclient.GracePeriodSeconds(0))
	}))
}

// temporary has a child for some time.
func temporary(span time.Duration) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		if field(app, "status", "had") == "yes" {
			return ctrl.Result{}, nil
		}
		if err := keep(ctx, deps, app, true); err != nil {
			return ctrl.Result{}, err
		}
		time.Sleep(span)
		if err := keep(ctx, deps, app, false); err != nil {
			return ctrl.Result{}, err
		}
		setField(app, "yes", "status", "had")
		return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
	}))
}

func labelled(value string) *corev1.Secret {
	s := secret("child")
	s.Labels = map[string]string{"version": value}
	return s
}

// finding finds the child; nil if there is none.
type finding func(context.Context, sim.Deps) (*corev1.Secret, error)

func live(ctx context.Context, deps sim.Deps) (*corev1.Secret, error) {
	child := secret("child")
	if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(child), child); err != nil {
		return nil, ctrlclient.IgnoreNotFound(err)
	}
	return child, nil
}

func listed(ctx context.Context, deps sim.Deps) (*corev1.Secret, error) {
	children := &corev1.SecretList{}
	if err := deps.Client.List(ctx, children, ctrlclient.InNamespace("default")); err != nil || len(children.Items) == 0 {
		return nil, err
	}
	return &children.Items[0], nil
}

// replacing deletes a child of the old version, shortly before somebody else does so, too.
func replacing(find finding, options ...func(*corev1.Secret) ctrlclient.DeleteOption) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, _ *unstructured.Unstructured) (ctrl.Result, error) {
		time.Sleep(30 * time.Second)
		child, err := find(ctx, deps)
		if err != nil || child == nil || child.Labels["version"] != "old" {
			return ctrl.Result{}, err
		}
		var with []ctrlclient.DeleteOption
		for _, option := range options {
			with = append(with, option(child))
		}
		err = deps.Live.Delete(ctx, secret("child"), with...)
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
	}))
}

// goes has a user delete the App.
func goes() []sim.RacerConfig { return []sim.RacerConfig{user(deletion(time.Minute, "App", "app"))} }

func claim() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
}

// leaving makes an object that nobody owns.
func leaving(obj ctrlclient.Object) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, _ *unstructured.Unstructured) (ctrl.Result, error) {
		return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, obj.DeepCopyObject().(ctrlclient.Object)))
	}))
}

// leavingOwned makes an object of the App's.
func leavingOwned() operator {
	return childOf(func(*unstructured.Unstructured) ctrlclient.Object { return secret("app-password") })
}

// cleaning makes an object that nobody owns, and deletes it with the App.
func cleaning() operator {
	const finalizer = "example.com/clean"
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		switch {
		case app.GetDeletionTimestamp() != nil:
			if err := deps.Live.Delete(ctx, secret("app-password")); ctrlclient.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
			app.SetFinalizers(nil)
			return ctrl.Result{}, deps.Live.Update(ctx, app)
		case !slices.Contains(app.GetFinalizers(), finalizer):
			app.SetFinalizers([]string{finalizer})
			if err := deps.Live.Update(ctx, app); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, secret("app-password")))
	}))
}
