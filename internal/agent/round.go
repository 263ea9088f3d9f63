package agent

import (
	"context"
	"errors"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
)

const (
	// period is how often the agent looks whether the state was written.
	period = time.Second
	// fullPeriod is how often all steps run, whether or not the state was written.
	fullPeriod = 5 * time.Second
	// auditShare bounds audits to a hundredth of the time: the audit of a huge state takes seconds.
	auditShare = 100
)

// round runs the steps that are due.
func (a *Agent) round(ctx context.Context) {
	now := a.Clock.Now()
	full := now.Sub(a.lastFull) >= fullPeriod
	if full && !a.refilled.Load() { // before a pod can start
		a.step("refill", func() error { return a.refill(ctx) })
	}
	if full || !a.pluginInstalled.Load() {
		a.step("install", func() error { return a.installPlugin(ctx) })
	}
	if a.OwnNetwork && a.knowsCluster() && (full || !a.networkSettled.Load()) {
		a.step("network", func() error { return a.setUpNetwork(ctx) })
	}
	if a.Flannel && a.knowsCluster() && (full || a.wantsBridge()) {
		a.step("network", func() error { return a.followFlannel(ctx) })
	}
	if a.Shared && a.knowsCluster() && full {
		a.step("network", a.followShared)
	}
	if a.Adopt {
		a.step("adopt", a.adoptNetwork)
	}
	if full {
		a.step("look", a.findIPAM)
		a.step("pending", func() error {
			removed, err := removeMarkers(a.StateDir, now)
			a.metrics.recovered(recoveredFile, removed)
			return err
		})
	}
	if len(a.unannounced) > 0 {
		a.step("announce", a.announceShared)
	}
	if a.VerbLog != "" {
		a.step("verbs", a.countVerbs)
	}
	changed, err := a.stateChanged()
	if err != nil || changed || full {
		a.lastFull = now
		a.step("state", func() error { return errors.Join(err, a.handleState(ctx)) })
	}
	if !now.Before(a.nextAudit) {
		start := a.Clock.Now()
		a.step("audit", func() error { return a.auditState(ctx) })
		a.step("leftovers", func() error { return a.removeLeftovers(now) })
		a.nextAudit = now.Add(max(a.AuditPeriod, auditShare*a.Clock.Since(start)))
	}
}

// knowsCluster reports whether the network can be decided. The settings and loans come a moment after the nodes, and are not
// waited for: routes must not depend on an optional kind.
func (a *Agent) knowsCluster() bool {
	return a.cluster.knowsNodes() && (a.cluster.nets.HasSynced() && a.cluster.loans.HasSynced() || a.Clock.Since(a.started) >= fullPeriod)
}

// lend makes the routes that a loan moves, and wakes the loop that carries out loans. The round that follows runs no other
// steps than it would have: loans of all nodes change.
func (a *Agent) lend(ctx context.Context) {
	if a.networkSettled.Load() && !a.Shared {
		a.step("network", func() error {
			if a.Flannel {
				return a.followFlannel(ctx)
			}
			return a.setUpNetwork(ctx)
		})
	}
	show.Wake(a.lending.woken)
}

// stateChanged reports whether a verb has written the state since it was last read.
func (a *Agent) stateChanged() (bool, error) {
	modified, err := stateModified(a.StateDir)
	changed := !modified.Equal(a.stateModified)
	a.stateModified = modified
	return changed, err
}

// handleState reads the state, frees and corrects what is stored, hands the objects to the loop that shows them, and folds
// the journal.
func (a *Agent) handleState(ctx context.Context) error {
	networks, err := readState(ctx, a.store)
	if err != nil {
		return err
	}
	if err := a.noteState(); err != nil {
		return err
	}
	now := a.Now()
	if now.Unsure && !a.unsure {
		a.Log.Info("The wall clock is not synchronized: reservations from before the boot stay until it is, or for 10 minutes")
	}
	a.unsure = now.Unsure
	a.metrics.unsure.Set(truth(now.Unsure))
	a.metrics.pools(networks, a.Node, a.lending.name(), now)
	a.step("hold", func() error { return a.holdTerminating(ctx, networks) })
	a.step("sweep", func() error { return a.freeLapsed(ctx, networks) })
	a.step("orphans", func() error { return a.freeOrphans(ctx, networks) })
	a.step("reconcile", func() error { return a.correctAttachments(ctx, networks) })
	a.offer(networks)
	if a.lending != nil && a.decided.Owns != nil {
		a.lending.offer(networks)
		a.noteNew(networks)
	}
	a.step("fold", func() error { return fold(ctx, a.store) })
	return nil
}

// offer hands the objects of the state to the loop that shows them, which knows the owner. While the agent does not know
// how its node takes the NodeNetwork, the pool stays as it is: a restart must not take its condition away.
func (a *Agent) offer(networks []network) {
	if !a.refilled.Load() {
		return // the API may show what a state was before the node was installed again
	}
	var hold []string
	if a.OwnNetwork && !a.decided.Told {
		hold = append(hold, plan.PoolKey(a.Node, plan.NetworkName))
	}
	shown := plan.WithForeign(plan.WithShared(plan.WithOwnNetwork(facts(networks), a.decided), a.decided), a.ipam.Load())
	a.show.Offer(plan.WithVersions(plan.Mirror(a.Node, shown, a.Now()), a.Version, a.pluginVersion), hold...)
}

// aroundPass makes each pass over the API objects a step, and reports what else the API should know.
func (a *Agent) aroundPass(ctx context.Context, pass func() error) {
	a.step("mirror", pass)
	a.step("event", func() error { return a.reportIPAM(ctx) })
	a.health.Observe(partMirror, a.Clock.Now(), nil)
}

// step runs one step of a round. A failed step is tried again when it is due again, mostly in the next full round; the same
// error of the same step is logged once.
func (a *Agent) step(name string, do func() error) {
	start := a.Clock.Now()
	err := do()
	a.metrics.duration.WithLabelValues(name).Observe(a.Clock.Since(start).Seconds())
	failures := a.metrics.failures.WithLabelValues(name) // 0 is shown before the first one
	before := a.recordOutcome(name, err)
	if err == nil || errors.Is(err, context.Canceled) { // canceled: the agent stops
		return
	}
	failures.Inc()
	if before != err.Error() {
		a.Log.Error(err, "Step failed, trying again", "step", name)
	}
}

// failure returns the error with which a step last ended; "" without one.
func (a *Agent) failure(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failing[name]
}

// recordOutcome stores how a step ended and returns the previous error's text.
func (a *Agent) recordOutcome(name string, err error) (before string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.failing[name]
	if err == nil {
		delete(a.failing, name)
	} else {
		a.failing[name] = err.Error()
	}
	return before
}
