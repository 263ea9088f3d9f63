package e2e_test

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// The ranges of the test. The first one has one address for pods.
var (
	insteadRange = netip.MustParsePrefix("10.200.1.0/30")
	furtherRange = netip.MustParsePrefix("10.200.2.0/24")
)

// TestSettingsReachRunningNodes gives the nodes of a running cluster an MTU and ranges, and takes them away again. Pods
// that run, and their connection, must not notice.
func TestSettingsReachRunningNodes(t *testing.T) {
	home, away := theBed.Cluster.Nodes()[0], theBed.Cluster.Nodes()[1]
	callee := podOn(t, "callee", home)
	caller := podOn(t, "caller", away, "hold", callee.Status.PodIP+":8080")
	t.Cleanup(func() { withoutSettings(t) })

	refusedSettings(t, "{ranges: [{node: "+home+", cidr: 10.200.1.1/24}]}", "spec.ranges[0].cidr", "Remedy")
	changeSettings(t, home, 1400, "Instead", "Further")
	await(t, time.Minute, "the NodeNetwork to be applied", func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "nodenetwork", "limpet", "-o",
			"jsonpath={.metadata.generation} {.status.observedGeneration} {.status.nodes} {.status.applied} {.status.conditions[0].status}")
		return err == nil && out == "1 1 3 3 True", fmt.Sprint(out, err)
	})
	one, two := podOn(t, "one", home), podOn(t, "two", home)
	of := map[netip.Prefix]int{}
	for _, p := range []corev1.Pod{one, two} {
		ip := netip.MustParseAddr(p.Status.PodIP)
		for _, r := range []netip.Prefix{insteadRange, furtherRange} {
			if r.Contains(ip) {
				of[r]++
			}
		}
		if mtu := mtuOf(t, p); mtu != 1400 {
			t.Errorf("the MTU of %s is %d, want 1400", p.Name, mtu)
		}
		answers(t, p)
	}
	if of[insteadRange] != 1 || of[furtherRange] != 1 {
		t.Errorf("pods have %s and %s, want one of %s and one of %s", one.Status.PodIP, two.Status.PodIP, insteadRange, furtherRange)
	}
	if mtu := mtuOf(t, callee); mtu == 1400 {
		t.Error("the MTU of a running pod changed")
	}
	unnoticed(t, callee, caller)

	changeSettings(t, home, 9000, "Instead", "Further")
	for _, node := range theBed.Cluster.Nodes() {
		configured(t, node, "False MTUTooLarge 2", "Remedy")
	}
	if out, err := theBed.Kubectl(t.Context(), "delete", "nodenetwork", "limpet"); err == nil || !strings.Contains(err.Error(), "Remedy: set use of all ranges to Retired") {
		t.Errorf("delete ranges in use: %s, %v, want it refused", out, err)
	}
	refusedSettings(t, "{mtu: 1400}", "only after its use was Retired")

	changeSettings(t, home, 1400, "Retired", "Retired")
	configured(t, home, "True Applied 3", "")
	configured(t, away, "True Applied 3", "")
	answers(t, one) // routes stay as long as the range is there
	answers(t, two)
	kubectl(t, "delete", "pod", "one", "two", "--timeout=60s")
	three := podOn(t, "three", home)
	if ip := netip.MustParseAddr(three.Status.PodIP); insteadRange.Contains(ip) || furtherRange.Contains(ip) {
		t.Errorf("a new pod has %s of a retired range", ip)
	}
	answers(t, three)
	withoutSettings(t)
	unnoticed(t, callee, caller)
}

// changeSettings applies a NodeNetwork with an MTU, and with two ranges of a node.
func changeSettings(t *testing.T, node string, mtu int, use ...string) {
	t.Helper()
	spec := fmt.Sprintf("{mtu: %[1]d, ranges: [{node: %[2]s, cidr: %[3]s, use: %[4]s}, {node: %[2]s, cidr: %[5]s, use: %[6]s}]}", mtu, node, insteadRange, use[0], furtherRange, use[1])
	if _, err := applySettings(context.WithoutCancel(t.Context()), spec); err != nil {
		t.Error(err)
	}
}

func applySettings(ctx context.Context, spec string) (string, error) {
	return theBed.KubectlIn(ctx, "apiVersion: limpet.dev/v1alpha1\nkind: NodeNetwork\nmetadata: {name: limpet}\nspec: "+spec+"\n", "apply", "-f", "-")
}

// refusedSettings applies what the API server must refuse, with words.
func refusedSettings(t *testing.T, spec string, words ...string) {
	t.Helper()
	_, err := applySettings(t.Context(), spec)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want it refused with %q", spec, err, word)
		}
	}
}

