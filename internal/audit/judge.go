package audit

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// mostNotes is the number of notes about records that an audit names: a node with a large pool may have a million.
const mostNotes = 10_000

// judge judges one record after the other. It keeps the findings, and the records of addresses that run.
type judge struct {
	now     reservation.Moment
	netns   func(path string) (reservation.NetNS, bool) // returns the network namespace that is bound to a path
	running []reservation.Attachment                    // must be among the records

	of    map[string]*holder // holders of the addresses that run, by network and address; nil for none
	notes []*note
	more  int // notes beyond mostNotes
}

// note is a finding about a record, and its place among the notes.
type note struct {
	holder  holder
	finding Finding
}

func newJudge(now reservation.Moment, netns func(string) (reservation.NetNS, bool), running []reservation.Attachment) *judge {
	j := &judge{now: now, netns: netns, running: running, of: map[string]*holder{}}
	for _, a := range running {
		for _, addr := range a.Addresses {
			j.of[a.ID.Network+" "+addr.String()] = nil
		}
	}
	return j
}

// see judges a record.
func (j *judge) see(r persistence.Record) {
	h := holder{r}
	if len(j.of) > 0 {
		for _, addr := range r.Addresses() {
			k := r.Network() + " " + addr.String()
			if other, runs := j.of[k]; runs && (other == nil || other.relation() < h.relation()) {
				j.of[k] = &holder{r.Clone()}
			}
		}
	}
	f, found := j.transient(h)
	switch {
	case !found:
	case len(j.notes) == mostNotes:
		j.more++
	default:
		j.notes = append(j.notes, &note{holder{r.Clone()}, f})
	}
}

// transient returns a note about a record that the agent or the next DEL deletes.
func (j *judge) transient(h holder) (f Finding, found bool) {
	switch {
	case h.Reservation != nil && h.Reservation.Deadline.Passed(j.now):
		end := h.Reservation.Deadline.From.Wall.Add(h.Reservation.Deadline.For).UTC().Format(time.RFC3339)
		return Finding{Note, KindLapsed, h.subject(), fmt.Sprintf("was %s until %s: any pod can have it, and the agent deletes the reservation", h.relation(), end)}, true
	case h.Attachment != nil && Look(h.Attachment.NetNS, j.netns) == Gone:
		return Finding{Note, KindGone, h.subject(), fmt.Sprintf("is %s, whose network namespace is gone: a DEL of the runtime or the agent frees it", h.relation())}, true
	}
	return f, false
}

// findings returns what is wrong according to the records and the report, violations first, and counts what is not in
// the list.
func (j *judge) findings(dir string, report persistence.Report) (all []Finding, more map[Severity]int) {
	all = []Finding{} // JSON shows an empty list as one
	for _, f := range report.Faults {
		all = append(all, Finding{Violation, kindOfFault[f.Kind], f.Subject, f.Problem})
	}
	all = append(all, j.unknownAddresses()...)
	slices.SortFunc(j.notes, func(a, b *note) int { // each sort of another type than pointers takes 10 kB of the plugin
		return cmp.Or(a.holder.compare(b.holder), cmp.Compare(a.finding.Problem, b.finding.Problem))
	})
	for _, n := range j.notes {
		all = append(all, n.finding)
	}
	if !report.Marked {
		all = append(all, Finding{Note, KindMarker, filepath.Join(dir, "limpet.marker"), "is missing: the next pod that starts or ends writes it"})
	}
	for _, path := range report.BackupPaths {
		all = append(all, Finding{Note, KindBackup, path, "is the damaged file of a state that was rebuilt, and is not read any more: find out what damaged it (mostly the disk), then remove this file"})
	}
	return all, map[Severity]int{Violation: report.More, Note: j.more}
}

// unknownAddresses finds the addresses of running containers that the state does not know, or gives to another
// holder.
func (j *judge) unknownAddresses() (all []Finding) {
	for _, a := range j.running {
		for _, addr := range a.Addresses {
			subject := a.ID.Network + " " + addr.String()
			h := j.of[subject]
			problem := fmt.Sprintf("is in use by %s, and free in the state", a.Holder())
			switch {
			case h != nil && h.is(a):
				continue
			case h != nil:
				problem = fmt.Sprintf("is in use by %s, and in the state %s", a.Holder(), h.relation())
			}
			all = append(all, Finding{Violation, KindRunning, subject, problem})
		}
	}
	return all
}
