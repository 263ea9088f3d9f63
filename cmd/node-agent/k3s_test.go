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

// k3s makes the directories of a node of k3s below a temporary root. Each release has a directory of its own, to which current
// points, and its plugins are links to one program there. The agent's container sees only what is mounted, so that the links of
// data/cni lead nowhere.
type k3s struct{ conf, cni, current, data string }

func onK3s(t *testing.T, conf string) k3s {
	t.Helper()
	home := filepath.Join(t.TempDir(), "var/lib/rancher/k3s")
	k := k3s{filepath.Join(home, "agent/etc/cni/net.d"), filepath.Join(home, "data/cni"), filepath.Join(home, "data/current"), filepath.Join(home, "data")}
	err := errors.Join(os.MkdirAll(k.conf, 0o755), os.MkdirAll(k.cni, 0o755), os.WriteFile(filepath.Join(k.conf, "10-flannel.conflist"), []byte(conf), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	k.release(t, "1a2b")
	return k
}

// release installs a release, as an upgrade does.
func (k k3s) release(t *testing.T, hash string) {
	t.Helper()
	bin := filepath.Join(k.data, hash, "bin")
	err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "cni"), nil, 0o755), os.RemoveAll(k.current), os.Symlink(filepath.Dir(bin), k.current))
	for _, name := range []string{"bridge", "flannel", "host-local", "portmap"} {
		_ = os.Remove(filepath.Join(k.cni, name)) // of the release before
		err = errors.Join(err, os.Symlink("cni", filepath.Join(bin, name)), os.Symlink(filepath.Join("/not/mounted", hash, "bin/cni"), filepath.Join(k.cni, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestThePathsOfK3s runs the agent with the directories of k3s of today and of before October 2024, through an upgrade.
func TestThePathsOfK3s(t *testing.T) {
	flannel := `{"name":"cbr0","cniVersion":"1.0.0","plugins":[{"type":"flannel","capabilities":{"io.kubernetes.cri.pod-annotations":true},` +
		`"ipam":{"type":"limpet-ipam","mirrorHostLocal":true},"delegate":{"hairpinMode":true,"forceAddress":true,"isDefaultGateway":true}},` +
		`{"type":"portmap","capabilities":{"portMappings":true}}]}`
	for name, dir := range map[string]func(k3s) string{
		"data/cni":         func(k k3s) string { return k.cni },
		"data/current/bin": func(k k3s) string { return filepath.Join(k.current, "bin") },
	} {
		t.Run(name, func(t *testing.T) {
			k := onK3s(t, flannel)
			address := testenv.FreeAddress(t)
			startAgent(t, "--cni-bin-dir="+dir(k), "--cni-conf-dir="+k.conf, "--state-dir="+filepath.Join(t.TempDir(), "state"), "--address="+address)
			installed := func() error {
				_, err := os.Stat(filepath.Join(dir(k), "limpet-ipam"))
				return err
			}
			testenv.Eventually(t, installed)
			k.release(t, "3c4d")
			testenv.Eventually(t, installed)
			testenv.Eventually(t, func() error {
				if got := get(t, "http://"+address+"/metrics"); !strings.Contains(got, `limpet_agent_network_ipam{by="limpet-ipam"} 1`) {
					return errors.New("the agent does not see that flannel uses limpet-ipam")
				}
				return nil
			})
			if data, err := os.ReadFile(filepath.Join(k.conf, "10-flannel.conflist")); err != nil || string(data) != flannel {
				t.Errorf("the configuration is %s, %v", data, err)
			}
		})
	}
}

// TestABridgeOfK3sIsAdopted adopts a network whose plugin is a link that leads nowhere in the agent's container.
func TestABridgeOfK3sIsAdopted(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	k := onK3s(t, fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local","dataDir":%q,"subnet":"10.1.0.0/24"}}]}`, state))
	startAgent(t, "--network=adopt", "--cni-bin-dir="+k.cni, "--cni-conf-dir="+k.conf, "--state-dir="+state, "--address=0")
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(filepath.Join(k.conf, "10-flannel.conflist"))
		if err == nil && !bytes.Contains(data, []byte(`"type": "limpet-ipam"`)) {
			err = fmt.Errorf("the configuration is %s", data)
		}
		return err
	})
}
