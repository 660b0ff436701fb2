package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

const (
	statusTries = 50
	statusPause = time.Second
)

// reconciler makes one pass per request. It keeps nothing between passes.
type reconciler struct {
	variant  variant
	client   client.Client
	log      logr.Logger
	recorder record.EventRecorder
}

func newReconciler(v variant, deps sim.Deps) *reconciler {
	return &reconciler{variant: v, client: deps.Client, log: deps.Log, recorder: deps.Recorder}
}

// pass is one pass over one CHI.
type pass struct {
	*reconciler
	chiKey types.NamespacedName
	// status is what the pass has to say so far. It goes over the whole stored status at every write.
	status Status
}

// Reconcile makes one pass. It never returns an error: what goes wrong becomes status Aborted, and nothing is retried
// until the spec changes or the operator starts anew.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &pass{reconciler: r, chiKey: req.NamespacedName}
	if chi := p.begin(ctx); chi != nil {
		p.end(ctx, chi, p.reconcileHosts(ctx, chi))
	}
	return reconcile.Result{}, nil
}

// begin declares the pass InProgress and returns the CHI it works on, or nil if there is none.
func (p *pass) begin(ctx context.Context) *ClickHouseInstallation {
	chi, err := p.updateStatus(ctx, func(chi *ClickHouseInstallation) { p.status = started(chi) })
	if chi == nil || ctx.Err() != nil {
		if err != nil && !apierrors.IsNotFound(err) {
			p.logError("unable to start reconcile of %s err: %v", p.chiKey, err)
		}
		return nil
	}
	p.logInfo("reconcile started")
	return chi
}

// started is the status of a pass that begins. Errors of earlier passes stay on record.
func started(chi *ClickHouseInstallation) Status {
	all := hosts(chi)
	last := all[len(all)-1]
	return Status{
		Status:   StatusInProgress,
		Clusters: 1,
		Shards:   last.shard + 1,
		Replicas: last.replica + 1,
		Hosts:    len(all),
		Errors:   chi.Status.DeepCopy().Errors,
	}
}

// reconcileHosts brings the hosts up to date one after the other, up to the first error.
func (p *pass) reconcileHosts(ctx context.Context, chi *ClickHouseInstallation) error {
	for _, h := range hosts(chi) {
		hp := &hostPass{pass: p, host: h, desired: h.statefulSet()}
		if err := hp.reconcile(ctx); err != nil {
			return err
		}
		p.status.HostsCompleted++
	}
	return nil
}

// end declares the pass Completed, or Aborted if a host failed. A pass whose context has ended says nothing.
func (p *pass) end(ctx context.Context, chi *ClickHouseInstallation, err error) {
	if ctx.Err() != nil {
		return
	}
	p.status.Status = StatusCompleted
	message := "reconcile completed successfully"
	if err != nil {
		p.status.Status = StatusAborted
		p.status.Error = err.Error()
		p.status.Errors = append(p.status.Errors, err.Error())
		message = "reconcile completed UNSUCCESSFULLY"
		if errors.Is(err, errRecreate) {
			p.recorder.Event(chi, corev1.EventTypeWarning, "ReconcileFailed", message)
		}
	}
	_ = p.writeStatus(ctx) // the original logs success all the same
	p.logInfo("%s", message)
}

// writeStatus puts the status of the pass over the stored one.
func (p *pass) writeStatus(ctx context.Context) error {
	_, err := p.updateStatus(ctx, func(*ClickHouseInstallation) {})
	return err
}

// updateStatus gets the CHI, copies the status of the pass over its own, and puts it: again after 1 s on any error, up to
// 50 times. NotFound ends it. look sees the CHI as it was read, before the copy. The CHI returned is the one last read,
// nil if none was.
func (p *pass) updateStatus(
	ctx context.Context, look func(*ClickHouseInstallation),
) (chi *ClickHouseInstallation, err error) {
	for try := range statusTries {
		if try > 0 {
			sleep(ctx, statusPause)
		}
		if ctx.Err() != nil {
			return chi, ctx.Err()
		}
		current := &ClickHouseInstallation{}
		if err = p.client.Get(ctx, p.chiKey, current); err == nil {
			chi = current
			look(chi)
			chi.Status = *p.status.DeepCopy()
			err = p.client.Status().Update(ctx, chi)
		}
		if err == nil {
			return chi, nil
		}
		if apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return chi, err
}

func (r *reconciler) logInfo(format string, args ...any) {
	r.log.Info(fmt.Sprintf(format, args...))
}

// logError writes an error line. Like the original it has the error, if it tells it at all, in the text.
func (r *reconciler) logError(format string, args ...any) {
	r.log.Error(nil, fmt.Sprintf(format, args...))
}
