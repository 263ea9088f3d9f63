package persistence

import (
	"bytes"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// bucketPressure came later than the buckets of the schema: network → pressureRecord. Who
// reads a file of before finds none.
var bucketPressure = []byte("pressure")

// Pressure is how much of a network's pool reservations hold and may hold, and how many
// there was no room for.
type Pressure struct {
	// Reserved counts the reservations, lapsed ones among them.
	Reserved int64
	// Limits are those that the last ADD knew; nil before the first, when nothing is limited.
	Limits *reservation.Limits
	// Reclaimed counts those that gave way to a pod, GaveWay those that gave way to another
	// reservation, and TurnedAway those that were asked for and not made.
	Reclaimed, GaveWay, TurnedAway uint64
	// Exhausted counts the ADDs for which there was no address.
	Exhausted uint64
}

type pressureRecord struct {
	Reserved   int64         `json:"reserved"`
	Limits     *limitsRecord `json:"limits,omitempty"`
	Reclaimed  uint64        `json:"reclaimed,omitempty"`
	GaveWay    uint64        `json:"gaveWay,omitempty"`
	TurnedAway uint64        `json:"turnedAway,omitempty"`
	Exhausted  uint64        `json:"exhausted,omitempty"`
}

type limitsRecord struct {
	Pods      int64         `json:"pods"`
	Refuse    bool          `json:"refuse,omitempty"`
	MaxRetain time.Duration `json:"maxRetain,omitempty"`
}

func encodePressure(p Pressure) ([]byte, error) {
	r := pressureRecord{Reserved: p.Reserved, Reclaimed: p.Reclaimed, GaveWay: p.GaveWay, TurnedAway: p.TurnedAway, Exhausted: p.Exhausted}
	if l := p.Limits; l != nil {
		r.Limits = &limitsRecord{Pods: l.Share.Pods, Refuse: l.Share.Refuse, MaxRetain: l.MaxRetain}
	}
	return seal(r)
}

func decodePressure(data []byte) (Pressure, error) {
	var r pressureRecord
	if err := unseal(data, &r); err != nil {
		return Pressure{}, fmt.Errorf("decode pressure: %w", err)
	}
	p := Pressure{Reserved: r.Reserved, Reclaimed: r.Reclaimed, GaveWay: r.GaveWay, TurnedAway: r.TurnedAway, Exhausted: r.Exhausted}
	if l := r.Limits; l != nil {
		p.Limits = &reservation.Limits{Share: reservation.Share{Pods: l.Pods, Refuse: l.Refuse}, MaxRetain: l.MaxRetain}
	}
	return p, nil
}

// Pressure returns what is known of a network, which is nothing where there never was a
// reservation nor an ADD.
func (t *Tx) Pressure(network string) (Pressure, error) {
	b := t.tx.Bucket(bucketPressure)
	if b == nil {
		return Pressure{}, nil
	}
	data := b.Get(key(network))
	if data == nil {
		return Pressure{}, nil
	}
	return decodePressure(data)
}

// press changes what is known of a network. What stays the same costs no page.
func (t *Tx) press(network string, change func(*Pressure)) error {
	p, err := t.Pressure(network)
	if err != nil {
		return err
	}
	change(&p)
	data, err := encodePressure(p)
	if err != nil {
		return fmt.Errorf("encode pressure: %w", err)
	}
	b := t.tx.Bucket(bucketPressure)
	if bytes.Equal(b.Get(key(network)), data) {
		return nil
	}
	return b.Put(key(network), data)
}

// SetLimits remembers what a network allows, for whoever ends an attachment or learns of a
// wish.
func (t *Tx) SetLimits(network string, l reservation.Limits) error {
	return t.press(network, func(p *Pressure) { p.Limits = &l })
}

// Reclaim ends a reservation that gives way to a pod.
func (t *Tx) Reclaim(o reservation.Owner) error {
	if err := t.DeleteReservation(o); err != nil {
		return err
	}
	return t.press(o.Network, func(p *Pressure) { p.Reclaimed++ })
}

// CountExhausted remembers an ADD for which there was no address.
func (t *Tx) CountExhausted(network string) error {
	return t.press(network, func(p *Pressure) { p.Exhausted++ })
}

// reserve stores the reservation that an end asks for, if there is room for one more or
// room is made. Below the share that takes one look at a count. Where an ADD is undone,
// its reservation was counted when it began, and is put back in any case (rule 8).
func (t *Tx) reserve(plan reservation.EndDecision, now reservation.Moment, rollback bool) (reservation.EndDecision, error) {
	network := plan.Reserve.Owner.Network
	p, err := t.Pressure(network)
	if err != nil {
		return plan, err
	}
	if rollback || p.Limits == nil || p.Limits.Share.Roomy(p.Reserved) {
		return plan, t.PutReservation(*plan.Reserve)
	}
	all, err := t.Reservations(network)
	if err != nil {
		return plan, err
	}
	d := reservation.PlanShare(reservation.ShareInput{Now: now, Share: p.Limits.Share, New: *plan.Reserve, Reserved: all})
	for _, r := range d.Lapsed {
		if err := t.DeleteReservation(r.Owner); err != nil {
			return plan, err
		}
	}
	if d.Verdict == reservation.TurnAway {
		plan.Reserve, plan.TurnedAway, plan.Reason = nil, true, d.Reason
		return plan, t.press(network, func(p *Pressure) { p.TurnedAway++ })
	}
	if d.GivesWay != nil {
		plan.GaveWay, plan.Reason = d.GivesWay, plan.Reason+"; "+d.Reason
		if err := t.DeleteReservation(d.GivesWay.Owner); err != nil {
			return plan, err
		}
		if err := t.press(network, func(p *Pressure) { p.GaveWay++ }); err != nil {
			return plan, err
		}
	}
	return plan, t.PutReservation(*plan.Reserve)
}

// count makes the counts agree with the reservations.
func (t *Tx) count() error {
	for network, n := range reservedIn(t.tx) {
		if network == "" {
			return fmt.Errorf("reservation without a network: %w", ErrDamaged)
		}
		if err := t.press(network, func(p *Pressure) { p.Reserved = n }); err != nil {
			return err
		}
	}
	return nil
}

// reservedIn counts the reservations of each network that has some or has a count.
func reservedIn(tx *bolt.Tx) map[string]int64 {
	reserved := map[string]int64{}
	add := func(n int64) func(k, _ []byte) error {
		return func(k, _ []byte) error {
			network, _, _ := bytes.Cut(k, []byte{0})
			reserved[string(network)] += n
			return nil
		}
	}
	_ = tx.Bucket(bucketReservations).ForEach(add(1)) // the function returns no error
	_ = tx.Bucket(bucketPressure).ForEach(add(0))     // neither does this one
	return reserved
}

// makePressure makes the bucket in a file of before, and counts what is there.
func makePressure(tx *bolt.Tx) error {
	if tx.Bucket(bucketPressure) != nil {
		return nil
	}
	if _, err := tx.CreateBucket(bucketPressure); err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketPressure, err)
	}
	return (&Tx{tx: tx}).count()
}
