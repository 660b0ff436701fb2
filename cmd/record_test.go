package cmd_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/scenarios/track"
)

// recordPage has the track record in full, of which the README has a table.
const recordPage = "docs/track-record.md"

// entry is one row of the track record, with what it came to.
type entry struct {
	track.Row
	record track.Record
}

// file is the scenario's, seen from the root of the repository.
func (e *entry) file() string { return "scenarios/" + e.Folder() + "/" + e.Scenario }

// variant is the reconciler without its folder.
func (e *entry) variant() string { return strings.TrimPrefix(e.Reconciler, e.Folder()+"/") }

// schedule is the file of one of the row's findings.
func (e *entry) schedule(f *track.Finding) string {
	return "scenarios/" + e.Folder() + "/" + track.Schedules + "/" + f.Schedule
}

// show is the command line that shows one of the row's findings.
func (e *entry) show(f *track.Finding) string {
	if f.Schedule == "" {
		return fmt.Sprintf("`stalemate run %s --reconciler %s=%s --runs 0`", e.file(), e.Controller, e.Reconciler)
	}
	return "`stalemate replay " + e.schedule(f) + "`"
}

// TestTrackRecord compares the README's table, and the page, with what the rows came to: the records that are committed in the
// folders of reconcilers, which TestTrack of those folders holds. With SIM_UPDATE=1 it writes both.
func TestTrackRecord(t *testing.T) {
	t.Chdir("..")
	table, page := tableHead, ""
	for _, folder := range reference.Folders() {
		if folder.Example {
			continue // what is found there is no merit
		}
		entries := recorded(t, folder)
		table += summary(&folder, entries)
		page += fmt.Sprintf("## %s\n\n%s\n%s\n", folder.Title, everyRow(entries), everyFinding(t, entries))
	}
	compareWithPage(t, readme, "record", table)
	compareWithPage(t, recordPage, "record", page)
}

// recorded returns the rows of a folder, with their records.
func recorded(t *testing.T, folder reference.Folder) []entry {
	t.Helper()
	records, err := track.ReadRecords("scenarios/" + folder.Name)
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	for i, row := range folder.Track() {
		if i >= len(records) || records[i].Row != row.Name() {
			t.Fatalf("scenarios/%s has no record of %s: run SIM_UPDATE=1 go test ./scenarios/%[1]s", folder.Name, row.Name())
		}
		entries = append(entries, entry{row, records[i]})
	}
	if len(records) > len(entries) {
		t.Fatalf("scenarios/%s has a record of %s, which is no row: run SIM_UPDATE=1 go test ./scenarios/%[1]s",
			folder.Name, records[len(entries)].Row)
	}
	return entries
}

const tableHead = "| operator | bug | scenario | breaks | what decides | after | show it |\n|---|---|---|---|---|---|---|\n"

// summary has a line for each row of a folder in which something is found, and one for all those in which nothing is.
func summary(folder *reference.Folder, entries []entry) string {
	var lines string
	for i := range entries {
		e := &entries[i]
		if len(e.Breaks) == 0 {
			continue
		}
		first := &e.record.Findings[0]
		lines += line(folder.Title+", `"+e.variant()+"`", e.Bug, e.link(""), names(first.Breaks, 1), e.decides(first),
			fmt.Sprint(e.record.First), e.show(first))
	}
	quiet, executions := quietIn(entries)
	return lines + line(folder.Title+", correct", quiet, "", "nothing", "", fmt.Sprintf("quiet in %d", executions),
		"`go test ./scenarios/"+folder.Name+" -run Track`")
}

// quietIn names the reconcilers in which nothing is found, by the scenarios, and counts the executions of all of them.
func quietIn(entries []entry) (text string, executions int) {
	variants := map[string][]string{}
	var first []*entry // of each scenario
	for i := range entries {
		e := &entries[i]
		if len(e.Breaks) > 0 {
			continue
		}
		if variants[e.Scenario] == nil {
			first = append(first, e)
		}
		variants[e.Scenario] = append(variants[e.Scenario], "`"+e.variant()+"`")
		executions += e.record.Executions
	}
	var parts []string
	for _, e := range first {
		parts = append(parts, strings.Join(variants[e.Scenario], ", ")+" in "+e.link(""))
	}
	return strings.Join(parts, "; "), executions
}

// everyRow has a line for each row of a folder.
func everyRow(entries []entry) string {
	table := "| scenario | reconciler | | pattern | what is found |\n|---|---|---|---|---|\n"
	for i := range entries {
		e := &entries[i]
		pattern := ""
		if e.Pattern > 0 {
			pattern = fmt.Sprint(e.Pattern)
		}
		table += line(e.link("../"), "`"+e.variant()+"`", e.Bug, pattern, found(&e.record))
	}
	return table
}

