package persistence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records are JSON with short keys: any bbolt browser can show them, and this version ignores keys that a newer version
// adds. The names in the key of a record are repeated in the record, so that the record can be understood alone. The last
// key is a checksum of everything before it; records of the first version have none.

const (
	sumKey  = `,"sum":"`
	sumSize = len(sumKey) + 8 + len(`"}`)
)

// seal encodes a record and adds its checksum.
func seal(record any) ([]byte, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	data = data[:len(data)-1] // the brace
	return fmt.Appendf(data, `%s%08x"}`, sumKey, crc32.ChecksumIEEE(data)), nil
}

// unseal checks and decodes a record.
func unseal(data []byte, record any) error {
	if body := len(data) - sumSize; body > 0 && string(data[body:body+len(sumKey)]) == sumKey {
		want := string(data[body+len(sumKey) : len(data)-2])
		if got := fmt.Sprintf("%08x", crc32.ChecksumIEEE(data[:body])); got != want {
			return fmt.Errorf("checksum %s, want %s: %w", got, want, ErrDamaged)
		}
	}
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	return nil
}

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

// checkAddresses refuses addresses that JSON can hold and the index cannot.
func checkAddresses(addrs []netip.Addr) error {
	for _, a := range addrs {
		if !a.IsValid() || a.Zone() != "" {
			return fmt.Errorf("address %q: %w", a, ErrDamaged)
		}
	}
	return nil
}

func fromMoment(m reservation.Moment) momentRecord {
	return momentRecord{Wall: m.Wall.Round(0).UTC(), Boot: m.BootID, Up: m.Up}
}

func (r momentRecord) moment() reservation.Moment {
	return reservation.Moment{Wall: r.Wall, BootID: r.Boot, Up: r.Up}
}

// momentOf and recordOf convert a moment that need not be there.
func momentOf(r *momentRecord) *reservation.Moment {
	if r == nil {
		return nil
	}
	return new(r.moment())
}

func recordOf(m *reservation.Moment) *momentRecord {
	if m == nil {
		return nil
	}
	return new(fromMoment(*m))
}

func fromDeadline(d reservation.Deadline) deadlineRecord {
	return deadlineRecord{From: fromMoment(d.From), For: d.For}
}

func (r deadlineRecord) deadline() reservation.Deadline {
	return reservation.Deadline{From: r.From.moment(), For: r.For}
}

func fromClaimed(r reservation.Reservation) *claimedRecord {
	return &claimedRecord{
		deadlineRecord: fromDeadline(r.Deadline), ContainerID: r.ContainerID, UID: r.UID, Retain: r.Retain, Mode: r.Mode, Seq: &r.Seq,
	}
}

// reservation returns the reservation that an attachment claimed. A record of the first versions has only the deadline:
// the other fields come from the attachment.
func (r claimedRecord) reservation(by reservation.Attachment) *reservation.Reservation {
	claimed := reservation.Reservation{
		Owner: by.Owner, ContainerID: by.ID.ContainerID, UID: by.UID, Addresses: by.Addresses,
		Deadline: r.deadline(), Retain: by.Retain, Mode: by.Mode, Seq: by.Seq,
	}
	if r.Seq != nil {
		claimed.ContainerID, claimed.UID, claimed.Retain, claimed.Mode, claimed.Seq = r.ContainerID, r.UID, r.Retain, r.Mode, *r.Seq
	}
	return &claimed
}

func encodeAttachment(a reservation.Attachment) ([]byte, error) {
	r := attachmentRecord{
		Owner: ownerRecord(a.Owner), ContainerID: a.ID.ContainerID, UID: a.UID, Addresses: a.Addresses,
		Retain: a.Retain, Mode: a.Mode, AnnotationsSeen: a.AnnotationsSeen, NetNS: a.NetNS.Path, NetNSDev: a.NetNS.Dev, NetNSInode: a.NetNS.Inode,
		Since: fromMoment(a.Since), Seq: a.Seq, RefusedSince: recordOf(a.RefusedSince), RefusedUID: a.RefusedUID, Caller: a.Caller,
	}
	if a.Claimed != nil {
		r.Claimed = fromClaimed(*a.Claimed)
	}
	if a.Dropped != nil {
		r.Dropped = new(fromReservation(*a.Dropped))
	}
	return seal(r)
}

func decodeAttachment(data []byte) (reservation.Attachment, error) {
	var r attachmentRecord
	if err := errors.Join(unseal(data, &r), checkAddresses(r.Addresses)); err != nil {
		return reservation.Attachment{}, fmt.Errorf("decode attachment: %w", err)
	}
	a := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: r.Owner.Network, ContainerID: r.ContainerID, IfName: r.Owner.IfName},
		Owner: reservation.Owner(r.Owner), UID: r.UID, Addresses: r.Addresses, Retain: r.Retain, Mode: r.Mode, AnnotationsSeen: r.AnnotationsSeen,
		NetNS: reservation.NetNS{Path: r.NetNS, Dev: r.NetNSDev, Inode: r.NetNSInode},
		Since: r.Since.moment(), Seq: r.Seq, RefusedSince: momentOf(r.RefusedSince), RefusedUID: r.RefusedUID, Caller: r.Caller,
	}
	if r.Claimed != nil {
		a.Claimed = r.Claimed.reservation(a)
	}
	if r.Dropped != nil {
		d, err := r.Dropped.reservation()
		if err != nil {
			return reservation.Attachment{}, fmt.Errorf("decode attachment: %w", err)
		}
		a.Dropped = &d
	}
	return a, nil
}

func encodeReservation(r reservation.Reservation) ([]byte, error) { return seal(fromReservation(r)) }

func fromReservation(r reservation.Reservation) reservationRecord {
	return reservationRecord{
		Owner: ownerRecord(r.Owner), ContainerID: r.ContainerID, UID: r.UID, Addresses: r.Addresses,
		Deadline: fromDeadline(r.Deadline), Retain: r.Retain, Mode: r.Mode, Seq: r.Seq,
		NetNS: r.NetNS.Path, NetNSDev: r.NetNS.Dev, NetNSInode: r.NetNS.Inode, NetNSBoot: r.BootID, RefusedSince: recordOf(r.RefusedSince), RefusedUID: r.RefusedUID,
	}
}

func decodeReservation(data []byte) (reservation.Reservation, error) {
	var r reservationRecord
	if err := unseal(data, &r); err != nil {
		return reservation.Reservation{}, fmt.Errorf("decode reservation: %w", err)
	}
	return r.reservation()
}

func (r reservationRecord) reservation() (reservation.Reservation, error) {
	if err := checkAddresses(r.Addresses); err != nil {
		return reservation.Reservation{}, fmt.Errorf("decode reservation: %w", err)
	}
	return reservation.Reservation{
		Owner: reservation.Owner(r.Owner), ContainerID: r.ContainerID, UID: r.UID, Addresses: r.Addresses,
		Deadline: r.Deadline.deadline(), Retain: r.Retain, Mode: r.Mode, Seq: r.Seq,
		NetNS: reservation.NetNS{Path: r.NetNS, Dev: r.NetNSDev, Inode: r.NetNSInode}, BootID: r.NetNSBoot, RefusedSince: momentOf(r.RefusedSince), RefusedUID: r.RefusedUID,
	}, nil
}

// atKey checks that a record is stored at its own key: keys have no checksum, but repeat what their records say.
func atKey(k, own []byte) error {
	if !bytes.Equal(k, own) {
		return fmt.Errorf("record of %q at the key %q: %w", own, k, ErrDamaged)
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
