package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAKilledStatusSaysNotReady asks an interface plugin for its status while limpet-ipam is killed. The interface plugin
// fails, as it does below host-local: the runtime cannot tell a killed plugin from a node that can start no pod.
func TestAKilledStatusSaysNotReady(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(killed, "limpet-ipam"), []byte("#!/bin/sh\nkill -KILL $$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	was := cniPath
	t.Cleanup(func() { cniPath = was })
	ask := call{plugin: lookPath(t, "ptp"), verb: "STATUS", conf: interfaceConf(dir, "ptp")}
	if a := ask.run(t); a.exit != 0 {
		t.Errorf("STATUS: %s%s", a.stdout, a.stderr)
	}
	cniPath = killed + ":" + was
	if a := ask.run(t); a.exit == 0 || !strings.Contains(a.Msg, "killed") {
		t.Errorf("STATUS with a killed limpet-ipam: exit %d, %s%s", a.exit, a.stdout, a.stderr)
	}
	cniPath = was
	if a := ask.run(t); a.exit != 0 {
		t.Errorf("STATUS afterwards: %s%s", a.stdout, a.stderr)
	}
}
