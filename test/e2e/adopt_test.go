package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/churn"
)

const foreignConf = "/etc/cni/net.d/05-pods.conflist" // in front of Limpet's own

// foreign is the network of another owner on one node.
type foreign struct {
	node, prefix string
	set          string // the StatefulSet whose pods are on the node
	conf         string // as the owner writes it, in a form of its own
}

var foreigners = []foreign{
	{node: "n2", prefix: "10.245.2.", set: "link", conf: `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "ptp",
  "ipam": {"ranges": [[{"subnet": "10.245.2.0/24"}]], "type": "host-local"}}]}`},
	{node: "n3", prefix: "10.245.3.", set: "guest", conf: `{"cniVersion": "1.0.0",   "name": "pods", "plugins": [
	{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.245.3.0/24"}]]}} ] }
`},
}

// TestAnExistingNetworkIsAdopted gives two nodes networks of another owner, with running pods. The agents are rolled out
// with --network=adopt, and later uninstalled. Other pods are created and deleted all the while.
func TestAnExistingNetworkIsAdopted(t *testing.T) {
	t.Cleanup(func() { backToOwn(t) })
	before := map[string]map[string]corev1.Pod{}
	for _, f := range foreigners {
		writeConf(t, f.node, f.conf)
		apply(t, strings.Replace(set(f.set, 3, retain, "10"), "    spec:\n      termination", "    spec:\n      nodeSelector: {kubernetes.io/hostname: "+f.node+"}\n      termination", 1))
	}
	for _, f := range foreigners {
		before[f.set] = pods(t, f.set, 3)
		f.serves(t, before[f.set])
	}
	agePlugins(t)
	endChurn := startChurn(t)

	t.Run("adopt", func(t *testing.T) {
		kubectl(t, "apply", "-k", filepath.Join(theBed.Repo, "deploy/adopt-network"))
		kubectl(t, "-n", bed.System, "rollout", "status", "daemonset/limpet-agent", "--timeout=90s")
		for _, f := range foreigners {
			awaitConf(t, f.node, "limpet-ipam")
			untouched(t, before[f.set])
			f.rebuilds(t, before[f.set], "-1")
		}
	})
	t.Run("again after the owner's change", func(t *testing.T) {
		for _, f := range foreigners {
			writeConf(t, f.node, f.conf)
			awaitConf(t, f.node, "limpet-ipam")
			f.rebuilds(t, before[f.set], "-2")
			untouched(t, only(before[f.set], f.set+"-0"))
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		running := map[string]map[string]corev1.Pod{}
		for _, f := range foreigners {
			running[f.set] = pods(t, f.set, 3)
		}
		kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-agent")
		uninstallOnForeign(t)
		for _, f := range foreigners {
			awaitConf(t, f.node, "host-local")
			if got := readConf(t, f.node); got != f.conf {
				t.Errorf("the restored file of %s is %q", f.node, got)
			}
		}
		awaitLog(t, "still attached") // what keeps the plugin on the nodes
		for _, f := range foreigners {
			untouched(t, running[f.set])
		}
	})
	endChurn()
	for _, f := range foreigners {
		kubectl(t, "delete", "pod", "-l", "app="+f.set, "--timeout=120s") // by host-local
	}
	for _, f := range foreigners {
		f.serves(t, pods(t, f.set, 3))
		kubectl(t, "scale", "statefulset", f.set, "--replicas=0")
		kubectl(t, "wait", "--for=delete", "pod", "-l", "app="+f.set, "--timeout=120s")
	}
}

// serves fails for each pod that has no address of the network.
func (f foreign) serves(t *testing.T, all map[string]corev1.Pod) {
	t.Helper()
	for name, p := range all {
		if !strings.HasPrefix(p.Status.PodIP, f.prefix) {
			t.Fatalf("%s has %s, want an address of the foreign network %s", name, p.Status.PodIP, f.prefix)
		}
	}
}

// rebuilds deletes one pod, which must keep its address.
func (f foreign) rebuilds(t *testing.T, before map[string]corev1.Pod, ordinal string) {
	t.Helper()
	kubectl(t, "delete", "pod", f.set+ordinal)
	kept(t, only(before, f.set+ordinal), only(pods(t, f.set, 3), f.set+ordinal))
}

// backToOwn makes Limpet the network of all nodes again.
func backToOwn(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-uninstall", "--ignore-not-found")
	for _, f := range foreigners {
		kubectl(t, "label", "node", f.node, foreignLabel+"-")
		if _, err := theBed.Cluster.Exec(ctx, f.node, "rm", "-f", foreignConf); err != nil {
			t.Error(err)
		}
	}
	kubectl(t, "apply", "-k", filepath.Join(theBed.Repo, "deploy/own-network"))
	if err := theBed.Cluster.WaitReady(ctx, 3*time.Minute); err != nil {
		t.Error(err)
	}
	if err := theBed.AwaitLimpet(ctx); err != nil {
		t.Error(err)
	}
	for _, f := range foreigners {
		f.forget(ctx, t)
		kubectl(t, "delete", "pod", "-l", "app=probe", "--field-selector=spec.nodeName="+f.node) // it may be in the other network
	}
	kubectl(t, "rollout", "status", "daemonset/probe", "--timeout=120s")
}

// forget removes what the network has left on its node.
func (f foreign) forget(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := theBed.Cluster.Exec(ctx, f.node, "sh", "-c", "ip link delete cni0; rm -rf /var/lib/cni/networks/pods"); err != nil {
		t.Error(err)
	}
	held, err := heldOn(ctx, f.node)
	if err != nil {
		t.Error(err)
	}
	for _, h := range held { // host-local got their DEL; the agent would end them in five minutes
		if h.Pod != "" && len(h.IPs) > 0 && strings.HasPrefix(h.IPs[0], f.prefix) {
			if _, err := theBed.Cluster.Exec(ctx, f.node, tool, "release", h.Namespace+"/"+h.Pod); err != nil {
				t.Error(err)
			}
		}
	}
}

// writeConf replaces the network configuration of a node in one step.
func writeConf(t *testing.T, node, text string) {
	t.Helper()
	if _, err := theBed.Cluster.Exec(t.Context(), node, "sh", "-ec", `printf %s "$0" >`+foreignConf+`.new; mv `+foreignConf+`.new `+foreignConf, text); err != nil {
		t.Fatal(err)
	}
}

func readConf(t *testing.T, node string) string {
	t.Helper()
	out, err := theBed.Cluster.Exec(t.Context(), node, "cat", foreignConf)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func awaitConf(t *testing.T, node, ipam string) {
	t.Helper()
	await(t, time.Minute, "the network configuration to name "+ipam, func(context.Context) (bool, string) {
		text := readConf(t, node) //nolint:contextcheck // it has the context of the test
		return strings.Contains(text, `"`+ipam+`"`), text
	})
}

// untouched fails for each pod that is not the same one, without a restart.
func untouched(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	for name, b := range before {
		p, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.UID != b.UID || p.Status.PodIP != b.Status.PodIP || p.Status.ContainerStatuses[0].RestartCount != b.Status.ContainerStatuses[0].RestartCount || !bed.Ready(p) {
			t.Errorf("%s was %s with %s, is %s with %s, Ready %t", name, b.UID, ips(b), p.UID, ips(*p), bed.Ready(p))
		}
		if _, err := theBed.Cluster.Exec(t.Context(), p.Spec.NodeName, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+p.Status.PodIP+"/8080"); err != nil {
			t.Errorf("connect to %s: %v", name, err)
		}
	}
}

func only(all map[string]corev1.Pod, name string) map[string]corev1.Pod {
	return map[string]corev1.Pod{name: all[name]}
}

// agePlugins gives each node a plugin with other bytes, which a new agent replaces while pods start and end.
func agePlugins(t *testing.T) {
	t.Helper()
	for _, node := range theBed.Cluster.Nodes() {
		if _, err := theBed.Cluster.Exec(t.Context(), node, "sh", "-ec", "cd /opt/cni/bin; cp -p limpet-ipam .older; echo older >>.older; mv .older limpet-ipam"); err != nil {
			t.Fatal(err)
		}
	}
}

// foreignLabel is on the nodes with a foreign network.
const foreignLabel = "foreign-network"

// uninstallOnForeign applies deploy/uninstall for the nodes with a foreign network.
func uninstallOnForeign(t *testing.T) {
	t.Helper()
	for _, f := range foreigners {
		kubectl(t, "label", "node", f.node, foreignLabel+"=yes")
	}
	manifest, err := theBed.Kubectl(t.Context(), "kustomize", filepath.Join(theBed.Repo, "deploy/uninstall"))
	if err != nil {
		t.Fatal(err)
	}
	manifest = strings.Replace(manifest, "hostNetwork: true", "hostNetwork: true\n      nodeSelector: {"+foreignLabel+": \"yes\"}", 1)
	if _, err := theBed.KubectlIn(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func awaitLog(t *testing.T, text string) {
	t.Helper()
	await(t, time.Minute, "the uninstallation to say "+text, func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "-n", bed.System, "logs", "-l", "app.kubernetes.io/name=limpet-uninstall")
		return err == nil && strings.Contains(out, text), fmt.Sprint(out, err)
	})
}

// startChurn creates and deletes a pod on each node, one after the other, until the function that it returns is called.
// Each pod must have started and ended, without a failed sandbox.
func startChurn(t *testing.T) (end func()) {
	t.Helper()
	const prefix = "churn"
	c := churn.Start(t.Context(), theBed, "default", prefix)
	t.Cleanup(func() { c.Stop() })
	return func() {
		pods, errs := c.Stop()
		for _, err := range errs {
			t.Error(err)
		}
		if pods < 6 {
			t.Errorf("only %d pods were created and deleted", pods)
		}
		failed, slow, err := churn.FailedSandboxes(t.Context(), theBed, "default", prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			t.Error(f)
		}
		t.Logf("%d pods were created and deleted; slow kernel: %q", pods, slow)
	}
}
