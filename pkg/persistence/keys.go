package persistence

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// atKey checks that a record is stored at its own key: keys have no checksum, but repeat what their records say.
func atKey(k, own []byte) error {
	if !bytes.Equal(k, own) {
		return fmt.Errorf("record of %q at the key %q: %w", own, k, ErrDamaged)
	}
	return nil
}

func keyOfAttachment(a reservation.Attachment) []byte   { return attachmentKey(a.ID) }
func keyOfReservation(r reservation.Reservation) []byte { return ownerKey(r.Owner) }

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
