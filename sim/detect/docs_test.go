package detect_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/detect"
)

const page = "../../docs/detectors.md"

// TestPage keeps the table in docs/detectors.md equal to the table of detectors; SIM_UPDATE=1 writes it anew. Each must be explained
// there, with an example.
func TestPage(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- detectors:begin -->\n", "<!-- detectors:end -->\n"
	before, rest, begins := strings.Cut(string(content), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no marks for the table", page)
	}
	var table strings.Builder
	table.WriteString("| detector | finds that | unless said otherwise |\n|---|---|---|\n")
	for _, name := range detect.Types() {
		usual := "on"
		if detect.OptIn(name) {
			usual = "off"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name, detect.Doc(name), usual)
		_, explained, found := strings.Cut(after, fmt.Sprintf("\n**%s.** ", name))
		explained, _, _ = strings.Cut(explained, "\n\n")
		if !found || !strings.Contains(explained, "Example: ") && !strings.Contains(explained, "Example:\n") {
			t.Errorf("%s does not explain %s by an example", page, name)
		}
	}
	want := before + begin + table.String() + end + after
	if want == string(content) {
		return
	}
	if os.Getenv("SIM_UPDATE") == "" {
		t.Fatalf("the table in %s is out of date: SIM_UPDATE=1 writes it anew", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
