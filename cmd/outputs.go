package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// outputs are the files that reports go to, besides standard output, and what GitHub Actions is told. Several commands have them.
type outputs struct {
	json, html, junit, trace string
	// github is set where GitHub Actions is to be told.
	github bool
	// documents are what the reports are of, in their order; kept only if there is a report to write.
	documents []reports.Document
	noted     error // the last error that a document tells of
}

// onGitHub is the variable that GitHub Actions sets to true.
const onGitHub = "GITHUB_ACTIONS"

// register adds the flags to a command.
func (o *outputs) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&o.json, "json", "", "also write the results to `FILE`, whole, for 'report'")
	flags.StringVar(&o.html, "html", "", "also write a report for browsers to `FILE`; of several results, FILE lists them")
	flags.StringVar(&o.junit, "junit", "", "also write a JUnit report to `FILE`")
	flags.StringVar(&o.trace, "trace", "", "also write the runs that are told to `FILE` as a trace, for ui.perfetto.dev")
	flags.BoolVar(&o.github, "github", os.Getenv(onGitHub) == "true",
		"also write annotations and a step summary for GitHub Actions, which is the default there")
}

// files are the files by the flags that ask for them, in a fixed order.
func (o *outputs) files() [][2]string {
	return [][2]string{{"--json", o.json}, {"--html", o.html}, {"--junit", o.junit}, {"--trace", o.trace}}
}

// complete checks the flags, and sees to it that the files can be written before hours are spent.
func (o *outputs) complete(c *cobra.Command) error {
	seen := map[string]string{}
	for _, of := range o.files() {
		flag, file := of[0], of[1]
		switch info, err := os.Stat(file); {
		case file == "" && c.Flags().Changed(strings.TrimPrefix(flag, "--")):
			return usagef(c, fmt.Errorf("%s wants the name of a file: leave it out if no such report is wanted", flag))
		case file == "":
			continue
		case seen[identity(file)] != "":
			return usagef(c, fmt.Errorf("%s and %s name one file, %s: give each its own", seen[identity(file)], flag, file))
		case err == nil && info.IsDir():
			return usageError{fmt.Errorf("%s: %s is a directory: give the name of a file", flag, file)}
		}
		seen[identity(file)] = flag
		if err := makeFolder(filepath.Dir(file)); err != nil {
			return usageError{fmt.Errorf("%s: %w", flag, err)}
		}
	}
	return nil
}

// identity is the same for all names of a file, there or not yet: without symbolic links.
func identity(file string) string {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return filepath.Clean(file)
	}
	if target, err := filepath.EvalSymlinks(absolute); err == nil {
		return target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(absolute)); err == nil {
		return filepath.Join(folder, filepath.Base(absolute))
	}
	return absolute
}

// wanted reports whether there is a report to write.
func (o *outputs) wanted() bool { return o.json+o.html+o.junit+o.trace != "" || o.github }

// add takes note of what an exploration or a replay came to.
func (o *outputs) add(d reports.Document) {
	if o.wanted() {
		o.documents = append(o.documents, d)
	}
}

// noting takes note of an error that kept a file from being explored or replayed, and returns it. What was found before it in the
// file is a document of its own.
func (o *outputs) noting(file string, err error) error {
	if err != nil && !errors.Is(o.noted, err) {
		o.noted = err
		header := history.Header{Scenario: file, Path: file}
		o.add(reports.Document{Result: &history.Result{Header: header}, Problem: err.Error()})
	}
	return err
}

// write writes all reports. One that cannot be written does not keep the others from being written.
func (o *outputs) write(a *app) error {
	var failed error
	save := func(file string, render func(*bytes.Buffer) error) {
		if file == "" {
			return
		}
		var content bytes.Buffer
		err := render(&content)
		if err == nil {
			err = reports.WriteFile(file, content.Bytes())
		}
		failed = errors.Join(failed, err)
	}
	save(o.json, func(b *bytes.Buffer) error {
		var failed error
		for _, d := range o.documents {
			failed = errors.Join(failed, d.Encode(b))
		}
		return failed
	})
	save(o.junit, func(b *bytes.Buffer) error { return reports.JUnit(b, o.documents) })
	save(o.trace, func(b *bytes.Buffer) error { return reports.Trace(b, o.documents) })
	for _, page := range o.pages() {
		save(page.file, page.render)
	}
	if o.github {
		failed = errors.Join(failed, reports.Annotations(a.stderr, o.documents, fromWorkspace), o.summarize())
	}
	return failed
}

// page is a file of the report for browsers.
type page struct {
	file   string
	render func(*bytes.Buffer) error
}

// pages returns the files of the report for browsers: one, or for several results one each, and a list of them.
func (o *outputs) pages() []page {
	if o.html == "" {
		return nil
	}
	var pages []page
	var links []reports.Link
	taken := map[string]bool{}
	for _, d := range o.documents {
		if d.Problem != "" {
			links = append(links, reports.Link{Document: d})
			continue
		}
		file := o.pageOf(d, taken)
		links = append(links, reports.Link{Document: d, Target: filepath.Base(file)})
		pages = append(pages, page{file, func(b *bytes.Buffer) error {
			return reports.HTML(b, d.Exploration(), reports.HTMLOptions{Replay: replayCommand})
		}})
	}
	if len(links) == 1 && len(pages) == 1 {
		pages[0].file = o.html
		return pages
	}
	return append(pages, page{o.html, func(b *bytes.Buffer) error { return reports.Index(b, links) }})
}

// pageOf names the page of one of several results, beside the list of them: report-recreate-operator-clickhouse-buggy.html.
func (o *outputs) pageOf(d reports.Document, taken map[string]bool) string {
	extension := filepath.Ext(o.html)
	stem := strings.TrimSuffix(o.html, extension) + "-" + reports.FileName(d.Name())
	file := stem + extension
	for n := 2; taken[file]; n++ {
		file = fmt.Sprintf("%s-%d%s", stem, n, extension)
	}
	taken[file] = true
	return file
}

// replayCommand returns the command line that replays a finding.
func replayCommand(f *history.Finding) string { return f.Command }

// fromWorkspace returns a path as it is seen from the root of the repository that GitHub Actions checked out, with slashes.
func fromWorkspace(file string) string {
	root := os.Getenv("GITHUB_WORKSPACE")
	absolute, err := filepath.Abs(file)
	if err != nil || root == "" || file == "" {
		return filepath.ToSlash(file)
	}
	relative, err := filepath.Rel(root, absolute)
	if err != nil || !filepath.IsLocal(relative) {
		return filepath.ToSlash(file)
	}
	return filepath.ToSlash(relative)
}

// summarize appends a summary to the file that GitHub Actions shows it from, as far as there is room in it.
func (o *outputs) summarize() error {
	file := os.Getenv("GITHUB_STEP_SUMMARY")
	if file == "" || len(o.documents) == 0 {
		return nil
	}
	limit := reports.SummaryLimit
	if info, err := os.Stat(file); err == nil {
		limit -= int(min(info.Size(), reports.SummaryLimit))
	}
	var content bytes.Buffer
	if err := reports.StepSummary(&content, o.documents, limit); err != nil {
		return err
	}
	if content.Len() > limit {
		return nil // the step has used it up
	}
	to, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	_, err = to.Write(content.Bytes())
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	return nil
}
