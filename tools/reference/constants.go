package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	goconstant "go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// constant is a text that has a name in the source.
type constant struct {
	kind    string // the start of its name: Annotation, Reason, Condition, …
	name    string // in the source
	value   string
	meaning string
	room    string // the directory of its package
}

// kinds of constants that users meet, by the start of their names.
var kinds = regexp.MustCompile(`^(?i:(reason|condition|cause|trigger|problem))[A-Z]`)

// domain matches names of Kubernetes metadata that Limpet or OpenKruise defines.
var domain = regexp.MustCompile(`^([a-z0-9-]+\.)*(limpet\.dev|kruise\.io|cri)/[a-z0-9-]+$`)

// version matches an API version, which is no name of metadata.
var version = regexp.MustCompile(`/v\d+(alpha\d+|beta\d+)?$`)

func named(value string) bool { return strings.Contains(value, "/") }

// constants returns the texts that a file declares for users. Each needs a comment.
func constants(p *packages.Package, file *ast.File) (found []constant, err error) {
	for _, d := range file.Decls {
		of, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range of.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, name := range spec.Names {
				c, ok := textOf(p, name)
				if !ok {
					continue
				}
				if c.meaning = meaning(of, spec); c.meaning == "" {
					err = errors.Join(err, fmt.Errorf("%s: constant %s has no comment", p.Fset.Position(name.Pos()), name.Name))
				}
				found = append(found, c)
			}
		}
	}
	return found, err
}

// textOf returns a constant that users meet.
func textOf(p *packages.Package, name *ast.Ident) (constant, bool) {
	object, ok := p.TypesInfo.Defs[name].(*types.Const)
	if !ok || object.Val().Kind() != goconstant.String {
		return constant{}, false
	}
	value := goconstant.StringVal(object.Val())
	kind := kinds.FindStringSubmatch(name.Name)
	of := ""
	if t, ok := object.Type().(*types.Named); ok {
		of = t.Obj().Name()
	}
	switch {
	case name.Name != strings.ToLower(name.Name[:1])+name.Name[1:] && domain.MatchString(value) && !version.MatchString(value):
		return constant{kind: "name", name: name.Name, value: value, room: room(p)}, true
	case kind != nil && !named(value) && value != "":
		return constant{kind: strings.ToLower(kind[1]), name: name.Name, value: value, room: room(p)}, true
	case of == "Outcome" || of == "Cause":
		return constant{kind: strings.ToLower(of), name: name.Name, value: value, room: room(p)}, true
	}
	return constant{}, false
}

func room(p *packages.Package) string {
	_, dir, _ := strings.Cut(p.PkgPath, "/limpet/")
	return dir
}

// meaning returns the comment of a constant in one line, without the name that it starts with.
func meaning(of *ast.GenDecl, spec *ast.ValueSpec) string {
	comment := cmp.Or(spec.Comment.Text(), spec.Doc.Text())
	if comment == "" && len(of.Specs) == 1 {
		comment = of.Doc.Text()
	}
	return untitled(comment, spec.Names[0].Name)
}

// constantsNamed returns the constant of one name in a file; one without a value if the file does not have it.
func constantsNamed(p *packages.Package, file *ast.File, name string) (constant, error) {
	for _, d := range file.Decls {
		of, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range of.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || spec.Names[0].Name != name {
				continue
			}
			object, ok := p.TypesInfo.Defs[spec.Names[0]].(*types.Const)
			if !ok || meaning(of, spec) == "" {
				return constant{}, fmt.Errorf("%s: constant %s has no comment", p.Fset.Position(spec.Pos()), name)
			}
			return constant{name: name, value: goconstant.StringVal(object.Val()), meaning: meaning(of, spec), room: room(p)}, nil
		}
	}
	return constant{}, nil
}

// untitled returns a comment in one line, without the name that it starts with.
func untitled(comment, name string) string {
	text := strings.TrimPrefix(strings.Join(strings.Fields(comment), " "), name)
	for _, verb := range []string{": ", " is ", " are ", " "} {
		if rest, ok := strings.CutPrefix(text, verb); ok {
			return rest
		}
	}
	return text
}

// identifier matches what may be the name of a constant in a comment.
var identifier = regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w+`)

// explain puts the values of constants in place of their names in the comments of others.
func explain(all ...[]constant) {
	values := map[string]string{}
	for _, some := range all {
		for _, c := range some {
			values[c.name] = "`" + c.value + "`"
		}
	}
	for _, some := range all {
		for i := range some {
			some[i].meaning = identifier.ReplaceAllStringFunc(some[i].meaning, func(name string) string { return cmp.Or(values[name], name) })
		}
	}
}

// sorted returns each value of each kind once.
func sorted(all []constant) []constant {
	slices.SortFunc(all, func(a, b constant) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.value, b.value), cmp.Compare(a.room, b.room), cmp.Compare(a.meaning, b.meaning))
	})
	return slices.CompactFunc(all, func(a, b constant) bool { return a.kind == b.kind && a.value == b.value && a.meaning == b.meaning })
}
