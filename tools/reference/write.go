package main

import (
	"fmt"
	"strings"
)

const head = `# Reference

<!-- Made by make reference from the source. Change the comments and help texts there. -->

All names that Limpet defines or reads, each with its meaning in one line. The pages under [Use](../README.md) and
[Operate](../README.md) explain them. Agent and controller have no configuration files: their settings are flags.
Comments of the source are the text of the tables.
`

const objectsText = `Fields of the kinds that Limpet serves, in the version in which the API server stores them. ` + "`[]`" + ` stands for each
entry of a list, ` + "`*`" + ` for each key of a map. Conditions, selectors and tolerations have the fields that Kubernetes gives
them. Fields under ` + "`spec`" + ` are written by users, those under ` + "`status`" + ` by agents and the controller.`

// sections are the tables of constants, in the order of the page.
var sections = []struct{ kind, title, text string }{
	{"reason", "Reasons", "Reasons of events, of conditions, and of decisions in logs and metrics."},
	{"outcome", "Outcomes", "What became of a rebuilt pod, and what will become of the pods of a drained node."},
	{"cause", "Causes", "Why an outcome is not Kept, and why something ended."},
	{"condition", "Conditions", "Types of conditions in status."},
	{"trigger", "Release triggers", "Values of `limpet.dev/leave-on`."},
	{"problem", "Problems", "Problems that an audit finds."},
}

// write returns the page.
func write(s source, programs []help) string {
	var b strings.Builder
	b.WriteString(head)
	table(&b, "Annotations, labels, gates and taints", "Names of metadata.", s.names)
	for _, section := range sections {
		var of []constant
		for _, c := range s.reasons {
			if c.kind == section.kind {
				of = append(of, c)
			}
		}
		table(&b, section.title, section.text, of)
	}
	b.WriteString("\n## Metrics\n\n| metric, by labels | meaning |\n|---|---|\n")
	for _, m := range s.metrics {
		fmt.Fprintf(&b, "| `%s`", m.name)
		if m.labels != "" {
			fmt.Fprintf(&b, " by %s", m.labels)
		}
		fmt.Fprintf(&b, " | %s |\n", cell(m.help))
	}
	fields(&b, "Configuration keys", "Keys of what Limpet reads. `[]` stands for each entry of a list.", "key", s.configurations)
	fields(&b, "Objects", objectsText, "field", s.objects)
	b.WriteString("\n## Commands and flags\n\nCommands of `kubectl limpet` also take the flags of kubectl; `--help` shows them, with examples.\n")
	for _, h := range programs {
		fmt.Fprintf(&b, "\n### %s\n\n", h.command)
		for line := range strings.Lines(strings.TrimSpace(h.text)) {
			b.WriteString(strings.TrimRight("    "+strings.TrimRight(line, "\n"), " ") + "\n")
		}
	}
	return b.String()
}

// table writes one table of constants; nothing where there are none.
func table(b *strings.Builder, title, text string, of []constant) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| name | meaning |\n|---|---|\n", title, text)
	for i := 0; i < len(of); {
		value, meanings := of[i].value, []string(nil)
		for ; i < len(of) && of[i].value == value; i++ {
			meanings = append(meanings, cell(of[i].meaning))
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", value, strings.Join(meanings, "; or "))
	}
}

// fields writes the tables of configurations or of objects.
func fields(b *strings.Builder, title, text, column string, all []configuration) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", title, text)
	for _, c := range all {
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n", c.title, wrapped(c.text))
		fmt.Fprintf(b, "| %s | value | meaning |\n|---|---|---|\n", column)
		for _, f := range c.fields {
			value := f.kind
			if f.rules != "" {
				value += ", " + f.rules
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.path, cell(value), cell(f.meaning))
		}
	}
}

// wrapped returns a text in lines of at most 120 characters.
func wrapped(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > 120 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// cell returns a text that does not end its cell or its line.
func cell(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|"), ".")
}
