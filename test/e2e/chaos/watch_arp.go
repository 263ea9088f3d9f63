package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerTime is how long a sandbox may take to answer by ARP.
const answerTime = 200 * time.Millisecond

// twiceFor is how long two sandboxes must answer for one address until that is a violation: the kernel removes a
// network namespace some time after its last process and its name are gone.
const twiceFor = 2 * time.Second

// askByARP reports addresses of a node for which two sandboxes answer.
func (r *runner) askByARP(ctx context.Context, node string) {
	twice, err := r.answeredTwice(node)
	if err != nil {
		return // the node has no power
	}
	r.mutex.Lock()
	r.report.Asked++
	r.mutex.Unlock()
	if len(twice) == 0 || r.wait(ctx, twiceFor) != nil {
		return
	}
	again, err := r.answeredTwice(node)
	for addr, by := range again {
		if before := twice[addr]; err == nil && len(before) > 0 {
			r.violate("on %s, %v answer by ARP for %s, and %s before %v", node, by, addr, twiceFor, before)
		}
	}
}

// answeredTwice returns the addresses of a node for which more than one sandbox answers.
func (r *runner) answeredTwice(node string) (map[netip.Addr][]string, error) {
	found, err := r.answers(node)
	for addr, by := range found {
		if len(by) < 2 {
			delete(found, addr)
		}
	}
	return found, err
}

// answers asks on a node for the addresses of all ranges: a guest has one of another node.
func (r *runner) answers(node string) (map[netip.Addr][]string, error) {
	all := r.bed.Cluster.Status()
	i := slices.IndexFunc(all, func(s cluster.Status) bool { return s.Name == node })
	if i < 0 || all[i].PID == 0 {
		return nil, fmt.Errorf("node %s is off", node)
	}
	return askNode(all[i].PID, slices.Concat(slices.Collect(maps.Values(r.ranges))...), answerTime)
}

// findRanges lists the IPv4 addresses of each node's range.
func (r *runner) findRanges(ctx context.Context) error {
	nodes, err := r.bed.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		for _, text := range n.Spec.PodCIDRs {
			if strings.Contains(text, ":") {
				continue
			}
			cidr, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("read the range of %s: %w", n.Name, err)
			}
			for addr := cidr.Addr(); cidr.Contains(addr); addr = addr.Next() {
				r.ranges[n.Name] = append(r.ranges[n.Name], addr)
			}
		}
	}
	return nil
}

// strangers compares the answers on a node with the pods of the API: each IPv4 address of a pod must have one answer,
// and no other address may have one.
func (r *runner) strangers(ctx context.Context, node string) (string, error) {
	list, err := r.bed.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	answers, err := r.answers(node)
	if err != nil {
		return "", err
	}
	var wrong []string
	for _, p := range list.Items {
		for _, ip := range p.Status.PodIPs {
			addr, err := netip.ParseAddr(ip.IP)
			if err != nil || !addr.Is4() || p.Spec.HostNetwork {
				continue
			}
			if by := answers[addr]; len(by) != 1 {
				wrong = append(wrong, fmt.Sprintf("%v answer for %s of %s", by, addr, p.Name))
			}
			delete(answers, addr)
		}
	}
	for addr, by := range answers {
		wrong = append(wrong, fmt.Sprintf("%v answer for %s, which no pod has", by, addr))
	}
	return strings.Join(wrong, ", "), nil
}
