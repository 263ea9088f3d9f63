package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// krew prints the manifest by which krew installs the kubectl plugin from archives. They are named
// kubectl-limpet-OS-ARCHITECTURE.tar.gz, and are downloaded from the release of the version.
func (e environment) krew(args []string) error {
	version, archives, err := parse(args, "--version")
	if err != nil {
		return err
	}
	var w strings.Builder
	fmt.Fprintf(&w, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: limpet
spec:
  version: %q
  homepage: %s
  shortDescription: Shows pods that keep their address, and drains
  description: |
    Shows the state of Limpet, the history of a pod's node and addresses, which budget refuses an
    eviction, and what a drain would do. Reads the API with the rights of its user.
  platforms:
`, version, repository)
	for _, archive := range archives {
		name := filepath.Base(archive)
		parts := strings.Split(strings.TrimSuffix(name, ".tar.gz"), "-")
		if len(parts) != 4 || !strings.HasPrefix(name, "kubectl-limpet-") {
			return fmt.Errorf("write krew manifest: archive %s is not named kubectl-limpet-OS-ARCHITECTURE.tar.gz", name)
		}
		sum, err := digest(archive)
		if err != nil {
			return err
		}
		fmt.Fprintf(&w, `    - selector:
        matchLabels: {os: %s, arch: %s}
      sha256: %s
      bin: kubectl-limpet
      uri: %s/releases/download/%s/%s
`, parts[2], parts[3], sum, repository, version, name)
	}
	_, err = fmt.Fprint(e.stdout, w.String())
	return err
}
