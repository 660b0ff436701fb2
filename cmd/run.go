package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// runFlags are the flags of the run command.
type runFlags struct {
	*outputs
	reconcilers overrideFlag
	matrix      []string
	chosen      map[string]string // values of the matrix
	seed        int64
	runs        int
	budget      time.Duration
	out         string
	names       bool
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{outputs: &outputs{}}
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "Explore scenarios and report what they break",
		Long: `Explores each scenario: first the default order, then every single reorder of two conflicting steps and every single fault
(the sweep), then random runs, one for each seed: PCT, which has actors fall behind at a few steps, and random walks, with the faults
that the scenario's rules allow. A scenario with a matrix is explored once for each combination. A schedule is replayed, as by
'replay', which takes directories, too. The report goes to standard output; of several, a summary ends it.

Exit codes, in order of precedence over several files:
  4  internal error
  2  the command line, a scenario or a property is wrong
  3  the operator under test is nondeterministic
  1  a property is broken
  5  a schedule is stale
  6  inconclusive: every run hit a limit, or the default order got nowhere
  0  all properties hold`,
		Example: `  stalemate run scenarios/clickhouse/recreate.yaml
  stalemate run scenarios/clickhouse/recreate.yaml --reconciler operator=clickhouse/patch-a
  stalemate run scenarios/clickhouse/recreate.yaml --seed 7 --for 30s --out findings`,
		Args: usageArgs(files("scenario or schedule")),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("runs") && c.Flags().Changed("for") {
				return usagef(c, errors.New("--runs and --for are two ways to end: give one of them"))
			}
			if c.Flags().Changed("for") && f.budget == 0 || c.Flags().Changed("out") && f.out == "" {
				return usagef(c, errors.New("--for wants some time, and --out the name of a folder: leave out what is not wanted"))
			}
			if err := f.check(); err != nil {
				return usagef(c, err)
			}
			if err := f.complete(c); err != nil {
				return err
			}
			return a.run(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	f.reconcilers.register(c, "run `CONTROLLER=RECONCILER` instead of what the scenario says; may be repeated")
	flags.StringArrayVar(&f.matrix, "matrix", nil,
		"explore only the combinations of a scenario's matrix with `NAME=VALUE`; may be repeated")
	flags.Int64Var(&f.seed, "seed", 1, "seed of the first random run; the others count on from it")
	flags.IntVar(&f.runs, "runs", explore.DefaultRuns, "number of random runs after the sweep")
	flags.DurationVar(&f.budget, "for", 0, "end after so much real `TIME`, such as 30s: random runs fill it, instead of --runs; "+
		"the sweep is cut short if it takes longer")
	flags.StringVar(&f.out, "out", "",
		"also write each finding to a schedule file in `DIR`, as soon as it is found (default: write no files)")
	flags.BoolVar(&f.names, "names", false, "list all events of the default order by the names that schedules have for them")
	f.register(c)
	return c
}

// check checks the flags and fills in what they leave open.
func (f *runFlags) check() error {
	if f.runs < 0 || f.budget < 0 {
		return errors.New("--runs and --for take no negative values")
	}
	chosen, err := parsePairs("--matrix", f.matrix, "name", "NAME=VALUE, such as policy=Foreground")
	if err != nil {
		return err
	}
	f.chosen = chosen
	return f.reconcilers.complete()
}

// run explores files one after the other. A file that is wrong does not keep the others from being explored.
func (a *app) run(ctx context.Context, files []string, f *runFlags) error {
	if err := makeFolder(f.out); err != nil {
		return usageError{fmt.Errorf("--out: %w", err)}
	}
	err := each(a, files, func(file string) error { return f.noting(file, a.runFile(ctx, file, f)) })
	return errors.Join(err, a.summarize(), f.write(a))
}

// runFile explores what a file holds: one scenario, or one for each combination of its matrix; or it replays a schedule.
func (a *app) runFile(ctx context.Context, file string, f *runFlags) error {
	schedule, err := a.engine.holdsSchedule(file)
	if err != nil {
		return usageError{err}
	}
	if schedule {
		return a.replayFile(ctx, file, &replayFlags{outputs: f.outputs, reconcilers: f.reconcilers, times: 1, names: f.names})
	}
	entries, err := a.engine.load(file)
	if err != nil {
		return usageError{err}
	}
	chosen := slices.DeleteFunc(slices.Clone(entries), func(s scenario) bool { return !f.chooses(s.entry()) })
	if len(chosen) == 0 {
		return usageError{fmt.Errorf("%s: no combination of its matrix has %s", file, strings.Join(f.matrix, " and "))}
	}
	return each(a, chosen, func(entry scenario) error { return f.noting(file, a.exploreEntry(ctx, file, entry, f)) })
}

// chooses reports whether a combination of a matrix is one to explore.
func (f *runFlags) chooses(entry []string) bool {
	for name, value := range f.chosen {
		if !slices.Contains(entry, name+"="+value) {
			return false
		}
	}
	return true
}

// makeFolder makes the folder that findings go to, if there is to be one, and sees to it that files can be written there before
// hours are spent.
func makeFolder(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	probe, err := os.CreateTemp(folder, ".stalemate-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// findingFiles returns the files of an exploration's findings; nil if none are to be written.
func (a *app) findingFiles(folder string, e encoder) *reports.Files {
	if folder == "" {
		return nil
	}
	return &reports.Files{
		Folder: folder, Encode: e.encode,
		Replay: func(file string) string { return a.replayLine(file, &replayFlags{times: 1}) },
	}
}

// exploreEntry explores one scenario and reports on it.
func (a *app) exploreEntry(ctx context.Context, file string, entry scenario, f *runFlags) error {
	ready, err := entry.prepare(f.reconcilers.overrides)
	if err != nil {
		return usageError{err}
	}
	// What the exploration has come to so far.
	partial := history.Result{Header: ready.header(), Seed: f.seed, Command: a.commandLine(file, entry.entry(), f)}
	partial.Coverage.Notes = []string{"this report was written before the exploration came to its end"}
	var failed error // to write a finding
	findings := a.findingFiles(f.out, ready)
	status := newStatus(a.stderr, file)
	result, err := ready.explore(ctx, options{
		seed: f.seed, runs: f.runs, budget: f.budget,
		progress: func(p progress) {
			partial.Coverage.Executions = p.executions
			status.update(p)
		},
		finding: func(finding *history.Finding) {
			partial.Coverage.Executions, partial.Elapsed = finding.Execution, finding.Elapsed
			failed = errors.Join(failed, findings.Save(&partial, keep(&partial, finding)))
		},
	})
	status.clear()
	if err != nil {
		if !errors.Is(err, ctx.Err()) {
			failed = errors.Join(fmt.Errorf("%s: %w", file, err), failed)
			if len(partial.Findings) > 0 { // what was found before is no less true
				failed = errors.Join(a.report(&partial, findings, f, false), failed)
			}
			return failed
		}
		if result == nil {
			result = &partial
		}
		if len(result.Findings) == 0 {
			err := fmt.Errorf("%s: interrupted after %d executions, without a finding", file, partial.Coverage.Executions)
			a.errorf("%v", f.noting(file, err))
			a.exit = stronger(a.exit, ExitInconclusive)
			return nil
		}
		result.Coverage.Notes = append(result.Coverage.Notes, "the exploration was interrupted before it came to its end")
	}
	result.Header, result.Seed, result.Command = partial.Header, partial.Seed, partial.Command
	failed = errors.Join(failed, findings.Finish(result))
	return errors.Join(a.report(result, findings, f, f.names), failed)
}

// keep adds a finding to a result, or puts it in the place of the one with its signature: a run that shows the same better.
// It returns the finding's index.
func keep(r *history.Result, finding *history.Finding) int {
	for i := range r.Findings {
		if r.Findings[i].Signature == finding.Signature {
			r.Findings[i] = *finding
			return i
		}
	}
	r.Findings = append(r.Findings, *finding)
	return len(r.Findings) - 1
}

// report prints the report of a result, and takes its exit code.
func (a *app) report(result *history.Result, findings *reports.Files, f *runFlags, names bool) error {
	verdict := reports.Judge(result)
	a.exit = stronger(a.exit, exitOf(verdict))
	var runs []*history.History
	for i := range result.Findings {
		runs = append(runs, result.Findings[i].Run)
	}
	a.sum(verdict, result.Scenario, result.Command, runs...)
	if replay := findings.ReplayLine(result); replay != nil {
		for i := range result.Findings {
			result.Findings[i].Command = replay(&result.Findings[i])
		}
	}
	d := reports.Document{Result: result}
	f.add(d)
	return a.tell(d, false, names)
}

// commandLine returns the line that runs the exploration of a file again, or of one combination of its matrix.
func (a *app) commandLine(file string, entry []string, f *runFlags) string {
	words := append([]string{a.program, "run", reports.ShellQuote(file)}, flagWords("--matrix", entry)...)
	words = append(words, f.reconcilers.words()...)
	words = append(words, "--seed", strconv.FormatInt(f.seed, 10))
	switch {
	case f.budget > 0:
		words = append(words, "--for", f.budget.String())
	case f.runs != explore.DefaultRuns:
		words = append(words, "--runs", strconv.Itoa(f.runs))
	}
	return strings.Join(words, " ")
}

// textOptions lay a report out for what it is written to: a terminal has its width and, unless the user minds, colours.
func textOptions(w io.Writer) reports.Options {
	file, ok := w.(*os.File)
	if !ok || !isTerminal(w) {
		return reports.Options{}
	}
	o := reports.Options{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(descriptor(file)); err == nil {
		o.Width = width
	}
	return o
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(descriptor(file))
}

// descriptor returns a file's descriptor as package term wants it.
func descriptor(file *os.File) int {
	if fd := file.Fd(); fd <= math.MaxInt32 {
		return int(fd)
	}
	return -1
}
