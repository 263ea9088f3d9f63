package newcomer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"
	"github.com/limpet-io/limpet/test/monitoring"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// rebuilt has the places of the last rebuild in an answer of kubectl limpet pod.
var rebuilt = regexp.MustCompile(`last rebuild, .*: Kept, (n\d \S+) → (n\d \S+)\n`)

// TestANewcomerKeepsAnAddress runs the lines of docs/operate/install.md and docs/tutorial.md, from the images of a checkout to
// a pod that keeps its address, on nodes with a network of host-local and pods, and nothing of Limpet.
func TestANewcomerKeepsAnAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this takes minutes; make test-all runs it")
	}
	b := up(t)
	network(t, b)
	old := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "default"}, "spec": {"containers": [` +
		`{"name": "main", "image": "cilium/echoserver:latest", "imagePullPolicy": "IfNotPresent"}]}}`
	if _, err := b.KubectlIn(t.Context(), old, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said := run(t, b, commands(t, b.Repo, "docs/operate/install.md", "from-nothing-to-a-kept-address")+"\n"+
		commands(t, b.Repo, "docs/tutorial.md", "keep-a-pod"))
	t.Logf("%.0f s from the images to the end of the tutorial:\n%s", time.Since(began).Seconds(), said)
	if !strings.Contains(said, "\nnode kept: ") || !strings.Contains(said, "\naddress kept: ") {
		t.Error("kubectl limpet test does not say that node and address were kept")
	}
	if kept := rebuilt.FindStringSubmatch(said); kept == nil || kept[1] != kept[2] {
		t.Errorf("kubectl limpet pod does not say that the pod was kept: %q", kept)
	}
	if pod, err := b.Client.CoreV1().Pods("default").Get(t.Context(), "old", metav1.GetOptions{}); err != nil || !bed.Ready(pod) || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod of before is not what it was: %v, %+v", err, pod.Status)
	}
}

// up starts nodes without a network, which have the images that any cluster has.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	repo, archive := "../../..", filepath.Join(t.TempDir(), "images.tar")
	if err := image.Write(archive, []image.Image{
		{Name: "limpet.test/pause:1", Files: []string{filepath.Join(repo, "bin/pause")}},
		{Name: "cilium/echoserver:latest", Files: []string{filepath.Join(repo, "bin/echoserver")}},
	}); err != nil {
		t.Fatal(err)
	}
	b, err := bed.UpWith(t.Context(), "newcomer", repo, t.Logf, func(context.Context, *bed.Bed) error { return nil }, func(c *cluster.Config) {
		c.Images = []string{archive}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	return b
}

// network gives the nodes a bridge with host-local, and routes to each other's pods.
func network(t *testing.T, b *bed.Bed) {
	t.Helper()
	nodes, err := b.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const conf = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`
	for _, n := range nodes.Items {
		script := `printf %s "$0" >/etc/cni/net.d/.new; mv /etc/cni/net.d/.new /etc/cni/net.d/10-pods.conflist`
		for _, other := range nodes.Items {
			if other.Name != n.Name {
				script += "\nip route add " + other.Spec.PodCIDRs[0] + " via " + internalIP(other)
			}
		}
		if _, err := b.Cluster.Exec(t.Context(), n.Name, "sh", "-ec", script, fmt.Sprintf(conf, n.Spec.PodCIDRs[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Cluster.WaitReady(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
}

func internalIP(n corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// commands returns the commands of a section.
func commands(t *testing.T, repo, page, anchor string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, page))
	if err != nil {
		t.Fatal(err)
	}
	return monitoring.Blocks(monitoring.Section(string(text), anchor))[0]
}

// shell returns the environment of a newcomer: kubectl, the cluster, ssh to its nodes, and a make that finds all built.
func shell(t *testing.T, b *bed.Bed) []string {
	t.Helper()
	programs := t.TempDir()
	for name, script := range map[string]string{
		"make": `PATH=${PATH#*:}; exec make -o build "$@"`,
		"ssh": fmt.Sprintf(`node=${1#root@}; shift; cat >%s/stdin
cp %[1]s/stdin "%s/$node/var/stdin"
exec bin/limpet-cluster node --name %s exec "$node" -- sh -c '"$@" </var/stdin' sh "$@"`, programs, filepath.Dir(b.Cluster.Disk("n1")), b.Cluster.Name),
		"kubectl": fmt.Sprintf(`exec %s "$@"`, b.Cluster.Kubectl()),
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "KUBECONFIG="+b.Cluster.Kubeconfig(), "PATH="+programs+":"+os.Getenv("PATH"))
}

// run runs commands in the root of the repository, and ends the test when one fails.
func run(t *testing.T, b *bed.Bed, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-exuo", "pipefail", "-c", commands)
	cmd.Env, cmd.Dir, cmd.WaitDelay = shell(t, b), b.Repo, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}
