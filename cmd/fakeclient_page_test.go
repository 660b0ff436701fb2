package cmd_test

import (
	"slices"
	"strings"
	"testing"
)

// readersTests puts the reader's packages and files in the place of ours, in tests that are next to the reconciler's.
var readersTests = strings.NewReplacer(
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/api", "example.com/widget/api",
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller", "example.com/widget/internal/controller",
	`"testdata/widget/config`, `"../../config`,
	"package cmd_test", "package controller_test",
	"TestReconcileWithFake", "TestReconcile",
)

// TestFakeClientPageShowsTheTests compares docs/fake-client.md with the tests it shows, which are run here.
func TestFakeClientPageShowsTheTests(t *testing.T) {
	var sources []string
	for _, name := range []string{"fakeclient_before_test.go", "fakeclient_more_test.go"} {
		sources = append(sources, readersTests.Replace(readText(t, name)))
	}
	if shown := blocks(t, "../docs/fake-client.md", "go"); !slices.Equal(shown, sources) {
		t.Errorf("docs/fake-client.md shows\n%s\nwant\n%s", strings.Join(shown, "\n⋮\n"), strings.Join(sources, "\n⋮\n"))
	}
}

// TestFakeClientMigration checks that the changes which the page tells of make the test with the fake client the one with ours.
func TestFakeClientMigration(t *testing.T) {
	changes := blocks(t, "../docs/fake-client.md", "diff")
	if len(changes) != 1 {
		t.Fatalf("the page shows %d changes", len(changes))
	}
	migrated := readersTests.Replace(readText(t, "fakeclient_before_test.go"))
	old := ""
	for line := range strings.SplitSeq(changes[0], "\n") {
		switch text := line[min(1, len(line)):]; {
		case strings.HasPrefix(line, "-"):
			old = text
		case strings.HasPrefix(line, "+"):
			if strings.Count(migrated, old) != 1 {
				t.Fatalf("%q is not once in the test", old)
			}
			migrated = strings.Replace(migrated, old, text, 1)
		}
	}
	// The import has moved, as gofmt would have it.
	const imported = "\t\"github.com/stalemate-dev/stalemate/sim/simtest\"\n"
	migrated = strings.Replace(migrated, imported, "", 1)
	migrated = strings.Replace(migrated, "/internal/controller\"\n", "/internal/controller\"\n"+imported, 1)
	if want := readersTests.Replace(readText(t, "fakeclient_test.go")); migrated != want {
		t.Errorf("the changes make\n%s\nwant\n%s", migrated, want)
	}
}
