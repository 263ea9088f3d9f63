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

// rollback tells a DEL inside a failing ADD from a DEL that ends a pod. Once the whole chain
// of plugins has succeeded, libcni hands over the earlier result, or at least keeps it in its
// cache. The age guards against a runtime that keeps no cache. A plugin further down the chain
// has an earlier result at ADD as well, but not with these addresses.
func (p *Plugin) rollback(conf *netconf.Config, a reservation.Attachment, now reservation.Moment) bool {
	if len(conf.PrevResult) > 0 && netconf.Compare(a, conf.PrevResult) == nil {
		return false
	}
	return !results.Exists(p.ResultsDir, a.ID) && now.Since(a.Since) < rollbackAge
}
