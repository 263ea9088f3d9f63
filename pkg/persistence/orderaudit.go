package persistence

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// orderComparison compares the order of reservations with the reservations.
type orderComparison struct {
	b       *bucket
	right   int // entries that are as they must be
	missing int
	inNS    map[string]uint64 // reservations by key of their namespace
}

func newOrderComparison(t *Tx) orderComparison {
	return orderComparison{b: t.bucket(bucketOrder), inNS: map[string]uint64{}}
}

// lookUp looks a reservation up in the order.
func (o *orderComparison) lookUp(r reservation.Reservation) {
	end, age, value := orderEntries(r)
	o.compare(end, value)
	o.compare(age, value)
	o.inNS[string(orderKey(r.Owner.Network, ofNS, r.Owner.Namespace))]++
}

// compare counts an entry as right or missing.
func (o *orderComparison) compare(k, want []byte) {
	switch got := o.b.Get(k); {
	case bytes.Equal(got, want):
		o.right++
	case got == nil:
		o.missing++
	}
}

// compareOrder reports the differences. It looks for the entries that are wrong only if there are any.
func (c *comparison) compareOrder() {
	o := &c.order
	for k, n := range o.inNS {
		o.compare([]byte(k), orderCount(n))
	}
	if keys(o.b, c.file) > o.right {
		_ = o.b.ForEach(func(k, v []byte) error { // the function returns no error
			c.file.touch(2)
			if want := c.orderedAs(k); want == nil || !bytes.Equal(want, v) {
				c.r.fault(FaultIndex, readable(k), "is in the order of reservations, and no reservation has this place")
			}
			return nil
		})
	}
	if o.missing > 0 {
		c.r.fault(FaultIndex, "reservations", fmt.Sprintf("%d entries are missing in their order", o.missing))
	}
}

// orderedAs returns the value that an entry of the order must have; nil when there must be no such entry.
func (c *comparison) orderedAs(k []byte) []byte {
	if n, is := c.order.inNS[string(k)]; is {
		return orderCount(n)
	}
	network, rest, _ := strings.Cut(string(k), "\x00")
	kind, rest := rest[:min(1, len(rest))], rest[min(1, len(rest)):]
	if kind == string(rune(byAge)) {
		_, rest, _ = strings.Cut(rest, "\x00")
	}
	if len(rest) < orderHead {
		return nil
	}
	names := strings.Split(rest[orderHead:], "\x00")
	if len(names) != 3 {
		return nil
	}
	own := ownerKey(reservation.Owner{Network: network, Namespace: names[0], Pod: names[1], IfName: names[2]})
	r, err := reservationAt(own, c.t.bucket(bucketReservations).Get(own))
	if err != nil {
		return nil
	}
	if end, age, value := orderEntries(r); bytes.Equal(k, end) || bytes.Equal(k, age) {
		return value
	}
	return nil
}
