package persistence

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	bucketMeta         = []byte("meta")
	bucketAttachments  = []byte("attachments")  // network, container, interface → record
	bucketOwners       = []byte("owners")       // owner, container → empty
	bucketReservations = []byte("reservations") // owner → record
	bucketHeld         = []byte("held")         // network, first of 256 addresses → bitmap
	bucketNetworks     = []byte("networks")     // network → configuration of the last ADD
	bucketCursors      = []byte("cursors")      // network, range set → last address handed out
	bucketReleased     = []byte("released")     // number → addresses that were released, and their release delay

	buckets = [][]byte{bucketMeta, bucketAttachments, bucketOwners, bucketReservations, bucketHeld, bucketNetworks, bucketCursors, bucketReleased}

	keySchema     = []byte("schema")
	keySchemaSum  = []byte("schemasum")
	keyRecoveries = []byte("recoveries")
)

// CountRecovery counts one more time that the state was made without what it held before.
func (t *Tx) CountRecovery() error {
	return t.tx.Bucket(bucketMeta).Put(keyRecoveries, binary.BigEndian.AppendUint64(nil, t.Recoveries()+1))
}

// Tx is one transaction on the state. Every write of a record updates the address index as well, so that an address
// cannot have two holders (rule 1).
type Tx struct {
	tx *bolt.Tx
	// ordered is true while the order of reservations is kept. The value counts once orderKnown is true.
	ordered, orderKnown bool
}

// NextSeq returns a number that is higher than all numbers before.
func (t *Tx) NextSeq() (uint64, error) {
	return t.tx.Bucket(bucketMeta).NextSequence()
}

// Recoveries returns how many times the state was rebuilt because it was lost or damaged.
func (t *Tx) Recoveries() uint64 {
	return number(t.tx.Bucket(bucketMeta).Get(keyRecoveries))
}

// Mirrored reports whether files in the format of host-local repeat the records of a network.
func (t *Tx) Mirrored(network string) bool {
	return t.tx.Bucket(bucketMeta).Get(key("mirrored", network)) != nil
}

// SetMirrored stores whether files in the format of host-local repeat the records of a network.
func (t *Tx) SetMirrored(network string, mirrored bool) error {
	if mirrored {
		return t.tx.Bucket(bucketMeta).Put(key("mirrored", network), []byte{1})
	}
	return t.tx.Bucket(bucketMeta).Delete(key("mirrored", network))
}

// ResultsKept reports whether SetResultsKept was called for a network since the state was created.
func (t *Tx) ResultsKept(network string) bool {
	return t.tx.Bucket(bucketMeta).Get(key("results", network)) != nil
}

// SetResultsKept notes that the runtime keeps the results of successful ADDs of a network, and so can tell the end of a
// pod from the rollback of an ADD. A rebuild forgets the note.
func (t *Tx) SetResultsKept(network string) error {
	if t.ResultsKept(network) {
		return nil
	}
	return t.tx.Bucket(bucketMeta).Put(key("results", network), []byte{1})
}

// UnknownQuarantined reports whether SetUnknownQuarantined was called for a network since the state was created.
func (t *Tx) UnknownQuarantined(network string) bool {
	return t.tx.Bucket(bucketMeta).Get(key("searched", network)) != nil
}

// SetUnknownQuarantined notes that addresses of a network that only network namespaces know are held by placeholders. A
// rebuild forgets the note.
func (t *Tx) SetUnknownQuarantined(network string) error {
	return t.tx.Bucket(bucketMeta).Put(key("searched", network), []byte{1})
}

// Attachment returns the attachment with an ID.
func (t *Tx) Attachment(id reservation.AttachmentID) (a reservation.Attachment, found bool, err error) {
	data, err := lookUp(t.tx.Bucket(bucketAttachments), attachmentKey(id), namesKey)
	if data == nil {
		return a, false, err
	}
	a, err = attachmentAt(attachmentKey(id), data)
	return a, err == nil, err
}

// AttachmentsOf returns the attachments of an owner.
func (t *Tx) AttachmentsOf(o reservation.Owner) ([]reservation.Attachment, error) {
	var found []reservation.Attachment
	prefix := append(ownerKey(o), 0)
	c := t.tx.Bucket(bucketOwners).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		id := reservation.AttachmentID{Network: o.Network, ContainerID: string(k[len(prefix):]), IfName: o.IfName}
		a, ok, err := t.Attachment(id)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("attachment %s of %s is indexed but missing: %w", id, o, ErrDamaged)
		}
		found = append(found, a)
	}
	return found, nil
}

// Attachments returns all attachments of a network.
func (t *Tx) Attachments(network string) ([]reservation.Attachment, error) {
	return scan(t.tx.Bucket(bucketAttachments), key(network, ""), attachmentAt)
}

// NetNSPlaceholders returns the attachments of a network that stand for network namespaces in a rebuilt state: the
// container in the namespace is not known.
func (t *Tx) NetNSPlaceholders(network string) ([]reservation.Attachment, error) {
	return scan(t.tx.Bucket(bucketAttachments), key(network, reservation.NetNSPlaceholder(reservation.NetNS{})), attachmentAt)
}

