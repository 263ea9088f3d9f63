package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

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

// bucketOrder holds the order in which reservations end and give way, and their number by namespace. A verb that needs
// the order makes it from the records, unless it is kept. Each later verb keeps it.
//
// The order is kept while the mark in the bucket of single values names the last transaction of the file. A version
// without the order, and Compact, write another transaction and leave the mark: then the order does not count, and the
// next verb that needs it makes it again.
var bucketOrder = []byte("order")

// The kinds of entries. The byte follows the network in the key.
const (
	byEnd = 'e' // mode, boot, deadline, number, owner → the rest of the deadline
	byAge = 'a' // namespace, then mode, boot, begin, number, owner → the rest of the deadline
	ofNS  = 'n' // namespace → number of reservations
)

// errDisorder is returned for an entry without its record, or with another one.
var errDisorder = errors.New("the order of reservations is not that of the records")

// makeOrder makes the order from the records.
func (t *Tx) makeOrder() error {
	all, err := scan(t.tx.Bucket(bucketReservations), nil, reservationAt)
	if err != nil {
		return err
	}
	if t.tx.Bucket(bucketOrder) != nil {
		if err := t.tx.DeleteBucket(bucketOrder); err != nil {
			return fmt.Errorf("make order: %w", err)
		}
	}
	b, err := t.tx.CreateBucket(bucketOrder)
	if err != nil {
		return fmt.Errorf("make order: %w", err)
	}
	entries := orderOf(all)
	keys := make([]string, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	slices.Sort(keys) // in order, each entry is appended
	for _, k := range keys {
		if err := b.Put([]byte(k), entries[k]); err != nil {
			return fmt.Errorf("make order: %w", err)
		}
	}
	t.ordered, t.orderKnown = true, true
	return nil
}

// orderOf returns the entries of reservations.
func orderOf(all []reservation.Reservation) map[string][]byte {
	entries := map[string][]byte{}
	for _, r := range all {
		end, age, value := orderEntries(r)
		entries[string(end)], entries[string(age)] = value, value
		k := string(orderKey(r.Owner.Network, ofNS, r.Owner.Namespace))
		entries[k] = orderCount(number(entries[k]) + 1)
	}
	return entries
}

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
)

// orderEntries returns the keys of a reservation in both orders, and their value.
func orderEntries(r reservation.Reservation) (end, age, value []byte) {
	d := r.Deadline
	at := func(kind byte, first string, moment time.Duration) []byte {
		k := append(orderKey(r.Owner.Network, kind, first), byte(r.Mode))
		k = binary.BigEndian.AppendUint32(k, bootSum(d.From))
		k = binary.BigEndian.AppendUint64(k, uint64(max(moment, 0)))
		k = binary.BigEndian.AppendUint64(k, r.Seq)
		return append(k, key(r.Owner.Namespace, r.Owner.Pod, r.Owner.IfName)...)
	}
	value = binary.BigEndian.AppendUint64(nil, uint64(d.From.Wall.Unix()))
	value = binary.BigEndian.AppendUint32(value, uint32(d.From.Wall.Nanosecond()))
	value = binary.BigEndian.AppendUint64(value, uint64(d.For))
	return at(byEnd, "", d.From.Up+d.For), at(byAge, r.Owner.Namespace+"\x00", d.From.Up), value
}

// addToOrder adds a reservation that was stored.
func (t *Tx) addToOrder(r reservation.Reservation) error { return t.changeOrder(r, 1) }

// removeFromOrder removes a reservation that was deleted.
func (t *Tx) removeFromOrder(r reservation.Reservation) error { return t.changeOrder(r, -1) }

// changeOrder adds or removes a reservation while the order is kept. An order that lacks the reservation is kept no more.
func (t *Tx) changeOrder(r reservation.Reservation, by int) error {
	if !t.orderKept() {
		return nil
	}
	b := t.tx.Bucket(bucketOrder)
	end, age, value := orderEntries(r)
	count := orderKey(r.Owner.Network, ofNS, r.Owner.Namespace)
	n := int(number(b.Get(count))) + by
	if n < 0 || by < 0 && (b.Get(end) == nil || b.Get(age) == nil) {
		t.ordered = false
		return nil
	}
	put := func(k, v []byte) error {
		if v == nil {
			return b.Delete(k)
		}
		return b.Put(k, v)
	}
	if by < 0 {
		value = nil
	}
	var left []byte
	if n > 0 {
		left = orderCount(uint64(n))
	}
	if err := errors.Join(put(end, value), put(age, value), put(count, left)); err != nil {
		return fmt.Errorf("order reservation of %s: %w", r.Owner, err)
	}
	return nil
}

// inOrder runs fn, which reads the order. It makes the order before, unless it is kept, and again if it is wrong.
func (t *Tx) inOrder(fn func() error) error {
	if !t.orderKept() {
		if err := t.makeOrder(); err != nil {
			return err
		}
	}
	err := fn()
	if errors.Is(err, errDisorder) {
		if err := t.makeOrder(); err != nil {
			return err
		}
		if err = fn(); errors.Is(err, errDisorder) {
			err = fmt.Errorf("%w: %w", err, ErrDamaged)
		}
	}
	return err
}
