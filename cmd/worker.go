package cmd

import (
	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/cmd/internal/fuzz"
)

// workerCommand is what fuzz starts its workers with.
const workerCommand = "worker"

func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand + " FILE",
		Short:  "Do what an exploration by 'fuzz' asks for on standard input; FILE is the black box",
		Hidden: true,
		Args:   usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			a.exit = Exit(fuzz.Work(a.registry, args[0]))
			return nil
		},
	}
}
