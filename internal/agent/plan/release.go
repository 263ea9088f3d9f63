package plan

import (
	"time"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Mark names a reservation that its user gives up.
type Mark struct {
	Owner reservation.Owner
	UID   string    // of the pod that has ended
	Until time.Time // when the reservation ends, as the API shows it
}

// MarkOf returns what LabelRelease of an object names; false without a label that means the reservation that the
// object shows. The namespace is that of the object: no user releases what another namespace has.
func MarkOf(node string, o *v1alpha1.IPReservation) (Mark, bool) {
	s := o.Status
	names := s.Releases()
	if names == "" || o.Labels[v1alpha1.LabelRelease] != names || s.Node != node {
		return Mark{}, false
	}
	owner := reservation.Owner{Network: s.Network, Namespace: o.Namespace, Pod: s.Pod, IfName: s.Interface}
	return Mark{Owner: owner, UID: s.PodUID, Until: s.Until.Time}, true
}

// means reports whether a mark names a reservation of the state. The object may be older than the state: the pod may
// have returned and ended since, which made another reservation.
func (m Mark) means(r reservation.Reservation, now reservation.Moment) bool {
	until := r.Deadline.Until(now)
	return m.Owner == r.Owner && m.UID == r.UID && until.Sub(m.Until).Abs() < sameUntil
}
