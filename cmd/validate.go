package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check scenario and schedule files without running them",
		Long: "Checks each scenario or schedule and the files it refers to: fields, types, names, objects and rules. All that is\n" +
			"wrong with a file is reported at once, each with its place. Exits with 2 if anything is. Directories are not taken: name\n" +
			"the files in them.",
		Args: usageArgs(files("scenario or schedule")),
		RunE: func(_ *cobra.Command, args []string) error { return a.validate(args) },
	}
}

func (a *app) validate(files []string) error {
	for _, file := range files {
		err := a.check(file)
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "%s: valid\n", file)
		}
		if err := a.mend(err); err != nil {
			return err
		}
	}
	return nil
}

// check loads a file and puts it together, which is all that can be wrong with it short of running it.
func (a *app) check(file string) error {
	holds, err := a.engine.holdsSchedule(file)
	switch {
	case err != nil:
		return usageError{err}
	case holds:
		_, err = a.openSchedule(file, nil)
		return err
	}
	entries, err := a.engine.load(file)
	if err != nil {
		return usageError{err}
	}
	for _, entry := range entries {
		if _, err := entry.prepare(nil); err != nil {
			return usageError{err}
		}
	}
	return nil
}
