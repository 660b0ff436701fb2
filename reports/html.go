package reports

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// HTMLOptions say what an HTML report holds. The zero value is right for most.
type HTMLOptions struct {
	// Findings is the number of findings that are told with their timelines, the others getting what decides; 12 if zero.
	Findings int
	// Replay, if set, returns the command line that replays a finding; empty if there is none.
	Replay func(*history.Finding) string
}

// defaultHTMLFindings keeps a report of many findings to a size that a browser opens at once.
const defaultHTMLFindings = 12

//go:embed assets/report.html
var htmlTemplate string

//go:embed assets/report.css
var htmlStyle string

//go:embed assets/report.js
var htmlScript string

// htmlPage lays out a report. What is in it comes from scenarios and objects, and is escaped by html/template.
var htmlPage = template.Must(template.New("report").Parse(htmlTemplate))

// HTML writes the report of a result as one HTML file that needs nothing else: no network, no other file. It says what the text
// report says; beside that it draws each finding's run as a timeline with a lane for each actor, and shows the objects revision
// by revision. Without JavaScript it has all but these two.
//
// The bytes depend on the result alone. The page's Content-Security-Policy lets only its own script and style in, by their hashes.
func HTML(w io.Writer, r *history.Result, o HTMLOptions) error {
	page, data := newHTMLView(r, o)
	encoded, err := json.Marshal(data) // escapes what could end the script element
	if err != nil {
		return fmt.Errorf("report of %s: %w", r.Scenario, err)
	}
	page.Style, page.Script, page.Data = template.CSS(htmlStyle), template.JS(htmlScript), template.JS(encoded)
	page.Policy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		contentHash(htmlScript), contentHash(htmlStyle))
	var b bytes.Buffer
	if err := htmlPage.Execute(&b, page); err != nil {
		return fmt.Errorf("report of %s: %w", r.Scenario, err)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("report of %s: %w", r.Scenario, err)
	}
	return nil
}

// contentHash returns what a Content-Security-Policy calls an inline script or style by.
func contentHash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
