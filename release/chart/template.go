package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// templates returns the templates of all objects by their file name.
func templates(m manifests) (map[string]string, error) {
	all, err := m.render(base)
	if err != nil {
		return nil, err
	}
	t := merged{base: all, conditions: map[string][]string{}, changes: map[string][]conditional{}}
	if err := t.switchParts(m); err != nil {
		return nil, err
	}
	for _, v := range variants {
		if err := t.addVariant(m, v); err != nil {
			return nil, err
		}
	}
	return t.print()
}

// conditional is a change that is made under a condition.
type conditional struct {
	change
	condition string
}

// merged is the objects of the base, those that variants add, and what variants change of the base.
type merged struct {
	base, added []object
	// conditions of an object must all be true.
	conditions map[string][]string
	changes    map[string][]conditional
}

// switchParts gives the objects of each part its condition.
func (t *merged) switchParts(m manifests) error {
	for _, p := range parts {
		objects, err := m.render(p.dir)
		if err != nil {
			return err
		}
		for _, o := range objects {
			t.conditions[o.id] = append(t.conditions[o.id], p.condition)
		}
	}
	return nil
}

// addVariant compares the objects of a variant with those of the base.
func (t *merged) addVariant(m manifests, v variant) error {
	objects, err := m.render(v.dir)
	if v.added {
		objects, err = m.overlay(base, v.dir)
	}
	if err != nil {
		return err
	}
	theirs := map[string]object{}
	for _, o := range objects {
		theirs[o.id] = o
	}
	for _, b := range t.base {
		their, there := theirs[b.id]
		delete(theirs, b.id)
		if !there {
			t.conditions[b.id] = append(t.conditions[b.id], "not ("+v.condition+")")
			continue
		}
		if c := compare(b.lines, their.lines); !c.none() {
			t.changes[b.id] = append(t.changes[b.id], conditional{c, v.condition})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(theirs)) {
		if t.addedBefore(theirs[id]) {
			t.conditions[id] = []string{some([]string{t.conditions[id][0], v.condition})}
			continue
		}
		t.conditions[id] = []string{v.condition}
		t.added = append(t.added, theirs[id])
	}
	return nil
}

// addedBefore reports whether another variant adds the same object.
func (t *merged) addedBefore(o object) bool {
	return slices.ContainsFunc(t.added, func(a object) bool { return a.id == o.id && slices.Equal(a.lines, o.lines) })
}

// print writes each object as a template.
func (t *merged) print() (map[string]string, error) {
	files := map[string]string{}
	for _, o := range slices.Concat(t.base, t.added) {
		lines, err := edited(o)
		if err != nil {
			return nil, err
		}
		var w strings.Builder
		conditions := t.conditions[o.id]
		if len(conditions) > 0 {
			fmt.Fprintf(&w, "{{- if %s }}\n", all(conditions))
		}
		for i, l := range lines {
			before(&w, t.changes[o.id], i)
			body(&w, t.changes[o.id], i, l)
		}
		before(&w, t.changes[o.id], len(lines))
		if len(conditions) > 0 {
			w.WriteString("{{- end }}\n")
		}
		name := o.id + ".yaml"
		if _, twice := files[name]; twice {
			return nil, fmt.Errorf("two variants add different objects %s", o.id)
		}
		files[name] = w.String()
	}
	return files, nil
}

// before prints what variants have before a line of the base. Variants with the same text share it.
func before(w *strings.Builder, changes []conditional, at int) {
	var texts []string
	conditions := map[string][]string{}
	for _, c := range changes {
		if len(c.before[at]) == 0 {
			continue
		}
		text := strings.Join(c.before[at], "\n")
		if conditions[text] == nil {
			texts = append(texts, text)
		}
		conditions[text] = append(conditions[text], c.condition)
	}
	for _, text := range texts {
		fmt.Fprintf(w, "{{- if %s }}\n%s\n{{- end }}\n", some(conditions[text]), escape(text))
	}
}

// body prints a line of the base, where no variant is selected that does not have it.
func body(w *strings.Builder, changes []conditional, at int, l line) {
	if l.gone {
		return
	}
	var without []string
	for _, c := range changes {
		if c.without[at] {
			without = append(without, c.condition)
		}
	}
	if len(without) > 0 {
		fmt.Fprintf(w, "{{- if not (%s) }}\n%s\n{{- end }}\n", some(without), l.text)
		return
	}
	w.WriteString(l.text + "\n")
}

func all(conditions []string) string { return join("and", conditions) }

func some(conditions []string) string { return join("or", conditions) }

func join(function string, conditions []string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return function + " (" + strings.Join(conditions, ") (") + ")"
}
