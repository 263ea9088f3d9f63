// Package multus_test attaches pods to secondary networks by Multus, and rebuilds them.
package multus_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// wire is a macvlan network on the interface by which the node reaches the others.
const wire = `{"cniVersion":"1.0.0","name":"wire","type":"macvlan","master":"eth0","mode":"bridge","ipam":{"type":"limpet-ipam",
  "ranges":[[{"subnet":"192.168.50.0/24","rangeStart":"192.168.50.%[1]d0","rangeEnd":"192.168.50.%[1]d9"}]]}}`

// TestSecondaryNetworksKeepTheirAddresses rebuilds pods with a macvlan and a bridge network beside that of the cluster.
// Each interface keeps its addresses. In their first life no agent runs, so that Multus alone brings what the pods ask
// for, by cni-args and to the secondary networks.
func TestSecondaryNetworksKeepTheirAddresses(t *testing.T) {
	b := up(t)
	install(t, b)
	r := &rebuilds{bed: b}
	agents(t, b, `{"no":"where"}`)
	apply(t, b, "pods.yaml")
	r.awaitFirst(t)
	apply(t, b, "own.yaml")
	kubectl(t, b, "rollout", "status", "statefulset/own", "--timeout=120s")
	r.step(t, "first life, without an agent", secondary, func() { kubectl(t, b, "delete", "pod", "-l", "app=many") })
	agents(t, b, "null")
	if err := b.AwaitLimpet(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitSeen(t)
	r.step(t, "delete", all, func() { kubectl(t, b, "delete", "pod", "-l", "app=many") })
	r.step(t, "rollout", all, func() { kubectl(t, b, "rollout", "restart", "statefulset", "many") })
	r.ownerReturns(t)
	r.claimReturns(t)
	node := r.fullest()
	r.stepOn(t, "drain and return", node, func() {
		kubectl(t, b, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
		kubectl(t, b, "uncordon", node)
	})
	r.stepOn(t, "restart of the node", node, func() {
		if err := b.Cluster.PowerOff(node); err != nil {
			t.Fatal(err)
		}
		if err := b.Cluster.PowerOn(node); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("kept %d/%d secondary addresses, and those of eth0 %d/%d times", r.kept[true], r.of[true], r.kept[false], r.of[false])
}

// up starts a cluster whose disks hold the image of Multus.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	dirs, err := cluster.Build(t.Context(), cluster.Config{Progress: t.Logf}, "multus")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "multus.tar")
	files := []string{filepath.Join(dirs["multus"], "thin-entrypoint"), filepath.Join(dirs["multus"], "multus")}
	if err := image.Write(archive, []image.Image{{Name: "multus.test/multus:1", Files: files}}); err != nil {
		t.Fatal(err)
	}
	b, err := bed.Up(t.Context(), "multus", "../../..", t.Logf, func(c *cluster.Config) { c.Images = append(c.Images, archive) })
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	return b
}

// install puts Multus in front of the network of the cluster, on each node.
func install(t *testing.T, b *bed.Bed) {
	t.Helper()
	for i, node := range b.Cluster.Nodes() {
		write := `mkdir -p /etc/cni/multus/net.d && echo "$0" >/etc/cni/multus/net.d/wire.conf`
		if _, err := b.Cluster.Exec(t.Context(), node, "sh", "-ec", write, fmt.Sprintf(wire, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, b, "multus.yaml")
	kubectl(t, b, "wait", "--for=condition=established", "crd/network-attachment-definitions.k8s.cni.cncf.io", "--timeout=60s")
	for _, node := range b.Cluster.Nodes() {
		await(t, "the configuration of Multus on "+node, func(ctx context.Context) (bool, string) {
			out, err := b.Cluster.Exec(ctx, node, "sh", "-ec", "ls /etc/cni/net.d/00-multus.conf*")
			return err == nil, fmt.Sprint(string(out), err)
		})
	}
}

// agents sets the node selector of the agents, and waits until as many run as nodes have it.
func agents(t *testing.T, b *bed.Bed, selector string) {
	t.Helper()
	kubectl(t, b, "-n", bed.System, "patch", "daemonset", "limpet-agent", "-p", `{"spec":{"template":{"spec":{"nodeSelector":`+selector+`}}}}`)
	kubectl(t, b, "-n", bed.System, "rollout", "status", "daemonset/limpet-agent", "--timeout=120s")
	if selector != "null" {
		kubectl(t, b, "-n", bed.System, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=limpet-agent", "--timeout=60s")
	}
}

func apply(t *testing.T, b *bed.Bed, manifest string) {
	t.Helper()
	kubectl(t, b, "apply", "-f", filepath.Join("testdata", manifest))
}

func kubectl(t *testing.T, b *bed.Bed, args ...string) {
	t.Helper()
	if out, err := b.Kubectl(t.Context(), args...); err != nil {
		t.Fatal(err, out)
	}
}

func await(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	if err := bed.Await(t.Context(), 4*time.Minute, what, ask); err != nil {
		t.Fatal(err)
	}
}
