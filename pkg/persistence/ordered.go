package persistence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// LapsedReservations returns the reservations of a network whose deadline has passed. The entries of this boot are read up
// to the first that has not lapsed.
func (t *Tx) LapsedReservations(network string, now reservation.Moment) ([]reservation.Reservation, error) {
	var all []reservation.Reservation
	w := newWalk(network, byEnd, "", now)
	c := t.bucket(bucketOrder).cursor()
	for k, v := c.seek(w.prefix); bytes.HasPrefix(k, w.prefix); {
		d, err := w.deadline(k, v)
		if err != nil {
			return nil, err
		}
		passed := d.Passed(now)
		if passed {
			r, err := w.record(t, k, v)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		if passed || d.From.BootID == w.earlier {
			k, v = c.next()
		} else {
			k, v = c.seek(w.afterGroup(k))
		}
	}
	return all, nil
}

// ReservationsByNamespace counts the reservations of a network, lapsed ones included.
func (t *Tx) ReservationsByNamespace(network string) map[string]int64 {
	of := map[string]int64{}
	prefix := orderKey(network, ofNS, "")
	c := t.bucket(bucketOrder).cursor()
	for k, v := c.seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.next() {
		of[string(k[len(prefix):])] = int64(number(v))
	}
	return of
}

// EndingSoonest returns some reservations of a namespace, in the order in which they give way to a pod: first
// "preferred", then those that end soonest.
func (t *Tx) EndingSoonest(network, namespace string, now reservation.Moment, some int) ([]reservation.Reservation, error) {
	return t.first(newWalk(network, byEnd, "", now), namespace, some)
}

// WaitingLongest returns some reservations of a namespace, in the order in which they give way to another reservation:
// first "preferred", then those that began first.
func (t *Tx) WaitingLongest(network, namespace string, now reservation.Moment, some int) ([]reservation.Reservation, error) {
	return t.first(newWalk(network, byAge, namespace+"\x00", now), namespace, some)
}

// first returns the first reservations of a namespace in an order.
func (t *Tx) first(w walk, namespace string, some int) (found []reservation.Reservation, err error) {
	places, err := t.places(w, namespace, some)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		r, err := w.record(t, p.key, p.value)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// errOrder is returned for an entry without its record, or with another one.
var errOrder = fmt.Errorf("the order of reservations is not that of the records: %w", ErrDamaged)

// place is an entry, and what decides about its place in the order.
type place struct {
	key, value []byte
	mode       byte
	rank       time.Duration // until the end, or since the begin
	seq        uint64
}

// before reports whether a place comes before another.
func (p *place) before(o *place) bool {
	return cmp.Or(cmp.Compare(p.mode, o.mode), cmp.Compare(p.rank, o.rank), cmp.Compare(p.seq, o.seq)) < 0
}

// places returns the first entries of a namespace. In the entries of this boot the first ones come first. Entries of
// earlier boots are in another order by the wall clock, so all of them are read.
func (t *Tx) places(w walk, namespace string, some int) ([]*place, error) {
	var best []*place
	own := append([]byte(namespace), 0)
	var group []byte
	left := some
	c := t.bucket(bucketOrder).cursor()
	for k, v := c.seek(w.prefix); bytes.HasPrefix(k, w.prefix); {
		d, err := w.deadline(k, v)
		if err != nil {
			return nil, err
		}
		head := k[len(w.prefix):]
		if !bytes.Equal(group, head[:orderGroup]) {
			group, left = head[:orderGroup], some
		}
		if bytes.HasPrefix(head[orderHead:], own) {
			rank := d.For - w.now.Since(d.From)
			if w.kind == byAge {
				rank = -w.now.Since(d.From)
			}
			best = insert(best, place{k, v, head[0], rank, binary.BigEndian.Uint64(head[orderGroup+8:])}, some)
			left--
		}
		if left <= 0 && d.From.BootID != w.earlier {
			k, v = c.seek(w.afterGroup(k))
		} else {
			k, v = c.next()
		}
	}
	return best, nil
}

// insert adds a place to the best ones, of which there are at most some.
func insert(best []*place, p place, some int) []*place {
	if len(best) == some && !p.before(best[some-1]) {
		return best
	}
	best = append(best, &p)
	i := len(best) - 1
	for ; i > 0 && p.before(best[i-1]); i-- {
		best[i] = best[i-1]
	}
	best[i] = &p
	return best[:min(some, len(best))]
}

// walk is a way through the entries of one order.
type walk struct {
	network string
	kind    byte
	prefix  []byte // of the keys: up to the kind, and the namespace where it follows
	now     reservation.Moment
	boot    uint32 // of now
	earlier string // stands for each boot but the present one
}

func newWalk(network string, kind byte, first string, now reservation.Moment) walk {
	return walk{network: network, kind: kind, prefix: orderKey(network, kind, first), now: now, boot: bootSum(now), earlier: now.BootID + " before"}
}

// deadline returns the deadline of an entry, with the clock by which it counts now: CLOCK_BOOTTIME for a deadline of this
// boot, the wall clock otherwise.
func (w walk) deadline(k, v []byte) (d reservation.Deadline, err error) {
	head := k[len(w.prefix):]
	if len(head) < orderHead || len(v) != orderValue {
		return d, errOrder
	}
	d.For = time.Duration(binary.BigEndian.Uint64(v[12:]))
	d.From.Wall, d.From.BootID = time.Unix(int64(binary.BigEndian.Uint64(v)), int64(binary.BigEndian.Uint32(v[8:]))), w.earlier
	if binary.BigEndian.Uint32(head[1:]) == w.boot {
		d.From.BootID, d.From.Up = w.now.BootID, time.Duration(binary.BigEndian.Uint64(head[orderGroup:]))
		if w.kind == byEnd {
			d.From.Up -= d.For
		}
	}
	return d, nil
}

// record returns the record of an entry.
func (w walk) record(t *Tx, k, v []byte) (r reservation.Reservation, err error) {
	names := strings.Split(string(k[len(w.prefix)+orderHead:]), "\x00")
	if len(names) != 3 {
		return r, errOrder
	}
	r, found, err := t.Reservation(reservation.Owner{Network: w.network, Namespace: names[0], Pod: names[1], IfName: names[2]})
	if err != nil {
		return r, err
	}
	end, age, value := orderEntries(r)
	if !found || !bytes.Equal(v, value) || !bytes.Equal(k, end) && !bytes.Equal(k, age) {
		return r, errOrder
	}
	return r, nil
}

// afterGroup returns a key behind all entries that have the mode and the boot of an entry.
func (w walk) afterGroup(k []byte) []byte {
	return append(slices.Clone(k[:len(w.prefix)+orderGroup]), "\xff\xff\xff\xff\xff\xff\xff\xff\xff"...) // longer than the moment
}
