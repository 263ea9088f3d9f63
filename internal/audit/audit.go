package audit

import (
	"context"
	"errors"
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
	// See, unless it is nil, gets each record that can be read.
	See func(persistence.Record)
}

// Result is the outcome of one audit.
type Result struct {
	Report   persistence.Report
	Findings []Finding
	// More counts the findings that are not in the list, by severity.
	More map[Severity]int
	// Unread is true when the state could not be read, so that the report is empty.
	Unread bool
}

// Audit gathers the evidence once and judges it.
func (a Auditor) Audit(ctx context.Context, store *persistence.Store) (Result, error) {
	if initialized, err := store.Initialized(); err == nil && !initialized {
		return Result{}, persistence.ErrNoState
	}
	running, err := a.Running(store.Dir()) // before the records, which are not kept for later
	if err != nil {
		return Result{}, err
	}
	j := newJudge(a.Now(), a.NetNS, running)
	report, err := store.Audit(ctx, func(r persistence.Record) {
		j.see(r)
		if a.See != nil {
			a.See(r)
		}
	})
	if persistence.LostOrDamaged(err) || errors.Is(err, persistence.ErrNewer) { // itself a finding: the state cannot be used
		f := Finding{Violation, KindFile, store.Dir(), err.Error()} // the error names the file
		return Result{Report: report, Findings: []Finding{f}, Unread: true}, nil
	}
	if err != nil {
		return Result{}, err
	}
	found, more := j.findings(store.Dir(), report)
	return Result{Report: report, Findings: found, More: more}, nil
}

// Confirmed drops the fleeting findings that the audit before did not have: the state and the containers are not read
// at the same moment.
func Confirmed(before, now []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(now), func(f Finding) bool { return f.Fleeting() && !slices.Contains(before, f) })
}
