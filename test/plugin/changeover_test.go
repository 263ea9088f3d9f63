package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// changing is a network on its way from host-local to limpet-ipam and back, in the
// default directories of both plugins.
type changing struct {
	t     *testing.T
	had   map[string][]netip.Addr // by container
	extra map[string]any          // keys of ipam
}

func (c *changing) conf(which string) map[string]any {
	ipam := map[string]any{"type": which, "subnet": "10.7.0.0/28"}
	maps.Copy(ipam, c.extra)
	return map[string]any{
		"cniVersion": "1.0.0", "name": "changing", "type": "bridge", "ipam": ipam,
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}},
	}
}

// do runs a verb for a container of the pod of which it is the first word.
func (c *changing) do(which, verb, container string) answer {
	c.t.Helper()
	name, _, _ := strings.Cut(container, ".")
	conf := c.conf(which)
	if verb != "ADD" {
		withPrevious(conf, c.had[container])
	}
	plugin := map[string]string{"host-local": hostLocal(), "limpet-ipam": binary}[which]
	return call{plugin: plugin, verb: verb, container: container, netns: "/run/netns/" + container, args: pod(name, container), conf: conf}.run(c.t)
}

// add starts a container, whose address no other container may have.
func (c *changing) add(which, container string) string {
	c.t.Helper()
	a := c.do(which, "ADD", container)
	if a.exit != 0 || len(a.addrs()) != 1 {
		c.t.Fatalf("%s ADD of %s: %s%s", which, container, a.stdout, a.stderr)
	}
	for other, has := range c.had {
		if has[0] == a.addrs()[0] {
			c.t.Fatalf("%s gave %s to %s, which %s has", which, has, container, other)
		}
	}
	c.had[container] = a.addrs()
	return a.addrs()[0].String()
}

func (c *changing) del(which, container string) {
	c.t.Helper()
	for range 2 { // runtimes repeat it
		if a := c.do(which, "DEL", container); a.exit != 0 {
			c.t.Fatalf("%s DEL of %s: %s%s", which, container, a.stdout, a.stderr)
		}
	}
	delete(c.had, container)
}

// files lists the addresses that have a file, as ls does.
func (c *changing) files() []string {
	c.t.Helper()
	names := []string{}
	all, err := os.ReadDir(filepath.Join(hostlocal.DefaultDataDir, "changing"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range all {
		if _, err := netip.ParseAddr(f.Name()); err == nil {
			names = append(names, f.Name())
		}
	}
	return names
}

// attached lists the addresses that limpet-ipam list says are attached.
func (c *changing) attached() []string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), binary, "list", "--network", "changing", "-o", "json").Output()
	if err != nil {
		c.t.Fatalf("limpet-ipam list: %v", err)
	}
	var all []struct {
		State string
		IPs   []string
	}
	if err := json.Unmarshal(out, &all); err != nil {
		c.t.Fatal(err)
	}
	ips := []string{}
	for _, a := range all {
		if a.State == "attached" {
			ips = append(ips, a.IPs...)
		}
	}
	slices.Sort(ips)
	return ips
}

func (c *changing) want(what string, got []string, want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// forkRecord writes a record of host-local's fork, and the file of its address.
func (c *changing) forkRecord(name, addr string) {
	c.t.Helper()
	record := `{"containerId":"` + name + `.0","ifName":"eth0","IPConf":{"address":"` + addr + `/28","gateway":"10.7.0.1"},"duration":10,"releaseTime":"` +
		time.Now().Format(time.RFC3339Nano) + `"}`
	dir := filepath.Join(hostlocal.DefaultDataDir, "reserved", "ns")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(record), 0o600),
		os.WriteFile(filepath.Join(hostlocal.DefaultDataDir, "changing", addr), []byte(name+".0\r\neth0"), 0o600))
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestChangingOverAndBack follows docs/use/host-local.md, section by section.
func TestChangingOverAndBack(t *testing.T) {
	c := &changing{t: t, had: map[string][]netip.Addr{}}
	t.Cleanup(func() { _ = errors.Join(os.RemoveAll(hostlocal.DefaultDataDir), os.RemoveAll(persistence.DefaultDir)) })
	for _, container := range []string{"web-0.1", "web-1.1", "web-2.1"} {
		c.add("host-local", container)
	}
	c.forkRecord("db-0", "10.7.0.9")

	// Changing over.
	if a := c.do("limpet-ipam", "CHECK", "web-0.1"); a.exit != 0 {
		t.Errorf("CHECK of a pod of before: %s", a.stdout)
	}
	if got := c.add("limpet-ipam", "new-0.1"); got != "10.7.0.5" {
		t.Errorf("the first new pod has %s, want what comes after host-local's last", got)
	}
	c.del("limpet-ipam", "web-0.1") // by containerd
	if got := c.add("limpet-ipam", "web-0.2"); got != "10.7.0.2" {
		t.Errorf("the pod whose DEL went to limpet-ipam came back to %s, had 10.7.0.2", got)
	}
	c.del("host-local", "web-1.1") // by CRI-O, or flannel
	if got := c.add("limpet-ipam", "web-1.2"); got == "10.7.0.3" {
		t.Errorf("the pod whose DEL went to host-local came back to %s: the documentation may promise more", got)
	}
	c.del("limpet-ipam", "web-1.2")
	if got := c.add("limpet-ipam", "web-1.3"); got != "10.7.0.6" {
		t.Errorf("at its second rebuild the pod came back to %s, had 10.7.0.6", got)
	}
	if got := c.add("limpet-ipam", "db-0.1"); got != "10.7.0.9" {
		t.Errorf("the fork's pod came back to %s, had 10.7.0.9", got)
	}
	c.want("pods of before that still run", c.files(), "10.7.0.4")

	// Both hand out addresses.
	c.extra = map[string]any{"mirrorHostLocal": true}
	c.add("limpet-ipam", "new-1.1")
	c.want("files", c.files(), slices.Sorted(slices.Values(append(c.attached(), "10.7.0.4")))...)
	for i, which := range []string{"host-local", "limpet-ipam", "host-local"} {
		c.add(which, fmt.Sprintf("both-%d.1", i))
	}

	// Back.
	c.extra = nil
	c.del("host-local", "web-0.2")  // by containerd
	c.del("limpet-ipam", "new-0.1") // by CRI-O, or flannel
	c.wantFull("host-local", "back")

	// And over again: nothing of the first time is in the way.
	if a := c.do("limpet-ipam", "ADD", "late.1"); a.Code != 100 {
		t.Errorf("ADD into a pool that host-local has filled: %s", a.stdout)
	}
	for _, container := range slices.Sorted(maps.Keys(c.had)) {
		c.del("limpet-ipam", container)
	}
	c.want("files of a pool that is empty", c.files())
	c.wantFull("limpet-ipam", "again")
}

// wantFull starts containers until the pool is full, of which no address may be lost.
func (c *changing) wantFull(which, prefix string) {
	c.t.Helper()
	const all = 13
	for i := len(c.had); i < all; i++ {
		c.add(which, fmt.Sprintf("%s-%d.1", prefix, i))
	}
	if a := c.do(which, "ADD", prefix+"-one-too-many.1"); a.exit == 0 {
		c.t.Errorf("%s gave %s, which another container has", which, a.addrs())
	}
}
