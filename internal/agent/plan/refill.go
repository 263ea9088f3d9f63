package plan

import (
	"net/netip"
	"strings"
	"time"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Refill returns the reservations of a node that was installed again under its name, from what the API shows of it. The
// addresses of a pod that ran are reserved from now on. An ADD takes none that its ranges do not have.
func Refill(node string, shown []v1alpha1.IPReservation, most time.Duration, now reservation.Moment) []reservation.Reservation {
	var all []reservation.Reservation
	taken := map[string]bool{} // an address has one holder: the first counts
	for i := range shown {
		s := shown[i].Status
		d := reservation.Deadline{From: now, For: min(time.Duration(s.RetainMinutes)*time.Minute, most)}
		if s.RetainMinutes >= int32(reservation.Forever/time.Minute) { // it follows, and the agent asks where it is
			d.For = reservation.Forever
		} else if s.Until != nil && !now.Unsure {
			d.For = min(d.For, s.Until.Sub(now.Wall))
		}
		r := reservation.Reservation{
			Owner: reservation.Owner{Network: s.Network, Namespace: shown[i].Namespace, Pod: s.Pod, IfName: s.Interface},
			UID:   s.PodUID, Deadline: d, Retain: time.Duration(s.RetainMinutes) * time.Minute,
		}
		if d.For == reservation.Forever {
			r.Mode = reservation.Follow
		}
		free := s.Node == node && d.For > 0 && r.Owner.Named()
		for text := range strings.SplitSeq(s.IPs, ",") {
			a, err := netip.ParseAddr(text)
			key := s.Network + " " + a.String()
			free = free && err == nil && a.Zone() == "" && !taken[key]
			r.Addresses, taken[key] = append(r.Addresses, a), taken[key] || free
		}
		if free {
			all = append(all, r)
		}
	}
	return all
}
