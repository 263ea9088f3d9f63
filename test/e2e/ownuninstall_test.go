package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// TestTheOwnNetworkIsUninstalled takes the own network off nodes whose pods run, while a connection between nodes is open.
// Pods end in each step: first where there is no other network yet, and then beside it.
func TestTheOwnNetworkIsUninstalled(t *testing.T) {
	long(t)
	t.Cleanup(func() { backToOwn(t) })
	nodes := theBed.Cluster.Nodes()
	callee := podOn(t, "callee", nodes[1])
	caller := podOn(t, "caller", nodes[2], "hold", callee.Status.PodIP+":8080")
	early := podOn(t, "early", nodes[1])
	kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-agent")
	kubectl(t, "apply", "-k", filepath.Join(theBed.Repo, "deploy/uninstall"))
	awaitLog(t, "so does the network configuration")
	unnoticed(t, callee, caller)
	kubectl(t, "delete", "pod", early.Name, "--timeout=60s")
	reachable(t, callee)

	for _, f := range foreigners {
		f.cable(t)
		writeConf(t, f.node, f.conf)
	}
	for _, node := range nodes {
		await(t, time.Minute, "the network configuration of "+node+" to go", func(ctx context.Context) (bool, string) {
			out, err := theBed.Cluster.Exec(ctx, node, "ls", "/etc/cni/net.d")
			return err == nil && !strings.Contains(string(out), "10-limpet.conflist"), fmt.Sprint(string(out), err)
		})
	}
	awaitLog(t, "still attached")
	unnoticed(t, callee, caller)
	reachable(t, callee)
	kubectl(t, "delete", "pod", callee.Name, caller.Name, "--timeout=60s")
	kubectl(t, "delete", "pod", "-l", "app=probe", "--timeout=120s")
	kubectl(t, "-n", bed.System, "scale", "deployment", "limpet-controller", "--replicas=0") // the other network has no way to the API server
	kubectl(t, "-n", bed.System, "rollout", "status", "daemonset/limpet-uninstall", "--timeout=120s")
	for _, node := range nodes {
		if out, err := theBed.Cluster.Exec(t.Context(), node, "ip", "route", "show", "proto", "76"); err != nil || len(out) == 0 {
			t.Errorf("%s has no routes while pods of other nodes may run: %v", node, err)
		}
	}
	kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-uninstall", "--timeout=60s")
	for _, node := range nodes {
		await(t, time.Minute, "nothing to be left on "+node, func(ctx context.Context) (bool, string) {
			out, err := theBed.Cluster.Exec(ctx, node, "sh", "-c", "ip route show proto 76; ip -6 route show proto 76; ls /opt/cni/bin | grep limpet; true")
			return err == nil && len(out) == 0, fmt.Sprint(string(out), err)
		})
	}
}

// reachable connects to a pod from another node.
func reachable(t *testing.T, p corev1.Pod) {
	t.Helper()
	if _, err := theBed.Cluster.Exec(t.Context(), theBed.Cluster.Nodes()[0], "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+p.Status.PodIP+"/8080"); err != nil {
		t.Errorf("connect to %s: %v", p.Name, err)
	}
}
