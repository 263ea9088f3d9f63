package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/limpet-io/limpet/release/folder"
)

// check checks the folder of a release.
func (e environment) check(args []string) error {
	if len(args) != 4 || args[0] != "--dir" || args[2] != "--architectures" {
		return fmt.Errorf("%w: want --dir and --architectures", errUsage)
	}
	architectures := strings.Fields(args[3])
	if err := folder.Check(args[1], architectures); err != nil {
		return fmt.Errorf("check release in %s: %w", args[1], err)
	}
	_, _ = fmt.Fprintf(e.stdout, "%s is a complete release for %s\n", args[1], strings.Join(architectures, ", "))
	return nil
}

// krew prints the manifest of the kubectl plugin.
func (e environment) krew(args []string) error {
	version, archives, err := parse(args, "--version")
	if err != nil {
		return err
	}
	content := map[string][]byte{}
	for _, a := range archives {
		if content[a], err = os.ReadFile(a); err != nil {
			return fmt.Errorf("read archive of plugin: %w", err)
		}
	}
	text, err := folder.Krew(repository, version, content, archives)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(e.stdout, text)
	return err
}
