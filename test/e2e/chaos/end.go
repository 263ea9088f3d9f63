package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// recovery is how long all may take to be well again after the last fault.
const recovery = 4 * time.Minute

// atTheEnd waits until all pods are Ready again, and looks at what is left.
func (r *runner) atTheEnd(ctx context.Context) error {
	err := bed.Await(ctx, recovery, "all pods to be Ready again", func(ctx context.Context) (bool, string) {
		if err := r.endLost(ctx); err != nil {
			return false, err.Error()
		}
		return r.allReady(ctx)
	})
	if err != nil {
		r.violate("%v", err)
	}
	if err := r.bed.AwaitLimpet(ctx); err != nil {
		r.violate("%v", err)
	}
	if err := r.callAll(ctx); err != nil {
		return err
	}
	if err := bed.Await(ctx, bound, "all loans to say where the pods are", r.loansAgree); err != nil {
		r.violate("%v", err)
	}
	for _, node := range r.bed.Cluster.Nodes() {
		r.compare(ctx, node)
		err := bed.Await(ctx, bound, "all pods of "+node+" and no others to answer by ARP", func(ctx context.Context) (bool, string) {
			wrong, err := r.strangers(ctx, node)
			return err == nil && wrong == "", fmt.Sprint(wrong, err)
		})
		if err != nil {
			r.violate("%v", err)
		}
	}
	return ctx.Err()
}

// callAll asks each pod at each of its addresses for its name.
func (r *runner) callAll(ctx context.Context) error {
	list, err := r.bed.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			var answer string
			err := bed.Await(ctx, 20*time.Second, "a response", func(ctx context.Context) (bool, string) {
				var err error
				answer, err = r.bed.Call(ctx, p.Spec.NodeName, net.JoinHostPort(ip.IP, "8080"))
				return err == nil, fmt.Sprint(err)
			})
			if err != nil || !strings.Contains(answer, "name="+p.Name+" ") {
				r.violate("%s of %s on %s is answered by %q: %v", ip.IP, p.Name, p.Spec.NodeName, strings.TrimSpace(answer), err)
			}
		}
	}
	return nil
}

// loansAgree tells that each loan is to the node of its pod, which has the addresses.
func (r *runner) loansAgree(ctx context.Context) (bool, string) {
	all, err := r.loans(ctx)
	if err != nil {
		return false, err.Error()
	}
	for _, l := range all {
		p, err := r.bed.Client.CoreV1().Pods(Namespace).Get(ctx, l.Spec.Pod, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		var has []string
		for _, ip := range p.Status.PodIPs {
			has = append(has, ip.IP)
		}
		if l.Status.Phase != "Lent" || l.Status.Borrower != p.Spec.NodeName || l.Spec.IPs != strings.Join(has, ",") {
			return false, fmt.Sprintf("the loan of %s is %+v, and the pod is on %s with %v", l.Spec.Pod, l, p.Spec.NodeName, has)
		}
	}
	r.progress("         %d loans", len(all))
	return true, ""
}

// pool is what a NodeIPPool says.
type pool struct {
	Status struct {
		Node                            string
		Total, Attached, Reserved, Free int64
	}
}

// compare compares the state of a node, its NodeIPPool and its sandboxes.
func (r *runner) compare(ctx context.Context, node string) {
	var state string
	err := bed.Await(ctx, bound, "state, pool and sandboxes to agree", func(ctx context.Context) (bool, string) {
		if said, err := r.bed.Cluster.Exec(ctx, node, plugin, "check"); err != nil {
			return false, fmt.Sprintf("limpet-ipam check: %s %v", said, err)
		}
		out, err := r.bed.Kubectl(ctx, "get", "nodeippools", "-o", "json")
		if err != nil {
			return false, err.Error()
		}
		var all struct{ Items []pool }
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			return false, err.Error()
		}
		seen, err := r.sandboxes(ctx, node)
		if err != nil {
			return false, err.Error()
		}
		running := map[string]bool{} // without guests, which the node that lent counts
		for _, s := range seen {
			if slices.ContainsFunc(s.Addrs, func(a netip.Addr) bool { return slices.Contains(r.ranges[node], a) }) {
				running[s.NetNS] = true
			}
		}
		i := slices.IndexFunc(all.Items, func(p pool) bool { return p.Status.Node == node })
		if i < 0 {
			return false, "no NodeIPPool"
		}
		s := all.Items[i].Status
		state = fmt.Sprintf("%d attached, %d reserved, %d free of %d, and %d sandboxes", s.Attached, s.Reserved, s.Free, s.Total, len(running))
		return s.Attached+s.Reserved+s.Free == s.Total && int(s.Attached) == len(running), state
	})
	if err != nil {
		r.violate("on %s: %v", node, err)
		return
	}
	r.progress("         %s: %s", node, state)
}

// budgets checks the audit log.
func (r *runner) budgets() error {
	file, err := os.Open(r.bed.Cluster.AuditLog())
	if err != nil {
		return fmt.Errorf("check the budgets: %w", err)
	}
	defer file.Close()
	all, err := disruptions.Read(file)
	if err != nil {
		return fmt.Errorf("check the budgets: %w", err)
	}
	events := slices.DeleteFunc(all, func(e disruptions.Event) bool { return e.Namespace != Namespace && e.Node == nil })
	r.mutex.Lock()
	o := disruptions.Options{Lag: 2 * time.Second, Replacement: 2 * time.Minute, Killed: r.killed}
	r.mutex.Unlock()
	strict := len(disruptions.Check(events, o).Violations)
	o.Seen = r.sights.Seen(events)
	r.report.Budgets, r.report.Behind = disruptions.Check(events, o), r.sights.Longest(events)
	r.progress("         not in the audit log, because the API server was killed: %d requests", r.report.Budgets.Unlogged)
	r.report.Unknown = strict - len(r.report.Budgets.Violations)
	for _, v := range r.report.Budgets.Violations {
		r.report.Violations = append(r.report.Violations, v.String())
	}
	return nil
}
