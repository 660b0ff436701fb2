package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// archive is the folder that findings are written to. A nil archive writes nothing.
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

// open returns the files of an exploration's findings.
func (a *archive) open(e encoder, program string) *findingFiles {
	if a == nil {
		return nil
	}
	return &findingFiles{folder: a.folder, encoder: e, program: program, written: map[string]bool{}}
}

// findingFiles are the files of the findings of one exploration: schedules that replay them, each with its report as a
// comment. Without an archive they are nil, and nothing is written.
//
// A file is named by its scenario, the reconcilers that ran and the finding's signature, so a finding that comes again, or is
// shown by a better run, finds its own file. It is written twice: as soon as the finding is there, so that nothing that happens
// later can lose it, and once more at the end, with all that the exploration covered. It says nothing of real time: the same
// exploration writes the same files.
type findingFiles struct {
	folder  string
	encoder encoder
	program string
	written map[string]bool // the files that this exploration wrote
}

// save writes the file of a result's i-th finding.
func (f *findingFiles) save(r *history.Result, i int) error {
	if f == nil {
		return nil
	}
	timeless := *r
	timeless.Elapsed, timeless.Findings = 0, slices.Clone(r.Findings)
	timeless.Findings[i].Elapsed = 0
	var report bytes.Buffer
	if err := reports.Finding(&report, &timeless, i, reports.Options{Width: reports.CommentWidth, Replay: f.replayLine(r)}); err != nil {
		return err
	}
	name := f.name(r, &r.Findings[i])
	content, err := f.encoder.encode(document{path: name, name: baseName(name), schedule: scheduleOf(&r.Findings[i])})
	if err != nil {
		return fmt.Errorf("finding cannot be written: %w", err)
	}
	f.written[name] = true
	return writeFile(name, append([]byte(reports.Comment(report.String())), content...))
}

// finish writes the files of all findings that an exploration came to, and removes those that it wrote on the way for what
// turned out to be another finding.
func (f *findingFiles) finish(r *history.Result) error {
	if f == nil {
		return nil
	}
	var failed error
	for i := range r.Findings {
		failed = errors.Join(failed, f.save(r, i))
		delete(f.written, f.name(r, &r.Findings[i]))
	}
	if failed != nil {
		return failed // keep what there is
	}
	for _, name := range slices.Sorted(maps.Keys(f.written)) {
		failed = errors.Join(failed, os.Remove(name))
		delete(f.written, name)
	}
	return failed
}

// replayLine returns what gives the command line that replays a finding of a result; nil if it has no file.
func (f *findingFiles) replayLine(r *history.Result) func(*history.Finding) string {
	if f == nil {
		return nil
	}
	return func(finding *history.Finding) string {
		return fmt.Sprintf("%s replay %s", f.program, shellQuote(f.name(r, finding)))
	}
}

// name returns the file of a finding.
func (f *findingFiles) name(r *history.Result, finding *history.Finding) string {
	what := append(slices.Clone(r.Reconcilers), finding.Signature)
	return filepath.Join(f.folder, fmt.Sprintf("%s-%016x.yaml", fileName(r.Scenario), hashOf(what...)))
}

// scheduleOf returns the schedule of a finding, with what the run under it comes to.
func scheduleOf(f *history.Finding) *schedule.Schedule {
	s := schedule.Schedule{Origin: schedule.Origin{Strategy: f.Strategy, Seed: f.Seed}}
	if f.Schedule != nil {
		s = *f.Schedule
	}
	if s.Expect.Outcome == "" {
		s.Expect = schedule.Expectation{Outcome: schedule.Violated, Signature: f.Signature, Hash: f.Run.Hash}
		if broken := f.Run.Broken(); len(broken) > 0 {
			s.Expect.Property = broken[0].Property.Name
		}
	}
	return &s
}

// contentHash returns a hash of what a schedule asks for, and of which reconcilers: its elements, whatever their order, and
// nothing of what it expects or where it comes from.
func contentHash(s *schedule.Schedule, reconcilers []string) uint64 {
	elements := append(slices.Clone(reconcilers), reports.Elements(s)...)
	for _, step := range s.Skip {
		elements = append(elements, fmt.Sprintf("without step %d of the script", step))
	}
	slices.Sort(elements)
	return hashOf(elements...)
}

// hashOf returns a hash of texts that is the same on every machine.
func hashOf(texts ...string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(texts, "\n"))) // never fails
	return h.Sum64()
}

// maxName is how much of a scenario's name a schedule's has, so that a hash fits in behind it: a schedule's name is a DNS label.
const maxName = 63 - len("-0123456789abcdef")

// fileName makes a name of a scenario, which may have the values of a matrix in it, one that a file and a schedule can have.
func fileName(scenario string) string {
	plain := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return unicode.ToLower(r)
		default:
			return ' '
		}
	}
	name := strings.Join(strings.Fields(strings.Map(plain, scenario)), "-")
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

// baseName returns the name of a file without its folder and extension.
func baseName(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// writeFile writes a file so that it is there as a whole or not at all.
func writeFile(name string, content []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("schedule cannot be written: %w", err)
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
