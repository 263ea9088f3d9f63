package persistence

import (
	"bytes"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// RecordsWith returns the records whose JSON contains one of the texts. It decodes no other record: a search among a
// million takes little memory, and a damaged record hides no other one.
func (t *Tx) RecordsWith(texts ...[]byte) (r reservation.Records, err error) {
	if r.Attachments, err = with(t.tx.Bucket(bucketAttachments), attachmentAt, texts); err != nil {
		return r, err
	}
	r.Reservations, err = with(t.tx.Bucket(bucketReservations), reservationAt, texts)
	return r, err
}

func with[T any](b *bolt.Bucket, read func(k, v []byte) (T, error), texts [][]byte) (all []T, err error) {
	err = b.ForEach(func(k, data []byte) error {
		if !slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(data, text) }) {
			return nil
		}
		v, err := read(k, data)
		all = append(all, v)
		return err
	})
	return all, err
}
