package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// renderHTML returns the HTML report of a result.
func renderHTML(t *testing.T, r *history.Result, o HTMLOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// pageDataOf returns the data that the script of a page has.
func pageDataOf(t *testing.T, page string) pageData {
	t.Helper()
	_, rest, found := strings.Cut(page, `<script type="application/json" id="data">`)
	encoded, _, ended := strings.Cut(rest, "</script>")
	var data pageData
	if err := json.Unmarshal([]byte(encoded), &data); err != nil || !found || !ended {
		t.Fatalf("the page has no data: %v", err)
	}
	return data
}

// rowsText writes the timelines of a page for a person to read, one row a line, with what can be seen of each.
func rowsText(data *pageData) string {
	var b strings.Builder
	for n, run := range data.Runs {
		fmt.Fprintf(&b, "run %d, lanes %v, decides %v, broken at %v\n", n+1, run.Lanes, run.Decisions, run.Violations)
		for _, p := range run.Passes {
			fmt.Fprintf(&b, "pass in lane %d from %d to %d: %s %s\n", p[0], p[1], p[2], data.Strings[p[3]], data.Strings[p[4]])
		}
		c := &run.Rows
		for i := range c.At {
			words := []string{data.Strings[c.What[i]], data.Strings[c.Answer[i]], data.Strings[c.Notes[i]], data.Strings[c.Detail[i]]}
			fmt.Fprintf(&b, "%3d %7dms kind %2d flags %d lane %2d object %d version %d cause %3d reads %3d  %s  [%s]\n", i, c.At[i], c.Kind[i],
				c.Flags[i], c.Lane[i], c.Object[i]-1, c.Version[i], c.Cause[i]-1, c.Reads[i]-1, strings.Join(words, " | "), data.Strings[c.Event[i]])
		}
		for i, o := range run.Objects {
			fmt.Fprintf(&b, "object %d: %s (%s)\n", i, o.Name, o.Variable)
			for _, v := range o.Versions {
				fmt.Fprintf(&b, "  revision %d, %s at row %d\n", v.Revision, v.How, v.Row-1)
				for _, e := range v.Edits {
					fmt.Fprintf(&b, "    at line %d, %d away\n", e[0], e[1])
					for _, line := range e[2:] {
						fmt.Fprintf(&b, "      + %s\n", data.Strings[line])
					}
				}
			}
		}
	}
	return b.String()
}

// withoutAssets leaves out of a page what is in files of its own, and what follows from that.
func withoutAssets(page string) string {
	page = strings.Replace(page, htmlStyle, "(report.css)", 1)
	page = strings.Replace(page, htmlScript, "(report.js)", 1)
	page = regexp.MustCompile(`sha256-.*?&#39;`).ReplaceAllString(page, "(hash)&#39;")
	return regexp.MustCompile(`(?s)(id="data">).*?(</script>)`).ReplaceAllString(page, "$1(data)$2")
}

// TestHTMLGolden checks the page of a finding, of faults, and of a pass, and what their scripts draw.
func TestHTMLGolden(t *testing.T) {
	for name, result := range map[string]*history.Result{"found": found(), "crashed": crashed(), "passed": passed()} {
		t.Run(name, func(t *testing.T) {
			replay := func(f *history.Finding) string { return "stalemate replay findings/" + f.Signature + ".yaml" }
			page := renderHTML(t, result, HTMLOptions{Replay: replay})
			golden(t, name+".html", withoutAssets(page))
			data := pageDataOf(t, page)
			golden(t, name+"-timeline.txt", rowsText(&data))
		})
	}
}

// TestHTMLIsDeterministic checks that the same result gives the same bytes.
func TestHTMLIsDeterministic(t *testing.T) {
	if a, b := renderHTML(t, found(), HTMLOptions{}), renderHTML(t, found(), HTMLOptions{}); a != b {
		t.Error("two reports of one result differ")
	}
}

// TestHTMLSaysWhatTextSays checks that the page has the words of the text report: the two share them.
func TestHTMLSaysWhatTextSays(t *testing.T) {
	r := found()
	plain := strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&gt;", ">", "&lt;", "<", "&amp;", "&", "&#43;", "+")
	page := plain.Replace(renderHTML(t, r, HTMLOptions{}))
	words := slices.Concat(Deciding(r, 0), r.Coverage.NeverRaced, r.Coverage.Gaps, r.Coverage.Notes,
		[]string{r.Command, completed.Rule, completed.Message, `chi.status.status = "Completed"`, "100 executions", sweepScope})
	for _, want := range words {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// hostileName is what a name may be at the worst.
const hostileName = `</script><script>alert(1)</script><img src=x onerror="alert(2)">'"--><!--{{.}}` + "`${alert(3)}`\u2028"

// TestHTMLEscapes checks that no name of a scenario, an object or a log line can become markup or a script.
func TestHTMLEscapes(t *testing.T) {
	r := found()
	r.Scenario, r.Command, r.Diverged = hostileName, hostileName, ""
	r.Reconcilers[0] += hostileName
	r.Coverage.Notes, r.Coverage.Gaps = []string{hostileName}, []string{hostileName}
	h := r.Findings[0].Run
	for i := range h.Records {
		h.Records[i].Message, h.Records[i].Event.Name = hostileName, hostileName
	}
	for i := range h.Logs {
		h.Logs[i].Message = hostileName
	}
	h.Verdicts[0].Property = &property.Definition{Name: hostileName, Type: property.Terminal, Rule: hostileName, Message: hostileName}
	h.Verdicts[0].Values = []property.Value{{Path: hostileName, Value: hostileName}}
	page := renderHTML(t, r, HTMLOptions{Replay: func(*history.Finding) string { return hostileName }})
	page = strings.Replace(page, htmlScript, "", 1)
	for text, want := range map[string]int{"<script": 2, "</script": 2, "<img": 0, "<!--": 0, "\u2028": 0} {
		got := strings.Count(page, text)
		if text == "\u2028" { // only the data must not have it; in text it is a character like others
			_, data, _ := strings.Cut(page, `id="data">`)
			got = strings.Count(data, text)
		}
		if got != want {
			t.Errorf("the page has %q %d times, want %d", text, got, want)
		}
	}
	if data := pageDataOf(t, page); !slices.Contains(data.Strings, hostileName) {
		t.Error("the script is not told of the name as it is")
	}
}

// TestHTMLPolicy checks that the page lets in nothing but its own style and script, and that it asks for nothing.
func TestHTMLPolicy(t *testing.T) {
	page := renderHTML(t, found(), HTMLOptions{})
	head, _, _ := strings.Cut(page, "<title>")
	policy := strings.NewReplacer("&#43;", "+", "&#39;", "'").Replace(head)
	for _, element := range []string{"style", "script"} {
		_, rest, _ := strings.Cut(page, "<"+element+">")
		content, _, _ := strings.Cut(rest, "</"+element+">")
		if want := fmt.Sprintf("%s-src '%s'", element, contentHash(content)); !strings.Contains(policy, want) {
			t.Errorf("the policy does not say %s", want)
		}
	}
	if !strings.Contains(policy, "default-src 'none'") {
		t.Error("the policy lets other things in")
	}
	for _, address := range regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?([^"')\s]+)`).FindAllStringSubmatch(withoutAssets(page), -1) {
		if !strings.HasPrefix(address[1], "#") && !strings.HasPrefix(address[1], "data:") {
			t.Errorf("the page refers to %s", address[1])
		}
	}
}

// TestHTMLFindings checks that of many findings only the first are told with their timelines, and none is left out.
func TestHTMLFindings(t *testing.T) {
	r := found()
	for i := range 4 {
		f := r.Findings[0]
		f.Strategy = fmt.Sprintf("strategy %d", i)
		r.Findings = append(r.Findings, f)
	}
	page := renderHTML(t, r, HTMLOptions{Findings: 2})
	if got := strings.Count(page, `class="run"`); got != 2 {
		t.Errorf("%d findings are told in full, want 2", got)
	}
	if got := strings.Count(page, "came between operator&#39;s Get and Update"); got < 5 {
		t.Errorf("what decides is said %d times, want it of each of 5 findings", got)
	}
	for _, want := range []string{"Further findings", "strategy 3, execution 17 of 100"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestHTMLVerdicts checks that pages of all verdicts can be written, and say which it is.
func TestHTMLVerdicts(t *testing.T) {
	for want, r := range map[string]*history.Result{
		"PASSED": passed(), "INCONCLUSIVE": inconclusive(), "INVALID PROPERTY": invalid(), "NONDETERMINISTIC": diverged(), "BROKEN": found(),
	} {
		if page := renderHTML(t, r, HTMLOptions{}); !strings.Contains(page, "</span> "+want+"</p>") {
			t.Errorf("the page does not say %s", want)
		}
	}
	page := renderHTML(t, &history.Result{}, HTMLOptions{})
	if !strings.Contains(page, "Nothing was executed") {
		t.Error("the page of nothing does not say so")
	}
}

func TestHTMLReportsWriteErrors(t *testing.T) {
	if err := HTML(brokenWriter{}, found(), HTMLOptions{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

// TestLineEdits checks that the edits of two texts make the one of the other, as the page's script applies them.
func TestLineEdits(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a: 1", "b:", "  c: 2", "- d", "@@ -1,2 +1,2 @@", "-gone", "+come", "", " "}), 0, 30)
	rapid.Check(t, func(t *rapid.T) {
		before, after := lines.Draw(t, "before"), lines.Draw(t, "after")
		table := interner{index: map[string]int{}}
		text := func(lines []string) []byte {
			if len(lines) == 0 {
				return nil
			}
			return []byte(strings.Join(lines, "\n") + "\n")
		}
		got := slices.Clone(before)
		for _, edit := range slices.Backward(lineEdits(&table, text(before), text(after))) {
			var put []string
			for _, line := range edit[2:] {
				put = append(put, table.all[line])
			}
			got = slices.Replace(got, edit[0], edit[0]+edit[1], put...)
		}
		if !slices.Equal(got, after) {
			t.Fatalf("edited %q to %q, want %q", before, got, after)
		}
	})
}

// TestObjectVersions checks which versions of an object a page has, and which of them a step met.
func TestObjectVersions(t *testing.T) {
	pod := func(revision string, change func(*corev1.Pod)) apiserver.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: revision}}
		if change != nil {
			change(p)
		}
		return p
	}
	leaving := func(p *corev1.Pod) {
		now, grace := metav1.NewTime(time.Unix(0, 0)), int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	}
	kept := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }
	tape := newTape()
	tape.step("operator", schedule.Get, "Pod", "web", "", read(pod("3", nil), 3))
	tape.step("operator", schedule.Update, "Pod", "web", "", write(pod("4", nil), pod("5", kept), 5)) // somebody without a step wrote 4
	tape.step("operator", schedule.CachedGet, "Pod", "web", "", read(pod("3", nil), 3))
	tape.step("operator", schedule.Update, "Pod", "web", "", refuse(409, "Conflict", ""))
	tape.step("operator", schedule.Delete, "Pod", "web", "", write(pod("5", kept), pod("6", kept), 6))
	tape.step("kubelet", schedule.Patch, "Pod", "web", "", write(pod("6", kept), pod("7", leaving), 7))
	tape.step("kubelet", schedule.Delete, "Pod", "web", "", write(pod("7", leaving), pod("8", nil), 8))
	tape.step("operator", schedule.Create, "Pod", "web", "", write(nil, pod("9", nil), 9))
	tape.step("operator", schedule.Update, "Pod", "web", "binding", write(pod("9", nil), pod("10", nil), 10))
	v := newObjectVersions(tape.end(), "default", nil)
	var got []string
	for _, version := range v.objects[0].versions {
		got = append(got, fmt.Sprintf("%d %s by %d", version.revision, version.how, version.record))
	}
	want := []string{
		"3 seen by 0", "4 seen by 1", "5 written by 1", "6 written by 4", "7 written by 5", "8 gone by 6", "9 created by 7", "10 written by 8",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the versions are %q, want %q", got, want)
	}
	if want := []int{0, 2, 0, 2, 3, 4, 5, 6, 7}; !slices.Equal(v.version, want) {
		t.Errorf("the steps met versions %v, want %v", v.version, want)
	}
}

func BenchmarkHTML(b *testing.B) {
	r := found()
	for b.Loop() {
		if err := HTML(&bytes.Buffer{}, r, HTMLOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
