package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// Main runs the command line args, which begins with the program's name as [os.Args] does, and returns the exit code. The
// registry says what the names of reconcilers in scenarios stand for.
//
// Reports go to stdout; errors, and how far a run has come, to stderr. An interrupt ends an exploration early, with what
// it has found.
func Main(args []string, stdout, stderr io.Writer, registry *scenarios.Registry) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// One goroutine of a run goes on at a time; handing over to another processor only costs.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	// Operators under test log into the history; without this, controller-runtime complains on stderr that nobody said so.
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt does not wait
	a := &app{stdout: stdout, stderr: stderr, engine: simulation{registry}, registry: registry}
	return int(a.main(ctx, args))
}

// gcPercent is how far the heap may grow between collections. Runs are short and leave next to nothing behind, so that
// collecting less often costs some megabytes and saves a fifth of the time; GOGC, if set, says otherwise.
const gcPercent = 400

// app is one run of the command.
type app struct {
	stdout, stderr io.Writer
	engine         engine
	registry       *scenarios.Registry
	// program is what the user would type to run the command again.
	program string
	exit    Exit
	// summary has a line for each scenario and schedule so far.
	summary []summed
}

// usageError is a mistake on the command line, or in a file it names.
type usageError struct{ error }

// nondeterminismError says that the operator under test is nondeterministic.
type nondeterminismError struct{ error }

// main runs a command line and returns its exit code. A panic is an internal error like any other: it must not look like
// the exit code of a usage error, which is what the Go runtime would make of it.
func (a *app) main(ctx context.Context, args []string) (exit Exit) {
	defer func() {
		if p := recover(); p != nil {
			a.errorf("internal error, please report it: %v\n\n%s", p, debug.Stack())
			exit = ExitInternal
		}
	}()
	a.program = programName(args[0])
	root := a.root()
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return a.exit
	}
	a.errorf("%v", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return stronger(ExitUsage, a.exit)
	}
	return ExitInternal
}

// errorf writes an error for the user. That stderr cannot be written to leaves nowhere to say so.
func (a *app) errorf(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, "error: "+format+"\n", args...)
}

// root makes the command with its sub-commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   filepath.Base(a.program),
		Short: "Find the order of events that stalls a Kubernetes operator",
		Long: "Stalemate runs an operator's real reconcilers against a simulated API server, tries the orders in which the\n" +
			"events of a scenario can happen, and tells of those that end in a state that must not be.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usageArgs(noSuchCommand),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		// How many letters a command may be off to be suggested.
		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usagef(c, err) })
	root.AddCommand(
		a.confirmCommand(),
		a.explainCommand(),
		a.fuzzCommand(),
		a.listCommand(),
		a.mergeCommand(),
		a.pinCommand(),
		a.replayCommand(),
		a.reportCommand(),
		a.runCommand(),
		a.schemaCommand(),
		a.shrinkCommand(),
		a.validateCommand(),
		a.workerCommand(),
	)
	return root
}

// noSuchCommand says what may have been meant by the name of a command that there is not.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	if names := c.SuggestionsFor(args[0]); len(names) > 0 {
		return fmt.Errorf("%w, did you mean %q?", err, names[0])
	}
	return err
}

// usageArgs makes a check of arguments report usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usagef(c, err)
		}
		return nil
	}
}

// usagef makes a usage error that says where help is.
func usagef(c *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w\nRun '%s --help' for usage", err, c.CommandPath())}
}

// files takes one file or more, of what they hold.
func files(of string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("no %s file: name at least one", of)
		}
		return nil
	}
}

// oneSchedule takes one file.
func oneSchedule(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one schedule file, not %d", len(args))
	}
	return nil
}

// each does something with each file, or each scenario of one, with an empty line between what is printed of them. One that is
// wrong does not keep the others from being done.
func each[T any](a *app, items []T, do func(T) error) error {
	for i, item := range items {
		if i > 0 {
			if _, err := fmt.Fprintln(a.stdout); err != nil {
				return fmt.Errorf("report: %w", err)
			}
		}
		if err := a.mend(do(item)); err != nil {
			return err
		}
	}
	return nil
}

// mend tells the user of an error that is theirs to mend, and takes its exit code. It returns other errors.
func (a *app) mend(err error) error {
	_, usage := errors.AsType[usageError](err)
	_, nondeterministic := errors.AsType[nondeterminismError](err)
	switch {
	case usage:
		a.exit = stronger(a.exit, ExitUsage)
	case nondeterministic:
		a.exit = stronger(a.exit, ExitNondeterministic)
	default:
		return err
	}
	a.errorf("%v", err)
	return nil
}

// programName returns what the user would type to start the program: what was typed, or the package for `go run`, whose
// binary is in a temporary folder and gone afterwards.
func programName(arg0 string) string {
	folder := filepath.ToSlash(filepath.Dir(arg0))
	if !strings.Contains(folder, "/go-build") {
		return arg0
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		if relative, ours := strings.CutPrefix(info.Path, info.Main.Path+"/"); ours {
			return "go run ./" + relative
		}
		return "go run " + info.Path
	}
	return filepath.Base(arg0)
}
