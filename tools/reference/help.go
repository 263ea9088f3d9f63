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

// helpTexts asks each program for its help, and for that of its commands.
func helpTexts(root string) ([]help, error) {
	var all []help
	for _, p := range programs {
		binary := filepath.Join(root, "bin", p.binary)
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
