package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
)

// overrideFlag is the flag --reconciler, which several commands have.
type overrideFlag struct {
	pairs     []string
	overrides map[string]string // names of reconcilers, by names of controllers
}

func (o *overrideFlag) register(c *cobra.Command, usage string) {
	c.Flags().StringArrayVar(&o.pairs, "reconciler", nil, usage)
}

// complete checks the flag.
func (o *overrideFlag) complete() error {
	overrides, err := parsePairs("--reconciler", o.pairs, "controller", "CONTROLLER=RECONCILER, such as operator=clickhouse/patch-a")
	o.overrides = overrides
	return err
}

// words returns the flag as it was typed.
func (o *overrideFlag) words() []string { return flagWords("--reconciler", o.pairs) }

// flagWords returns a flag, with its values, as words of a command line.
func flagWords(flag string, values []string) []string {
	var words []string
	for _, value := range values {
		words = append(words, flag, reports.ShellQuote(value))
	}
	return words
}

// parsePairs parses the values of a flag, which are names and values, into a map.
func parsePairs(flag string, pairs []string, what, want string) (map[string]string, error) {
	parsed := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%s %q: want %s", flag, pair, want)
		}
		if _, twice := parsed[name]; twice {
			return nil, fmt.Errorf("%s %q: %s %s is given twice", flag, pair, what, name)
		}
		parsed[name] = value
	}
	return parsed, nil
}
