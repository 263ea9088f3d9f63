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

// Severity tells what must not be from what is worth knowing.
type Severity string

const (
	// Violation breaks a rule.
	Violation Severity = "violation"
	// Note is no fault, and passes without help.
	Note Severity = "note"
)

// Kind says what a finding is about. docs/operate/operations.md lists them with what to do.
type Kind string

const (
	// KindFile is a violation: the file is lost, damaged, or of a newer version.
	KindFile Kind = "file"
	// KindRecord is a violation: a record cannot be used.
	KindRecord Kind = "record"
	// KindHolders is a violation: two hold one address (rules 1 and 2).
	KindHolders Kind = "holders"
	// KindIndex is a violation: an index says otherwise than the records.
	KindIndex Kind = "index"
	// KindRunning is a violation: a container runs with an address that the state does not
	// know to be its own.
	KindRunning Kind = "running"
	// KindLapsed is a note: a reservation is over, and not swept yet.
	KindLapsed Kind = "lapsed"
	// KindGone is a note: the network namespace of an attachment is gone, its DEL is to come.
	KindGone Kind = "gone"
	// KindMarker is a note: the next verb makes the marker.
	KindMarker Kind = "marker"
	// KindAside is a note: a damaged state is kept for a person to look at.
	KindAside Kind = "aside"
)

var kindOfFault = map[persistence.FaultKind]Kind{
	persistence.FaultFile: KindFile, persistence.FaultRecord: KindRecord, persistence.FaultHolders: KindHolders, persistence.FaultIndex: KindIndex,
}

// Finding is one thing that check found. Its JSON form is documented in
// docs/operate/operations.md.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind"`
	Subject  string   `json:"subject"`
	Problem  string   `json:"problem"`
}

// evidence is what an audit looks at.
type evidence struct {
	dir    string
	report persistence.Report
	// broken says why there is no report.
	broken error
	// holders are those of the report.
	holders []*Holder
	// running must be among the holders.
	running []reservation.Attachment
}

// unusable reports whether an error is a finding, rather than a reason to find nothing.
func unusable(err error) bool {
	return persistence.LostOrDamaged(err) || errors.Is(err, persistence.ErrNewer)
}

// findings judges the evidence, violations first.
func findings(e evidence) []Finding {
	if e.broken != nil {
		return []Finding{{Violation, KindFile, filepath.Join(e.dir, "limpet.db"), e.broken.Error()}}
	}
	all := []Finding{} // JSON shows an empty list as one
	for _, f := range e.report.Faults {
		all = append(all, Finding{Violation, kindOfFault[f.Kind], f.Subject, f.Problem})
	}
	all = slices.Concat(all, e.strangers(), e.transient())
	if !e.report.Marked {
		all = append(all, Finding{Note, KindMarker, filepath.Join(e.dir, "limpet.marker"), "is missing: the next pod that starts or ends makes it"})
	}
	for _, path := range e.report.BackupPaths {
		all = append(all, Finding{Note, KindAside, path, "is a damaged state that another has replaced, and is read no more: find out what damaged it (mostly the disk), then remove this file"})
	}
	return all
}

// strangers finds addresses that containers have and the state gives to nobody, or to
// another. A rebuilt state may know a container by its network namespace only.
func (e evidence) strangers() []Finding {
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
			problem := fmt.Sprintf("is in use by %s, and the state does not know", a.Holder())
			switch {
			case known && h.State == Attached && (h.ContainerID == a.ID.ContainerID || h.NetNS == a.NetNS.Path):
				continue
			case known:
				problem = fmt.Sprintf("is in use by %s, and the state says that it is %s", a.Holder(), h.claim())
			}
			all = append(all, Finding{Violation, KindRunning, subject, problem})
		}
	}
	return all
}

// transient finds what is over and is still written down.
func (e evidence) transient() []Finding {
	var all []Finding
	for _, h := range e.holders {
		subject := h.Network + " " + strings.ReplaceAll(h.addresses(), ",", " ")
		switch {
		case h.State == Reserved && *h.LeftSeconds == 0:
			all = append(all, Finding{Note, KindLapsed, subject, fmt.Sprintf("was reserved for %s until %s: free for the taking, the agent sweeps it", h.owner(), stamp(*h.Deadline))})
		case h.State == Attached && h.NetNSState == Gone:
			all = append(all, Finding{Note, KindGone, subject, fmt.Sprintf("is attached to %s, whose network namespace is gone: its runtime has yet to say so, or the agent ends it", h.who())})
		}
	}
	return all
}
