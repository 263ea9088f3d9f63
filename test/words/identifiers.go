package words

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// goFiles calls visit with each Go file below a directory that a person wrote.
func goFiles(dir string, visit func(path string, fset *token.FileSet, file *ast.File)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == "testdata" || len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasPrefix(name, "zz_generated"):
			return nil
		case filepath.Base(filepath.Dir(path)) == "words":
			return nil // the lists themselves
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err == nil {
			visit(path, fset, file)
		}
		return err
	})
}

// declared returns the identifiers that a file declares: functions, types, fields,
// constants, variables, parameters and labels.
func declared(file *ast.File) []*ast.Ident {
	var all []*ast.Ident
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.LabeledStmt:
			all = append(all, n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				all = append(all, names(n.Lhs)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				all = append(all, names([]ast.Expr{n.Key, n.Value})...)
			}
		}
		return true
	})
	return all
}

func names(of []ast.Expr) []*ast.Ident {
	var all []*ast.Ident
	for _, e := range of {
		if id, ok := e.(*ast.Ident); ok {
			all = append(all, id)
		}
	}
	return all
}

// betterName returns a plainer identifier, or "" if the identifier is plain.
func betterName(id string) string {
	first, size := utf8.DecodeRuneInString(id)
	if better := identifiers[string(unicode.ToLower(first))+id[size:]]; better != "" {
		return better
	}
	for _, part := range split(id) {
		if better := parts[strings.ToLower(part)]; better != "" {
			return better
		}
	}
	return ""
}

// split returns the words of an identifier: heirsOf → heirs, Of.
func split(id string) []string {
	var all []string
	start := 0
	for i, r := range id {
		if i > start && (r == '_' || unicode.IsUpper(r)) {
			all = append(all, strings.Trim(id[start:i], "_"))
			start = i
		}
	}
	return append(all, strings.Trim(id[start:], "_"))
}

// texts returns the string literals of a file that hold words for people.
func texts(file *ast.File) []*ast.BasicLit {
	var all []*ast.BasicLit
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Contains(text, " ") {
				all = append(all, n)
			}
		}
		return true
	})
	return all
}

// badNames lists the identifiers below a directory that have a better name.
func badNames(dir string) ([]string, error) {
	var bad []string
	err := goFiles(dir, func(_ string, fset *token.FileSet, file *ast.File) {
		for _, id := range declared(file) {
			if better := betterName(id.Name); better != "" {
				bad = append(bad, fmt.Sprintf("%s: identifier %s: better: %s", fset.Position(id.Pos()), id.Name, better))
			}
		}
	})
	return bad, err
}

// badTexts lists the texts in Go files below a directory, tests left out, that have a
// better phrase.
func badTexts(dir string) ([]string, error) {
	var bad []string
	err := goFiles(dir, func(path string, fset *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, text := range texts(file) {
			for _, complaint := range phrasesIn(text.Value) {
				bad = append(bad, fmt.Sprintf("%s: %s", fset.Position(text.Pos()), complaint))
			}
		}
	})
	return bad, err
}

// badComments lists the comments in Go files below a directory that have a better phrase.
func badComments(dir string) ([]string, error) {
	var bad []string
	err := goFiles(dir, func(_ string, fset *token.FileSet, file *ast.File) {
		for _, comment := range file.Comments {
			for _, complaint := range phrasesIn(comment.Text()) {
				bad = append(bad, fmt.Sprintf("%s: %s", fset.Position(comment.Pos()), complaint))
			}
		}
	})
	return bad, err
}
