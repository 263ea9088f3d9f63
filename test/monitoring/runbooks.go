package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	block    = regexp.MustCompile(`(?m)(?:^ {4}.*\n)+`)
	sentence = regexp.MustCompile("`([^`]+)`")
	link     = regexp.MustCompile(`\]\(([^)#]+\.md)#([^)]+)\)`)
	title    = regexp.MustCompile(`(?m)^(#+) (.*)$`)
	dropped  = regexp.MustCompile(`[^a-z0-9 _-]`)
	program  = regexp.MustCompile(`^(kubectl|/opt/cni/bin/limpet-ipam|limpet-ipam|crictl|ip|jq|openssl) `)
)

// Runbooks returns the commands of the page of troubles, and of the sections of other pages to which it leads.
func Runbooks(root string) (scripts []string, err error) {
	path := filepath.Join(root, "docs", "operate", "troubles.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read runbooks: %w", err)
	}
	texts, seen := []string{string(page)}, map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(string(page), -1) {
		if seen[m[0]] {
			continue
		}
		seen[m[0]] = true
		other, err := os.ReadFile(filepath.Join(filepath.Dir(path), m[1]))
		if err != nil {
			return nil, fmt.Errorf("follow %s: %w", m[0], err)
		}
		texts = append(texts, Section(string(other), m[2]))
	}
	found := map[string]bool{}
	for _, text := range texts {
		for _, script := range commands(text) {
			if !found[script] {
				found[script] = true
				scripts = append(scripts, script)
			}
		}
	}
	return scripts, nil
}

// Section returns the text from a heading to the next one that is no smaller.
func Section(page, anchor string) string {
	begin, level := -1, 0
	for _, m := range title.FindAllStringSubmatchIndex(page, -1) {
		depth, name := m[3]-m[2], dropped.ReplaceAllString(strings.ToLower(page[m[4]:m[5]]), "")
		if begin >= 0 && depth <= level {
			return page[begin:m[0]]
		}
		if begin < 0 && strings.ReplaceAll(name, " ", "-") == anchor {
			begin, level = m[1], depth
		}
	}
	return page[max(begin, 0):]
}

// Blocks returns the indented blocks of a text, without the indentation.
func Blocks(text string) (all []string) {
	for _, b := range block.FindAllString(text, -1) {
		all = append(all, strings.TrimSpace(strings.ReplaceAll("\n"+b, "\n    ", "\n")))
	}
	return all
}

// commands returns the blocks and the code in sentences that begin with a program. In a block with answers, "$ " stands
// before the commands.
func commands(text string) (all []string) {
	for _, script := range Blocks(text) {
		if command, answered := strings.CutPrefix(script, "$ "); answered {
			script, _, _ = strings.Cut(command, "\n")
		}
		if lines := strings.Split(script, "\n"); !slices.ContainsFunc(lines, func(l string) bool { return !program.MatchString(l) }) {
			all = append(all, lines...)
		} else if program.MatchString(script) {
			all = append(all, script)
		}
	}
	for _, m := range sentence.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		if script := strings.Join(strings.Fields(strings.ReplaceAll(m[1], `\|`, "|")), " "); program.MatchString(script) {
			all = append(all, script)
		}
	}
	return all
}
