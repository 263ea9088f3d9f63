package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/packages"
)

// field is one key of a configuration, or one field of an object.
type field struct{ path, kind, rules, meaning string }

// configuration is a JSON text that Limpet reads.
type configuration struct {
	title, text string
	fields      []field
}

// decoded are the types that configurations are decoded into, by the directories of their packages. The key of a
// ConfigMap is a constant of a package.
var decoded = []struct{ title, room, of, constant, text string }{
	{"Network configuration", "internal/cni/netconf", "file", "", "What limpet-ipam reads. [Network configuration](../use/annotations.md#network-configuration) has the defaults."},
	{
		"ConfigMap: kinds whose pods return", "internal/platform/workload", "kindList", "internal/platform/workloads.KindsKey",
		"JSON under a key of the ConfigMap `kruise-configuration` ([kinds](../use/pinning.md#name-a-kind)).",
	},
	{
		"ConfigMap: kinds whose pods are spread", "internal/platform/workload", "spreadKindList", "internal/platform/workloads.SpreadKindsKey",
		"JSON under a key of the same ConfigMap ([kinds](../use/spread.md#kinds-of-your-own)).",
	},
}

// configurations returns the keys of all configurations. Each needs a comment.
func configurations(loaded []*packages.Package) (all []configuration, err error) {
	rooms := map[string]*packages.Package{}
	for _, p := range loaded {
		rooms[room(p)] = p
	}
	for _, d := range decoded {
		p := rooms[d.room]
		if p == nil || p.Types.Scope().Lookup(d.of) == nil {
			err = errors.Join(err, fmt.Errorf("%s has no type %s", d.room, d.of))
			continue
		}
		w := walker{comments: comments(p)}
		if d.constant != "" {
			dir, name, _ := strings.Cut(d.constant, ".")
			err = errors.Join(err, w.key(rooms[dir], name))
		}
		w.walk(p.Types.Scope().Lookup(d.of).Type(), "")
		for _, problem := range w.problems {
			err = errors.Join(err, fmt.Errorf("%s: %s: %s", p.PkgPath, d.of, problem))
		}
		all = append(all, configuration{d.title, d.text, w.fields})
	}
	return all, err
}

// comments returns the comment of each field in a package, by the place of its name.
func comments(p *packages.Package) map[token.Pos]string {
	found := map[token.Pos]string{}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					found[name.Pos()] = untitled(f.Doc.Text(), name.Name)
				}
			}
			return true
		})
	}
	return found
}

// walker gathers the keys of a type.
type walker struct {
	comments map[token.Pos]string
	fields   []field
	problems []string
}

// key adds the key of a ConfigMap, which is a constant.
func (w *walker) key(p *packages.Package, name string) error {
	if p == nil {
		return fmt.Errorf("no package has the constant %s", name)
	}
	for _, file := range p.Syntax {
		found, err := constantsNamed(p, file, name)
		if err != nil || found.value == "" {
			continue
		}
		w.fields = append(w.fields, field{path: found.value, kind: "JSON", meaning: found.meaning})
		return nil
	}
	return fmt.Errorf("%s has no constant %s with a comment", p.PkgPath, name)
}

// walk adds the keys of a struct, and of the structs in it.
func (w *walker) walk(t types.Type, under string) {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i := range s.NumFields() {
		f := s.Field(i)
		name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		if f.Embedded() {
			w.walk(f.Type(), under)
			continue
		}
		if name == "" || w.comments[f.Pos()] == "" {
			w.problems = append(w.problems, fmt.Sprintf("the field %s needs a JSON key and a comment", f.Name()))
			continue
		}
		inner, kind, suffix := unwrapped(f.Type())
		w.fields = append(w.fields, field{path: under + name, kind: kind, meaning: w.comments[f.Pos()]})
		w.walk(inner, under+name+suffix+".")
	}
}

// unwrapped returns the type inside pointers and lists, the name of the JSON type, and how its path goes on.
func unwrapped(t types.Type) (inner types.Type, kind, suffix string) {
	if types.TypeString(t, nil) == "encoding/json.RawMessage" {
		return types.Typ[types.String], "JSON", ""
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return unwrapped(u.Elem())
	case *types.Slice:
		inner, kind, suffix = unwrapped(u.Elem())
		return inner, "list of " + plural(kind), "[]" + suffix
	case *types.Map:
		_, kind, _ = unwrapped(u.Elem())
		return u, "map of " + plural(kind), ""
	case *types.Basic:
		switch {
		case u.Info()&types.IsInteger != 0:
			return u, "integer", ""
		case u.Info()&types.IsBoolean != 0:
			return u, "boolean", ""
		}
		return u, "string", ""
	}
	return t, "object", ""
}

func plural(kind string) string {
	if rest, ok := strings.CutPrefix(kind, "list of "); ok {
		return "lists of " + rest
	}
	if rest, ok := strings.CutPrefix(kind, "map of "); ok {
		return "maps of " + rest
	}
	return kind + "s"
}
