package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func (a *app) shrinkCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "shrink FILE",
		Short: "Make a failing schedule as small as it can be",
		Long: `Takes elements out of a schedule, and steps out of the scenario's script, as long as the run fails in the same way, until every
element that is left is needed. If the elements alone do not fail any more, it begins with the schedule's trace.

The smaller schedule goes to standard output, and what it took to standard error.`,
		Example: `  stalemate shrink finding.yaml --out smaller.yaml`,
		Args:    usageArgs(oneSchedule),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("out") && out == "" {
				return usagef(c, errors.New("--out wants the name of a file: leave out what is not wanted"))
			}
			return a.mend(a.shrink(c.Context(), args[0], out))
		},
	}
	c.Flags().StringVar(&out, "out", "", "write the smaller schedule to `FILE` instead")
	return c
}

// shrink makes the schedule in a file smaller.
func (a *app) shrink(ctx context.Context, file, out string) error {
	ready, err := a.openSchedule(file, nil)
	if err != nil {
		return err
	}
	exact, err := followsTrace(ready, &replayFlags{})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	failing, err := ready.replay(exact)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !failing.Run.Failed() {
		return a.refuse(file, failing, "nothing is broken under this schedule, so there is nothing to shrink")
	}
	small, err := ready.shrink(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if ready.schedule().Expect.Outcome == schedule.Holds {
		small.Expect = schedule.Expectation{Outcome: schedule.Holds} // it is to be fixed, still
	}
	target := out
	if target == "" {
		target = file // the scenario's path is as in the file that was read
	}
	content, err := a.writeUp(ready, target, "", small)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if out == "" {
		_, err = a.stdout.Write(content)
	} else {
		err = reports.WriteFile(out, content)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stderr, "%s: %s\n", file, reports.Shrunk(small))
	return err
}

// refuse says why nothing is done with a schedule, and how to see more. The exit code tells one that is stale from others.
func (a *app) refuse(file string, replay *history.Replay, why string) error {
	refused := fmt.Errorf("%s: %s: see '%s replay %s'", file, why, a.program, reports.ShellQuote(file))
	if !replay.Stale() {
		return usageError{refused}
	}
	a.errorf("%v", refused)
	a.exit = stronger(a.exit, ExitStale)
	return nil
}

// writeUp returns the content that the file of a schedule is to have: the report of its replay as a comment, and the schedule.
func (a *app) writeUp(ready replayer, file, name string, spec *schedule.Schedule) ([]byte, error) {
	replay, err := ready.run(spec)
	if err != nil {
		return nil, err
	}
	result := &history.Result{Header: ready.header(), Command: a.replayLine(file, &replayFlags{times: 1})}
	var report bytes.Buffer
	told := reports.Replayed{Replay: replay, File: file, Times: 1, Whole: true}
	if err := reports.Replay(&report, result, told, reports.Options{Width: reports.CommentWidth}); err != nil {
		return nil, err
	}
	content, err := ready.encode(file, name, spec)
	if err != nil {
		return nil, err
	}
	return append([]byte(reports.Comment(report.String())), content...), nil
}
