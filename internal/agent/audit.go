package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// auditState audits the state as limpet-ipam check does, and reports what it finds. Differences between state and containers count when two audits in a row find them:
// pods start and end meanwhile.
func (a *Agent) auditState(ctx context.Context) error {
	var attachments []reservation.Attachment
	auditor := audit.Auditor{Now: a.Now, NetNS: a.NetNS, Running: a.Running, See: func(r persistence.Record) {
		if r.Attachment != nil {
			attachments = append(attachments, *r.Attachment)
		}
	}}
	r, err := auditor.Audit(ctx, a.store)
	if errors.Is(err, persistence.ErrNoState) { // no pod has had an address here
		r, err = audit.Result{Unread: true}, nil
	}
	if err != nil {
		return err
	}
	left, podsErr := a.leftBehind(ctx, attachments)
	found := slices.Concat(violations(r.Findings), left)
	confirmed := audit.Confirmed(a.found, found)
	a.report(confirmed)
	a.found = found
	a.metrics.auditDone(confirmed, r, a.Clock.Now())
	return podsErr
}

// violations drops notes: they break no rule, and go away without help.
func violations(found []audit.Finding) []audit.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f audit.Finding) bool { return f.Severity != audit.Violation })
}

// leftBehind returns the attachments whose network namespace no component will end. With an error the
// pods are old, or not known; then the list is shorter.
func (a *Agent) leftBehind(ctx context.Context, attachments []reservation.Attachment) ([]audit.Finding, error) {
	pods, known, err := a.Pods.Pods(ctx)
	in := plan.LeftBehindInput{Now: a.Now(), Attachments: a.withSandboxes(attachments), Grace: endGrace}
	if known {
		in.Pods = &pods
	}
	var all []audit.Finding
	for _, l := range plan.FindLeftBehind(in) {
		all = append(all, audit.Finding{
			Severity: audit.Violation, Kind: audit.KindNamespace, Subject: l.ID.Network + " " + l.ID.String(), Problem: l.Problem,
		})
	}
	return all, err
}

// report logs each violation once, for as long as the audits find it.
func (a *Agent) report(confirmed []audit.Finding) {
	for _, f := range confirmed {
		if !slices.Contains(a.reported, f) {
			a.Log.Info("Audit found a violation", "kind", f.Kind, "subject", f.Subject, "problem", f.Problem)
		}
	}
	a.reported = confirmed
}
