package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Link is one of several HTML reports.
type Link struct {
	Document Document
	// Target is the file, seen from the list; empty if there is none.
	Target string
}

// indexPage lists reports. It has no script, and needs no other file.
var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Stalemate: {{len .}} results</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; overflow-wrap: anywhere;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
td:first-child { white-space: nowrap; }
pre { white-space: pre-wrap; margin: 0; }
</style>
<h1>Stalemate</h1>
<table>
<tr><th scope="col">Verdict</th><th scope="col">Scenario</th><th scope="col">Broken</th></tr>
{{range .}}<tr><td>{{.Mark}} {{.Verdict}}</td><td>{{if .Target}}<a href="{{.Target}}">{{.Name}}</a>{{else}}{{.Name}}{{end}}</td><td>` +
	`{{if .Problem}}<pre>{{.Problem}}</pre>{{else}}{{.Broken}}{{end}}</td></tr>
{{end}}</table>
</html>
`))

// indexRow is a row of the list.
type indexRow struct {
	Mark, Name, Broken, Problem string
	Verdict                     Verdict
	Target                      template.URL
}

// Index writes a page that lists the HTML reports of several results, in their order, with how each came out.
func Index(w io.Writer, links []Link) error {
	var rows []indexRow
	for _, link := range links {
		d := link.Document
		row := indexRow{Mark: verdictMark[d.Verdict()], Verdict: d.Verdict(), Name: d.Name(), Problem: d.Problem}
		if link.Target != "" {
			row.Target = template.URL("./" + link.Target) //nolint:gosec // a name of letters, digits and dashes
		}
		var names []string
		for _, b := range brokenOf(d.Exploration()) {
			names = append(names, b.name)
		}
		row.Broken = strings.Join(names, ", ")
		rows = append(rows, row)
	}
	var page bytes.Buffer
	if err := indexPage.Execute(&page, rows); err != nil {
		return fmt.Errorf("list of reports cannot be written: %w", err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("list of reports cannot be written: %w", err)
	}
	return nil
}