// found says what a row came to.
func found(r *track.Record) string {
	switch n := len(r.Findings); n {
	case 0:
		return fmt.Sprintf("nothing in %d executions", r.Executions)
	case 1:
		return fmt.Sprintf("1 finding in %d executions, after %d", r.Executions, r.First)
	default:
		return fmt.Sprintf("%d findings in %d executions, the first after %d", n, r.Executions, r.First)
	}
}

// everyFinding has a line for each finding of a folder: reconcilers that do the same under the same schedule share one.
func everyFinding(t *testing.T, entries []entry) string {
	t.Helper()
	type told struct {
		cells    []string
		variants []string
		show     string
	}
	var lines []told
	for i := range entries {
		e := &entries[i]
		messages := messagesOf(t, e)
		for j := range e.record.Findings {
			f := &e.record.Findings[j]
			breaks := names(f.Breaks, len(f.Breaks))
			if message := messages[f.Breaks[0]]; message != "" {
				breaks = message + ": " + breaks
			}
			cells := []string{e.link("../"), e.decides(f), breaks}
			at := slices.IndexFunc(lines, func(other told) bool { return slices.Equal(other.cells, cells) })
			if at < 0 {
				at, lines = len(lines), append(lines, told{cells: cells, show: e.show(f)})
			}
			if name := "`" + e.variant() + "`"; !slices.Contains(lines[at].variants, name) {
				lines[at].variants = append(lines[at].variants, name)
			}
		}
	}
	table := "| scenario | what decides | what breaks | reconcilers | show it |\n|---|---|---|---|---|\n"
	for _, l := range lines {
		table += line(append(l.cells, strings.Join(l.variants, ", "), l.show)...)
	}
	return table
}

// messagesOf returns the messages of the properties of a row's scenario, by their names.
func messagesOf(t *testing.T, e *entry) map[string]string {
	t.Helper()
	loaded, err := scenarios.Load(e.file(), scenarios.Options{Registry: allReconcilers()})
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]string{}
	for _, p := range loaded.Manifest.Spec.Properties {
		messages[p.Name] = p.Message
	}
	return messages
}

// line is a line of a table in Markdown.
func line(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// link links to the row's scenario, from a page from which the root of the repository is seen so.
func (e *entry) link(root string) string {
	return fmt.Sprintf("[%s](%s%s)", e.Scenario, root, e.file())
}

// names names the first of some properties, and counts the others.
func names(properties []string, most int) string {
	text := "`" + strings.Join(properties[:min(most, len(properties))], "`, `") + "`"
	if more := len(properties) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// decides says what decides a finding: of each order and fault the first sentence, without what goes without saying.
func (e *entry) decides(f *track.Finding) string {
	var sentences []string
	for _, words := range f.Decides {
		sentence, _, _ := strings.Cut(strings.ReplaceAll(words, " ("+e.Reconciler+")", ""), ". ")
		sentences = append(sentences, strings.TrimSuffix(strings.TrimSuffix(sentence, "."), ", which waited for it"))
	}
	return strings.Join(sentences, "; ")
}

func allReconcilers() *scenarios.Registry {
	registry := &scenarios.Registry{}
	reference.Register(registry)
	return registry
}

// TestTrackRecordReplays replays every schedule of the track record: each is reproduced as it was recorded, or comes to what the
// person who wrote it expects.
func TestTrackRecordReplays(t *testing.T) {
	t.Chdir("..")
	for _, file := range recordedSchedules(t) {
		t.Run(strings.TrimPrefix(file, "scenarios/"), func(t *testing.T) {
			report, _ := command(t, cmd.ExitBroken, "replay", file)
			contains(t, report, "✗ REPRODUCED  ")
			if loadSchedule(t, file).Spec.Expect.Hash != 0 {
				contains(t, report, ", as recorded\n")
			}
		})
	}
}

// recordedSchedules returns the schedules of the track record, by hand and of findings, sorted.
func recordedSchedules(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, folder := range reference.Folders() {
		files, err := filepath.Glob("scenarios/" + folder.Name + "/" + track.Schedules + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d schedules of %s, %v; want some", len(files), folder.Name, err)
		}
		for _, file := range files {
			all[file] = true
		}
		for _, e := range recorded(t, folder) {
			if len(e.Breaks) > 0 && !all[e.schedule(&e.record.Findings[0])] {
				t.Errorf("%s has no schedule of its first finding", e.Name())
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// loadSchedule loads a schedule of the track record.
func loadSchedule(t *testing.T, file string) *scenarios.Schedule {
	t.Helper()
	loaded, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: allReconcilers()})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
