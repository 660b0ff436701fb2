package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check scenario files without running them",
		Long: "Checks each scenario and the files it refers to: fields, types, names, objects and rules. All that is wrong with a\n" +
			"file is reported at once, each with its place. Exits with 2 if anything is.",
		Args: usageArgs(files),
		RunE: func(_ *cobra.Command, args []string) error { return a.validate(args) },
	}
}

func (a *app) validate(files []string) error {
	for _, file := range files {
		if err := a.check(file); err != nil {
			a.errorf("%v", err)
			a.exit = stronger(a.exit, ExitUsage)
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: valid\n", file); err != nil {
			return err
		}
	}
	return nil
}

// check loads a file and puts it together, which is all that can be wrong with it short of running it.
func (a *app) check(file string) error {
	loaded, err := a.engine.load(file)
	if err != nil {
		return err
	}
	_, err = loaded.prepare(nil)
	return err
}
