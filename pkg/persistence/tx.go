package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

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

	// bucketLastHolders maps a network and a free address to a record. An address that is held has no record: hold deletes
	// the record, and the deletion of the holder writes a new one.
	bucketLastHolders = []byte("lastholders")
	bucketPoolUsage   = []byte("pressure") // network → limits and counts
	bucketOrder       = []byte("order")    // see reservations.go

	// buckets are all of them. Their numbers are in journals: new ones are added at the end.
	buckets = [maxBuckets][]byte{
		bucketMeta, bucketAttachments, bucketOwners, bucketReservations, bucketHeld, bucketNetworks, bucketCursors, bucketReleased,
		bucketLastHolders, bucketPoolUsage, bucketOrder,
	}

	keySchema     = []byte("schema")
	keySchemaSum  = []byte("schemasum")
	keyRecoveries = []byte("recoveries")
)

const maxBuckets = 11

// CountRecovery counts one more time that the state was made without what it held before.
func (t *Tx) CountRecovery() error {
	return t.bucket(bucketMeta).put(keyRecoveries, binary.BigEndian.AppendUint64(nil, t.Recoveries()+1))
}

// Tx is one transaction on the state. Every write of a record updates the address index as well, so that an address
// cannot have two holders (rule 1).
type Tx struct {
	base     *bolt.Tx // of the fold; nil while a state is made
	layers   *layers
	open     [maxBuckets]bucket
	writable bool
	changes  []change
	promise  bool // what it changes must survive a loss of power
}

// newTx returns a read-write transaction on a file, or on nothing. It has no journal: the caller writes the changes.
func newTx(base *bolt.Tx) *Tx {
	return &Tx{base: base, layers: new(layers), writable: true}
}

// NextSeq returns a number that is higher than all numbers before.
func (t *Tx) NextSeq() (uint64, error) {
	return t.bucket(bucketMeta).nextSequence()
}

// Promise makes Update return only when the changes survive a loss of power. Transactions that reserve addresses, or claim
// reserved ones, promise by themselves.
func (t *Tx) Promise() { t.promise = true }

// Recoveries returns how many times the state was rebuilt because it was lost or damaged.
func (t *Tx) Recoveries() uint64 {
	return number(t.bucket(bucketMeta).get(keyRecoveries))
}

// Mirrored reports whether files in the format of host-local repeat the records of a network.
func (t *Tx) Mirrored(network string) bool {
	return t.bucket(bucketMeta).get(key("mirrored", network)) != nil
}

// SetMirrored stores whether files in the format of host-local repeat the records of a network.
func (t *Tx) SetMirrored(network string, mirrored bool) error {
	if mirrored {
		return t.bucket(bucketMeta).put(key("mirrored", network), []byte{1})
	}
	return t.bucket(bucketMeta).delete(key("mirrored", network))
}

// ResultsKept reports whether SetResultsKept was called for a network since the state was created.
func (t *Tx) ResultsKept(network string) bool {
	return t.bucket(bucketMeta).get(key("results", network)) != nil
}

// SetResultsKept notes that the runtime keeps the results of successful ADDs of a network, and so can tell the end of a
// pod from the rollback of an ADD. A rebuild forgets the note.
func (t *Tx) SetResultsKept(network string) error {
	if t.ResultsKept(network) {
		return nil
	}
	return t.bucket(bucketMeta).put(key("results", network), []byte{1})
}

// UnknownQuarantined reports whether SetUnknownQuarantined was called for a network since the state was created.
func (t *Tx) UnknownQuarantined(network string) bool {
	return t.bucket(bucketMeta).get(key("searched", network)) != nil
}

// SetUnknownQuarantined notes that addresses of a network that only network namespaces know are held by placeholders. A
// rebuild forgets the note.
func (t *Tx) SetUnknownQuarantined(network string) error {
	return t.bucket(bucketMeta).put(key("searched", network), []byte{1})
}

// Attachment returns the attachment with an ID.
func (t *Tx) Attachment(id reservation.AttachmentID) (a reservation.Attachment, found bool, err error) {
	data := t.bucket(bucketAttachments).get(attachmentKey(id))
	if data == nil {
		return a, false, nil
	}
	a, err = attachmentAt(attachmentKey(id), data)
	return a, err == nil, err
}

// AttachmentsOf returns the attachments of an owner.
func (t *Tx) AttachmentsOf(o reservation.Owner) ([]reservation.Attachment, error) {
	var found []reservation.Attachment
	prefix := append(ownerKey(o), 0)
	c := t.bucket(bucketOwners).cursor()
	for k, _ := c.seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.next() {
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
	return scan(t.bucket(bucketAttachments), key(network, ""), attachmentAt)
}

// NetNSPlaceholders returns the attachments of a network that stand for network namespaces in a rebuilt state: the
// container in the namespace is not known.
func (t *Tx) NetNSPlaceholders(network string) ([]reservation.Attachment, error) {
	return scan(t.bucket(bucketAttachments), key(network, reservation.NetNSPlaceholder(reservation.NetNS{})), attachmentAt)
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
	if a.Owner.Named() {
		err = t.bucket(bucketOwners).put(indexKey(a), nil)
	}
	t.promise = t.promise || a.Claimed != nil || a.Mode.Keeps() || a.Guest != 0
	return errors.Join(err, t.bucket(bucketAttachments).put(attachmentKey(a.ID), data))
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
	return errors.Join(t.bucket(bucketOwners).delete(indexKey(a)), t.bucket(bucketAttachments).delete(attachmentKey(id)))
}

// Reservation returns the reservation of an owner, lapsed or not.
func (t *Tx) Reservation(o reservation.Owner) (r reservation.Reservation, found bool, err error) {
	data := t.bucket(bucketReservations).get(ownerKey(o))
	if data == nil {
		return r, false, nil
	}
	r, err = reservationAt(ownerKey(o), data)
	return r, err == nil, err
}

// number returns a stored number; 0 when there is none.
func number(v []byte) uint64 {
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// key joins parts with a zero byte, which no part contains.
func key(parts ...string) []byte {
	size := 0
	for _, p := range parts {
		size += len(p) + 1
	}
	k := append(make([]byte, 0, size), parts[0]...)
	for _, p := range parts[1:] {
		k = append(append(k, 0), p...)
	}
	return k
}

func attachmentKey(id reservation.AttachmentID) []byte {
	return key(id.Network, id.ContainerID, id.IfName)
}

func ownerKey(o reservation.Owner) []byte {
	return key(o.Network, o.Namespace, o.Pod, o.IfName)
}

// indexKey returns the key of an attachment in the index by owner.
func indexKey(a reservation.Attachment) []byte {
	return append(append(ownerKey(a.Owner), 0), a.ID.ContainerID...)
}

// maxName is far longer than any real name, and short enough for the keys of bbolt.
const maxName = 4096

// checkNames refuses names that a record or its key could not give back. CNI and Kubernetes allow printable names only.
func checkNames(containerID string, o reservation.Owner) error {
	if o.Network == "" {
		return fmt.Errorf("store a network without a name: %w", ErrName)
	}
	for _, name := range []string{containerID, o.Network, o.Namespace, o.Pod, o.IfName} {
		if !utf8.ValidString(name) || strings.Contains(name, "\x00") || len(name) > maxName {
			return fmt.Errorf("store %.64q: %w", name, ErrName)
		}
	}
	return nil
}
