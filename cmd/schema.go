package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/scenarios"
)

func (a *app) schemaCommand() *cobra.Command {
	kind := scenarios.KindScenario
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario or schedule files, for editors",
		Long: "Prints the JSON Schema (draft 7) of a kind of file. Put it next to your scenarios and name it in their first line, for\n" +
			"editors with the YAML language server:\n\n" +
			"  # yaml-language-server: $schema=schema.json",
		Example: `  stalemate schema > simulation/schema.json
  stalemate schema --kind Schedule > simulation/testdata/schedule.json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			data, err := scenarios.Schema(kind)
			if err != nil {
				return usageError{err}
			}
			_, err = a.stdout.Write(data)
			return err
		},
	}
	c.Flags().StringVar(&kind, "kind", kind, "`KIND` of file: "+strings.Join(scenarios.Kinds(), " or "))
	return c
}
