package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/version"
)

// TestUnknownCommandsAreRefused runs the controller as a process. A word that is no command starts no controller.
func TestUnknownCommandsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		wantExit int
		want     string
	}{
		"an unknown command": {[]string{"uninstall"}, 2, "uninstall"},
		"the version":        {[]string{"version"}, 0, "limpet-controller " + version.String()},
		"the version's flag": {[]string{"--version"}, 0, "limpet-controller " + version.String()},
		"the help":           {[]string{"--help"}, 0, "limpet-controller version"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], tc.args...)
			cmd.Env = append(os.Environ(), replicaVar+"=1", "KUBECONFIG=/nonexistent")
			out, _ := cmd.CombinedOutput() // the exit status is compared below
			if got := cmd.ProcessState.ExitCode(); got != tc.wantExit || !strings.Contains(string(out), tc.want) {
				t.Errorf("limpet-controller %v: exit status %d, want %d and %q in\n%s", tc.args, got, tc.wantExit, tc.want, out)
			}
		})
	}
}
