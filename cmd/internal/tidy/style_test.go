package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFunction = 70  // lines
	maxLine     = 140 // characters, a tab being one
)

func TestEveryPackageHasAComment(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.isTest() {
			documented[s.dir()] = documented[s.dir()] || s.file.Doc.Text() != ""
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()); n > maxFunction {
				t.Errorf("%s:%d: %s has %d lines; at most %d", s.path, s.line(f.Pos()), f.Name.Name, n, maxFunction)
			}
		}
	}
}

func TestLinesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		number := 0
		for line := range strings.Lines(s.text) {
			number++
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > maxLine {
				t.Errorf("%s:%d has %d characters; at most %d", s.path, number, n, maxLine)
			}
		}
	}
}

// TestExportedNamesAreDocumented looks at what users can reach: not at commands, nor at internal packages.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.file.Name.Name == "main" || strings.Contains(s.path, "internal/") {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s:%d: %s is exported and has no comment", s.path, s.line(name.Pos()), name.Name)
			}
		}
	}
}

// undocumented returns the exported names of a declaration that have no comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc.Text() == "" && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc.Text() != "" && d.Lparen.IsValid() {
			return nil // a group with a comment
		}
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(spec, d.Doc.Text() != "")...)
		}
		return names
	}
	return nil
}

// undocumentedSpec returns the exported names of one specification; documented says that its declaration has a comment.
func undocumentedSpec(spec ast.Spec, documented bool) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && !documented && s.Doc.Text() == "" {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if documented || s.Doc.Text() != "" || s.Comment.Text() != "" {
			return nil
		}
		var names []*ast.Ident
		for _, name := range s.Names {
			if name.IsExported() {
				names = append(names, name)
			}
		}
		return names
	}
	return nil
}

// receiver returns the name of a method's receiver type.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return fmt.Sprintf("%T", t)
		}
	}
}
