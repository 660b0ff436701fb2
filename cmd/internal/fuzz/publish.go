package fuzz

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

const (
	// knownFolder is the folder of the findings in what is known to be broken.
	knownFolder = "known"
	// corpusFolder is the folder of the schedules in a corpus.
	corpusFolder = "schedules"
	// maxCorpus is how many schedules of a target a corpus keeps: the smallest ones.
	maxCorpus = 100
	// yamlExtension ends the names of schedules.
	yamlExtension = ".yaml"
	// temporaryPrefix begins the names of files that are being written, see [reports.WriteFile].
	temporaryPrefix = ".stalemate-"
)

// folder is where the findings of a target go.
func (s *supervisor) folder(l *ledger) string { return folderOf(l.Target, s.Out) }

func folderOf(t *Target, out string) string {
	if t.Fails() {
		return filepath.Join(out, t.Name)
	}
	return filepath.Join(out, knownFolder, t.Name)
}

// result returns what a target came to so far.
func (l *ledger) result() *history.Result {
	r := l.part().Result()
	r.Header, r.Seed = l.header, l.plan.seed
	return r
}

// publish writes the files of all findings of a target: those that were not shrunk yet give way to those that were.
func (s *supervisor) publish(l *ledger) error {
	r := l.result()
	l.findings = len(explore.Bugs(r.Findings))
	if l.File == "" {
		return nil // nobody can replay what is built in
	}
	p := publication{folder: s.folder(l), reconcilers: l.Reconcilers, encode: l.scenario.EncodeSchedule, replay: s.Replay}
	return p.write(r, l.deaths(), func(name string) bool { return strings.HasPrefix(name, earlyPrefix) && len(l.given) > 0 })
}

// Publish writes the files of all findings into a directory, which has a folder for each target, as [Run] does. Replay returns the
// command line that replays a file.
func (n *Night) Publish(out string, replay func(file string) string) error {
	for _, t := range n.Targets {
		if t.File == "" || t.Part.Units == 0 {
			continue
		}
		t.Folder = folderOf(t.Target, out)
		p := publication{folder: t.Folder, reconcilers: t.Reconcilers, replay: replay, encode: t.encode}
		if err := p.write(t.Result(), t.deaths(), func(string) bool { return false }); err != nil {
			return fmt.Errorf("%s: %w", t.text(), err)
		}
	}
	return nil
}

// encode writes a schedule of the target, which names the scenario as it is seen from the file.
func (t *NightTarget) encode(file string, f scenarios.ScheduleFile) ([]byte, error) {
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	scenario, err := filepath.Abs(t.File)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(folder, scenario)
	if err != nil {
		return nil, err
	}
	f.Scenario, f.Matrix = filepath.ToSlash(relative), t.Values
	content, err := scenarios.EncodeSchedule(f)
	if err != nil {
		return nil, UsageError{err} // what was read has no such schedule if an exploration wrote it
	}
	return content, nil
}

// publication is the folder of one target's findings. Files are named by what they hold, so that the same findings have the same files,
// whatever was in the folder before.
type publication struct {
	folder      string
	reconcilers map[string]string
	encode      func(file string, f scenarios.ScheduleFile) ([]byte, error)
	replay      func(file string) string
}

// write writes the files, in the place of those that are there but for those that stay.
func (p *publication) write(r *history.Result, deaths []clustered, stays func(name string) bool) error {
	fresh := p.folder + temporarySuffix
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if _, err := os.Stat(p.folder); err != nil && len(r.Findings)+len(deaths) == 0 {
		return nil
	}
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	final := func(file string) string { return filepath.Join(p.folder, filepath.Base(file)) }
	files := &reports.Files{Folder: fresh, Encode: func(file, name string, spec *schedule.Schedule) ([]byte, error) {
		return p.encode(file, scenarios.ScheduleFile{Name: name, Reconcilers: p.reconcilers, Spec: spec})
	}, Replay: func(file string) string { return p.replay(final(file)) }}
	var failed error
	for i := range r.Findings {
		failed = errors.Join(failed, files.Save(r, i))
	}
	for _, d := range deaths {
		failed = errors.Join(failed, p.writeDeath(d.Death, fresh))
	}
	if failed != nil {
		return failed
	}
	return swap(fresh, p.folder, stays)
}

