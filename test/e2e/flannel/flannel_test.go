// Package flannel_test changes clusters of flannel over to limpet-ipam, and back, with running pods.
package flannel_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// TestFlannelChangesOverAndBack makes the changes of docs/operate/install.md for flannel, with both of its backends:
// n1 and n2 are a network of host-gw, n3 and n4 are one of vxlan. Pods that run must not notice, and no address is
// given twice, though the cursor of each plugin is set back to addresses that are in use. Between the changes, addresses follow;
// in the end also from a node that is off.
func TestFlannelChangesOverAndBack(t *testing.T) {
	b := up(t)
	networks := []*network{
		{bed: b, backend: "host-gw", namespace: "kube-flannel", nodes: []string{"n1", "n2"}},
		{bed: b, backend: "vxlan", namespace: "kube-flannel-vxlan", nodes: []string{"n3", "n4"}},
	}
	for _, n := range networks {
		n.install(t)
	}
	if err := b.Cluster.WaitReady(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	duplicates := b.WatchDuplicates(t.Context())
	each(t, "pods with addresses of host-local", networks, (*network).start)
	kubectl(t, b, "apply", "-k", filepath.Join(b.Repo, "deploy/flannel"))
	if err := b.AwaitLimpet(t.Context()); err != nil {
		t.Fatal(err)
	}
	each(t, "change over", networks, (*network).changeOver)
	each(t, "addresses return", networks, (*network).addressesReturn)
	each(t, "addresses follow", networks, (*network).follow)
	each(t, "change back", networks, (*network).changeBack)
	each(t, "nothing is left", networks, (*network).end)
	each(t, "a node is dead", networks, (*network).survive)
	if found := duplicates.Stop(); len(found) > 0 {
		t.Errorf("two running pods had the same address: %v", found)
	}
}

// each takes a step in all networks at once. The test ends when a step fails.
func each(t *testing.T, name string, networks []*network, step func(*network, *testing.T)) {
	t.Helper()
	began := time.Now()
	if !t.Run(name, func(t *testing.T) {
		for _, n := range networks {
			t.Run(n.backend, func(t *testing.T) {
				t.Parallel()
				step(n, t)
			})
		}
	}) {
		t.FailNow()
	}
	t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
}

// up starts a cluster of four nodes whose disks hold the image of flannel.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	dirs, err := cluster.Build(t.Context(), cluster.Config{Progress: t.Logf}, "flannel", "flannelplugin")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "flannel.tar")
	files := []string{filepath.Join(dirs["flannel"], "flanneld"), filepath.Join(dirs["flannel"], "install-conf"), filepath.Join(dirs["flannelplugin"], "flannel")}
	if err := image.Write(archive, []image.Image{{Name: "flannel.test/flannel:1", Files: files}}); err != nil {
		t.Fatal(err)
	}
	b, err := bed.UpWith(t.Context(), "flannel", "../../..", t.Logf, func(context.Context, *bed.Bed) error { return nil }, func(c *cluster.Config) {
		c.Nodes, c.Images = 4, append(c.Images, archive)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	t.Cleanup(func() {
		if t.Failed() {
			logs, err := b.Kubectl(context.WithoutCancel(t.Context()), "logs", "-n", "kube-flannel", "-l", "app=flannel", "-c", "kube-flannel", "--tail=20", "--prefix")
			fmt.Fprintln(os.Stderr, "$ kubectl logs -l app=flannel", err, logs)
		}
	})
	return b
}

func kubectl(t *testing.T, b *bed.Bed, args ...string) string {
	t.Helper()
	out, err := b.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func await(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	if err := bed.Await(t.Context(), 2*time.Minute, what, ask); err != nil {
		t.Fatal(err)
	}
}