// PutAttachment stores a new or changed attachment and holds its addresses. It returns reservation.ErrHeld when one of
// the addresses has another holder.
func (t *Tx) PutAttachment(a reservation.Attachment) error {
	if err := checkNames(a.ID.ContainerID, a.Owner); err != nil {
		return err
	}
	if err := t.DeleteAttachment(a.ID); err != nil {
		return err
	}
	if err := t.hold(a.ID.Network, a.Addresses); err != nil {
		return err
	}
	data, err := encodeAttachment(a)
	if err != nil {
		return fmt.Errorf("encode attachment %s: %w", a.ID, err)
	}
	if err := t.indexOwner(a); err != nil {
		return err
	}
	if err := t.tx.Bucket(bucketAttachments).Put(attachmentKey(a.ID), data); err != nil {
		return fmt.Errorf("put attachment %s: %w", a.ID, err)
	}
	return nil
}

// indexOwner adds an attachment to the index by owner.
func (t *Tx) indexOwner(a reservation.Attachment) error {
	if !a.Owner.Named() {
		return nil
	}
	if err := t.tx.Bucket(bucketOwners).Put(indexKey(a), nil); err != nil {
		return fmt.Errorf("index attachment %s: %w", a.ID, err)
	}
	return nil
}

// DeleteAttachment deletes an attachment and frees its addresses. Deleting an unknown attachment is not an error.
func (t *Tx) DeleteAttachment(id reservation.AttachmentID) error {
	a, found, err := t.Attachment(id)
	if err != nil || !found {
		return err
	}
	if err := t.release(id.Network, a.Addresses); err != nil {
		return err
	}
	last := reservation.LastHolder{Network: id.Network, ContainerID: id.ContainerID, NetNS: a.NetNS, BootID: a.Since.BootID}
	if err := t.remember(last, a.Addresses); err != nil {
		return err
	}
	if a.Owner.Named() {
		if err := t.tx.Bucket(bucketOwners).Delete(indexKey(a)); err != nil {
			return fmt.Errorf("unindex attachment %s: %w", id, err)
		}
	}
	if err := t.tx.Bucket(bucketAttachments).Delete(attachmentKey(id)); err != nil {
		return fmt.Errorf("delete attachment %s: %w", id, err)
	}
	return nil
}

// Reservation returns the reservation of an owner, lapsed or not.
func (t *Tx) Reservation(o reservation.Owner) (r reservation.Reservation, found bool, err error) {
	data, err := lookUp(t.tx.Bucket(bucketReservations), ownerKey(o), namesKey)
	if data == nil {
		return r, false, err
	}
	r, err = reservationAt(ownerKey(o), data)
	return r, err == nil, err
}

// Reservations returns all reservations of a network, lapsed ones included.
func (t *Tx) Reservations(network string) ([]reservation.Reservation, error) {
	return scan(t.tx.Bucket(bucketReservations), key(network, ""), reservationAt)
}

// CountReservationsOf counts the reservations of a namespace on a network, lapsed ones included. Where the order is not
// kept the cost is 0.2 µs each, because no record is read.
func (t *Tx) CountReservationsOf(network, namespace string) (n int64) {
	if t.orderKept() {
		return int64(number(t.tx.Bucket(bucketOrder).Get(orderKey(network, ofNS, namespace))))
	}
	prefix := key(network, namespace, "")
	c := t.tx.Bucket(bucketReservations).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		n++
	}
	return n
}

// PutReservation stores a reservation and holds its addresses. It replaces the reservation that the owner has. It returns
// reservation.ErrHeld when one of the addresses has another holder.
func (t *Tx) PutReservation(r reservation.Reservation) error {
	if err := checkNames("", r.Owner); err != nil {
		return err
	}
	if err := t.DeleteReservation(r.Owner); err != nil {
		return err
	}
	if err := t.hold(r.Owner.Network, r.Addresses); err != nil {
		return err
	}
	data, err := encodeReservation(r)
	if err != nil {
		return fmt.Errorf("encode reservation of %s: %w", r.Owner, err)
	}
	if err := t.tx.Bucket(bucketReservations).Put(ownerKey(r.Owner), data); err != nil {
		return fmt.Errorf("put reservation of %s: %w", r.Owner, err)
	}
	if err := t.addToOrder(r); err != nil {
		return err
	}
	return t.updateUsage(r.Owner.Network, func(p *PoolUsage) { p.Reserved++ })
}

// DeleteReservation deletes a reservation and frees its addresses. Deleting an unknown reservation is not an error.
func (t *Tx) DeleteReservation(o reservation.Owner) error {
	r, found, err := t.Reservation(o)
	if err != nil || !found {
		return err
	}
	if err := t.release(o.Network, r.Addresses); err != nil {
		return err
	}
	last := reservation.LastHolder{Network: o.Network, ContainerID: r.ContainerID, NetNS: r.NetNS, BootID: r.BootID}
	if err := t.remember(last, r.Addresses); err != nil {
		return err
	}
	if err := t.tx.Bucket(bucketReservations).Delete(ownerKey(o)); err != nil {
		return fmt.Errorf("delete reservation of %s: %w", o, err)
	}
	if err := t.removeFromOrder(r); err != nil {
		return err
	}
	return t.updateUsage(o.Network, func(p *PoolUsage) { p.Reserved-- })
}

// scan returns every record whose key begins with prefix.
func scan[T any](b *bolt.Bucket, prefix []byte, read func(k, v []byte) (T, error)) (all []T, err error) {
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
func each[T any](b *bolt.Bucket, prefix []byte, read func(k, v []byte) (T, error), fn func(T) error) error {
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
