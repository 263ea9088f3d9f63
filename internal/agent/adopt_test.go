package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// adopting returns a node whose agent patches network configurations, and the path of the one it has.
func adopting(t *testing.T, name string) (*node, string) {
	t.Helper()
	n := newNode(t, name)
	n.Adopt = true
	n.write(t, filepath.Join(n.BinDir, "bridge"), "plugin")
	n.Accepts = func(conf []byte) error {
		_, err := netconf.Decode(conf).ParseStatus()
		return err
	}
	return n, filepath.Join(n.ConfDir, "10-pods.conflist")
}

// bridgeOf returns a network configuration as its owner writes it, in a form of its own.
func (n *node) bridgeOf(bridge string) string {
	return fmt.Sprintf("{\"cniVersion\": \"1.0.0\",\n\t\"name\":\"pods\",  \"plugins\":[\n{\"type\":\"bridge\",\"bridge\":%q,\"ipam\":"+
		"{\"type\":\"host-local\",\"dataDir\":%q,\"ranges\":[[{\"subnet\":\"10.1.0.0/24\"}]]}}]}\n\n", bridge, n.StateDir)
}

// rewrite replaces a file in one step, as careful owners do.
func (n *node) rewrite(t *testing.T, path, text string) {
	t.Helper()
	n.write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// isPatched waits until a file has limpet-ipam and another text.
func isPatched(t *testing.T, path, text string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(path)
		if err == nil && (!strings.Contains(string(data), `"limpet-ipam"`) || !strings.Contains(string(data), text)) {
			err = fmt.Errorf("%s is %s, want limpet-ipam and %s", path, data, text)
		}
		return err
	})
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != want {
		t.Errorf("%s is %q, want %q", path, data, want)
	}
}

// TestAnAdoptedNetworkIsRestored patches a network configuration, again after its owner has written it, and takes
// the patch back to the byte.
func TestAnAdoptedNetworkIsRestored(t *testing.T) {
	inNetNS(t)
	n, path := adopting(t, "adopt-1")
	binary := filepath.Join(n.BinDir, "limpet-ipam")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	t.Run("while an agent runs", func(t *testing.T) {
		a := n.start(t)
		testenv.Eventually(t, a.Ready) // also before there is a network
		n.metricIs(t, "limpet_agent_network_adopted", 0)
		n.rewrite(t, path, n.bridgeOf("cni0"))
		isPatched(t, path, "cni0")
		n.metricIs(t, "limpet_agent_network_adopted", 1)
		n.rewrite(t, path, n.bridgeOf("cni1"))
		isPatched(t, path, "cni1")
		n.metricIs(t, "limpet_agent_network_patches_total", 2)
		n.metricIs(t, "limpet_agent_network_ipam limpet-ipam", 1)
		for i, text := range []string{n.bridgeOf("cni1"), n.bridgeOf("cni1")[:30], n.bridgeOf("cni2")} { // of patches that were killed
			temp, then := filepath.Join(n.ConfDir, fmt.Sprintf(".10-pods.conflist.%d.limpet", i)), time.Now().Add(-time.Hour)
			n.write(t, temp+".new", text)
			if err := errors.Join(os.Chtimes(temp+".new", then, then), os.Rename(temp+".new", temp)); err != nil {
				t.Fatal(err)
			}
		}
		n.metricIs(t, "limpet_agent_recoveries_total file", 2)
		testenv.Eventually(t, func() error {
			if got, _ := n.metric(t, "limpet_agent_failures_total leftovers"); got == 0 {
				return errors.New("the change of the owner is not told")
			}
			return nil
		})
	})
	err := agent.Uninstall(t.Context(), n.Config)
	if err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("uninstall with a pod: %v", err)
	}
	holds(t, path, n.bridgeOf("cni1"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the restored file: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Errorf("the plugin, which the DEL of the pod may need: %v", err)
	}
	if left, err := os.ReadDir(n.ConfDir); err != nil || len(left) != 2 || left[0].Name() != ".10-pods.conflist.2.limpet" {
		t.Errorf("files of network configurations: %v, %v; want the change of the owner, and the restored file", left, err)
	}
	if err := os.Remove(filepath.Join(n.ConfDir, ".10-pods.conflist.2.limpet")); err != nil {
		t.Error(err)
	}
	n.release(t, reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
	if err := agent.Uninstall(t.Context(), n.Config); err != nil {
		t.Fatal(err)
	}
	notFound(t, binary)
	notFound(t, filepath.Join(n.StateDir, "limpet.adopted"))
	holds(t, path, n.bridgeOf("cni1"))
	if files, err := os.ReadDir(n.ConfDir); err != nil || len(files) != 1 {
		t.Errorf("files of network configurations: %v, %v", files, err)
	}
	if _, err := os.Stat(filepath.Join(n.StateDir, "limpet.db")); err != nil {
		t.Errorf("the state: %v", err)
	}
}

// TestAPluginThatIsNamedStays has network configurations that name limpet-ipam and that no agent has written.
func TestAPluginThatIsNamedStays(t *testing.T) {
	inNetNS(t)
	n, path := adopting(t, "adopt-2")
	binary := filepath.Join(n.BinDir, "limpet-ipam")
	n.write(t, path, n.bridgeOf("cni0"))
	t.Run("while an agent runs", func(t *testing.T) {
		n.start(t)
		isPatched(t, path, "cni0")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n.rewrite(t, path, strings.Replace(string(data), "cni0", "cni9", 1)) // by an operator
	})
	edited, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "set its ipam.type back") {
		t.Errorf("uninstall with an edited network: %v", err)
	}
	holds(t, path, string(edited))
	elsewhere := n.Config
	elsewhere.ConfDir = t.TempDir()
	if err := agent.Uninstall(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "--cni-conf-dir") {
		t.Errorf("uninstall with another directory: %v", err)
	}
	if err := os.Remove(filepath.Join(n.StateDir, "limpet.adopted")); err != nil {
		t.Errorf("the record with the original: %v", err)
	}
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), path+" names limpet-ipam") {
		t.Errorf("uninstall with a network of the operator: %v", err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Errorf("the plugin, which new pods need: %v", err)
	}
}

