package main

import (
	"go/ast"
	goconstant "go/constant"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

// metric is one family of time series.
type metric struct{ name, help, labels string }

var metricName = regexp.MustCompile(`^limpet_[a-z_]+$`)

// metrics returns the metrics that a call makes: the name and the help are fields of its options, or two of its arguments.
func metrics(p *packages.Package, call *ast.CallExpr) (found []metric) {
	var texts, labels []string
	for _, argument := range call.Args {
		literal, ok := argument.(*ast.CompositeLit)
		if !ok {
			if text, ok := constantText(p, argument); ok {
				texts = append(texts, text)
			}
			continue
		}
		if _, list := literal.Type.(*ast.ArrayType); list {
			for _, element := range literal.Elts {
				if text, ok := constantText(p, element); ok {
					labels = append(labels, "`"+text+"`")
				}
			}
			continue
		}
		if name, help := options(p, literal); name != "" {
			texts = append(texts, name, help)
		}
	}
	if len(texts) >= 2 && metricName.MatchString(texts[0]) && strings.Contains(texts[1], " ") {
		found = append(found, metric{texts[0], texts[1], strings.Join(labels, ", ")})
	}
	return found
}

// options returns the fields Name and Help of a literal.
func options(p *packages.Package, literal *ast.CompositeLit) (name, help string) {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		text, _ := constantText(p, pair.Value)
		switch key.Name {
		case "Name":
			name = text
		case "Help":
			help = text
		}
	}
	return name, help
}

func constantText(p *packages.Package, e ast.Expr) (string, bool) {
	value := p.TypesInfo.Types[e].Value
	if value == nil || value.Kind() != goconstant.String {
		return "", false
	}
	return goconstant.StringVal(value), true
}
