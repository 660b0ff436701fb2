package cmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/sim/live"
	"github.com/stalemate-dev/stalemate/sim/live/assets"
)

// confirmFlags are the flags of the confirm command.
type confirmFlags struct {
	reconcilers overrideFlag
	timeout     time.Duration
	quiet       time.Duration
	whole       bool
}

func (a *app) confirmCommand() *cobra.Command {
	f := &confirmFlags{}
	c := &cobra.Command{
		Use:   "confirm SCHEDULE...",
		Short: "Play schedules against a real API server and report whether they break there what they break in the simulation",
		Long: `Starts etcd, kube-apiserver and kube-controller-manager, runs the scenario's reconcilers on a real manager against them, and lets
their requests through in the order of the schedule, with its faults. The scenario's properties judge what comes of it.

The programs of the control plane are those in the folder that KUBEBUILDER_ASSETS names, or those that
'make -C sim/conformance assets' has built. Time is real: a run takes as long as the scenario would.

Exit codes, in order of precedence over several files:
  4  internal error
  2  the command line, a schedule or its scenario is wrong, or there is no control plane
  1  confirmed: the property is broken on the real server, too
  5  not confirmed, though the simulation breaks it
  6  not applicable: only a simulation can bring the schedule about; or the cluster did not come to rest
  0  not confirmed, and the simulation does not break it with these reconcilers either`,
		Example: `  stalemate confirm finding.yaml
  stalemate confirm finding.yaml --reconciler operator=clickhouse/patch-a
  stalemate confirm findings --timeout 5m`,
		Args: usageArgs(files("schedule")),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.reconcilers.complete(); err != nil {
				return usagef(c, err)
			}
			if f.timeout <= 0 || f.quiet < 0 {
				return usagef(c, errors.New("--timeout and --quiet: want more than 0"))
			}
			return a.confirm(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	f.reconcilers.register(c, "run `CONTROLLER=RECONCILER` instead of what the schedule and its scenario say; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "give each schedule so much time, of the real kind")
	flags.DurationVar(&f.quiet, "quiet", 0,
		"take the cluster to be at rest when nothing was committed for so long; by default longer than in the simulation, and 10s at least")
	flags.BoolVarP(&f.whole, "verbose", "v", false, "tell all requests, reads included")
	return c
}

// confirm confirms files one after the other. A file that is wrong does not keep the others from being confirmed.
func (a *app) confirm(ctx context.Context, args []string, f *confirmFlags) error {
	if _, err := assets.Dir(); err != nil {
		return usageError{err}
	}
	// Main has left one processor; here the API server and the operator run side by side.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	schedules, err := a.schedulesOf(args)
	if err != nil {
		return usageError{err}
	}
	return each(a, schedules, func(file string) error { return a.confirmFile(ctx, file, f) })
}

// confirmFile confirms one schedule and reports on it.
func (a *app) confirmFile(ctx context.Context, file string, f *confirmFlags) error {
	ready, err := a.openSchedule(file, f.reconcilers.overrides)
	if err != nil {
		return err
	}
	playable, ok := ready.(confirmer)
	if !ok {
		return usageError{fmt.Errorf("%s: there is nothing to run it on a real API server with", file)}
	}
	result, err := playable.confirm(ctx, a.confirmOptions(file, f))
	switch {
	case ctx.Err() != nil:
		a.errorf("%s: interrupted before it was confirmed", file)
		a.exit = stronger(a.exit, ExitInconclusive)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	}
	result.Name = file
	a.exit = stronger(a.exit, exitOfConfirmation(result))
	_, err = fmt.Fprint(a.stdout, result.Text(f.whole))
	return err
}

// confirmOptions tell how far a confirmation has come on stderr: it takes minutes.
func (a *app) confirmOptions(file string, f *confirmFlags) live.Options {
	return live.Options{Timeout: f.timeout, Quiet: f.quiet, Progress: func(text string) {
		_, _ = fmt.Fprintf(a.stderr, "%s: %s\n", file, text) // nothing that cannot be told matters
	}}
}

// confirmer is a schedule that can be played against a real API server.
type confirmer interface {
	confirm(ctx context.Context, o live.Options) (*live.Result, error)
}

func (r *replayable) confirm(ctx context.Context, o live.Options) (*live.Result, error) {
	result, err := live.Confirm(ctx, live.Finding{Name: r.file.Name, Config: r.config, Schedule: r.file.Spec}, o)
	return result, classified(err)
}

// exitOfConfirmation returns the exit code for a confirmation.
func exitOfConfirmation(r *live.Result) Exit {
	switch {
	case r.Outcome == live.Confirmed:
		return ExitBroken
	case r.Outcome == live.NotApplicable, !r.Rested:
		return ExitInconclusive
	case r.SimulationBroken:
		return ExitStale
	default:
		return ExitPassed
	}
}
