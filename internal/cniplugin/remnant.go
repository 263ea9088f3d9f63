package cniplugin

import (
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// number returns the number of a life of host-local's time, which has none: a new one, if its
// files are younger than what the state has of its owner and nobody of that lives. Otherwise
// it is 0, that of the oldest.
func (p *Plugin) number(tx *persistence.Tx, o reservation.Owner, r remnant) (uint64, error) {
	if !o.Named() {
		return 0, nil
	}
	began := r.files[0].Changed
	for _, f := range r.files {
		if f.Changed.Before(began) {
			began = f.Changed
		}
	}
	kept, found, err := tx.Reservation(o)
	if err != nil || found && !kept.Deadline.From.Wall.Before(began) {
		return 0, err
	}
	others, err := tx.AttachmentsOf(o)
	if err != nil {
		return 0, err
	}
	for _, a := range others {
		if p.alive(a) || !a.Since.Wall.Before(began) {
			return 0, nil
		}
	}
	return tx.NextSeq()
}