// swap puts the files of a folder in the place of those of another one, but for those that stay.
func swap(fresh, folder string, stays func(name string) bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	written := map[string]bool{}
	files, err := os.ReadDir(fresh)
	if err != nil {
		return err
	}
	for _, file := range files {
		written[file.Name()] = true
		if err := os.Rename(filepath.Join(fresh, file.Name()), filepath.Join(folder, file.Name())); err != nil {
			return err
		}
	}
	old, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, file := range old {
		name := file.Name()
		left := strings.HasPrefix(name, temporaryPrefix) // by a supervisor that was killed
		if left || !written[name] && filepath.Ext(name) == yamlExtension && !stays(name) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
	}
	return os.Remove(fresh)
}

// clustered are the deaths that are one finding.
type clustered struct {
	*Death
	Count int
}

// deaths are the findings that deaths are, the first of each, in their order.
func (r *record) deaths() []clustered {
	sorted := slices.Clone(r.Deaths)
	slices.SortStableFunc(sorted, compareDeaths)
	var all []clustered
	for _, d := range sorted {
		i := slices.IndexFunc(all, func(c clustered) bool { return c.id() == d.id() })
		if i < 0 {
			all = append(all, clustered{d, 1})
			continue
		}
		all[i].Count++
	}
	return all
}

// maxOutput is how many lines of what a process wrote its file has.
const maxOutput = 60

// writeDeath writes the file of a death.
func (p *publication) writeDeath(d *Death, fresh string) error {
	name := d.fileName()
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%s\n\nFound by %s", d.Text(), d.origin()) // a Builder takes everything
	switch {
	case d.Kind == Leak:
		text.WriteString(".\n")
	case d.Repeated:
		text.WriteString("; repeated, it came about again.\n")
	default:
		text.WriteString("; repeated, it did not come about again.\n")
	}
	line := p.replay(filepath.Join(p.folder, name))
	if d.Schedule != nil && d.Schedule.Trace != nil {
		line += " --exact"
	}
	_, _ = fmt.Fprintf(&text, "Replay it, which does the same to the process that replays it:\n  %s\n", line)
	if d.Output != "" {
		lines := strings.Split(strings.TrimSpace(d.stacks()), "\n")
		if d.Kind == Exit || d.Kind == Killed { // no stacks, which begin with what matters
			lines = lines[max(len(lines)-maxOutput, 0):]
		}
		_, _ = fmt.Fprintf(&text, "\nThe process wrote:\n%s\n", strings.Join(lines[:min(len(lines), maxOutput)], "\n"))
	}
	content, err := p.encode(filepath.Join(fresh, name), scenarios.ScheduleFile{
		Comment: text.String(), Name: strings.TrimSuffix(name, yamlExtension), Reconcilers: p.reconcilers,
		Spec: cmp.Or(d.Schedule, &schedule.Schedule{}),
	})
	if err != nil {
		return err
	}
	return reports.WriteFile(filepath.Join(fresh, name), content)
}

// fileName is the name of the file of a death.
func (d *Death) fileName() string {
	return fmt.Sprintf("process-%s-%s%s", d.Kind, d.id(), yamlExtension)
}

// stacks is what the process wrote, without what differs from one process to the next; of a hang, the stacks of goroutines in the run.
func (d *Death) stacks() string {
	text := d.Output
	if d.Kind == Hang || d.Kind == Memory {
		var of []string
		for stack := range strings.SplitSeq(text, "\n\n") {
			header, _, _ := strings.Cut(strings.TrimLeft(stack, "\n"), "\n")
			if strings.Contains(header, "synctest bubble") && !strings.Contains(header, "durable") {
				of = append(of, strings.TrimSpace(stack))
			}
		}
		text = strings.Join(of, "\n\n")
	}
	text = addresses.ReplaceAllString(bubbleNumbers.ReplaceAllString(goroutineNumbers.ReplaceAllString(text, "goroutine"), ""), "0x?")
	return waits.ReplaceAllString(text, "")
}

