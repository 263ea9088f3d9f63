package cluster

import (
	corev1 "k8s.io/api/core/v1"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// NodeFitness keeps whether a node takes pods, how much room it has, and its ranges.
func NodeFitness(from, to *corev1.Node) {
	to.Status.Allocatable = from.Status.Allocatable
	to.Spec.Unschedulable, to.Spec.Taints, to.Spec.PodCIDRs = from.Spec.Unschedulable, from.Spec.Taints, from.Spec.PodCIDRs
	NodeReadiness(from, to)
}

// maxStatus is how much text of an IPReservation the cache keeps. The CRD bounds characters, which
// have up to four bytes; the texts of agents have one byte each.
const maxStatus = 2 << 10

// ReservationHolder keeps which node holds which addresses for whom, and whether the user gives this reservation up.
func ReservationHolder(from, to *limpetv1alpha1.IPReservation) {
	s := from.Status
	if len(s.Node)+len(s.Network)+len(s.Interface)+len(s.Pod)+len(s.PodUID)+len(s.IPs) > maxStatus {
		return // no room believes the object
	}
	to.Status = limpetv1alpha1.IPReservationStatus{
		Node: s.Node, Network: s.Network, Interface: s.Interface, Pod: s.Pod, PodUID: s.PodUID, IPs: s.IPs,
		State: s.State, Until: s.Until, RetainMinutes: s.RetainMinutes,
	}
	if mark := s.Releases(); mark != "" && from.Labels[limpetv1alpha1.LabelRelease] == mark {
		to.Labels = map[string]string{limpetv1alpha1.LabelRelease: mark}
	}
}
