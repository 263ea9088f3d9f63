package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Reservations returns all reservations of a network, lapsed ones included.
func (t *Tx) Reservations(network string) ([]reservation.Reservation, error) {
	return scan(t.bucket(bucketReservations), key(network, ""), reservationAt)
}

// CountReservationsOf counts the reservations of a namespace on a network, lapsed ones included.
func (t *Tx) CountReservationsOf(network, namespace string) int64 {
	return int64(number(t.bucket(bucketOrder).get(orderKey(network, ofNS, namespace))))
}

// PutReservation stores a reservation and holds its addresses. It replaces the reservation that the owner has, unless that has
// other addresses and is on loan. It returns reservation.ErrHeld when one of the addresses has another holder.
func (t *Tx) PutReservation(r reservation.Reservation) error {
	if err := checkNames("", r.Owner); err != nil {
		return err
	}
	if err := t.drop(r.Owner, r.Addresses, false); err != nil {
		return err
	}
	if err := t.hold(r.Owner.Network, r.Addresses); err != nil {
		return err
	}
	data, err := encodeReservation(r)
	if err != nil {
		return fmt.Errorf("encode reservation of %s: %w", r.Owner, err)
	}
	t.promise = true
	return errors.Join(t.bucket(bucketReservations).put(ownerKey(r.Owner), data), t.changeOrder(r, 1))
}

// DeleteReservation deletes a reservation and frees its addresses. Deleting an unknown reservation is not an error. It refuses a
// reservation that is on loan with reservation.ErrLoan.
func (t *Tx) DeleteReservation(o reservation.Owner) error { return t.drop(o, nil, false) }

// TakeReservation deletes a reservation that may be on loan: its owner claims it, or the loan has ended.
func (t *Tx) TakeReservation(o reservation.Owner) error { return t.drop(o, nil, true) }

// drop deletes a reservation. One that is on loan only goes when that is known, or when another one keeps the addresses.
func (t *Tx) drop(o reservation.Owner, keep []netip.Addr, known bool) error {
	r, found, err := t.Reservation(o)
	if err != nil || !found {
		return err
	}
	if r.OnLoan() && !known && !slices.Equal(r.Addresses, keep) {
		return fmt.Errorf("free %v of %s: %w: kubectl limpet pod %s -n %s tells where it is", r.Addresses, o, reservation.ErrLoan, o.Pod, o.Namespace)
	}
	if err := t.release(o.Network, r.Addresses); err != nil {
		return err
	}
	last := reservation.LastHolder{Network: o.Network, ContainerID: r.ContainerID, NetNS: r.NetNS, BootID: r.BootID}
	if err := t.remember(last, r.Addresses); err != nil {
		return err
	}
	return errors.Join(t.bucket(bucketReservations).delete(ownerKey(o)), t.changeOrder(r, -1))
}

// The bucket of the order holds the order in which reservations end and give way, and their number by namespace.

// The kinds of entries. The byte follows the network in the key.
const (
	byEnd = 'e' // mode, boot, deadline, number, owner → the rest of the deadline
	byAge = 'a' // namespace, then mode, boot, begin, number, owner → the rest of the deadline
	ofNS  = 'n' // namespace → number of reservations
)

// orderCount returns a number of reservations as the order has it.
func orderCount(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// orderKey returns the beginning of a key: network, kind, and what follows.
func orderKey(network string, kind byte, rest string) []byte {
	return append(append(key(network, ""), kind), rest...)
}

// The parts of a key after the kind, and of a value.
const (
	orderGroup = 1 + 4              // mode and boot
	orderHead  = orderGroup + 8 + 8 // and moment by CLOCK_BOOTTIME, number of the life
	orderValue = 8 + 4 + 8          // begin by the wall clock, length

	orderLent = byte(reservation.Follow) + 1 // in the place of the mode, behind all that may give way
)

// orderEntries returns the keys of a reservation in both orders, and their value.
func orderEntries(r reservation.Reservation) (end, age, value []byte) {
	d := r.Deadline
	mode := byte(r.Mode)
	if r.Lent != 0 {
		mode = orderLent
	}
	owner, boot := key(r.Owner.Namespace, r.Owner.Pod, r.Owner.IfName), bootSum(d.From)
	at := func(kind byte, first string, moment time.Duration) []byte {
		k := make([]byte, 0, len(r.Owner.Network)+2+len(first)+orderHead+len(owner))
		k = append(append(append(append(k, r.Owner.Network...), 0, kind), first...), mode)
		k = binary.BigEndian.AppendUint32(k, boot)
		k = binary.BigEndian.AppendUint64(k, uint64(max(moment, 0)))
		k = binary.BigEndian.AppendUint64(k, r.Seq)
		return append(k, owner...)
	}
	value = binary.BigEndian.AppendUint64(make([]byte, 0, orderValue), uint64(d.From.Wall.Unix()))
	value = binary.BigEndian.AppendUint32(value, uint32(d.From.Wall.Nanosecond()))
	value = binary.BigEndian.AppendUint64(value, uint64(d.For))
	return at(byEnd, "", d.From.Up+d.For), at(byAge, r.Owner.Namespace+"\x00", d.From.Up), value
}

// changeOrder adds or removes the entries of a reservation, and counts it. One of a guest has no entries and does not count:
// nothing ends it here, and its addresses are not of the pool.
func (t *Tx) changeOrder(r reservation.Reservation, by int) error {
	if r.Guest != 0 {
		return nil
	}
	b := t.bucket(bucketOrder)
	end, age, value := orderEntries(r)
	count := orderKey(r.Owner.Network, ofNS, r.Owner.Namespace)
	n := int(number(b.get(count))) + by
	put := func(k, v []byte) error { return b.put(k, v) }
	if by < 0 {
		put = func(k, _ []byte) error { return b.delete(k) }
	}
	err := errors.Join(put(end, value), put(age, value))
	if n > 0 {
		err = errors.Join(err, b.put(count, orderCount(uint64(n))))
	} else {
		err = errors.Join(err, b.delete(count))
	}
	return errors.Join(err, t.updateUsage(r.Owner.Network, func(p *PoolUsage) { p.Reserved += int64(by) }))
}