// withoutSettings takes all settings away, then the object, and waits until the nodes tell nothing of them. Retired
// ranges may be removed at once: no pod has an address of them when the test ends.
func withoutSettings(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	if _, err := theBed.Kubectl(ctx, "get", "nodenetwork", "limpet"); err == nil {
		if t.Failed() { // the ranges may be in use
			changeSettings(t, theBed.Cluster.Nodes()[0], 1400, "Retired", "Retired")
		}
		if _, err := applySettings(ctx, "{}"); err != nil {
			t.Error(err)
		}
		for _, node := range theBed.Cluster.Nodes() {
			configured(t, node, "True Applied", "")
		}
		kubectl(t, "delete", "nodenetwork", "limpet", "--timeout=60s")
	}
	for _, node := range theBed.Cluster.Nodes() {
		configured(t, node, "", "")
	}
}

// configured waits until a node tells how it took the settings: status, reason and generation.
func configured(t *testing.T, node, want, word string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := bed.Await(ctx, time.Minute, node+" to tell "+strconv.Quote(want), func(ctx context.Context) (bool, string) {
		out, err := theBed.Kubectl(ctx, "get", "nodeippool", node+".limpet", "-o",
			"jsonpath={range .status.conditions[?(@.type=='Configured')]}{.status} {.reason} {.observedGeneration} {.message}{end}")
		if want == "" {
			return out == "" && (err == nil || strings.Contains(err.Error(), "not found")), fmt.Sprint(out, err)
		}
		return err == nil && strings.HasPrefix(out, want) && strings.Contains(out, word), fmt.Sprint(out, err)
	})
	if err != nil {
		t.Error(err)
	}
}

// podOn creates a pod on a node and returns it when it is Ready. The pod goes when the test ends.
func podOn(t *testing.T, name, node string, args ...string) corev1.Pod {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  nodeName: %s\n  terminationGracePeriodSeconds: 1\n"+
		"  containers: [{name: main, image: \"cilium/echoserver:latest\", imagePullPolicy: IfNotPresent, args: [%s]}]\n", name, node, strings.Join(quoted(args), ", ")))
	var found corev1.Pod
	await(t, time.Minute, name+" to be Ready", func(ctx context.Context) (bool, string) {
		p, err := theBed.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		found = *p
		return bed.Ready(p), string(p.Status.Phase)
	})
	return found
}

func quoted(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strconv.Quote(text)
	}
	return all
}

// mtuOf returns the MTU of the node's end of a pod's interface, which is that of the pod's end.
func mtuOf(t *testing.T, p corev1.Pod) int {
	t.Helper()
	route, err := theBed.Cluster.Exec(t.Context(), p.Spec.NodeName, "ip", "-o", "route", "get", p.Status.PodIP)
	if err != nil {
		t.Fatal(err)
	}
	_, dev, _ := strings.Cut(string(route), " dev ")
	dev, _, _ = strings.Cut(dev, " ")
	out, err := theBed.Cluster.Exec(t.Context(), p.Spec.NodeName, "cat", "/sys/class/net/"+dev+"/mtu")
	mtu, parseErr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || parseErr != nil {
		t.Fatalf("MTU of %s, by %q: %v, %v", p.Name, route, err, parseErr)
	}
	return mtu
}

// answers waits until a pod answers another node.
func answers(t *testing.T, p corev1.Pod) {
	t.Helper()
	await(t, time.Minute, "an answer of "+p.Name, func(ctx context.Context) (bool, string) {
		out, err := theBed.Call(ctx, p.Spec.NodeName, p.Status.PodIP+":8080")
		return err == nil, fmt.Sprint(out, err)
	})
}

// unnoticed waits for more answers over the one connection of the caller, and compares both pods with what they were.
func unnoticed(t *testing.T, callee, caller corev1.Pod) {
	t.Helper()
	count := func(ctx context.Context) int {
		out, err := theBed.Kubectl(ctx, "logs", caller.Name, "--tail=1")
		number, parseErr := strconv.Atoi(strings.TrimSpace(out))
		if err != nil || parseErr != nil {
			return 0
		}
		return number
	}
	before := count(t.Context())
	await(t, time.Minute, "more answers over the connection", func(ctx context.Context) (bool, string) {
		now := count(ctx)
		return now > before, fmt.Sprintf("%d answers, before %d", now, before)
	})
	for _, b := range []corev1.Pod{callee, caller} {
		p, err := theBed.Client.CoreV1().Pods("default").Get(t.Context(), b.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.UID != b.UID || ips(*p) != ips(b) || p.Status.ContainerStatuses[0].RestartCount != 0 || !bed.Ready(p) {
			t.Errorf("%s had %s, has %s, Ready %t", b.Name, ips(b), ips(*p), bed.Ready(p))
		}
	}
}
