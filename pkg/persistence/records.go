package persistence

import (
	"bytes"
	"net/netip"
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

// Record is an attachment or a reservation: exactly one of the two is not nil.
type Record struct {
	Attachment  *reservation.Attachment
	Reservation *reservation.Reservation
}

// Network returns the network of the record.
func (r Record) Network() string {
	if r.Attachment != nil {
		return r.Attachment.ID.Network
	}
	return r.Reservation.Owner.Network
}

// Addresses returns the addresses of the record.
func (r Record) Addresses() []netip.Addr {
	if r.Attachment != nil {
		return r.Attachment.Addresses
	}
	return r.Reservation.Addresses
}

// Clone returns a copy of the record that may be kept.
func (r Record) Clone() Record {
	if r.Attachment != nil {
		return Record{Attachment: new(*r.Attachment)}
	}
	return Record{Reservation: new(*r.Reservation)}
}

// recordBuckets are the buckets of records. A reader decodes one record after the other at its own key, into the same
// memory.
var recordBuckets = []struct {
	name   []byte
	reader func() func(k, v []byte) (Record, error)
}{
	{bucketAttachments, func() func(k, v []byte) (Record, error) {
		a := new(reservation.Attachment)
		return func(k, v []byte) (_ Record, err error) {
			*a, err = attachmentAt(k, v)
			return Record{Attachment: a}, err
		}
	}},
	{bucketReservations, func() func(k, v []byte) (Record, error) {
		r := new(reservation.Reservation)
		return func(k, v []byte) (_ Record, err error) {
			*r, err = reservationAt(k, v)
			return Record{Reservation: r}, err
		}
	}},
}

// EachRecord calls fn with each record of a network, or of all if its name is "", in the order of keys, until fn fails.
// The next record takes the memory of the one before: fn keeps clones only.
func (t *Tx) EachRecord(network string, fn func(Record) error) error {
	var prefix []byte
	if network != "" {
		prefix = key(network, "")
	}
	for _, bucket := range recordBuckets {
		if err := each(t.bucket(bucket.name), prefix, bucket.reader(), fn); err != nil {
			return err
		}
	}
	return nil
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
	c := b.cursor()
	for k, v := c.seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.next() {
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
	err = b.forEach(func(k, data []byte) error {
		if !slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(data, text) }) {
			return nil
		}
		v, err := read(k, data)
		all = append(all, v)
		return err
	})
	return all, err
}
