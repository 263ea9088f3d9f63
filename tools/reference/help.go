package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// help is the help text of a program or of one of its commands.
type help struct{ command, text string }

// programs are the binaries that `make build` makes, and the commands whose help has no list of commands.
var programs = []struct {
	binary   string
	commands []string
}{
	{"limpet-agent", nil}, {"limpet-controller", nil}, {"limpet-ipam", []string{"list", "show", "check", "release", "compact"}}, {"kubectl-limpet", nil},
}

// kubectlFlags matches the flags that all commands of kubectl have, but those of the namespace and the format.
var kubectlFlags = regexp.MustCompile(`^ +(-\w, )?--(as|as-group|as-uid|as-user-extra|cache-dir|certificate-authority|client-certificate|client-key|cluster|` +
	`context|disable-compression|insecure-skip-tls-verify|kubeconfig|proxy-url|request-timeout|server|tls-server-name|token|user) `)

// unneeded matches blocks of a help text that the page says elsewhere: usages that only name the command, examples, commands with a
// section of their own, and the closing sentence.
var unneeded = regexp.MustCompile(`(?m)^(?:Usage:\n(?:  kubectl .*\n|  limpet-ipam .*\n)+|Examples?:\n(?:  .*\n)+|Available Commands:\n(?:  .*\n)+|.* --help.* command\.)(?:\n|$)`)

// condensed returns a help text without blocks that the page does not need, and without flags that an earlier command of
// the program has.
func condensed(text string, seen map[string]bool) string {
	var b strings.Builder
	for line := range strings.Lines(unneeded.ReplaceAllString(text+"\n", "")) {
		flag := strings.HasPrefix(strings.TrimSpace(line), "-")
		if flag && (seen[line] || kubectlFlags.MatchString(line) || regexp.MustCompile(`--help |--output format`).MatchString(line)) {
			continue
		}
		seen[line] = flag
		b.WriteString(line)
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), "\n\nFlags:")
}

// helpTexts asks each program for its help, and for that of its commands.
func helpTexts(root string) ([]help, error) {
	var all []help
	for _, p := range programs {
		binary, first := filepath.Join(root, "bin", p.binary), len(all)
		found, err := helpOf(binary, []string{p.binary})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		for _, c := range p.commands {
			found, err := helpOf(binary, []string{p.binary, c})
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		seen := map[string]bool{}
		for i := first; i < len(all); i++ {
			all[i].text = condensed(all[i].text, seen)
		}
	}
	return all, nil
}

// listed matches the list of commands in a help text of cobra.
var listed = regexp.MustCompile(`(?s)Available Commands:\n(.*?)\n\n`)

// helpOf returns the help text of one command, and of those below it.
func helpOf(binary string, command []string) ([]help, error) {
	cmd := exec.Command(binary, append(command[1:len(command):len(command)], "--help")...)
	cmd.Env = []string{"HOME=$HOME", "PATH=" + os.Getenv("PATH")} // the page is the same on each machine
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ask %s for its help (make build): %w", strings.Join(command, " "), err)
	}
	text, _, _ := strings.Cut(out.String(), "\nGlobal Flags:") // kubectl limpet has them
	all := []help{{strings.Replace(strings.Join(command, " "), "kubectl-", "kubectl ", 1), text}}
	for _, block := range listed.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name == "help" || name == "completion" {
				continue
			}
			below, err := helpOf(binary, append(command[:len(command):len(command)], name))
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
	}
	return all, nil
}
