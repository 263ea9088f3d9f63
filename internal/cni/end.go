package cni

import (
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/results"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// rollbackAge is the oldest an attachment can be whose ADD still fails: the kubelet gives up
// on a sandbox after four minutes.
const rollbackAge = 4 * time.Minute

// end ends an attachment, and tells a person when the share of the pool that reservations may
// hold left a pod without one.
func (p *Plugin) end(tx *persistence.Tx, a reservation.Attachment, now reservation.Moment, rollback bool) (reservation.EndDecision, error) {
	plan, err := lifecycle.End(tx, a, now, rollback)
	if err != nil {
		return plan, err
	}
	full, keys := "Reservations hold their share of the pool", "ipam.maxReservedPercent"
	if plan.OverQuota {
		full, keys = "Reservations of the namespace hold its quota", "ipam.maxReservedPerNamespace or ipam.maxReservedPercentPerNamespace"
	}
	if g := plan.Displaced; g != nil {
		p.Log.Warn(full+", an older one gives way",
			"owner", g.Owner.String(), "addresses", g.Addresses, "left", g.Deadline.Left(now).String(), "to", a.Owner.String())
	}
	if plan.Refused {
		p.Log.Warn(full+", the addresses of the pod are not reserved; raise "+keys+" or ask for shorter reservations",
			"pod", a.Owner.String(), "addresses", a.Addresses, "reason", plan.Reason)
	}
	return plan, nil
}

func outcomeOfEnd(plan reservation.EndDecision) string {
	if plan.Reserve != nil {
		return outcomeReserved
	}
	return outcomeFreed
}

// rollback tells a DEL inside a failing ADD from a DEL that ends a pod. Once the whole chain of plugins has succeeded,
// libcni keeps the result in its cache, and hands it over from version 0.4.0 on. Without a result the DEL is a rollback
// if the interface plugin that called ADD also calls DEL. Otherwise a missing result says that the ADD has failed only
// where results of the network are known to be kept: some callers have a cache elsewhere. If that is not known, the pod
// counts as ended, since a reservation too many costs less than a reservation too few. The age guards against a cache
// that was emptied. A plugin further down the chain has an earlier result at ADD as well, but not with these addresses.
func (p *Plugin) rollback(tx *persistence.Tx, conf *netconf.Config, a reservation.Attachment, now reservation.Moment) (bool, error) {
	dirs := p.ResultsDirs()
	if len(conf.PrevResult) > 0 && netconf.Compare(a, conf.PrevResult) == nil || results.Succeeded(dirs, a.ID) {
		return false, tx.SetResultsKept(a.ID.Network)
	}
	if now.Since(a.Since) >= rollbackAge {
		return false, nil
	}
	if a.Caller != 0 && a.Caller == p.Caller {
		return true, nil
	}
	kept, sibling := results.Search(dirs, a.ID)
	return kept || !sibling && tx.ResultsKept(a.ID.Network), nil
}
