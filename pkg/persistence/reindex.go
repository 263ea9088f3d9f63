package persistence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Reindex rebuilds the indexes and counts of the state from its records, and returns the faults that this mends. No
// record changes. Without a fault nothing is written. With a fault of another kind it returns ErrDamaged: addresses of a
// record that cannot be read must not look free, so only a rebuild helps.
func (s *Store) Reindex(ctx context.Context) (mended []Fault, err error) {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return nil, ErrNoState
	}
	err = s.Update(ctx, func(tx *Tx) error {
		var r Report
		r.auditEntries(tx, nil)
		mended = r.Faults
		if len(mended) == 0 {
			return ErrUnchanged
		}
		if i := slices.IndexFunc(mended, func(f Fault) bool { return f.Kind != FaultIndex }); i >= 0 {
			return fmt.Errorf("reindex: %s %s: %w", mended[i].Subject, mended[i].Problem, ErrDamaged)
		}
		return tx.reindex()
	})
	if err != nil {
		mended = nil
	}
	return mended, err
}

// reindex fills new indexes from the records, all of which can be read.
func (t *Tx) reindex() error {
	for _, name := range [][]byte{bucketHeld, bucketOwners, bucketOrder} {
		if err := t.bucket(name).clear(); err != nil {
			return fmt.Errorf("reindex: %w", err)
		}
	}
	err := each(t.bucket(bucketAttachments), nil, attachmentAt, func(a reservation.Attachment) error {
		if err := t.hold(a.ID.Network, a.Addresses); err != nil {
			return err
		}
		return t.indexOwner(a)
	})
	if err != nil {
		return err
	}
	err = each(t.bucket(bucketReservations), nil, reservationAt, func(r reservation.Reservation) error {
		return errors.Join(t.hold(r.Owner.Network, r.Addresses), t.changeOrder(r, 1))
	})
	if err != nil {
		return err
	}
	return t.recount()
}

// recount counts the reservations of each network. A record of usage that cannot be read is replaced: the next ADD writes
// the limits again.
func (t *Tx) recount() error {
	b := t.bucket(bucketPoolUsage)
	var unreadable [][]byte
	_ = b.ForEach(func(k, v []byte) error { // the function returns no error
		if _, err := decodePoolUsage(v); err != nil {
			unreadable = append(unreadable, slices.Clone(k))
		}
		return nil
	})
	for _, k := range unreadable {
		if err := b.Delete(k); err != nil {
			return fmt.Errorf("reindex: %w", err)
		}
	}
	return t.count()
}