// corpusOf returns the names of the schedules of a target in the corpus, those of this shard. A canary is to be found without.
func (s *supervisor) corpusOf(t *Target) ([]string, error) {
	if len(t.Breaks) > 0 {
		return nil, nil
	}
	entries, err := os.ReadDir(s.corpusFolder(t))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("--corpus: %w", err)
	}
	var files []string
	for i, entry := range entries {
		if strings.HasSuffix(entry.Name(), temporarySuffix) { // left by a supervisor that was killed
			_ = os.Remove(filepath.Join(s.corpusFolder(t), entry.Name()))
		}
		if filepath.Ext(entry.Name()) == yamlExtension && i%s.Shards == s.Shard-1 {
			files = append(files, filepath.Join(s.corpusFolder(t), entry.Name()))
		}
	}
	return files, nil
}

func (s *supervisor) corpusFolder(t *Target) string {
	return filepath.Join(s.Corpus, corpusFolder, t.Name)
}

// keepNovel keeps the schedules of runs that ended as none before them, now that it is known which were the first.
func (s *supervisor) keepNovel(l *ledger) error {
	for _, n := range l.fresh() {
		if len(l.Breaks) > 0 || n.Schedule == nil || n.Origin.Strategy == explore.DefaultOrder {
			continue
		}
		if err := s.keepSchedule(l, n.Schedule); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns the runs that ended as none before them, and that it has not returned before. The ledger forgets their schedules, which
// are most of what it would carry along: nobody asks for them again.
func (l *ledger) fresh() []explore.Novelty {
	var fresh []explore.Novelty
	for i := range l.base.Novel {
		n := &l.base.Novel[i]
		isNew := false
		for _, m := range n.States {
			isNew = isNew || !l.ends[m]
			l.ends[m] = true
		}
		if isNew {
			fresh = append(fresh, *n)
		}
		n.Schedule = nil
	}
	return fresh
}

// keepSchedule writes a schedule into the corpus, unless there are so many smaller ones.
func (s *supervisor) keepSchedule(l *ledger, spec *schedule.Schedule) error {
	folder := s.corpusFolder(l.Target)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := reports.ScheduleName(&l.header, spec)
	content, err := l.scenario.EncodeSchedule(filepath.Join(folder, "any"+yamlExtension), scenarios.ScheduleFile{
		Name: name, Reconcilers: l.Reconcilers, Spec: spec,
	})
	if err != nil {
		return nil //nolint:nilerr // it has an event that has no name which can be read back: nothing to keep
	}
	sum := sha256.Sum256(content)
	file := filepath.Join(folder, hex.EncodeToString(sum[:8])+yamlExtension)
	files, err := filesBySize(folder)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, func(f sized) bool { return f.name == file }) {
		return nil
	}
	if len(files) >= maxCorpus {
		largest := files[len(files)-1]
		if largest.compare(sized{file, int64(len(content))}) <= 0 {
			return nil
		}
		if err := os.Remove(largest.name); err != nil {
			return err
		}
	}
	temporary := file + temporarySuffix
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// sized is a file with its size, in bytes.
type sized struct {
	name string
	size int64
}

func (s sized) compare(other sized) int {
	return cmp.Or(cmp.Compare(s.size, other.size), strings.Compare(s.name, other.name))
}

// filesBySize returns the schedules of a folder, the smallest first.
func filesBySize(folder string) ([]sized, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []sized
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != yamlExtension {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		files = append(files, sized{filepath.Join(folder, entry.Name()), info.Size()})
	}
	slices.SortFunc(files, sized.compare)
	return files, nil
}
