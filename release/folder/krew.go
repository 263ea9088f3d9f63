package folder

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Krew returns the manifest by which krew installs the kubectl plugin from archives. They are named
// kubectl-limpet-OS-ARCHITECTURE.tar.gz, and are downloaded from the release of the version.
func Krew(repository, version string, archives map[string][]byte, order []string) (string, error) {
	if len(order) == 0 {
		return "", errors.New("write krew manifest: no archive")
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
	for _, archive := range order {
		name := filepath.Base(archive)
		parts := strings.Split(strings.TrimSuffix(name, ".tar.gz"), "-")
		if len(parts) != 4 || !strings.HasPrefix(name, "kubectl-limpet-") {
			return "", fmt.Errorf("write krew manifest: archive %s is not named kubectl-limpet-OS-ARCHITECTURE.tar.gz", name)
		}
		fmt.Fprintf(&w, `    - selector:
        matchLabels: {os: %s, arch: %s}
      sha256: %s
      bin: kubectl-limpet
      uri: %s/releases/download/%s/%s
`, parts[2], parts[3], digest(archives[archive]), repository, version, name)
	}
	return w.String(), nil
}
