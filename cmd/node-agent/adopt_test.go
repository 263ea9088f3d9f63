package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
)

// TestTheAgentAdoptsAndRestores runs the agent without root's capabilities: it patches the network configuration of
// its node, is killed, and "limpet-agent uninstall" takes the patch back.
func TestTheAgentAdoptsAndRestores(t *testing.T) {
	dir := t.TempDir()
	state, bin, conf := filepath.Join(dir, "state"), filepath.Join(dir, "bin"), filepath.Join(dir, "conf")
	path := filepath.Join(conf, "10-pods.conflist")
	original := fmt.Sprintf(`{"cniVersion":"1.0.0",  "name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local","dataDir":%q,"subnet":"10.1.0.0/24"}}]}`, state)
	for _, d := range []string{state, conf, bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(original), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "bridge"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	address := testenv.FreeAddress(t)
	flags := []string{"--network=adopt", "--state-dir=" + state, "--cni-bin-dir=" + bin, "--cni-conf-dir=" + conf, "--address=" + address}
	agent := startAgent(t, flags...)
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(data, []byte(`"type": "limpet-ipam"`)) {
			err = fmt.Errorf("%s is %s", path, data)
		}
		return err
	})
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // it was killed
	uninstall := startAgent(t, append([]string{"uninstall", "--wait"}, flags...)...)
	testenv.Eventually(t, func() error {
		if got := get(t, "http://"+address+"/readyz"); !strings.Contains(got, "ok") {
			return errors.New(got)
		}
		return nil
	})
	out, err := os.ReadFile(uninstall.Stdout.(*os.File).Name())
	if err != nil || !strings.Contains(string(out), "Restored network configuration") || !strings.Contains(string(out), "the state and the log of the verbs stay") {
		t.Errorf("uninstall: %v: %s", err, out)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != original {
		t.Errorf("after the uninstallation: %s, %v", data, err)
	}
	if files, err := os.ReadDir(bin); err != nil || len(files) != 1 || files[0].Name() != "bridge" {
		t.Errorf("plugins after the uninstallation: %v, %v", files, err)
	}
}
