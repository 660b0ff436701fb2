package cmd_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
)

// TestBrokenScenariosAreUsageErrors checks that whatever is wrong with a scenario file ends with exit code 2, nothing on
// standard output, and an error that names the file.
func TestBrokenScenariosAreUsageErrors(t *testing.T) {
	files, err := filepath.Glob("../scenarios/testdata/broken/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d broken files, %v; want 20 at least", len(files), err)
	}
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	for _, file := range files {
		for _, command := range []string{"validate", "run"} {
			var stderr bytes.Buffer
			var stdout strings.Builder
			exit := cmd.Main([]string{"stalemate", command, file}, &stdout, &stderr, registry)
			if exit != int(cmd.ExitUsage) || stdout.Len() > 0 || !strings.Contains(stderr.String(), "scenarios/testdata/broken/") {
				t.Errorf("%s %s: exit %d, stdout %q, stderr %q", command, file, exit, stdout.String(), stderr.String())
			}
		}
	}
}
