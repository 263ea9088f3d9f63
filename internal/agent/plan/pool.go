package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// The CRD refuses a pool that shows more range sets, or a longer one. Such sets are left out.
const maxRangeSets, maxRangeSet = 16, 1024

// maxVersion is the longest version that the CRD accepts.
const maxVersion = 128

// PoolStatus counts the addresses of a network, given its number of reservations. The addresses of guests are in the pool of
// another node. It holds no conditions.
func PoolStatus(node string, n Network, reserved int) v1alpha1.NodeIPPoolStatus {
	s := v1alpha1.NodeIPPoolStatus{
		Node: node, Network: n.Name, Total: ipam.Pods(n.Sets), Attached: int64(len(n.Attachments)), Reserved: int64(reserved),
		StateSince: n.Since, SharedNetwork: n.Shared,
	}
	for _, set := range n.Sets {
		if text := handedOut(set).String(); len(text) <= maxRangeSet && len(s.Ranges) < maxRangeSets {
			s.Ranges = append(s.Ranges, text)
		}
	}
	for _, a := range n.Attachments {
		if a.Guest != 0 {
			s.Attached, s.Guests = s.Attached-1, s.Guests+1
		}
	}
	for _, r := range n.Reservations {
		switch {
		case r.Guest != 0:
			s.Reserved, s.Guests = s.Reserved-1, s.Guests+1
		case r.Lent != 0:
			s.Lent++
		}
	}
	s.Free = max(0, s.Total-s.Attached-s.Reserved)
	if n.Limits != nil {
		s.Share = &n.Limits.Share.Pods
	}
	return s
}

// handedOut returns the ranges of a set without their gateways, which no pod gets.
func handedOut(set ipam.Set) (out ipam.Set) {
	for _, r := range set {
		if !r.Contains(r.Gateway) {
			out = append(out, r)
			continue
		}
		before, after := r, r
		before.End, after.Start = r.Gateway.Prev(), r.Gateway.Next()
		for _, part := range []ipam.Range{before, after} {
			if part.Start.Compare(part.End) <= 0 {
				out = append(out, part)
			}
		}
	}
	return out
}

// PoolKey returns the key of the pool of a node and network.
func PoolKey(node, network string) string {
	return Key(&v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ObjectName(node, network)}})
}

func newNodeIPPool(node string, n Network, reserved int, now time.Time) *v1alpha1.NodeIPPool {
	s := PoolStatus(node, n, reserved)
	refuse := n.Limits != nil && n.Limits.Share.Refuse
	s.Conditions = append(s.Conditions, exhausted(s, refuse))
	if s.Share != nil {
		s.Conditions = append(s.Conditions, shareReached(s, refuse))
	}
	if n.Configured != nil {
		s.Conditions = append(s.Conditions, *n.Configured)
	}
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	}
	return &v1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ObjectName(node, n.Name), Labels: map[string]string{v1alpha1.LabelNode: v1alpha1.NodeLabel(node)}},
		Status:     s,
	}
}

// WithVersions adds the versions of agent and plugin to pools. The CRD refuses longer ones.
func WithVersions(objects []Object, agent, plugin string) []Object {
	for _, o := range objects {
		if pool, is := o.(*v1alpha1.NodeIPPool); is {
			pool.Status.AgentVersion, pool.Status.PluginVersion = agent[:min(len(agent), maxVersion)], plugin[:min(len(plugin), maxVersion)]
		}
	}
	return objects
}

func exhausted(s v1alpha1.NodeIPPoolStatus, refuse bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionExhausted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAddressesFree}
	switch {
	case s.Total == 0:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonRangesUnknown
		c.Message = "the state file was rebuilt: the ranges are known again when the next pod starts on this node"
	case s.Free == 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonNoneFree
		switch {
		case s.Reserved == 0:
			c.Message = "every address is attached: a new pod starts here only after another pod has ended"
		case refuse:
			c.Message = "every address is attached or reserved: a new pod starts here only after another pod has ended or a reservation has lapsed"
		default:
			c.Message = "every address is attached or reserved: each new pod ends a reservation early"
		}
	}
	return c
}

func shareReached(s v1alpha1.NodeIPPoolStatus, refuse bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionShareReached, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonShareLeft}
	switch {
	case *s.Share == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoneAllowed, "ipam.maxReservedPercent is 0"
	case s.Reserved >= *s.Share:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonShareUsedUp
		c.Message = fmt.Sprintf("addresses may be reserved for %d pods at a time: a new reservation ends another one early", *s.Share)
		if refuse {
			c.Message = fmt.Sprintf("addresses may be reserved for %d pods at a time: no more reservations are made", *s.Share)
		}
	}
	return c
}
