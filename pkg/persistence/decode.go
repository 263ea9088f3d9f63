package persistence

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

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
	mayInteger(f, `,"guest":`, &a.Guest)
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
	mayInteger(f, `,"lent":`, &r.Lent)
	mayInteger(f, `,"guest":`, &r.Guest)
}

func encodeAttachment(a reservation.Attachment) ([]byte, error) {
	return encode(func(f *form) { f.attachment(&a) })
}

func encodeReservation(r reservation.Reservation) ([]byte, error) {
	return encode(func(f *form) { f.reservation(&r) })
}

func decodeAttachment(data []byte) (a reservation.Attachment, err error) {
	f := reading(data)
	f.attachment(&a)
	if err = f.end(); err == nil {
		err = checkAddresses(a.Addresses)
	}
	if err == nil && a.Dropped != nil {
		err = checkAddresses(a.Dropped.Addresses)
	}
	if err != nil {
		return reservation.Attachment{}, fmt.Errorf("decode attachment: %w", err)
	}
	a.ID.Network, a.ID.IfName = a.Owner.Network, a.Owner.IfName
	if a.Claimed != nil {
		a.Claimed.Owner, a.Claimed.Addresses, a.Claimed.Guest = a.Owner, a.Addresses, a.Guest
	}
	return a, nil
}

func decodeReservation(data []byte) (r reservation.Reservation, err error) {
	f := reading(data)
	f.reservation(&r)
	if err = f.end(); err == nil {
		err = checkAddresses(r.Addresses)
	}
	if err != nil {
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

// atKey checks that a record is stored at its own key: keys have no checksum, but repeat what their records say. The key is
// nil where it is not known.
func atKey(k, own []byte) error {
	if k != nil && !bytes.Equal(k, own) {
		return fmt.Errorf("record of %q at the key %q: %w", own, k, ErrDamaged)
	}
	return nil
}
