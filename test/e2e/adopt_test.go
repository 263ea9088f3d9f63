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
	link         string // the interface that pods share, which the network does not make
	apart        bool   // the node cannot talk to its own pods
}

var foreigners = []foreign{
	{node: "n1", prefix: "10.245.1.", set: "twin", link: "trunk", apart: true, conf: `{"cniVersion": "1.0.0", "name": "pods",
	"plugins": [{"type": "macvlan", "master": "trunk", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.245.1.0/24"}]]}}]}
`},
	{node: "n2", prefix: "10.245.2.", set: "link", conf: `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "ptp",
  "ipam": {"ranges": [[{"subnet": "10.245.2.0/24"}]], "type": "host-local"}}]}`},
	{node: "n3", prefix: "10.245.3.", set: "guest", conf: `{"cniVersion": "1.0.0",   "name": "pods", "plugins": [
	{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.245.3.0/24"}]]}} ] }
`},
}

// TestAnExistingNetworkIsAdopted gives the nodes networks of another owner, with running pods and an open connection
// between two of them. The agents are rolled out with --network=adopt, and later uninstalled. Other pods are created and
// deleted all the while. No network is one of ipvlan: the kernels of the tests have none.
func TestAnExistingNetworkIsAdopted(t *testing.T) {
	long(t)
	t.Cleanup(func() { backToOwn(t) })
	before, callers := map[string]map[string]corev1.Pod{}, map[string]corev1.Pod{}
	for _, f := range foreigners {
		f.cable(t)
		writeConf(t, f.node, f.conf)
		apply(t, strings.Replace(set(f.set, 3, retain, "10"), "    spec:\n      termination", "    spec:\n      nodeSelector: {kubernetes.io/hostname: "+f.node+"}\n      termination", 1))
	}
	for _, f := range foreigners {
		before[f.set] = pods(t, f.set, 3)
		callers[f.set] = podOn(t, f.caller(), f.node, "hold", before[f.set][f.set+"-0"].Status.PodIP+":8080")
		f.serves(t, before[f.set])
		f.serves(t, only(callers, f.set))
	}
	agePlugins(t)
	endChurn := startChurn(t)

	t.Run("adopt", func(t *testing.T) {
		kubectl(t, "apply", "-k", filepath.Join(theBed.Repo, "deploy/adopt-network"))
		kubectl(t, "-n", bed.System, "rollout", "status", "daemonset/limpet-agent", "--timeout=90s")
		for _, f := range foreigners {
			awaitConf(t, f.node, "limpet-ipam")
			f.untouched(t, before[f.set])
			f.rebuilds(t, before[f.set], "-1")
			unnoticed(t, before[f.set][f.set+"-0"], callers[f.set])
		}
	})
	t.Run("again after the owner's change", func(t *testing.T) {
		for _, f := range foreigners {
			writeConf(t, f.node, f.conf)
			awaitConf(t, f.node, "limpet-ipam")
			f.rebuilds(t, before[f.set], "-2")
			f.untouched(t, only(before[f.set], f.set+"-0"))
			unnoticed(t, before[f.set][f.set+"-0"], callers[f.set])
		}
	})
	t.Run("uninstall", func(t *testing.T) {
		running := map[string]map[string]corev1.Pod{}
		for _, f := range foreigners {
			running[f.set] = pods(t, f.set, 3)
		}
		kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-agent")
		kubectl(t, "apply", "-k", filepath.Join(theBed.Repo, "deploy/uninstall"))
		for _, f := range foreigners {
			awaitConf(t, f.node, "host-local")
			if got := readConf(t, f.node); got != f.conf {
				t.Errorf("the restored file of %s is %q", f.node, got)
			}
		}
		awaitLog(t, "still attached") // what keeps the plugin on the nodes
		for _, f := range foreigners {
			f.untouched(t, running[f.set])
			unnoticed(t, before[f.set][f.set+"-0"], callers[f.set])
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

// cable makes the interface that the pods share. Its other end leads to nowhere.
func (f foreign) cable(t *testing.T) {
	t.Helper()
	if f.link == "" {
		return
	}
	if _, err := theBed.Cluster.Exec(t.Context(), f.node, "sh", "-ec", `ip link add "$0" type veth peer name nowhere
		ip link set "$0" up; ip link set nowhere up`, f.link); err != nil {
		t.Fatal(err)
	}
}

// caller is the name of a pod of the network that has an open connection to the first pod of the StatefulSet.
func (f foreign) caller() string {
	return f.set + "-caller"
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
	if _, err := theBed.Cluster.Exec(ctx, f.node, "sh", "-c", "ip link delete cni0; ip link delete trunk; rm -rf /var/lib/cni/networks/pods"); err != nil {
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
func (f foreign) untouched(t *testing.T, before map[string]corev1.Pod) {
	t.Helper()
	for name, b := range before {
		p, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.UID != b.UID || p.Status.PodIP != b.Status.PodIP || p.Status.ContainerStatuses[0].RestartCount != b.Status.ContainerStatuses[0].RestartCount || !bed.Ready(p) {
			t.Errorf("%s was %s with %s, is %s with %s, Ready %t", name, b.UID, ips(b), p.UID, ips(*p), bed.Ready(p))
		}
		if err := f.reach(t, p.Status.PodIP); err != nil {
			t.Errorf("connect to %s: %v", name, err)
		}
	}
}

// reach connects to a pod, from its node or from another pod there.
func (f foreign) reach(t *testing.T, ip string) error {
	t.Helper()
	if f.apart {
		_, err := theBed.Kubectl(t.Context(), "exec", f.caller(), "--", "/echoserver", "get", "http://"+ip+":8080/")
		return err
	}
	_, err := theBed.Cluster.Exec(t.Context(), f.node, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+ip+"/8080")
	return err
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
