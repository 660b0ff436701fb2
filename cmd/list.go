package cmd

import (
	"bytes"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the reconcilers, racers, faults and detectors that scenarios can name",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return a.list() },
	}
}

func (a *app) list() error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	section := func(title string, entries []entry) {
		_, _ = fmt.Fprintln(w, title) // a bytes.Buffer takes everything
		for _, e := range entries {
			_, _ = fmt.Fprintf(w, "  %s\t%s\n", e.name, e.doc)
		}
	}
	section("Reconcilers (spec.controllers[].reconciler, --reconciler)", a.engine.reconcilers())
	_, _ = fmt.Fprintln(w)
	section("Racers (spec.racers[].type)", a.engine.racers())
	_, _ = fmt.Fprintln(w)
	section("Faults (spec.faults.rules[].type)", a.engine.faults())
	_, _ = fmt.Fprintln(w)
	section("Detectors (spec.detectors[].type)", a.engine.detectors())
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := b.WriteTo(a.stdout)
	return err
}
