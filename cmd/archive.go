package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// archive is the folder that findings are written to. A nil archive writes nothing.
//
// A file is named by its scenario and the finding's signature, so a finding that comes again, or is shown by a better
// run, finds its own file. It is written twice: as soon as the finding is there, so that nothing that happens later can
// lose it, and once more at the end, with all that the exploration covered.
type archive struct{ folder string }

// openArchive makes the folder, and sees to it that files can be written there before hours are spent.
func openArchive(folder string) (*archive, error) {
	if folder == "" {
		return nil, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	probe, err := os.CreateTemp(folder, ".stalemate-*")
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &archive{folder}, nil
}

// save writes the report of a result's i-th finding.
func (a *archive) save(r *history.Result, i int) error {
	if a == nil {
		return nil
	}
	var report bytes.Buffer
	if err := reports.Finding(&report, r, i, reports.Options{}); err != nil {
		return err
	}
	return writeFile(a.name(r, i), report.Bytes())
}

// name returns the file of a result's i-th finding.
func (a *archive) name(r *history.Result, i int) string {
	signature := fnv.New64a()
	_, _ = signature.Write([]byte(r.Findings[i].Signature)) // never fails
	return filepath.Join(a.folder, fmt.Sprintf("%s-%016x.txt", r.Scenario, signature.Sum64()))
}

// writeFile writes a file so that it is there as a whole or not at all.
func writeFile(name string, content []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("finding cannot be written: %w", err)
		}
	}()
	temporary, err := os.CreateTemp(filepath.Dir(name), ".stalemate-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already if all went well
	_, err = temporary.Write(content)
	if err := errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