// TestANetworkThatCannotBeAdoptedIsTold has files that the agent leaves alone.
func TestANetworkThatCannotBeAdoptedIsTold(t *testing.T) {
	n, path := adopting(t, "adopt-3")
	half := n.bridgeOf("cni0")[:40]
	n.write(t, path, half)
	n.start(t)
	n.metricIs(t, "limpet_agent_network_adopted", 0)
	n.isTold(t, "10-pods.conflist is left as it is: it is no JSON object")
	holds(t, path, half)

	unusable := strings.Replace(n.bridgeOf("cni0"), "10.1.0.0/24", "10.1.0.7/24", 1)
	n.rewrite(t, path, unusable)
	n.isTold(t, "limpet-ipam refuses this configuration")
	holds(t, path, unusable)

	n.rewrite(t, path, strings.Replace(n.bridgeOf("cni0"), `"type":"bridge"`, `"type":"ptp"`, 1))
	n.isTold(t, `plugin "ptp" is not in the directory of --cni-bin-dir`)

	target := filepath.Join(t.TempDir(), "target")
	n.write(t, target, n.bridgeOf("cni0"))
	if err := errors.Join(os.Remove(path), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
	n.isTold(t, "no regular file")
	holds(t, target, n.bridgeOf("cni0"))

	n.rewrite(t, path, n.bridgeOf("cni0"))
	isPatched(t, path, "cni0")
	n.metricIs(t, "limpet_agent_network_adopted", 1)
}

// isTold waits for an event of the node with a text.
func (n *node) isTold(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		got := n.messages(t, plan.ReasonForeignNetwork)
		if !strings.Contains(strings.Join(got, "\n"), text) {
			return fmt.Errorf("events %q, want %q", got, text)
		}
		return nil
	})
}

// TestNoChangeOfTheOwnerIsLost has an owner that writes while the agent does.
func TestNoChangeOfTheOwnerIsLost(t *testing.T) {
	n, path := adopting(t, "adopt-4")
	n.start(t)
	for i := range 2 {
		n.rewrite(t, path, n.bridgeOf(fmt.Sprintf("cni%d", i)))
		began := time.Now()
		testenv.Eventually(t, func() error { // at any moment of the agent's round
			if time.Since(began) < 2*time.Second { // for two rounds: with more failed patches the agent makes long pauses
				n.rewrite(t, path, n.bridgeOf(fmt.Sprintf("cni%d", i)))
			}
			if got, _ := n.metric(t, "limpet_agent_network_patches_total"); got <= float64(i) {
				return fmt.Errorf("%v patches", got)
			}
			return nil
		})
		isPatched(t, path, fmt.Sprintf("cni%d", i))
	}
	if err := n.store.View(t.Context(), func(*persistence.Tx) error { return nil }); err != nil {
		t.Errorf("the state beside the record: %v", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(n.ConfDir, ".*"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("temporary files: %v, %v", leftovers, err)
	}
}
