package snapshot_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/test/cluster/snapshot"
)

func TestChangesNamesWhatIsNewAndWhatIsGone(t *testing.T) {
	before := snapshot.Snapshot{"mount /": true, "mount /old": true}
	after := snapshot.Snapshot{"mount /": true, "mount /new": true}
	if diff := cmp.Diff([]string{"+ mount /new", "- mount /old"}, snapshot.Changes(before, after)); diff != "" {
		t.Errorf("Changes() (-want +got):\n%s", diff)
	}
}

func TestTakeSeesAProcessInAnotherNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root is needed to make a network namespace; make test insists on root and runs it")
	}
	before, err := snapshot.Take()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	after, err := snapshot.Take()
	if err != nil {
		t.Fatal(err)
	}
	changes := snapshot.Changes(before, after)
	if !slices.ContainsFunc(changes, func(c string) bool { return strings.HasPrefix(c, "+ process ") && strings.HasSuffix(c, " sleep") }) {
		t.Errorf("the process is not among the changes %q", changes)
	}
}
