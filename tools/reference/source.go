package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// source is what the page says of the source.
type source struct {
	names   []constant // annotations, labels, taints and gates
	reasons []constant // reasons of events and conditions, conditions, causes, outcomes
	metrics []metric

	configurations []configuration // keys of what Limpet reads
	objects        []configuration // fields of the kinds of the API
}

// load reads all packages of the product.
func load(root string) (source, error) {
	config := &packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports}
	loaded, err := packages.Load(config, "./pkg/...", "./internal/...", "./cmd/...")
	if err != nil {
		return source{}, fmt.Errorf("read the packages: %w", err)
	}
	var s source
	var problems []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			problems = append(problems, fmt.Errorf("read package %s: %w", p.PkgPath, e))
		}
		if strings.HasSuffix(p.PkgPath, "/testenv") {
			continue
		}
		for _, file := range p.Syntax {
			problems = append(problems, s.add(p, file))
		}
	}
	if s.configurations, err = configurations(loaded); err != nil {
		problems = append(problems, err)
	}
	if s.objects, err = objects(root); err != nil {
		problems = append(problems, err)
	}
	slices.SortFunc(s.metrics, func(a, b metric) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.labels, a.labels)) })
	s.metrics = slices.CompactFunc(s.metrics, func(a, b metric) bool { return a.name == b.name })
	explain(s.names, s.reasons)
	s.names, s.reasons = sorted(s.names), sorted(s.reasons)
	return s, errors.Join(problems...)
}

// add adds the constants and metrics of a file.
func (s *source) add(p *packages.Package, file *ast.File) error {
	found, err := constants(p, file)
	for _, c := range found {
		if named(c.value) {
			s.names = append(s.names, c)
		} else {
			s.reasons = append(s.reasons, c)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			err = errors.Join(err, namedReason(p, call))
			s.metrics = append(s.metrics, metrics(p, call)...)
		}
		return true
	})
	return err
}

// namedReason refuses an event whose reason is a literal: it would be missing in the page.
func namedReason(p *packages.Package, call *ast.CallExpr) error {
	const reason = 3 // of Eventf(regarding, related, type, reason, action, note, …)
	of, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || of.Sel.Name != "Eventf" || len(call.Args) <= reason {
		return nil
	}
	if literal, ok := call.Args[reason].(*ast.BasicLit); ok {
		return fmt.Errorf("%s: the reason %s of the event needs a constant", p.Fset.Position(literal.Pos()), literal.Value)
	}
	return nil
}
