package persistence

import (
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records returns all attachments and reservations of all networks, in the order of their
// keys; those of networks that no ADD was seen of among them.
func (t *Tx) Records() (all reservation.Records, err error) {
	if all.Attachments, err = every(t.tx.Bucket(bucketAttachments), decodeAttachment); err != nil {
		return all, err
	}
	all.Reservations, err = every(t.tx.Bucket(bucketReservations), decodeReservation)
	return all, err
}

// every decodes every record of a bucket.
func every[T any](b *bolt.Bucket, decode func([]byte) (T, error)) ([]T, error) {
	var all []T
	err := b.ForEach(func(_, v []byte) error {
		r, err := decode(v)
		all = append(all, r)
		return err
	})
	return all, err
}
