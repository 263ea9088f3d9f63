package persistence

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Records are JSON with short keys: any bbolt browser can show them, and this version ignores keys that a newer version
// adds. The names in the key of a record are repeated in the record, so that the record can be understood alone. The last
// key is a checksum of everything before it; records of the first version have none.

const (
	sumKey  = `,"sum":"`
	sumSize = len(sumKey) + 8 + len(`"}`)
)

// seal adds the checksum to a record that has no closing brace.
func seal(data []byte) []byte {
	sum := crc32.ChecksumIEEE(data)
	data = append(data, sumKey...)
	data = hex.AppendEncode(data, binary.BigEndian.AppendUint32(nil, sum))
	return append(data, `"}`...)
}

// unseal checks a record and returns it without its checksum and the closing brace. A record without a checksum is
// returned as it is.
func unseal(data []byte) ([]byte, error) {
	at := len(data) - sumSize
	if at <= 0 || string(data[at:at+len(sumKey)]) != sumKey {
		return data, nil
	}
	body, want := data[:at], string(data[at+len(sumKey):len(data)-2])
	if got := fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)); got != want {
		return nil, fmt.Errorf("checksum %s, want %s: %w", got, want, ErrDamaged)
	}
	return body, nil
}

func (f *form) moment(before string, m *reservation.Moment) {
	if f.at(before) && f.at(`{"wall":`) {
		wall := m.Wall.UTC()
		if f.value(&wall); f.reads {
			m.Wall = wall
		}
		f.mayText(`,"boot":`, &m.BootID)
		integer(f, `,"up":`, &m.Up)
		f.at("}")
	}
}

// refused are the fields of the successor that was told to wait.
func (f *form) refused(since **reservation.Moment, uid *string) {
	if f.may(`,"refused":`, *since == nil) {
		f.moment("", made(since))
	}
	f.mayText(`,"refuseduid":`, uid)
}

// made returns what a pointer points to, which is made if there is none.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func (f *form) owner(o *reservation.Owner) {
	f.text(`{"owner":{"net":`, &o.Network)
	f.mayText(`,"ns":`, &o.Namespace)
	f.mayText(`,"pod":`, &o.Pod)
	f.text(`,"if":`, &o.IfName)
	f.at("}")
}

// retention are the fields of what a pod asks for.
func (f *form) retention(retain *time.Duration, mode *reservation.Mode) {
	mayInteger(f, `,"retain":`, retain)
	mayInteger(f, `,"mode":`, mode)
}

func (f *form) netNS(ns *reservation.NetNS) {
	f.mayText(`,"netns":`, &ns.Path)
	mayInteger(f, `,"nsdev":`, &ns.Dev)
	mayInteger(f, `,"nsino":`, &ns.Inode)
}

func (f *form) attachment(a *reservation.Attachment) {
	f.owner(&a.Owner)
	f.text(`,"id":`, &a.ID.ContainerID)
	f.mayText(`,"uid":`, &a.UID)
	f.addresses(`,"ips":`, &a.Addresses)
	f.retention(&a.Retain, &a.Mode)
	f.mayTrue(`,"wish":`, &a.AnnotationsSeen)
	f.netNS(&a.NetNS)
	f.moment(`,"since":`, &a.Since)
	integer(f, `,"seq":`, &a.Seq)
	if f.may(`,"claimed":`, a.Claimed == nil) {
		f.claimed(made(&a.Claimed))
	}
	if f.may(`,"dropped":`, a.Dropped == nil) {
		f.reservation(made(&a.Dropped))
		f.at("}")
	}
	f.refused(&a.RefusedSince, &a.RefusedUID)
	mayInteger(f, `,"caller":`, &a.Caller)
}

// claimed are the fields of a claimed reservation that its attachment does not repeat.
func (f *form) claimed(r *reservation.Reservation) {
	f.moment(`{"from":`, &r.Deadline.From)
	integer(f, `,"for":`, &r.Deadline.For)
	f.mayText(`,"id":`, &r.ContainerID)
	f.mayText(`,"uid":`, &r.UID)
	f.retention(&r.Retain, &r.Mode)
	integer(f, `,"seq":`, &r.Seq)
	f.at("}")
}

func (f *form) reservation(r *reservation.Reservation) {
	f.owner(&r.Owner)
	f.mayText(`,"id":`, &r.ContainerID)
	f.mayText(`,"uid":`, &r.UID)
	f.addresses(`,"ips":`, &r.Addresses)
	f.moment(`,"until":{"from":`, &r.Deadline.From)
	integer(f, `,"for":`, &r.Deadline.For)
	f.at("}")
	f.retention(&r.Retain, &r.Mode)
	integer(f, `,"seq":`, &r.Seq)
	f.netNS(&r.NetNS)
	f.mayText(`,"nsboot":`, &r.BootID)
	f.refused(&r.RefusedSince, &r.RefusedUID)
}

func encodeAttachment(a reservation.Attachment) ([]byte, error) {
	return encode(func(f *form) { f.attachment(&a) })
}

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

func encodeReservation(r reservation.Reservation) ([]byte, error) {
	return encode(func(f *form) { f.reservation(&r) })
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
		if len(part) > 0 && !bytes.Contains(data, appendText(nil, string(part))) {
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
