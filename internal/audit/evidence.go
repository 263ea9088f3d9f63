package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Evidence holds the facts that Findings judges.
type Evidence struct {
	Dir    string
	Report persistence.Report
	// Unreadable says why there is no report; nil when there is one.
	Unreadable error
	// Running are attachments that must be in the report.
	Running []reservation.Attachment
	Now     reservation.Moment
	// NetNS returns the network namespace that is bound to a path.
	NetNS func(path string) (reservation.NetNS, bool)
}

// unusable reports whether an error is itself a finding: the state cannot be used.
func unusable(err error) bool {
	return persistence.LostOrDamaged(err) || errors.Is(err, persistence.ErrNewer)
}

// Findings returns what is wrong according to the evidence, violations first.
func Findings(e Evidence) []Finding {
	if e.Unreadable != nil {
		return []Finding{{Violation, KindFile, filepath.Join(e.Dir, "limpet.db"), e.Unreadable.Error()}}
	}
	all := []Finding{} // JSON shows an empty list as one
	for _, f := range e.Report.Faults {
		all = append(all, Finding{Violation, kindOfFault[f.Kind], f.Subject, f.Problem})
	}
	held := holders(e.Report.Records)
	all = slices.Concat(all, e.unknownAddresses(held), e.transient(held))
	if !e.Report.Marked {
		all = append(all, Finding{Note, KindMarker, filepath.Join(e.Dir, "limpet.marker"), "is missing: the next pod that starts or ends writes it"})
	}
	for _, path := range e.Report.BackupPaths {
		all = append(all, Finding{Note, KindBackup, path, "is the damaged file of a state that was rebuilt, and is not read any more: find out what damaged it (mostly the disk), then remove this file"})
	}
	return all
}

// unknownAddresses finds the addresses of running containers that the state does not know, or gives to another
// holder.
func (e Evidence) unknownAddresses(held []holder) []Finding {
	if len(e.Running) == 0 {
		return nil
	}
	of := map[string]holder{}
	for _, h := range held {
		for _, addr := range h.addresses() {
			of[h.network()+" "+addr.String()] = h
		}
	}
	var all []Finding
	for _, a := range e.Running {
		for _, addr := range a.Addresses {
			subject := a.ID.Network + " " + addr.String()
			h, known := of[subject]
			problem := fmt.Sprintf("is in use by %s, and free in the state", a.Holder())
			switch {
			case known && h.is(a):
				continue
			case known:
				problem = fmt.Sprintf("is in use by %s, and in the state %s", a.Holder(), h.relation())
			}
			all = append(all, Finding{Violation, KindRunning, subject, problem})
		}
	}
	return all
}

// transient finds records that the agent or the next DEL deletes.
func (e Evidence) transient(held []holder) []Finding {
	var all []Finding
	for _, h := range held {
		switch {
		case h.reserved != nil && h.reserved.Deadline.Passed(e.Now):
			end := h.reserved.Deadline.From.Wall.Add(h.reserved.Deadline.For).UTC().Format(time.RFC3339)
			all = append(all, Finding{Note, KindLapsed, h.subject(), fmt.Sprintf("was %s until %s: any pod can have it, and the agent deletes the reservation", h.relation(), end)})
		case h.attached != nil && Look(h.attached.NetNS, e.NetNS) == Gone:
			all = append(all, Finding{Note, KindGone, h.subject(), fmt.Sprintf("is %s, whose network namespace is gone: a DEL of the runtime or the agent frees it", h.relation())})
		}
	}
	return all
}
