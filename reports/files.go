package reports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Files are the files of the findings of one exploration: schedules that replay them, each with its report as a comment. A nil
// one writes nothing.
//
// A file is named by [ScheduleName], and where that is the name of another finding's file, by the signature, too: a finding that
// comes again, or is shown by a better run, finds its own file, and none is lost. Files say nothing of real time: the same
// exploration writes the same ones.
type Files struct {
	// Folder is where they are.
	Folder string
	// Encode returns the content of the file of a schedule, which gets a name.
	Encode func(file, name string, s *schedule.Schedule) ([]byte, error)
	// Replay returns the command line that replays a file; empty if there is none.
	Replay func(file string) string

	// The files that were written, with the short signatures of their findings: since Finish began, and before.
	written, early map[string]string
}

// Save writes the file of a result's i-th finding. Whoever saves one as soon as it is found, so that nothing that happens later
// can lose it, calls [Files.Finish] at the end.
func (f *Files) Save(r *history.Result, i int) error {
	if f == nil {
		return nil
	}
	timeless := *r
	timeless.Elapsed, timeless.Findings = 0, slices.Clone(r.Findings)
	timeless.Findings[i].Elapsed = 0
	var report bytes.Buffer
	if err := Finding(&report, &timeless, i, Options{Width: CommentWidth, Replay: f.ReplayLine(r)}); err != nil {
		return err
	}
	finding := &r.Findings[i]
	file := f.file(r, finding)
	content, err := f.Encode(file, strings.TrimSuffix(filepath.Base(file), scheduleExtension), scheduleOf(finding))
	if err != nil {
		return fmt.Errorf("finding cannot be written: %w", err)
	}
	if f.written == nil {
		f.written = map[string]string{}
	}
	f.written[file] = history.SignatureID(finding.Signature)
	return WriteFile(file, append([]byte(Comment(report.String())), content...))
}

// Finish writes the files of all findings that an exploration came to, with all that it covered, and removes those that were
// saved on the way for what turned out to be another finding.
func (f *Files) Finish(r *history.Result) error {
	if f == nil {
		return nil
	}
	f.early, f.written = f.written, nil
	var failed error
	for i := range r.Findings {
		failed = errors.Join(failed, f.Save(r, i))
	}
	if failed != nil {
		return failed // keep what there is
	}
	for _, file := range slices.Sorted(maps.Keys(f.early)) {
		if _, kept := f.written[file]; !kept {
			failed = errors.Join(failed, os.Remove(file))
		}
	}
	return failed
}

// ReplayLine returns what gives the command line that replays a finding of a result, for [Options]; nil if findings have no files.
func (f *Files) ReplayLine(r *history.Result) func(*history.Finding) string {
	if f == nil {
		return nil
	}
	return func(finding *history.Finding) string { return f.Replay(f.file(r, finding)) }
}

// Name returns the name of the file of a result's i-th finding, without its folder.
func (f *Files) Name(r *history.Result, i int) string {
	return filepath.Base(f.file(r, &r.Findings[i]))
}

// file returns the file of a finding.
func (f *Files) file(r *history.Result, finding *history.Finding) string {
	name, signature := ScheduleName(&r.Header, scheduleOf(finding)), history.SignatureID(finding.Signature)
	if file := filepath.Join(f.Folder, name+scheduleExtension); f.isFor(file, signature) {
		return file
	}
	return filepath.Join(f.Folder, name+"-"+signature[:8]+scheduleExtension)
}

// isFor reports whether a file is there for a finding with a signature: because it holds that, or nothing that must be kept.
func (f *Files) isFor(file, signature string) bool {
	if holds, written := f.written[file]; written {
		return holds == signature
	}
	if _, early := f.early[file]; early {
		return true
	}
	content, err := os.ReadFile(file)
	return err != nil || bytes.Contains(content, []byte(signature))
}

// scheduleOf returns the schedule of a finding, with what the run under it comes to. The default order has none of its own.
func scheduleOf(f *history.Finding) *schedule.Schedule {
	if f.Schedule != nil && f.Schedule.Expect.Outcome != "" {
		return f.Schedule
	}
	s := schedule.Schedule{Origin: schedule.Origin{Strategy: f.Strategy, Seed: f.Seed}}
	if f.Schedule != nil {
		s = *f.Schedule
	}
	s.Expect = schedule.Expectation{
		Outcome: schedule.Violated, Signature: history.SignatureID(f.Signature), Hash: f.Run.Hash,
	}
	if broken := f.Run.Broken(); len(broken) > 0 {
		s.Expect.Property = broken[0].Property.Name
	}
	return &s
}

const (
	scheduleExtension = ".yaml"
	// maxNamed is how many elements of a schedule its name tells, maxName how long that may be, to fit the names of files.
	maxNamed, maxName = 2, 150
)

// ScheduleName names a schedule for a reader of a list of files, by the scenario, the reconcilers that run, and what it asks for:
// "recreate-buggy-lostresponse-update-statefulset", "recreate-buggy-race-update-statefulset-kcm". Different schedules may have
// one name.
func ScheduleName(h *history.Header, s *schedule.Schedule) string {
	words := []string{h.Scenario}
	for _, pair := range h.Reconcilers {
		_, reconciler, _ := strings.Cut(pair, "=")
		words = append(words, path.Base(reconciler))
	}
	elements := elementWords(s)
	words = append(words, elements[:min(len(elements), maxNamed)]...)
	if more := len(elements) - maxNamed; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return FileName(strings.Join(words, " "))
}

// elementWords names the elements of a schedule in few words each.
func elementWords(s *schedule.Schedule) []string {
	var all []string
	for _, f := range s.Faults {
		all = append(all, string(f.Type)+" "+stepWords(f.At, f.Select))
	}
	for _, c := range s.Constraints {
		held, by := stepWords(c.Event, nil), c.Waits.Actor
		if c.Order != nil {
			held, by = stepWords(c.Event, &c.Order.Hold), c.Order.Until.Actor
		}
		all = append(all, "race "+held+" "+by)
	}
	for _, l := range s.Latencies {
		all = append(all, "late "+stepWords(l.At, nil))
	}
	for _, o := range s.Orders {
		all = append(all, "order "+stepWords(o.At, nil))
	}
	switch {
	case len(all) > 0:
		return all
	case s.Trace != nil && !s.Origin.Minimal:
		return []string{"trace"}
	default:
		return []string{"default order"}
	}
}

// stepWords names a step, or the steps that a selector chooses, by what is done to which kind.
func stepWords(e schedule.Event, s *schedule.Selector) string {
	if s == nil {
		return fmt.Sprintf("%s %s %s", e.Verb, e.Kind, e.Subresource)
	}
	words := fmt.Sprintf("%s %s", s.Verbs, s.Kind)
	if s.Subresource != nil {
		words += " " + *s.Subresource
	}
	return words
}

// FileName makes a name of words that a file and a schedule can have: of lower-case letters, digits, and dashes between.
func FileName(words string) string {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return ' '
	}
	name := strings.Join(strings.Fields(strings.Map(plain, strings.ToLower(words))), "-")
	return cmp.Or(strings.TrimRight(name[:min(len(name), maxName)], "-"), "unnamed")
}

// WriteFile writes a file so that it is there as a whole or not at all.
func WriteFile(name string, content []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: cannot be written: %w", name, err)
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

// ShellQuote quotes a word of a command line where a shell would not take it as it is.
func ShellQuote(word string) string {
	special := func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
		return !plain
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
