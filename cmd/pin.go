package cmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// pinFlags are the flags of the pin command.
type pinFlags struct {
	folder string
	expect string
	name   string
	force  bool
}

func (a *app) pinCommand() *cobra.Command {
	f := &pinFlags{}
	c := &cobra.Command{
		Use:   "pin FILE",
		Short: "Keep a schedule as a regression test",
		Long: `Replays a schedule and, if it is reproduced, writes it to where a test finds it and it can be committed: beside its scenario,
in testdata/schedules. Its name is made of the names of the scenario and the reconciler and of what the schedule asks for. It
then expects that all properties hold, and so fails until the bug is fixed.`,
		Example: `  stalemate pin findings/widget-update-ours-conflict-update-widget.yaml
  stalemate pin finding.yaml --to schedules --expect Violated --name lost-update`,
		Args: usageArgs(oneSchedule),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return usagef(c, err)
			}
			return a.mend(a.pin(args[0], f))
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.folder, "to", "", "write to `DIR` (default: testdata/schedules beside the scenario)")
	flags.StringVar(&f.expect, "expect", string(schedule.Holds), "what the schedule is to expect: Holds, a regression test that fails "+
		"until the bug is fixed, or Violated, the record of a bug")
	flags.StringVar(&f.name, "name", "", "name of the schedule and its file (default: made of what the schedule asks for)")
	flags.BoolVar(&f.force, "force", false, "pin the schedule though it is not reproduced")
	return c
}

// scheduleName is what a schedule may be called.
var scheduleName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// complete checks the flags.
func (f *pinFlags) complete() error {
	if f.expect != string(schedule.Holds) && f.expect != string(schedule.Violated) {
		return fmt.Errorf("--expect %q: want %s or %s", f.expect, schedule.Holds, schedule.Violated)
	}
	if f.name != "" && !scheduleName.MatchString(f.name) {
		return fmt.Errorf("--name %q: want lower-case letters, digits and dashes", f.name)
	}
	return nil
}

// pin writes the schedule in a file to where it is kept.
func (a *app) pin(file string, f *pinFlags) error {
	ready, err := a.openSchedule(file, nil)
	if err != nil {
		return err
	}
	exact, err := followsTrace(ready, &replayFlags{})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	replay, err := ready.replay(exact)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if replay.Outcome != history.Reproduced && !f.force {
		return a.refuse(file, replay, fmt.Sprintf("%s, %d of %d elements matched (--force pins it all the same)",
			replay.Outcome, replay.Matched, replay.Elements))
	}
	pinned := *ready.schedule()
	pinned.Expect = expectationOf(replay, schedule.Outcome(f.expect))
	header := ready.header()
	name := cmp.Or(f.name, reports.ScheduleName(&header, &pinned))
	folder := cmp.Or(f.folder, filepath.Join(filepath.Dir(ready.scenario()), "testdata", "schedules"))
	target := filepath.Join(folder, name+".yaml")
	content, err := a.writeUp(ready, target, name, &pinned)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return a.keep(target, content)
}

// expectationOf returns what a pinned schedule is to expect. A bug that is to stay away may come back with any values; one that
// is on record is to come back as it was.
func expectationOf(replay *history.Replay, outcome schedule.Outcome) schedule.Expectation {
	expect := schedule.Expectation{Outcome: outcome}
	if outcome != schedule.Violated {
		return expect
	}
	recorded := replay.Schedule.Expect
	expect.Property, expect.Signature, expect.Hash = recorded.Property, recorded.Signature, replay.Run.Hash
	if broken := replay.Run.Broken(); expect.Property == "" && len(broken) > 0 {
		expect.Property = broken[0].Property.Name
	}
	return expect
}

// keep writes a file that was not there before. One with other content is not overwritten.
func (a *app) keep(target string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	before, err := os.ReadFile(target)
	verb := "pinned to"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = reports.WriteFile(target, content)
	case err == nil && bytes.Equal(before, content):
		verb = "already pinned to"
	case err == nil:
		err = usageError{fmt.Errorf("%s: exists with other content: delete it, or choose a --name", target)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s\n", verb, target)
	return err
}
