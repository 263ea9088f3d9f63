package persistence

import (
	"errors"
	"fmt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records returns all attachments and reservations of all networks, in the order of their
// keys; those of networks that no ADD was seen of among them.
func (t *Tx) Records() (all reservation.Records, err error) {
	if all.Attachments, err = scan(t.tx.Bucket(bucketAttachments), nil, decodeAttachment, keyOfAttachment); err != nil {
		return all, err
	}
	all.Reservations, err = scan(t.tx.Bucket(bucketReservations), nil, decodeReservation, keyOfReservation)
	return all, err
}

// Reindex derives the indexes from the records again, which stay as they are. It returns
// ErrDamaged where one cannot be read, and reservation.ErrHeld where two hold an address.
func (t *Tx) Reindex() error {
	all, err := t.Records()
	if err != nil {
		return err
	}
	for _, name := range [][]byte{bucketHeld, bucketOwners} {
		if err := t.tx.DeleteBucket(name); err != nil {
			return fmt.Errorf("drop index %s: %w", name, err)
		}
		if _, err := t.tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create index %s: %w", name, err)
		}
	}
	for _, a := range all.Attachments {
		if err := errors.Join(t.hold(a.ID.Network, a.Addresses), t.indexOwner(a)); err != nil {
			return err
		}
	}
	for _, r := range all.Reservations {
		if err := t.hold(r.Owner.Network, r.Addresses); err != nil {
			return err
		}
	}
	return t.count()
}
