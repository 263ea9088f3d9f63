package ipamtool

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Severity says whether a finding breaks a rule.
type Severity string

const (
	// Violation breaks a rule.
	Violation Severity = "violation"
	// Note breaks no rule, and goes away without help.
	Note Severity = "note"
)

// Kind says what a finding is about. docs/operate/operations.md lists the kinds, and what to do about each.
type Kind string

const (
	// KindFile is a violation: the file is lost, damaged, or of a newer version.
	KindFile Kind = "file"
	// KindRecord is a violation: a record cannot be used.
	KindRecord Kind = "record"
	// KindHolders is a violation: an address has two holders (rules 1 and 2).
	KindHolders Kind = "holders"
	// KindIndex is a violation: an index and the records differ.
	KindIndex Kind = "index"
	// KindRunning is a violation: a container has an address that the state does not give to the container.
	KindRunning Kind = "running"
	// KindLapsed is a note: a reservation has lapsed, and is not deleted yet.
	KindLapsed Kind = "lapsed"
	// KindGone is a note: the network namespace of an attachment is gone, and the DEL has not come yet.
	KindGone Kind = "gone"
	// KindMarker is a note: the marker is missing, and the next verb writes it.
	KindMarker Kind = "marker"
	// KindBackup is a note: a damaged state file is kept for the user to examine.
	KindBackup Kind = "aside"
)

var kindOfFault = map[persistence.FaultKind]Kind{
	persistence.FaultFile: KindFile, persistence.FaultRecord: KindRecord, persistence.FaultHolders: KindHolders, persistence.FaultIndex: KindIndex,
}

// Finding is one result of check. The JSON form is documented in docs/operate/operations.md.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind"`
	Subject  string   `json:"subject"`
	Problem  string   `json:"problem"`
}

// evidence holds the facts that findings judges.
type evidence struct {
	dir    string
	report persistence.Report
	// unreadable says why there is no report; nil when there is one.
	unreadable error
	// holders are the holders in the report.
	holders []*Holder
	// running are attachments that must be among the holders.
	running []reservation.Attachment
}

// unusable reports whether an error is itself a finding: the state cannot be used.
func unusable(err error) bool {
	return persistence.LostOrDamaged(err) || errors.Is(err, persistence.ErrNewer)
}

// findings returns what is wrong according to the evidence, violations first.
func findings(e evidence) []Finding {
	if e.unreadable != nil {
		return []Finding{{Violation, KindFile, filepath.Join(e.dir, "limpet.db"), e.unreadable.Error()}}
	}
	all := []Finding{} // JSON shows an empty list as one
	for _, f := range e.report.Faults {
		all = append(all, Finding{Violation, kindOfFault[f.Kind], f.Subject, f.Problem})
	}
	all = slices.Concat(all, e.unknownAddresses(), e.transient())
	if !e.report.Marked {
		all = append(all, Finding{Note, KindMarker, filepath.Join(e.dir, "limpet.marker"), "is missing: the next pod that starts or ends writes it"})
	}
	for _, path := range e.report.BackupPaths {
		all = append(all, Finding{Note, KindBackup, path, "is the damaged file of a state that was rebuilt, and is not read any more: find out what damaged it (mostly the disk), then remove this file"})
	}
	return all
}

// unknownAddresses finds the addresses of running containers that the state does not know, or gives to another
// holder. A rebuilt state may know a container by its network namespace only.
func (e evidence) unknownAddresses() []Finding {
	holder := map[string]*Holder{}
	for _, h := range e.holders {
		for _, addr := range h.IPs {
			holder[h.Network+" "+addr.String()] = h
		}
	}
	var all []Finding
	for _, a := range e.running {
		for _, addr := range a.Addresses {
			subject := a.ID.Network + " " + addr.String()
			h, known := holder[subject]
			problem := fmt.Sprintf("is in use by %s, and free in the state", a.Holder())
			switch {
			case known && h.State == Attached && (h.ContainerID == a.ID.ContainerID || h.NetNS == a.NetNS.Path):
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
func (e evidence) transient() []Finding {
	var all []Finding
	for _, h := range e.holders {
		subject := h.Network + " " + strings.ReplaceAll(h.addresses(), ",", " ")
		switch {
		case h.State == Reserved && *h.LeftSeconds == 0:
			all = append(all, Finding{Note, KindLapsed, subject, fmt.Sprintf("was reserved for %s until %s: any pod can have it, and the agent deletes the reservation", h.owner(), stamp(*h.Deadline))})
		case h.State == Attached && h.NetNSState == Gone:
			all = append(all, Finding{Note, KindGone, subject, fmt.Sprintf("is attached to %s, whose network namespace is gone: a DEL of the runtime or the agent frees it", h.who())})
		}
	}
	return all
}
