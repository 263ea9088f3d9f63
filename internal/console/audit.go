package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// AuditParts are the facts that Audit needs, of all namespaces.
var AuditParts = []facts.Part{facts.Nodes, facts.Pods, facts.Pools, facts.Kept}

// overdue is how long after its end a reservation may still be shown.
const overdue = 5 * time.Minute

// AuditReport lists what contradicts.
type AuditReport struct {
	// Pods, Reservations and Pools count what was compared.
	Pods         int       `json:"pods"`
	Reservations int       `json:"reservations"`
	Pools        int       `json:"pools"`
	Problems     []Problem `json:"problems"`
}

// Audit compares the addresses of running pods with reservations and pools. The objects are
// read one kind after the other; a pod that is made meanwhile can look wrong once.
func Audit(f *facts.Facts) AuditReport {
	r := AuditReport{Pods: len(f.Pods), Reservations: len(f.Reservations), Pools: len(f.Pools), Problems: []Problem{}}
	users := usersOf(f.Pods)
	for ip, pods := range users {
		if len(pods) > 1 {
			r.Problems = append(r.Problems, Problem{
				Broken, "Address " + ip, "TwoPods", "pods " + strings.Join(names(pods), " and ") + " have it",
				"limpet-ipam check on node " + pods[0].Spec.NodeName,
			})
		}
	}
	for i := range f.Reservations {
		r.Problems = append(r.Problems, contradictions(f, &f.Reservations[i], users)...)
	}
	for _, p := range f.Pools {
		if s := p.Status; s.Total > 0 && s.Attached+s.Reserved+s.Free != s.Total {
			r.Problems = append(r.Problems, Problem{Broken, "NodeIPPool " + p.Name, "WrongSum", fmt.Sprintf(
				"%d attached, %d reserved and %d free are not %d in all", s.Attached, s.Reserved, s.Free, s.Total), "limpet-ipam check on node " + s.Node})
		}
	}
	slices.SortStableFunc(r.Problems, Worse)
	return r
}

// usersOf returns the running pods by their addresses. Pods of the host network have the address
// of their node.
func usersOf(pods []corev1.Pod) map[string][]*corev1.Pod {
	users := map[string][]*corev1.Pod{}
	for i := range pods {
		if p := &pods[i]; !p.Spec.HostNetwork && !workload.Ended(p) {
			for ip := range strings.SplitSeq(pin.Addresses(p), ",") {
				if ip != "" {
					users[ip] = append(users[ip], p)
				}
			}
		}
	}
	return users
}

// contradictions compares one IPReservation with the pods that have its addresses.
func contradictions(f *facts.Facts, r *limpetv1alpha1.IPReservation, users map[string][]*corev1.Pod) []Problem {
	var found []Problem
	object := "IPReservation " + r.Namespace + "/" + r.Name
	for ip := range strings.SplitSeq(r.Status.IPs, ",") {
		other := slices.IndexFunc(users[ip], func(p *corev1.Pod) bool {
			return p.Spec.NodeName == r.Status.Node && (reservation.OwnerName(p.Name, p.Annotations) != r.Status.Pod || p.Namespace != r.Namespace)
		})
		if other >= 0 {
			found = append(found, Problem{Broken, object, "GivenAway", ip + " is held for pod " + r.Status.Pod + ", and pod " +
				names(users[ip])[other] + " has it", "limpet-ipam check on node " + r.Status.Node})
		}
	}
	if f.Node(r.Status.Node) == nil && read(f, facts.Nodes) {
		found = append(found, Problem{Attention, object, "NodeGone", "node " + r.Status.Node + " does not exist", "the controller removes it within some minutes"})
	}
	if until := r.Status.Until; until != nil && f.Now.Sub(until.Time) > overdue {
		found = append(found, Problem{
			Broken, object, "Overdue", "the reservation ended at " + until.UTC().Format("15:04:05") + " and is still shown",
			"look at limpet-agent on node " + r.Status.Node,
		})
	}
	return found
}

func names(pods []*corev1.Pod) []string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return all
}
