package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// use is a name of another package that a file uses: time.Now.
type use struct {
	name string
	line int
}

// uses returns the names that a file uses of the package it imports under a name.
func uses(s *source, packageName string) []use {
	var all []use
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		// An identifier with an object is a local variable that shadows the package.
		if id, ok := selector.X.(*ast.Ident); ok && id.Name == packageName && id.Obj == nil {
			all = append(all, use{name: selector.Sel.Name, line: s.line(selector.Pos())})
		}
		return true
	})
	return all
}

// engine are the folders whose code runs inside a simulation, or steers it.
var engine = []string{"sim", "racer", "reactors"}

// nearEngine returns the files whose code runs inside a simulation.
func nearEngine(t *testing.T) []*source {
	t.Helper()
	var near []*source
	for _, s := range sources(t) {
		if underAny(s.path, engine) && !s.isTest() && !underAny(s.path, []string{"sim/simtest", "sim/live"}) {
			near = append(near, s)
		}
	}
	return near
}

// TestNoWallClockOrGlobalRandomness bans what two executions of one schedule could differ by.
func TestNoWallClockOrGlobalRandomness(t *testing.T) {
	// banned names by import path; none means all of the package.
	banned := map[string][]string{
		"time":                              {"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"},
		"crypto/rand":                       nil,
		"math/rand":                         nil,
		"math/rand/v2":                      nil,
		"k8s.io/apimachinery/pkg/util/rand": {"String", "Int", "Intn", "IntnRange", "Int63nRange", "Perm"},
		"k8s.io/apimachinery/pkg/util/uuid": nil,
		"github.com/google/uuid":            nil,
		"hash/maphash":                      nil,
	}
	allowed := except(wallClockExceptions)
	defer allowed.check(t)
	for _, s := range nearEngine(t) {
		for name, imported := range s.imports() {
			names, isBanned := banned[imported]
			if !isBanned {
				continue
			}
			for _, u := range uses(s, name) {
				if names != nil && !slices.Contains(names, u.name) {
					continue
				}
				if key := fmt.Sprintf("%s %s.%s", s.path, imported, u.name); !allowed.allow(key) {
					t.Errorf("%s:%d uses %s.%s near the engine (exception key %q)", s.path, u.line, imported, u.name, key)
				}
			}
		}
	}
}

// TestNoConcurrencyNearTheEngine bans what the Go scheduler decides: goroutines, and select statements that may find more
// than one case ready. The engine's few, which it parks before it chooses, are listed.
func TestNoConcurrencyNearTheEngine(t *testing.T) {
	allowed := except(concurrencyExceptions)
	defer allowed.check(t)
	for _, s := range nearEngine(t) {
		for _, decl := range s.file.Decls {
			function := "package level"
			if f, ok := decl.(*ast.FuncDecl); ok {
				function = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				what := ""
				switch n := n.(type) {
				case *ast.GoStmt:
					what = "go"
				case *ast.SelectStmt:
					if len(n.Body.List) > 1 && !hasDefault(n) || len(n.Body.List) > 2 {
						what = "select"
					}
				}
				if what == "" {
					return true
				}
				if key := fmt.Sprintf("%s %s %s", s.path, function, what); !allowed.allow(key) {
					t.Errorf("%s:%d has a %s statement near the engine (exception key %q)", s.path, s.line(n.Pos()), what, key)
				}
				return true
			})
		}
	}
}

// hasDefault reports whether a select statement has a default case.
func hasDefault(s *ast.SelectStmt) bool {
	for _, clause := range s.Body.List {
		if c, ok := clause.(*ast.CommClause); ok && c.Comm == nil {
			return true
		}
	}
	return false
}
