// Package simtrack tests the track record of a folder of reconcilers, see package track, and measures it.
//
//	func TestTrack(t *testing.T) { simtrack.Test(t, Track(), Register) }
//
//	func BenchmarkTrack(b *testing.B) { simtrack.Benchmark(b, Track(), Register) }
//
// The working directory is the folder, as go test has it. What the rows came to is committed with it: testdata/track.json, and a
// schedule in testdata/schedules for each finding, with its report as a comment. With SIM_UPDATE=1 the test writes both.
package simtrack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Test explores all rows, and checks that each comes to what it states and to what is committed. Register adds the reconcilers to a
// registry. The rows come one after the other: runs side by side share the generator of random numbers that client-go's back-offs
// draw from, and would not be the same each time.
func Test(t *testing.T, rows []track.Row, register func(*scenarios.Registry)) {
	t.Helper()
	r := &recorder{register: register, update: os.Getenv("SIM_UPDATE") == "1", rows: rows, now: make([]*track.Record, len(rows))}
	committed, err := track.ReadRecords(".")
	if err != nil {
		t.Fatal(err)
	}
	r.committed = map[string]*track.Record{}
	for i := range committed {
		r.committed[committed[i].Row] = &committed[i]
	}
	t.Cleanup(func() { r.finish(t) }) // when all rows have come to their ends
	for i := range rows {
		t.Run(rows[i].Name(), func(t *testing.T) {
			r.explore(t, i)
		})
	}
}

// recorder makes the records of rows, and compares or writes them.
type recorder struct {
	register  func(*scenarios.Registry)
	update    bool
	rows      []track.Row
	now       []*track.Record // what each row came to; nil if that is not known
	committed map[string]*track.Record
}

// explore explores a row.
func (r *recorder) explore(t *testing.T, i int) {
	t.Helper()
	row := &r.rows[i]
	outcome, err := row.Explore(t.Context(), r.register, track.Options{})
	if err == nil {
		err = row.Check(outcome)
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	record := &track.Record{Row: row.Name(), First: outcome.First, Executions: outcome.Executions()}
	for _, entry := range outcome.Entries {
		record.Findings = append(record.Findings, findings(t, row, entry, folder, len(record.Findings) == 0)...)
	}
	r.now[i] = record
	if r.update {
		commit(t, folder)
		return
	}
	want, ok := r.committed[record.Row]
	if !ok {
		want = &track.Record{}
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("%s differs (-committed +found; SIM_UPDATE=1 rewrites it):\n%s", track.File, diff)
	}
}

// commit copies the schedules in a folder to where they are committed.
func commit(t *testing.T, folder string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err == nil && len(files) > 0 {
		err = os.MkdirAll(track.Schedules, 0o755)
	}
	for _, file := range files {
		content, failed := os.ReadFile(filepath.Join(folder, file.Name()))
		if err = errors.Join(err, failed); err == nil {
			err = os.WriteFile(filepath.Join(track.Schedules, file.Name()), content, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// findings returns the findings of one entry of a row's matrix, and writes their schedules to a folder, as they are to be committed.
// First says that there are none of an entry before it.
func findings(t *testing.T, row *track.Row, entry track.Entry, folder string, first bool) []track.Finding {
	t.Helper()
	result := entry.Result
	result.Seed, result.Command = 1, Command(row, entry.Scenario, "--runs", fmt.Sprint(row.Runs))
	committed := func(file string) string { return path.Join(track.Schedules, filepath.Base(file)) }
	files := &reports.Files{
		Folder: folder,
		Encode: func(file, name string, s *schedule.Schedule) ([]byte, error) {
			return entry.Scenario.EncodeSchedule(committed(file),
				scenarios.ScheduleFile{Name: name, Reconcilers: row.Reconcilers(), Spec: s})
		},
		Replay: func(file string) string {
			return "stalemate replay " + path.Join("scenarios", row.Folder(), committed(file))
		},
	}
	var all []track.Finding
	for i := range result.Findings {
		f := track.Finding{Breaks: track.Broken(result.Findings[i].Run), Decides: reports.Deciding(result, i)}
		if !row.Brief || first && i == 0 {
			if err := files.Save(result, i); err != nil {
				t.Fatal(err)
			}
			f.Schedule = files.Name(result, i)
		}
		all = append(all, f)
	}
	return all
}

// finish checks that the schedules of findings are there, or writes the records, and removes schedules of findings that there are
// none of any more. Those that a person has added stay.
func (r *recorder) finish(t *testing.T) {
	t.Helper()
	var records []track.Record
	for i := range r.rows {
		record := r.now[i]
		if record == nil { // it failed, or was not to run
			record = r.committed[r.rows[i].Name()]
		}
		if record != nil {
			records = append(records, *record)
		}
	}
	current := schedulesOf(records)
	if !r.update {
		for file := range current {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%v: SIM_UPDATE=1 writes it", err)
			}
		}
		return
	}
	if err := track.WriteRecords(".", records); err != nil {
		t.Fatal(err)
	}
	for _, record := range r.committed {
		for file := range schedulesOf([]track.Record{*record}) {
			if current[file] {
				continue
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	}
}

// schedulesOf returns the files of the findings of records.
func schedulesOf(records []track.Record) map[string]bool {
	files := map[string]bool{}
	for _, record := range records {
		for _, f := range record.Findings {
			if f.Schedule != "" {
				files[path.Join(track.Schedules, f.Schedule)] = true
			}
		}
	}
	return files
}

// Command returns the command line that explores one entry of the matrix of a row's scenario, with more words at its end, for a
// shell in the root of the repository.
func Command(row *track.Row, entry *scenarios.Scenario, more ...string) string {
	words := []string{"stalemate run", path.Join("scenarios", row.Folder(), row.Scenario)}
	for _, m := range entry.Manifest.Spec.Matrix {
		words = append(words, "--matrix", reports.ShellQuote(m.Name+"="+entry.Values[m.Name]))
	}
	words = append(words, "--reconciler", row.Controller+"="+row.Reconciler)
	return strings.Join(append(words, more...), " ")
}

// Benchmark measures what it takes to the first finding of each row that has one, from reading the scenario's file on:
//
//   - executions/finding: the number of runs;
//   - s/finding: real time, which says little on a busy machine;
//   - cpu-s/finding: the time of all cores together, where the system tells it.
func Benchmark(b *testing.B, rows []track.Row, register func(*scenarios.Registry)) {
	b.Helper()
	for i := range rows {
		if row := &rows[i]; len(row.Breaks) > 0 {
			b.Run(row.Name(), func(b *testing.B) { benchmark(b, row, register) })
		}
	}
}

func benchmark(b *testing.B, row *track.Row, register func(*scenarios.Registry)) {
	b.Helper()
	executions, begun := 0, cpuTime()
	for b.Loop() {
		outcome, err := row.Explore(b.Context(), register, track.Options{First: true})
		if err != nil {
			b.Fatal(err)
		}
		if executions = outcome.First; executions == 0 {
			b.Fatal("nothing was found")
		}
	}
	b.ReportMetric(float64(executions), "executions/finding")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/finding")
	if spent := cpuTime() - begun; spent > 0 {
		b.ReportMetric(spent.Seconds()/float64(b.N), "cpu-s/finding")
	}
}
