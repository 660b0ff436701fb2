package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestRacersAreListed compares what `list` prints with the types that the scenario format declares.
func TestRacersAreListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "scenarios", "types.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "RacerType" {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		return false
	})
	var got []string
	for _, e := range (simulation{}).racers() {
		got = append(got, e.name)
	}
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("list has the racers %q, scenarios may name %q", got, want)
	}
}
