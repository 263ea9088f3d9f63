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

// bucketOrder holds the order in which reservations end and give way, and their number by namespace. A verb that needs
// the order makes it from the records, unless it is kept. Each later verb keeps it.
//
// The order is kept while the mark in the bucket of single values names the last transaction of the file. A version
// without the order, and Compact, write another transaction and leave the mark: then the order does not count, and the
// next verb that needs it makes it again.
var bucketOrder = []byte("order")

// keyOrder names the mark. Versions with other keys in the bucket have another name.
var keyOrder = []byte("order2")

// The kinds of entries. The byte follows the network in the key.
const (
	byEnd = 'e' // mode, boot, deadline, number, owner → the rest of the deadline
	byAge = 'a' // namespace, then mode, boot, begin, number, owner → the rest of the deadline
	ofNS  = 'n' // namespace → number of reservations
)

// errDisorder is returned for an entry without its record, or with another one.
var errDisorder = errors.New("the order of reservations is not that of the records")

// orderMark returns the mark for a transaction and its generation.
func orderMark(transaction, generation uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, transaction), generation)
}

// orderKept reports whether the order agrees with the records.
func (t *Tx) orderKept() bool {
	if !t.orderKnown {
		last := uint64(t.tx.ID())
		if t.tx.Writable() {
			last-- // of the file, until this transaction is committed
		}
		mark := t.tx.Bucket(bucketMeta).Get(keyOrder)
		t.ordered = t.tx.Bucket(bucketOrder) != nil && bytes.Equal(mark, orderMark(last, generation(t.tx)))
		t.orderKnown = true
	}
	return t.ordered
}

// markOrder notes at the end of a transaction that the order was kept.
func (t *Tx) markOrder(generation uint64) error {
	return t.tx.Bucket(bucketMeta).Put(keyOrder, orderMark(uint64(t.tx.ID()), generation))
}

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

// number returns a stored number; 0 when there is none.
func number(v []byte) uint64 {
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

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
