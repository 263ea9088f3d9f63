package plugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// flannelConf is what flannel hands to bridge: its own keys for the delegate, the
// node's subnet as the one range, a route to all other nodes' subnets, and of the
// user's ipam section all but those two. Version 0.3.1 has no prevResult.
func flannelConf(dir string) map[string]any {
	return map[string]any{
		"cniVersion": "0.3.1", "name": "cbr0", "type": "bridge", "bridge": "cni0",
		"hairpinMode": true, "isDefaultGateway": true, "isGateway": true, "ipMasq": false, "mtu": 1450,
		"ipam": map[string]any{
			"type": "limpet-ipam", "dataDir": dir,
			"ranges": json.RawMessage(`[[{"subnet":"10.1.2.0/24"}]]`), "routes": json.RawMessage(`[{"dst":"10.1.0.0/16"}]`),
		},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}},
	}
}

// TestBelowFlannel takes a pod through a life as flannel's delegates see it: DEL brings
// the configuration of the ADD once more, without its result, and
// libcni's cache tells it from a rollback.
func TestBelowFlannel(t *testing.T) {
	notEmulated(t)
	node := newNetNS(t, "node")
	cache := "/var/lib/cni/results" // in the mount namespace of these tests
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := flannelConf(filepath.Join(t.TempDir(), "state"))
	life := func(uid string, pod0 space) answer {
		t.Helper()
		c := call{plugin: lookPath(t, "bridge"), container: pod0.name, netns: pod0.path, args: pod("web-0", uid), conf: conf}
		added := node.run(t, c, "ADD")
		if added.exit != 0 || len(added.IPs) != 1 {
			t.Fatalf("ADD: %s%s", added.stdout, added.stderr)
		}
		cached := filepath.Join(cache, fmt.Sprintf("cbr0-%s-eth0", pod0.name))
		if err := os.WriteFile(cached, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		ping(t, node, pod0, added.addrs()[0])
		if a := node.run(t, c, "DEL"); a.exit != 0 {
			t.Fatalf("DEL: %s%s", a.stdout, a.stderr)
		}
		if err := os.Remove(cached); err != nil {
			t.Fatal(err)
		}
		return added
	}
	first := life("u1", newNetNS(t, "pod-1"))
	other := newNetNS(t, "pod-2")
	c := call{plugin: lookPath(t, "bridge"), container: other.name, netns: other.path, args: pod("web-1", "u"), conf: conf}
	if a := node.run(t, c, "ADD"); a.exit != 0 || a.addrs()[0] == first.addrs()[0] {
		t.Errorf("another pod: %s%s; want an address other than %s", a.stdout, a.stderr, first.addrs())
	}
	for _, uid := range []string{"u2", "u3"} {
		again := life(uid, newNetNS(t, "pod-"+uid))
		if again.addrs()[0] != first.addrs()[0] {
			t.Errorf("came back to %s, had %s", again.addrs(), first.addrs())
		}
	}
}
