package persistence

import (
	"bytes"
	"context"
)

// FaultKind says which part of a state is at fault.
type FaultKind uint8

const (
	// FaultRecord is a fault in a record, which cannot be used.
	FaultRecord FaultKind = iota
	// FaultHolders is an address with two holders (rules 1 and 2).
	FaultHolders
	// FaultIndex is a difference between the records and an index or a count.
	FaultIndex
)

// Fault is one thing that is wrong with a state.
type Fault struct {
	Kind    FaultKind
	Subject string
	Problem string
}

// mostFaults is the number of faults of each kind that a report names. A completely wrong index has one for each address.
const mostFaults = 10_000

// Report is the result of an audit.
type Report struct {
	// Attachments and Reservations count the records that can be read.
	Attachments, Reservations int
	// Faults are the first mostFaults faults of each kind. More counts the others.
	Faults []Fault
	More   int
	// Size is the size of the file in bytes.
	Size int64
	// Recoveries counts how many times the state was rebuilt.
	Recoveries uint64
	// Marked is true when the marker exists. Without the marker the loss of the file would go unnoticed.
	Marked bool
	// BackupPaths are the paths of the damaged files that are kept.
	BackupPaths []string

	of map[FaultKind]int
}

// seq returns the number of the life of the record.
func (r Record) seq() uint64 {
	if r.Attachment != nil {
		return r.Attachment.Seq
	}
	return r.Reservation.Seq
}

// holder names the holder of the addresses.
func (r Record) holder() string {
	if r.Attachment != nil {
		return r.Attachment.Holder()
	}
	return "the reservation of " + r.Reservation.Owner.String()
}

// Audit reads the whole state and compares its parts with each other. The function see, unless it is nil, gets each
// record that can be read. Audit changes nothing, even when Options.Rebuild is set. Verbs wait only while the files are
// opened. An audit holds one record at a time, and see keeps clones only.
func (s *Store) Audit(ctx context.Context, see func(Record)) (Report, error) {
	var r Report
	err := s.read(ctx, func(ss *session) error {
		if err := s.auditFiles(&r, ss); err != nil {
			return err
		}
		_, err := ss.within(false, func(t *Tx) error {
			r.Recoveries = t.Recoveries()
			r.auditEntries(t, see)
			return nil
		})
		return err
	})
	return r, err
}

// auditFiles looks at the files of the state, and compares the fold with all its checksums. Nothing more is read of a damaged
// one: bbolt follows pages in a circle without end.
func (s *Store) auditFiles(r *Report, ss *session) (err error) {
	if r.Marked, err = s.exists(markerName); err != nil {
		return err
	}
	if r.BackupPaths, err = s.backups(); err != nil {
		return err
	}
	r.Size = int64(ss.journal.size) + ss.journal.end
	return ss.journal.verify(s.path(foldNames[ss.journal.fold]))
}

// auditEntries reads the records and compares the indexes and counts with them.
func (r *Report) auditEntries(t *Tx, see func(Record)) {
	c := newComparison(r, t, see)
	c.readRecords()
	c.nameHolders()
	c.compareHeld()
	c.compareIndexes()
	c.compareCounts()
}

// fault adds a fault to the report.
func (r *Report) fault(kind FaultKind, subject, problem string) {
	if r.of == nil {
		r.of = map[FaultKind]int{}
	}
	if r.of[kind]++; r.of[kind] > mostFaults {
		r.More++
		return
	}
	r.Faults = append(r.Faults, Fault{kind, subject, problem})
}

// readable returns a key as text: zero bytes become blanks.
func readable(k []byte) string {
	return string(bytes.Map(func(c rune) rune {
		if c == 0 {
			return ' '
		}
		return c
	}, bytes.ToValidUTF8(k, []byte("?"))))
}
