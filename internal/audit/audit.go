package audit

import (
	"context"
	"slices"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Auditor gathers evidence on one node.
type Auditor struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS returns the network namespace that is bound to a path; false when there is none.
	NetNS func(path string) (reservation.NetNS, bool)
	// Running lists the attachments that sources other than the state know, and that a state in the directory must
	// hold.
	Running func(dir string) ([]reservation.Attachment, error)
}

// Result is the outcome of one audit.
type Result struct {
	Report   persistence.Report
	Findings []Finding
	// Unread is true when the state could not be read, so that the report is empty.
	Unread bool
}

// Audit gathers the evidence once and judges it.
func (a Auditor) Audit(ctx context.Context, store *persistence.Store) (Result, error) {
	report, err := store.Audit(ctx)
	e := Evidence{Dir: store.Dir(), Report: report, Now: a.Now(), NetNS: a.NetNS}
	if unusable(err) {
		e.Unreadable, err = err, nil
	}
	if err != nil {
		return Result{}, err
	}
	if e.Running, err = a.Running(store.Dir()); err != nil {
		return Result{}, err
	}
	return Result{Report: report, Findings: Findings(e), Unread: e.Unreadable != nil}, nil
}

// Confirmed drops the fleeting findings that the audit before did not have: the state and the containers are not read
// at the same moment.
func Confirmed(before, now []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(now), func(f Finding) bool { return f.Fleeting() && !slices.Contains(before, f) })
}
