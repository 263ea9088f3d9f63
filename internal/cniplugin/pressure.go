package cniplugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// limits are what the network allows those who ask for reservations.
func (c *config) limits() reservation.Limits {
	return reservation.Limits{
		Share:     reservation.NewShare(ipam.Pods(c.sets), c.sharePercent, c.refuse),
		MaxRetain: c.maxReservation,
	}
}

// end ends an attachment, and tells a person where the share of the pool that
// reservations may hold left somebody without one.
func (p *Plugin) end(tx *persistence.Tx, a reservation.Attachment, now reservation.Moment, rollback bool) (reservation.EndDecision, error) {
	plan, err := lifecycle.End(tx, a, now, rollback)
	if g := plan.Displaced; err == nil && g != nil {
		p.Log.Warn("Reservations hold their share of the pool, an older one gives way",
			"owner", g.Owner.String(), "addresses", g.Addresses, "left", g.Deadline.Left(now).String(), "to", a.Owner.String())
	}
	if err == nil && plan.Refused {
		p.Log.Warn("Reservations hold their share of the pool, the addresses of the pod are not reserved; raise ipam.maxReservedPercent or ask for shorter reservations",
			"pod", a.Owner.String(), "addresses", a.Addresses, "reason", plan.Reason)
	}
	return plan, err
}

// exhausted says host-local's words, and after them what holds the addresses and what a
// person can do.
func (p *Plugin) exhausted(tx *persistence.Tx, conf *config, n int, now reservation.Moment, err error) error {
	set := conf.sets[n]
	reserved, countErr := reservedIn(tx, conf.network, set)
	if countErr != nil {
		return errors.Join(err, countErr)
	}
	why := "pods of this node must end, or the range must grow"
	if len(reserved) > 0 {
		soonest := reserved[0].Deadline.Left(now)
		for _, r := range reserved {
			soonest = min(soonest, r.Deadline.Left(now))
		}
		because, help := "their addresses are host-local's or the gateway's", "pods of this node must end, or the range must grow"
		if conf.refuse {
			because, help = "ipam.onExhaustion is \"refuse\"", "wait, free one with limpet-ipam release, or let the range grow"
		}
		why = fmt.Sprintf("the first for another %s, and none gives way because %s: %s", soonest.Round(time.Second), because, help)
	}
	return fmt.Errorf("failed to allocate for range %d: %w; %d of its %d addresses are reserved: %s", n, err, len(reserved), ipam.Pods([]ipam.Set{set}), why)
}

// countExhausted counts an ADD that found no address, for the agent to tell. What that
// ADD had done is undone by then, so this is a transaction of its own.
func (c *config) countExhausted(err error) {
	if !errors.Is(err, ipam.ErrExhausted) {
		return
	}
	_ = c.brieflyUpdate(func(tx *persistence.Tx) error { return tx.CountExhausted(c.network) }) // the pod has its error, and a number is not worth another one
}
