package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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
	reconcilers []string
	overrides   map[string]string // of reconcilers
	seed        int64
	runs        int
	budget      time.Duration
	out         string
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "Explore scenarios and report what they break",
		Long: `Explores each scenario: first the default order, then every single reorder of two conflicting steps (the sweep),
then random walks, one for each seed. The report goes to standard output.

Exit codes, in order of precedence over several files:
  4  internal error
  2  the command line, a scenario or a property is wrong
  3  the operator under test is nondeterministic
  1  a property is broken
  6  inconclusive: every run hit a limit, or the default order got nowhere
  0  all properties hold`,
		Example: `  stalemate run scenarios/clickhouse/recreate.yaml
  stalemate run scenarios/clickhouse/recreate.yaml --reconciler operator=clickhouse/patch-a
  stalemate run scenarios/clickhouse/recreate.yaml --seed 7 --for 30s --out findings`,
		Args: usageArgs(files),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("runs") && c.Flags().Changed("for") {
				return usagef(c, errors.New("--runs and --for are two ways to end: give one of them"))
			}
			if c.Flags().Changed("for") && f.budget == 0 || c.Flags().Changed("out") && f.out == "" {
				return usagef(c, errors.New("--for wants some time, and --out the name of a folder: leave out what is not wanted"))
			}
			if err := f.complete(); err != nil {
				return usagef(c, err)
			}
			return a.run(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.reconcilers, "reconciler", nil,
		"run `CONTROLLER=RECONCILER` instead of what the scenario says; may be repeated")
	flags.Int64Var(&f.seed, "seed", 1, "seed of the first random walk; the others count on from it")
	flags.IntVar(&f.runs, "runs", explore.DefaultRuns, "number of random walks after the sweep")
	flags.DurationVar(&f.budget, "for", 0, "end after so much real `TIME`, such as 30s: random walks fill it, instead of --runs; "+
		"the sweep is cut short if it takes longer")
	flags.StringVar(&f.out, "out", "",
		"also write each finding to a file in `DIR`, as soon as it is found (default: write no files)")
	return c
}

// complete checks the flags and fills in what they leave open.
func (f *runFlags) complete() error {
	if f.runs < 0 || f.budget < 0 {
		return errors.New("--runs and --for take no negative values")
	}
	f.overrides = map[string]string{}
	for _, pair := range f.reconcilers {
		controller, reconciler, ok := strings.Cut(pair, "=")
		if !ok || controller == "" || reconciler == "" {
			return fmt.Errorf("--reconciler %q: want CONTROLLER=RECONCILER, such as operator=clickhouse/patch-a", pair)
		}
		if _, twice := f.overrides[controller]; twice {
			return fmt.Errorf("--reconciler %q: controller %s is given twice", pair, controller)
		}
		f.overrides[controller] = reconciler
	}
	return nil
}

// run explores files one after the other. A file that is wrong does not keep the others from being explored.
func (a *app) run(ctx context.Context, files []string, f *runFlags) error {
	out, err := openArchive(f.out)
	if err != nil {
		return usageError{err}
	}
	for i, file := range files {
		if i > 0 {
			if _, err := fmt.Fprintln(a.stdout); err != nil {
				return fmt.Errorf("report: %w", err)
			}
		}
		err := a.runFile(ctx, file, f, out)
		if _, ok := errors.AsType[usageError](err); ok {
			a.errorf("%v", err)
			a.exit = stronger(a.exit, ExitUsage)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runFile explores one file and reports on it.
func (a *app) runFile(ctx context.Context, file string, f *runFlags, out *archive) error {
	loaded, err := a.engine.load(file)
	if err != nil {
		return usageError{err}
	}
	ready, err := loaded.prepare(f.overrides)
	if err != nil {
		return usageError{err}
	}
	header := ready.header()
	header.Path, header.Seed, header.Command = file, f.seed, a.commandLine(file, f)
	partial := header // what the exploration has come to so far
	partial.Coverage.Notes = []string{"this report was written before the exploration came to its end"}
	var failed error // to write a finding
	status := newStatus(a.stderr, file)
	result, err := ready.explore(ctx, options{
		seed: f.seed, runs: f.runs, budget: f.budget,
		progress: func(p progress) {
			partial.Coverage.Executions = p.executions
			status.update(p)
		},
		finding: func(finding *history.Finding) {
			partial.Coverage.Executions, partial.Elapsed = finding.Execution, finding.Elapsed
			failed = errors.Join(failed, out.save(&partial, keep(&partial, finding)))
		},
	})
	status.clear()
	interrupted := err != nil && errors.Is(err, ctx.Err())
	if interrupted && result == nil {
		result = &partial
	}
	switch {
	case interrupted && len(result.Findings) == 0:
		a.errorf("%s: interrupted after %d executions, without a finding", file, partial.Coverage.Executions)
		a.exit = stronger(a.exit, ExitInconclusive)
		return nil
	case interrupted:
		complete(result, &header)
		result.Coverage.Notes = append(result.Coverage.Notes, "the exploration was interrupted before it came to its end")
	case err != nil:
		return errors.Join(fmt.Errorf("%s: %w", file, err), failed)
	default:
		complete(result, &header)
		for i := range result.Findings {
			failed = errors.Join(failed, out.save(result, i))
		}
	}
	return errors.Join(a.report(result, out), failed)
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

// complete fills in what a result has from its header.
func complete(r, header *history.Result) {
	r.Scenario, r.Path, r.Command, r.Seed = header.Scenario, header.Path, header.Command, header.Seed
	r.Reconcilers, r.Racers, r.Variables = header.Reconcilers, header.Racers, header.Variables
}

// report prints the report of a result, and takes its exit code.
func (a *app) report(result *history.Result, out *archive) error {
	a.exit = stronger(a.exit, exitOf(reports.Judge(result)))
	if err := reports.Text(a.stdout, result, textOptions(a.stdout)); err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	for i := range result.Findings {
		if _, err := fmt.Fprintf(a.stdout, "  written to %s\n", out.name(result, i)); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// commandLine returns the line that runs the exploration of a file again.
func (a *app) commandLine(file string, f *runFlags) string {
	words := []string{a.program, "run", shellQuote(file)}
	for _, pair := range f.reconcilers {
		words = append(words, "--reconciler", shellQuote(pair))
	}
	words = append(words, "--seed", strconv.FormatInt(f.seed, 10))
	switch {
	case f.budget > 0:
		words = append(words, "--for", f.budget.String())
	case f.runs != explore.DefaultRuns:
		words = append(words, "--runs", strconv.Itoa(f.runs))
	}
	return strings.Join(words, " ")
}

// shellQuote quotes a word where a shell would not take it as it is.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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
