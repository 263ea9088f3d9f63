package persistence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// atKey checks that a record is stored at its own key: keys have no checksum, but repeat what their records say.
func atKey(k, own []byte) error {
	if !bytes.Equal(k, own) {
		return fmt.Errorf("record of %q at the key %q: %w", own, k, ErrDamaged)
	}
	return nil
}

// lookUp returns the value at a key; nil when there is none. Then it checks both neighbours: one of them could be the entry,
// with a damaged key.
func lookUp(b *bolt.Bucket, k []byte, check func(k, data []byte) error) ([]byte, error) {
	cursor := b.Cursor()
	at, data := cursor.Seek(k)
	if bytes.Equal(at, k) {
		return data, nil
	}
	before := cursor.Prev
	if at == nil {
		before = cursor.Last
	} else if err := check(at, data); err != nil {
		return nil, err
	}
	if at, data = before(); at == nil {
		return nil, nil
	}
	return nil, check(at, data)
}

// namesKey checks that a record repeats each part of its key. Decoding the record would take ten times as long.
func namesKey(k, data []byte) error {
	for part := range bytes.SplitSeq(k, []byte{0}) {
		if quoted, _ := json.Marshal(string(part)); len(part) > 0 && !bytes.Contains(data, quoted) {
			return fmt.Errorf("record at the key %q, which it does not name: %w", k, ErrDamaged)
		}
	}
	return nil
}

// attachmentAt decodes the attachment that is stored at a key.
func attachmentAt(k, data []byte) (a reservation.Attachment, err error) {
	if a, err = decodeAttachment(data); err == nil {
		err = atKey(k, attachmentKey(a.ID))
	}
	return a, err
}

// reservationAt decodes the reservation that is stored at a key.
func reservationAt(k, data []byte) (r reservation.Reservation, err error) {
	if r, err = decodeReservation(data); err == nil {
		err = atKey(k, ownerKey(r.Owner))
	}
	return r, err
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

// key joins parts with a zero byte, which no part contains.
func key(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

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
