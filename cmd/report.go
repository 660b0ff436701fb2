package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
)

// reportFlags are the flags of the report command.
type reportFlags struct {
	outputs
	text  bool
	whole bool
	names bool
}

func (a *app) reportCommand() *cobra.Command {
	f := &reportFlags{}
	c := &cobra.Command{
		Use:   "report RESULT...",
		Short: "Render results that were written as JSON",
		Long: `Renders what 'run', 'replay' or 'fuzz' wrote with --json, without running anything: for standard output, or to the files that flags
name. Several results become one report; --json joins them into one file. "-" stands for standard input.

The exit code says whether the results could be rendered, not how they came out: 0 if so, 2 if one of the files is wrong.`,
		Example: `  stalemate report result.json
  stalemate report shard-*.json --html report.html --junit junit.xml
  stalemate report result.json --trace trace.json`,
		Args: usageArgs(files("result")),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(c); err != nil {
				return err
			}
			return a.render(c.Context(), args, f)
		},
	}
	f.register(c)
	flags := c.Flags()
	flags.BoolVar(&f.text, "text", false, "write the report for people to standard output; the default without another report")
	flags.BoolVarP(&f.whole, "verbose", "v", false, "tell the whole timeline of replays, too")
	flags.BoolVar(&f.names, "names", false, "list all events of the default order, or of a replay, by their names")
	return c
}

// render writes the reports of the results in files.
func (a *app) render(_ context.Context, args []string, f *reportFlags) error {
	text := f.text || !f.wanted()
	if i := slices.Index(args, "-"); i >= 0 && slices.Contains(args[i+1:], "-") {
		return usageError{errors.New("-: standard input is given twice: it can be read once")}
	}
	var all []reports.Document
	for _, file := range args {
		documents, err := readDocuments(file)
		if err = a.mend(err); err != nil {
			return err
		}
		all = append(all, documents...)
	}
	for _, d := range all {
		f.add(d)
	}
	var failed error
	if text {
		failed = each(a, all, func(d reports.Document) error { return a.tell(d, f.whole, f.names) })
	}
	return errors.Join(failed, f.write(a))
}

// readDocuments reads the results in a file. Its errors are the user's to mend.
func readDocuments(file string) ([]reports.Document, error) {
	from := io.ReadCloser(os.Stdin)
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, usageError{err}
		}
		from = opened
	}
	documents, err := reports.DecodeDocuments(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	return documents, nil
}

// tell prints the report of a document.
func (a *app) tell(d reports.Document, whole, names bool) error {
	o := textOptions(a.stdout)
	o.Names, o.Replay = names, replayCommand
	if d.Replay != nil {
		d.Replay.Whole, d.Replay.Names = whole, names
	}
	return d.Text(a.stdout, o)
}
