package scenarios_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// validators returns the compiled schemas, by kinds.
func validators(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	all := map[string]*jsonschema.Schema{}
	for _, kind := range scenarios.Kinds() {
		data, err := scenarios.Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(scenarios.SchemaURL(kind), document); err != nil {
			t.Fatal(err)
		}
		if all[kind], err = compiler.Compile(scenarios.SchemaURL(kind)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// accepts returns what a schema has against a file; nil if nothing.
func accepts(schema *jsonschema.Schema, file []byte) error {
	data, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// TestSchemaAcceptsWhatLoads validates every scenario and every schedule of the repository that the loader accepts, and looks for the
// line by which editors find the schema.
func TestSchemaAcceptsWhatLoads(t *testing.T) {
	validators := validators(t)
	count := map[string]int{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		data := readFile(t, name)
		kind := scenarios.KindScenario
		if !strings.Contains(string(data), "\nkind: "+kind+"\n") {
			if kind = scenarios.KindSchedule; !strings.Contains(string(data), "\nkind: "+kind+"\n") {
				return nil
			}
			_, err = scenarios.LoadSchedule(name, scenarios.Options{})
		} else {
			_, err = scenarios.Load(name, scenarios.Options{})
		}
		if err != nil {
			return nil // which is so on purpose
		}
		count[kind]++
		if err := accepts(validators[kind], data); err != nil {
			t.Errorf("%s: the loader accepts it, the schema does not: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count[scenarios.KindScenario] < 40 || count[scenarios.KindSchedule] < 30 {
		t.Errorf("only %v files", count)
	}
}

// TestShippedScenariosNameTheirSchema looks at the first line of every scenario that we ship.
func TestShippedScenariosNameTheirSchema(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const modeline = "# yaml-language-server: $schema=../schema/scenario.json\n"
	found := 0
	for _, file := range files {
		text := string(readFile(t, file))
		if !strings.Contains(text, "\nkind: Scenario\n") {
			continue
		}
		found++
		if !strings.HasPrefix(text, modeline) {
			t.Errorf("%s does not begin with %q", file, modeline)
		}
	}
	if found < 40 {
		t.Errorf("only %d scenarios", found)
	}
	if _, err := os.Stat("schema/scenario.json"); err != nil {
		t.Error(err)
	}
}

// beyondSchema are the files of testdata/broken in which nothing is wrong that a schema can say.
var beyondSchema = map[string]bool{}

// TestSchemaRefusesWhatIsBroken validates the files that the loader refuses. All but those that are wrong in what they mean, the
// schema refuses too.
func TestSchemaRefusesWhatIsBroken(t *testing.T) {
	validators := validators(t)
	for folder, kind := range map[string]string{"broken": scenarios.KindScenario, "broken-schedules": scenarios.KindSchedule} {
		files, err := filepath.Glob("testdata/" + folder + "/*.yaml")
		if err != nil || len(files) < 10 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			name := folder + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
			err := accepts(validators[kind], readFile(t, file))
			if beyond := beyondSchema[name]; beyond != (err == nil) {
				t.Errorf("%s: the schema says %v; beyond it: %t", name, err, beyond)
			}
		}
	}
}
