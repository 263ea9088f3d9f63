package persistence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func decodeAttachment(data []byte) (a reservation.Attachment, err error) {
	err = decode(data, func(f *form) { f.attachment(&a) }, func() (err error) { a, err = attachmentOfJSON(data); return err })
	if err = errors.Join(err, checkAddresses(a.Addresses)); err == nil && a.Dropped != nil {
		err = checkAddresses(a.Dropped.Addresses)
	}
	if err != nil {
		return reservation.Attachment{}, fmt.Errorf("decode attachment: %w", err)
	}
	a.ID.Network, a.ID.IfName = a.Owner.Network, a.Owner.IfName
	if a.Claimed != nil {
		a.Claimed.Owner, a.Claimed.Addresses = a.Owner, a.Addresses
	}
	return a, nil
}

func decodeReservation(data []byte) (r reservation.Reservation, err error) {
	err = decode(data, func(f *form) { f.reservation(&r) }, func() (err error) { r, err = reservationOfJSON(data); return err })
	if err = errors.Join(err, checkAddresses(r.Addresses)); err != nil {
		return reservation.Reservation{}, fmt.Errorf("decode reservation: %w", err)
	}
	return r, nil
}

// checkAddresses refuses addresses that JSON can hold and the index cannot.
func checkAddresses(addrs []netip.Addr) error {
	for _, a := range addrs {
		if !a.IsValid() || a.Zone() != "" {
			return fmt.Errorf("address %q: %w", a, ErrDamaged)
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

// atKey checks that a record is stored at its own key: keys have no checksum, but repeat what their records say.
func atKey(k, own []byte) error {
	if !bytes.Equal(k, own) {
		return fmt.Errorf("record of %q at the key %q: %w", own, k, ErrDamaged)
	}
	return nil
}

// The types name the keys of records for encoding/json, which reads the records that form does not.

type momentRecord struct {
	Wall time.Time     `json:"wall"`
	Boot string        `json:"boot,omitempty"`
	Up   time.Duration `json:"up"`
}

type deadlineRecord struct {
	From momentRecord  `json:"from"`
	For  time.Duration `json:"for"`
}

// claimedRecord is a claimed reservation, without the fields that the attachment repeats. The first versions wrote and
// read the deadline only.
type claimedRecord struct {
	deadlineRecord

	ContainerID string           `json:"id,omitempty"`
	UID         string           `json:"uid,omitempty"`
	Retain      time.Duration    `json:"retain,omitempty"`
	Mode        reservation.Mode `json:"mode,omitempty"`
	Seq         *uint64          `json:"seq,omitempty"`
}

type ownerRecord struct {
	Network   string `json:"net"`
	Namespace string `json:"ns,omitempty"`
	Pod       string `json:"pod,omitempty"`
	IfName    string `json:"if"`
}

type attachmentRecord struct {
	Owner           ownerRecord        `json:"owner"`
	ContainerID     string             `json:"id"`
	UID             string             `json:"uid,omitempty"`
	Addresses       []netip.Addr       `json:"ips"`
	Retain          time.Duration      `json:"retain,omitempty"`
	Mode            reservation.Mode   `json:"mode,omitempty"`
	AnnotationsSeen bool               `json:"wish,omitempty"`
	NetNS           string             `json:"netns,omitempty"`
	NetNSDev        uint64             `json:"nsdev,omitempty"`
	NetNSInode      uint64             `json:"nsino,omitempty"`
	Since           momentRecord       `json:"since"`
	Seq             uint64             `json:"seq"`
	Claimed         *claimedRecord     `json:"claimed,omitempty"`
	Dropped         *reservationRecord `json:"dropped,omitempty"`
	RefusedSince    *momentRecord      `json:"refused,omitempty"`
	RefusedUID      string             `json:"refuseduid,omitempty"`
	Caller          int                `json:"caller,omitempty"`
}

type reservationRecord struct {
	Owner       ownerRecord      `json:"owner"`
	ContainerID string           `json:"id,omitempty"`
	UID         string           `json:"uid,omitempty"`
	Addresses   []netip.Addr     `json:"ips"`
	Deadline    deadlineRecord   `json:"until"`
	Retain      time.Duration    `json:"retain,omitempty"`
	Mode        reservation.Mode `json:"mode,omitempty"`
	Seq         uint64           `json:"seq"`

	NetNS        string        `json:"netns,omitempty"`
	NetNSDev     uint64        `json:"nsdev,omitempty"`
	NetNSInode   uint64        `json:"nsino,omitempty"`
	NetNSBoot    string        `json:"nsboot,omitempty"`
	RefusedSince *momentRecord `json:"refused,omitempty"`
	RefusedUID   string        `json:"refuseduid,omitempty"`
}

func (r momentRecord) moment() reservation.Moment {
	return reservation.Moment{Wall: r.Wall, BootID: r.Boot, Up: r.Up}
}

// momentOf converts a moment that need not be there.
func momentOf(r *momentRecord) *reservation.Moment {
	if r == nil {
		return nil
	}
	return new(r.moment())
}

func (r deadlineRecord) deadline() reservation.Deadline {
	return reservation.Deadline{From: r.From.moment(), For: r.For}
}

// reservation returns the reservation that an attachment claimed, without the fields that the attachment repeats. A record
// of the first versions has only the deadline: the other fields come from the attachment.
func (r claimedRecord) reservation(by reservation.Attachment) *reservation.Reservation {
	claimed := reservation.Reservation{
		ContainerID: by.ID.ContainerID, UID: by.UID, Deadline: r.deadline(), Retain: by.Retain, Mode: by.Mode, Seq: by.Seq,
	}
	if r.Seq != nil {
		claimed.ContainerID, claimed.UID, claimed.Retain, claimed.Mode, claimed.Seq = r.ContainerID, r.UID, r.Retain, r.Mode, *r.Seq
	}
	return &claimed
}

func (r reservationRecord) reservation() reservation.Reservation {
	return reservation.Reservation{
		Owner: reservation.Owner(r.Owner), ContainerID: r.ContainerID, UID: r.UID, Addresses: r.Addresses,
		Deadline: r.Deadline.deadline(), Retain: r.Retain, Mode: r.Mode, Seq: r.Seq,
		NetNS: reservation.NetNS{Path: r.NetNS, Dev: r.NetNSDev, Inode: r.NetNSInode}, BootID: r.NetNSBoot, RefusedSince: momentOf(r.RefusedSince), RefusedUID: r.RefusedUID,
	}
}

// attachmentOfJSON decodes an attachment whose checksum was checked.
func attachmentOfJSON(data []byte) (reservation.Attachment, error) {
	var r attachmentRecord
	if err := unmarshal(data, &r); err != nil {
		return reservation.Attachment{}, err
	}
	a := reservation.Attachment{
		ID:    reservation.AttachmentID{ContainerID: r.ContainerID},
		Owner: reservation.Owner(r.Owner), UID: r.UID, Addresses: r.Addresses, Retain: r.Retain, Mode: r.Mode, AnnotationsSeen: r.AnnotationsSeen,
		NetNS: reservation.NetNS{Path: r.NetNS, Dev: r.NetNSDev, Inode: r.NetNSInode},
		Since: r.Since.moment(), Seq: r.Seq, RefusedSince: momentOf(r.RefusedSince), RefusedUID: r.RefusedUID, Caller: r.Caller,
	}
	if r.Claimed != nil {
		a.Claimed = r.Claimed.reservation(a)
	}
	if r.Dropped != nil {
		a.Dropped = new(r.Dropped.reservation())
	}
	return a, nil
}

// reservationOfJSON decodes a reservation whose checksum was checked.
func reservationOfJSON(data []byte) (reservation.Reservation, error) {
	var r reservationRecord
	err := unmarshal(data, &r)
	return r.reservation(), err
}

func unmarshal(data []byte, record any) error {
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	return nil
}
