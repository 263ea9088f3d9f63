package agent

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/ipam"
)

// newNodeIPPool shows a network with so many reservations that have not lapsed.
func newNodeIPPool(node string, n Network, reserved int, now time.Time) *v1alpha1.NodeIPPool {
	p := &v1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: objectName(node, n.Name), Labels: map[string]string{v1alpha1.LabelNode: node}},
		Status: v1alpha1.NodeIPPoolStatus{
			Node: node, Network: n.Name, Total: ipam.Pods(n.Sets), Attached: int64(len(n.Attachments)), Reserved: int64(reserved),
		},
	}
	for _, set := range n.Sets {
		p.Status.Ranges = append(p.Status.Ranges, set.String())
	}
	p.Status.Free = max(0, p.Status.Total-p.Status.Attached-p.Status.Reserved)
	limits := n.Pressure.Limits
	conditions := []metav1.Condition{exhausted(p.Status, limits != nil && limits.Share.Refuse)}
	if limits != nil {
		p.Status.Share = &limits.Share.Pods
		conditions = append(conditions, shareReached(p.Status, limits.Share.Refuse))
	}
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	}
	p.Status.Conditions = conditions
	return p
}

func exhausted(s v1alpha1.NodeIPPoolStatus, refuse bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionExhausted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAddressesFree}
	switch {
	case s.Total == 0:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonRangesUnknown
		c.Message = "the state was made anew: the next pod that starts here tells the ranges"
	case s.Free == 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonNoneFree
		switch {
		case s.Reserved == 0:
			c.Message = "every address is attached: a pod starts here when another one has ended"
		case refuse:
			c.Message = "every address is attached or reserved: a pod starts here when another one has ended or a reservation lapsed"
		default:
			c.Message = "every address is attached or reserved: a reservation gives way to each pod that starts here"
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
		c.Message = fmt.Sprintf("addresses may be reserved for %d pods at a time: an older reservation gives way to a new one", *s.Share)
		if refuse {
			c.Message = fmt.Sprintf("addresses may be reserved for %d pods at a time: no more are reserved", *s.Share)
		}
	}
	return c
}

// keepTransitions gives conditions that have not changed the time at which they came
// about.
func keepTransitions(old, now client.Object) {
	was, ok := old.(*v1alpha1.NodeIPPool)
	is, ok2 := now.(*v1alpha1.NodeIPPool)
	if !ok || !ok2 {
		return
	}
	is.Status.Conditions = slices.Clone(is.Status.Conditions)
	for i := range is.Status.Conditions {
		c := &is.Status.Conditions[i]
		if before := meta.FindStatusCondition(was.Status.Conditions, c.Type); before != nil && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
}
