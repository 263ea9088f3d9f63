package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/churn"
	"github.com/limpet-io/limpet/test/e2e/holders"
)

// TestNoTwoSandboxesHoldOneAddressAfterAForceDelete looks into the sandboxes of the node. A
// force-deleted pod is gone from the API at once, while its sandbox still has the address:
// the rebuilt pod must wait until the sandbox has ended. It waits inside its first ADD, because the
// kubelet tries only much later again after a failed one.
func TestNoTwoSandboxesHoldOneAddressAfterAForceDelete(t *testing.T) {
	apply(t, set("abrupt", 1, retain, "10"))
	before := pods(t, "abrupt", 1)
	node := before["abrupt-0"].Spec.NodeName
	stop := fmt.Sprintf("/run/holders-%d", time.Now().UnixNano())
	printed := make(chan string, 1)
	go func() {
		out, err := theBed.Cluster.Exec(context.WithoutCancel(t.Context()), node, "timeout", "600", "sh", "-c", holders.Script, stop)
		if err != nil {
			out = fmt.Append(out, err)
		}
		printed <- string(out)
	}()
	for range 3 {
		kubectl(t, "delete", "pod", "abrupt-0", "--force", "--grace-period=0")
		after := pods(t, "abrupt", 1)
		kept(t, before, after)
		if failed := failedSandboxes(t, after["abrupt-0"]); failed != "" {
			t.Errorf("the first sandbox failed: %s", failed)
		}
		before = after
	}
	if _, err := theBed.Cluster.Exec(t.Context(), node, "touch", stop); err != nil {
		t.Fatal(err)
	}
	seen := holders.Parse(<-printed)
	held := slices.ContainsFunc(seen, func(s holders.Sighting) bool {
		return slices.Contains(s.Addrs, netip.MustParseAddr(before["abrupt-0"].Status.PodIP))
	})
	if !held {
		t.Fatalf("%d looks into sandboxes of %s never showed %s", len(seen), node, before["abrupt-0"].Status.PodIP)
	}
	if twice := holders.Twice(seen); len(twice) > 0 {
		t.Errorf("one address in two sandboxes: %v", twice)
	}
}

// failedSandboxes returns what the kubelet said of sandboxes of a pod that it could not create.
func failedSandboxes(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	out, err := theBed.Kubectl(t.Context(), "get", "events", "--field-selector=reason=FailedCreatePodSandBox,involvedObject.uid="+string(pod.UID),
		"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	failed := ""
	for line := range strings.Lines(out) {
		if !strings.Contains(line, churn.Slow) {
			failed += line
		}
	}
	return failed
}

// TestARangeIsHandedOutAroundAReservedAddress attaches other pods until every address of the
// range was handed out twice. The reserved address is never handed out.
func TestARangeIsHandedOutAroundAReservedAddress(t *testing.T) {
	apply(t, set("away", 1, retain, "10"))
	before := pods(t, "away", 1)
	home := before["away-0"]
	scaleToZero(t, "away")
	offered := map[string]int{}
	for line := range strings.Lines(addAndDelete(t, home.Spec.NodeName, 520)) {
		addr, err := netip.ParsePrefix(strings.TrimSpace(line))
		if err == nil && addr.Addr().Is4() {
			offered[addr.Addr().String()]++
		}
	}
	if len(offered) < 200 {
		t.Errorf("other pods got %d addresses, want all of the range", len(offered))
	}
	if n := offered[home.Status.PodIP]; n > 0 {
		t.Errorf("%s is reserved and was handed out %d times", home.Status.PodIP, n)
	}
	kubectl(t, "scale", "statefulset", "away", "--replicas=1")
	kept(t, before, pods(t, "away", 1))
}

// addAndDelete runs ADD and DEL for count attachments one after the other, with the network
// configuration of the node. It returns the addresses, one per line.
func addAndDelete(t *testing.T, node string, count int) string {
	t.Helper()
	conflist, err := theBed.Cluster.Exec(t.Context(), node, "cat", "/etc/cni/net.d/10-limpet.conflist")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal(conflist, &list); err != nil {
		t.Fatal(err)
	}
	list.Plugins[0]["cniVersion"], list.Plugins[0]["name"] = list.CNIVersion, list.Name
	config, err := json.Marshal(list.Plugins[0])
	if err != nil {
		t.Fatal(err)
	}
	out, err := theBed.Cluster.Exec(t.Context(), node, "sh", "-ec", `
		export CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin CNI_NETNS=/run/netns/none
		for i in $(seq `+fmt.Sprint(count)+`); do
		  export CNI_CONTAINERID=other-$i
		  echo "$0" | CNI_COMMAND=ADD /opt/cni/bin/limpet-ipam
		  echo "$0" | CNI_COMMAND=DEL /opt/cni/bin/limpet-ipam
		done | sed -n 's/^ *"address": "\(.*\)".*/\1/p'`, string(config))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAReservationSurvivesAPowerCycle powers a node off and on. The pod gets its reserved
// address back.
func TestAReservationSurvivesAPowerCycle(t *testing.T) {
	apply(t, set("dark", 1, retain, "10"))
	before := pods(t, "dark", 1)
	node := before["dark-0"].Spec.NodeName
	scaleToZero(t, "dark")
	if err := theBed.Cluster.PowerOff(node); err != nil {
		t.Fatal(err)
	}
	if err := theBed.Cluster.PowerOn(node); err != nil {
		t.Fatal(err)
	}
	if err := theBed.Cluster.WaitReady(t.Context(), 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "scale", "statefulset", "dark", "--replicas=1")
	kept(t, before, pods(t, "dark", 1))
}

// TestTheAgentCanBeDeletedAndInstalledAgain deletes the agent's DaemonSet and all
// IPReservations. Pods keep their addresses, and a new agent creates the IPReservations again.
func TestTheAgentCanBeDeletedAndInstalledAgain(t *testing.T) {
	apply(t, set("tended", 1, retain, "10"))
	before := pods(t, "tended", 1)
	kubectl(t, "-n", bed.System, "delete", "daemonset", "limpet-agent")
	install := func(ctx context.Context) error {
		if _, err := theBed.Kubectl(ctx, "apply", "-k", theBed.Repo+"/deploy/own-network"); err != nil {
			return err
		}
		return theBed.AwaitLimpet(ctx)
	}
	t.Cleanup(func() {
		if err := install(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, "delete", "pod", "tended-0")
	kept(t, before, pods(t, "tended", 1))
	kubectl(t, "delete", "ipreservations", "--all")
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, time.Minute, "the address to be shown again", func(ctx context.Context) (bool, string) {
		out, err := shownState(ctx, "tended-0")
		return err == nil && out == "Attached", fmt.Sprint(out, err)
	})
}

// scaleToZero scales a StatefulSet to zero. It waits until the pods are gone and the address of
// the first one is reserved.
func scaleToZero(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "scale", "statefulset", name, "--replicas=0")
	await(t, time.Minute, name+" to be gone and its address reserved", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil || len(list.Items) > 0 {
			return false, fmt.Sprint("pods are left ", err)
		}
		out, err := shownState(ctx, name+"-0")
		return err == nil && out == "Reserved", fmt.Sprint(out, err)
	})
}
