package tidy

import (
	"strings"
	"testing"
)

// layers say which folders of the module the packages in a folder may import. The first row that fits counts.
var layers = []struct {
	folder string
	may    []string
}{
	{"sim/simtest", []string{"sim", "scenarios", "racer", "reactors", "reports"}},
	{"sim/live", []string{"sim", "reactors"}}, // it plays the faults of reactors in front of a real server
	{"sim", []string{"sim"}},
	{"racer", []string{"sim", "racer"}},
	{"reactors", []string{"sim", "reactors"}},
	{"scenarios", []string{"sim", "racer", "reactors", "scenarios"}},
	// A history is made of schedule's events and apiserver's objects; a report reads nothing else of the engine.
	{"reports", []string{"sim/history", "sim/property", "sim/schedule", "sim/apiserver", "reports"}},
	{"cmd", []string{"sim", "racer", "reactors", "scenarios", "reports", "cmd"}},
}

func TestImportsGoOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		known := false
		for _, layer := range layers {
			if known = under(s.path, layer.folder); !known {
				continue
			}
			for _, imported := range s.imports() {
				ours, ok := strings.CutPrefix(imported, module+"/")
				if ok && (!underAny(ours, layer.may) || (under(ours, "sim/simtest") && !under(s.path, "sim/simtest"))) {
					t.Errorf("%s imports %s; packages in %s may import only %s", s.path, ours, layer.folder, strings.Join(layer.may, ", "))
				}
			}
			break
		}
		if !known {
			t.Errorf("%s is in no folder that the layout knows", s.path)
		}
	}
}

// TestNothingImportsTestFrameworks keeps test frameworks out of what users link: the engine makes its own bubble and asks
// nobody for a testing.T.
func TestNothingImportsTestFrameworks(t *testing.T) {
	frameworks := []string{
		"testing", "github.com/onsi/ginkgo", "github.com/onsi/gomega", "pgregory.net/rapid", "github.com/stretchr/testify",
		"github.com/google/go-cmp", "go.uber.org/goleak",
	}
	allowed := except(map[string]string{
		"sim imports testing":          "testing/synctest makes a bubble only for a testing.T, so the engine has one of its own",
		"sim imports testing/synctest": "a run lives in its own bubble",
	})
	defer allowed.check(t)
	for _, s := range sources(t) {
		if s.isTest() || under(s.path, "sim/simtest") {
			continue
		}
		for _, imported := range s.imports() {
			if underAny(imported, frameworks) && !allowed.allow(s.dir()+" imports "+imported) {
				t.Errorf("%s imports %s, a test framework", s.path, imported)
			}
		}
	}
}

// TestOnlyLoadersDecodeYAML keeps untrusted input at few doors.
func TestOnlyLoadersDecodeYAML(t *testing.T) {
	decoders := []string{
		"sigs.k8s.io/yaml", "github.com/goccy/go-yaml", "go.yaml.in/yaml", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3",
		"k8s.io/apimachinery/pkg/util/yaml",
	}
	loaders := []string{"scenarios", "sim/schedule", "sim/apiserver"}
	for _, s := range sources(t) {
		if s.isTest() || underAny(s.path, loaders) {
			continue
		}
		for name, imported := range s.imports() {
			if !underAny(imported, decoders) {
				continue
			}
			for _, use := range uses(s, name) {
				if use.name != "Marshal" {
					t.Errorf("%s:%d uses %s.%s; only %s decode YAML", s.path, use.line, name, use.name, strings.Join(loaders, ", "))
				}
			}
		}
	}
}

func TestNothingBuildsTheControlPlane(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			if under(imported, "k8s.io/kubernetes") {
				t.Errorf("%s imports %s; only the nested module sim/conformance may", s.path, imported)
			}
		}
	}
}
