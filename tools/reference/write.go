package main

import (
	"fmt"
	"strings"
)

const head = `# Reference

<!-- Made by make reference from the source. Change the comments and help texts there. -->

All names that Limpet defines or reads, each with its meaning in one line. The pages under [Use](../README.md) and
[Operate](../README.md) explain them. The keys of the network configuration have [a page](../use/configuration.md).
Comments of the source are the text of the tables; a place in the source stands where several parts use one word.
`

// sections are the tables of constants, in the order of the page.
var sections = []struct{ kind, title, text string }{
	{"reason", "Reasons", "Reasons of events, of conditions, and of decisions in logs and metrics."},
	{"outcome", "Outcomes", "What became of a rebuilt pod, and what will become of the pods of a drained node."},
	{"cause", "Causes", "Why an outcome is not Kept, and why something ended."},
	{"condition", "Conditions", "Types of conditions in status."},
	{"trigger", "Release triggers", "Values of `limpet.dev/release-on`."},
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
	b.WriteString("\n## Metrics\n\n| metric | labels | meaning |\n|---|---|---|\n")
	for _, m := range s.metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, m.labels, cell(m.help))
	}
	b.WriteString("\n## Commands and flags\n")
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
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| name | meaning | source |\n|---|---|---|\n", title, text)
	for _, c := range of {
		fmt.Fprintf(b, "| `%s` | %s | `%s` |\n", c.value, cell(c.meaning), c.room)
	}
}

// cell returns a text that does not end its cell or its line.
func cell(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|"), ".")
}
