package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/cmd/internal/fuzz"
)

func (a *app) mergeCommand() *cobra.Command {
	var out string
	o := &outputs{}
	c := &cobra.Command{
		Use:   "merge RESULT...",
		Short: "Join the results of the shards of an exploration by 'fuzz'",
		Long: `Joins what shards have come to: the files ` + nightFile + ` that 'fuzz --shard' writes beside its findings, or the directories
that hold them. The result is that of one exploration without shards, finding for finding; the order of the shards makes no difference.
Exits as that exploration does, and with 6 at least if a shard is missing.`,
		Example: `  stalemate merge shard-1/night.json shard-2/night.json --out merged
  stalemate merge shard-1 shard-2 --out merged`,
		Args: usageArgs(files("result")),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usagef(c, errors.New("--out: name the directory that the joined result is to be written to"))
			}
			if err := o.complete(c); err != nil {
				return err
			}
			return a.mend(a.merge(args, out, o))
		},
	}
	c.Flags().StringVar(&out, "out", "", "write the joined result, its summary and all findings to `DIR`")
	o.register(c)
	return c
}

// merge joins results.
func (a *app) merge(args []string, out string, o *outputs) error {
	var nights []*fuzz.Night
	for _, name := range args {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			name = filepath.Join(name, nightFile)
		}
		night, err := readNight(name)
		if err != nil {
			return usageError{err}
		}
		nights = append(nights, night)
	}
	merged, err := fuzz.Merge(nights...)
	if err != nil {
		return usageError{err}
	}
	if err := makeFolder(out); err != nil {
		return usageError{fmt.Errorf("--out: %w", err)}
	}
	if err := merged.Publish(out, func(file string) string { return a.replayLine(file, &replayFlags{times: 1}) }); err != nil {
		if _, ok := errors.AsType[fuzz.UsageError](err); ok {
			return usageError{err}
		}
		return err
	}
	if missing := merged.Missing(); len(missing) > 0 {
		a.errorf("%s: not given, so the result is not that of the whole exploration: 'merge' it with them", strings.Join(missing, ", "))
		a.exit = stronger(a.exit, ExitInconclusive)
	}
	return a.tellNight(merged, out, o)
}

// readNight reads the result of a shard.
func readNight(name string) (*fuzz.Night, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	night, err := fuzz.DecodeNight(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return night, nil
}
