package persistence

import "github.com/limpet-io/limpet/pkg/reservation"

// Records returns all attachments and reservations of all networks, in the order of their keys.
func (t *Tx) Records() (all reservation.Records, err error) {
	if all.Attachments, err = scan(t.tx.Bucket(bucketAttachments), nil, attachmentAt); err != nil {
		return all, err
	}
	all.Reservations, err = scan(t.tx.Bucket(bucketReservations), nil, reservationAt)
	return all, err
}
