package persistence

import (
	"bytes"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records returns all attachments and reservations of all networks, in the order of their keys.
func (t *Tx) Records() (all reservation.Records, err error) {
	if all.Attachments, err = scan(t.bucket(bucketAttachments), nil, attachmentAt); err != nil {
		return all, err
	}
	all.Reservations, err = scan(t.bucket(bucketReservations), nil, reservationAt)
	return all, err
}

// scan returns every record whose key begins with prefix.
func scan[T any](b *bucket, prefix []byte, read func(k, v []byte) (T, error)) (all []T, err error) {
	err = each(b, prefix, read, func(r T) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// each calls fn for every record whose key begins with prefix, until fn fails.
func each[T any](b *bucket, prefix []byte, read func(k, v []byte) (T, error), fn func(T) error) error {
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		r, err := read(k, v)
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RecordsWith returns the records whose JSON contains one of the texts. It decodes no other record: a search among a
// million takes little memory, and a damaged record hides no other one.
func (t *Tx) RecordsWith(texts ...[]byte) (r reservation.Records, err error) {
	if r.Attachments, err = with(t.bucket(bucketAttachments), attachmentAt, texts); err != nil {
		return r, err
	}
	r.Reservations, err = with(t.bucket(bucketReservations), reservationAt, texts)
	return r, err
}

func with[T any](b *bucket, read func(k, v []byte) (T, error), texts [][]byte) (all []T, err error) {
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
