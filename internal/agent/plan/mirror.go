package plan

import (
	"net/netip"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Object is an API object, as the clients take it.
type Object interface {
	metav1.Object
	runtime.Object
}

// Mirror returns what the API should show of a node's state: an IPReservation for each
// owner that asked for retention, and a NodeIPPool for each network. Of an owner with
// several incarnations the newest is shown.
func Mirror(node string, networks []Network, now reservation.Moment) []Object {
	var objects []Object
	for _, n := range networks {
		pending := reservation.Unlapsed(n.Reservations, now)
		newest := newestIncarnations(n.Attachments, pending)
		for _, a := range n.Attachments {
			if a.Retain > 0 && newest[a.Owner] == a.Seq {
				objects = append(objects, newIPReservation(node, a.Owner, a.UID, a.Addresses, a.Retain))
			}
		}
		for _, r := range pending {
			if newest[r.Owner] != r.Seq {
				continue
			}
			o := newIPReservation(node, r.Owner, r.UID, r.Addresses, r.Retain)
			until := metav1.NewTime(r.Deadline.Until(now).Round(time.Second))
			o.Status.State, o.Status.Until = v1alpha1.IPReserved, &until
			objects = append(objects, o)
		}
		pool := newNodeIPPool(node, n, len(pending), now.Wall)
		pool.Status.ReservedUntil = lastEnd(pending, now)
		objects = append(objects, pool)
	}
	return objects
}

// endStep is how exactly a pool tells when its last reservation ends: few reservations change it.
const endStep = 10 * time.Minute

// lastEnd returns when the last of the reservations of this node's addresses has ended that are not lent; nil without one.
func lastEnd(pending []reservation.Reservation, now reservation.Moment) (last *metav1.Time) {
	for _, r := range pending {
		end := metav1.NewTime(r.Deadline.Until(now).Truncate(endStep).Add(endStep))
		if r.Guest == 0 && r.Lent == 0 && (last == nil || last.Before(&end)) {
			last = &end
		}
	}
	return last
}

// newestIncarnations returns the sequence number of the newest incarnation that each owner
// has on the node. An older incarnation can still be attached: its network namespace
// outlived the wait of its successor.
func newestIncarnations(attached []reservation.Attachment, reserved []reservation.Reservation) map[reservation.Owner]uint64 {
	newest := map[reservation.Owner]uint64{}
	for _, a := range attached {
		if a.Owner.Named() {
			newest[a.Owner] = max(newest[a.Owner], a.Seq)
		}
	}
	for _, r := range reserved {
		newest[r.Owner] = max(newest[r.Owner], r.Seq)
	}
	return newest
}

func newIPReservation(node string, o reservation.Owner, uid string, addrs []netip.Addr, retain time.Duration) *v1alpha1.IPReservation {
	ips := make([]string, len(addrs))
	for i, a := range addrs {
		ips[i] = a.String()
	}
	return &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: v1alpha1.ObjectName(o.Pod, o.IfName, o.Network, node),
			Labels: map[string]string{v1alpha1.LabelNode: v1alpha1.NodeLabel(node)},
		},
		Status: v1alpha1.IPReservationStatus{
			Node: node, Network: o.Network, Interface: o.IfName, Pod: o.Pod, PodUID: uid,
			IPs: strings.Join(ips, ","), State: v1alpha1.IPAttached, RetainMinutes: int32(retain / time.Minute),
		},
	}
}
