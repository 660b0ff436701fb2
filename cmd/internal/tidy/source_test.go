package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/stalemate-dev/stalemate"

// root is the repository's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// source is one Go file of the module.
type source struct {
	path string // relative to the root, with slashes
	text string
	file *ast.File
	fset *token.FileSet
}

func (s *source) dir() string  { return path.Dir(s.path) }
func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// line returns the line a position is in.
func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// imports returns the import paths of the file, by the name the file uses for them.
func (s *source) imports() map[string]string {
	byName := map[string]string{}
	for _, spec := range s.file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(importPath)
		if name == "v2" {
			name = path.Base(path.Dir(importPath))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			name = importPath
		}
		byName[name] = importPath
	}
	return byName
}

// under reports whether a path is a folder or lies in it.
func under(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// underAny reports whether a path lies in one of the folders.
func underAny(p string, folders []string) bool {
	for _, folder := range folders {
		if under(p, folder) {
			return true
		}
	}
	return false
}

var parseAll = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipped(name, d)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		all = append(all, &source{path: filepath.ToSlash(relative), text: string(text), file: file, fset: fset})
		return nil
	})
	return all, err
})

// skipped leaves out folders that the go command leaves out too, and nested modules.
func skipped(name string, d fs.DirEntry) error {
	if name == root {
		return nil
	}
	if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// sources returns the Go files of the module, in the order of their paths.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// exceptions are places where a rule is set aside, with the reasons. Every exception must be needed: one that is not is a
// failure too, so that the list stays short.
type exceptions struct {
	reasons map[string]string
	used    map[string]bool
}

func except(reasons map[string]string) *exceptions {
	return &exceptions{reasons: reasons, used: map[string]bool{}}
}

// allow reports whether the rule is set aside for a key.
func (e *exceptions) allow(key string) bool {
	if _, ok := e.reasons[key]; !ok {
		return false
	}
	e.used[key] = true
	return true
}

// check fails the test for each exception that was not needed.
func (e *exceptions) check(t *testing.T) {
	t.Helper()
	for key, reason := range e.reasons {
		if !e.used[key] {
			t.Errorf("the exception for %s (%s) is not needed any more: take it out", key, reason)
		}
	}
}
