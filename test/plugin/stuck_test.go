package plugin_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// The tests in this file are about interface plugins that end after their IPAM DEL and before
// they remove the interface: ptp, macvlan and ipvlan call IPAM DEL first.

// TestKilledInterfacePluginLeavesNoSecondHolder rebuilds a pod whose old network namespace still
// has the addresses although its IPAM DEL succeeded.
func TestKilledInterfacePluginLeavesNoSecondHolder(t *testing.T) {
	for _, plugin := range []string{"ptp", "macvlan", "ipvlan"} {
		for _, mode := range []string{"preferred", "required"} {
			t.Run(plugin+" "+mode, func(t *testing.T) {
				node, dir := newNetNS(t, "node"), t.TempDir()
				conf := func() map[string]any {
					c := interfaceConf(dir, plugin)
					c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{
						reservation.RetainAnnotation: "10", reservation.ModeAnnotation: mode,
					}}
					return c
				}
				c := call{plugin: lookPath(t, plugin), conf: conf()}
				if plugin != "ptp" {
					node.neighbour(t, plugin, c)
				}
				first := newNetNS(t, "pod-1")
				c.container, c.netns, c.args = first.name, first.path, pod("web-0", "u1")
				added := node.run(t, c, "ADD")
				if added.exit != 0 || len(added.IPs) != 2 {
					t.Fatalf("ADD: %s%s", added.stdout, added.stderr)
				}
				alone := c
				alone.plugin, alone.conf = binary, withPrevious(conf(), added.addrs())
				if a := node.run(t, alone, "DEL"); a.exit != 0 {
					t.Fatalf("IPAM DEL: %s%s", a.stdout, a.stderr)
				}
				successor := func(role string) { // a runtime makes a namespace for each try
					ns := newNetNS(t, role)
					c.container, c.netns, c.args = ns.name, ns.path, pod("web-0", "u2")
				}
				for n := range 2 {
					successor(fmt.Sprint("try-", n))
					if a := node.run(t, c, "ADD"); a.Code != 11 || !strings.Contains(a.Msg, first.path) {
						t.Fatalf("ADD beside the old namespace: %s%s; want code 11 that names it", a.stdout, a.stderr)
					}
				}
				first.remove(t)
				successor("pod-2")
				again := node.run(t, c, "ADD")
				if fmt.Sprint(again.addrs()) != fmt.Sprint(added.addrs()) {
					t.Errorf("came back to %v, had %v: %s%s", again.addrs(), added.addrs(), again.stdout, again.stderr)
				}
			})
		}
	}
}

// TestFreedAddressWaitsForItsNamespace ends a pod that asks for nothing, in a range of one address.
func TestFreedAddressWaitsForItsNamespace(t *testing.T) {
	for _, plugin := range []string{"ptp", "macvlan"} {
		t.Run(plugin, func(t *testing.T) {
			node, dir := newNetNS(t, "node"), t.TempDir()
			conf := interfaceConf(dir, plugin)
			c := call{plugin: lookPath(t, plugin), conf: conf}
			if plugin != "ptp" {
				c.conf = interfaceConf(t.TempDir(), plugin) // the neighbour has an address of another state
				node.neighbour(t, plugin, c)
			}
			conf["ipam"].(map[string]any)["ranges"] = json.RawMessage(`[[{"subnet":"10.9.8.0/30"}]]`)
			conf["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{}}
			delete(conf["ipam"].(map[string]any), "routes")
			c.conf = conf
			first, second := newNetNS(t, "pod-1"), newNetNS(t, "pod-2")
			c.container, c.netns, c.args = first.name, first.path, pod("web-0", "u1")
			added := node.run(t, c, "ADD")
			if added.exit != 0 || len(added.IPs) != 1 {
				t.Fatalf("ADD: %s%s", added.stdout, added.stderr)
			}
			alone := c
			alone.plugin = binary
			if a := node.run(t, alone, "DEL"); a.exit != 0 {
				t.Fatalf("IPAM DEL: %s%s", a.stdout, a.stderr)
			}
			c.container, c.netns, c.args = second.name, second.path, pod("db-0", "u2")
			if a := node.run(t, c, "ADD"); a.Code != 100 {
				t.Fatalf("ADD of another pod while the namespace has the address: %s%s, want code 100", a.stdout, a.stderr)
			}
			err := first.in(func() error { return exec.Command("ip", "link", "delete", "eth0").Run() })
			if err != nil {
				t.Fatal(err)
			}
			third := newNetNS(t, "pod-3") // a runtime makes a namespace for each try
			c.container, c.netns = third.name, third.path
			if a := node.run(t, c, "ADD"); a.exit != 0 || fmt.Sprint(a.addrs()) != fmt.Sprint(added.addrs()) {
				t.Errorf("ADD once the interface is gone: %s%s, want %v", a.stdout, a.stderr, added.addrs())
			}
		})
	}
}
