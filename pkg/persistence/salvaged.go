package persistence

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Salvaged is what could be read of a state that was lost or is damaged; nothing, on a new node.
type Salvaged struct {
	// Cause says why the state is rebuilt; nil on a new node.
	Cause error
	// BackupPath is the path of the damaged file; "" when there was none.
	BackupPath string
	// Read are the records that could be read. Complete is true when the state held no others.
	Read     reservation.Records
	Complete bool
	// Unreferenced are records from anywhere in the files, which may not have been in use any more. A record may be there in
	// several versions.
	Unreferenced reservation.Records

	rest       map[string]map[string][]byte // other entries, by bucket and key
	sequence   uint64
	generation uint64
	from       byte // number of the fold that was read
}

// salvage reads what can be read of the state, which may be nothing: the fold with its journal, else the fold before with both
// journals, else that fold with its own. Where no fold is what a journal says, it collects records from everywhere.
func (s *Store) salvage() (Salvaged, error) {
	now, last := s.readLoose(journalName), s.readLoose(lastJournalName)
	for _, j := range []*loose{now, last} {
		if errors.Is(j.err, ErrNewer) {
			return Salvaged{}, j.err
		}
	}
	follows := last.err == nil && now.err == nil && last.last == now.generation
	attempts := []attempt{
		{header: now.header, changes: now.changes, end: now.last, whole: true, possible: now.err == nil && !now.headless},
		{header: last.header, changes: slices.Concat(last.changes, now.changes), end: now.last, whole: !now.headless, possible: follows && !last.headless},
		{header: last.header, changes: last.changes, end: last.last, possible: last.err == nil && !last.headless},
	}
	slices.SortStableFunc(attempts, func(a, b attempt) int { return cmp.Compare(b.end, a.end) })
	for _, a := range attempts {
		left, err := s.attempt(a)
		if errors.Is(err, ErrNewer) {
			return left, err
		}
		if err == nil {
			left.Complete = left.Complete && a.whole && len(now.beyond) == 0
			collectChanges(&left.Unreferenced, now.beyond)
			if a.end < now.last {
				collectChanges(&left.Unreferenced, now.changes)
			}
			return left, nil
		}
	}
	var left Salvaged
	for _, name := range backedUp {
		left.scan(s.path(name))
	}
	return left, nil
}

// loose is what can be read of a journal that may be damaged.
type loose struct {
	header
	last            uint64
	changes, beyond []change
	headless        bool // the frames are sound, and the header is not
	err             error
}

func (s *Store) readLoose(name string) *loose {
	l := &loose{}
	j, err := openJournal(s.path(name), os.O_RDONLY, func(c change) { l.changes = append(l.changes, c) })
	if errors.Is(err, ErrDamaged) {
		l.headless, l.changes = true, nil
		j, err = openFrames(s.path(name), func(c change) { l.changes = append(l.changes, c) })
	}
	if l.err = err; err != nil {
		return l
	}
	defer j.close()
	l.header, l.last = j.header, j.last
	l.err = j.beyond(func(c change) { l.beyond = append(l.beyond, c) })
	return l
}

// attempt is a way to read the state: a fold as a journal knows it, and the changes since.
type attempt struct {
	header
	changes         []change
	end             uint64 // generation of the last change
	whole, possible bool
}

var errUnreadable = errors.New("no header of a journal")

func (s *Store) attempt(a attempt) (left Salvaged, err error) {
	if !a.possible {
		return left, errUnreadable
	}
	path := s.path(foldNames[a.fold])
	if err := a.verify(path); err != nil {
		return left, err
	}
	left = Salvaged{generation: a.end, from: a.fold, Complete: true}
	err = guarded(path, &a.header, &bolt.Options{ReadOnly: true, Timeout: s.wait, OpenFile: openExisting}, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if err := checkSchema(tx); err != nil {
				return err
			}
			t := newTx(tx)
			for _, c := range a.changes {
				t.change(c)
			}
			left.read(t)
			return nil
		})
	})
	return left, err
}

// mostRecord is longer than any record.
const mostRecord = 64 << 10

// recordBegin is what each record begins with.
const recordBegin = `{"owner":{"net":`

// scan collects the records that stand anywhere in a file, in use or not: each has a checksum of its own.
func (l *Salvaged) scan(path string) {
	f, err := flock.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // opened for reading only
	block := make([]byte, 2*mostRecord)
	for at := int64(0); ; {
		if at, err = f.Seek(at, unix.SEEK_DATA); err != nil {
			return // behind the end, or not a file
		}
		n, _ := f.ReadAt(block, at) // what cannot be read has no records
		step := min(mostRecord, n/4096*4096+4096)
		l.scanBlock(block[:n], step)
		at += int64(step)
	}
}

// scanBlock collects the records that begin in a block before a position.
func (l *Salvaged) scanBlock(block []byte, before int) {
	for at := 0; ; at++ {
		next := bytes.Index(block[at:], []byte(recordBegin))
		if at += next; next < 0 || at >= before {
			return
		}
		if size := bytes.Index(block[at:], []byte(sumKey)) + sumSize; size >= sumSize && at+size <= len(block) {
			collect(&l.Unreferenced, nil, block[at:at+size])
		}
	}
}

// read reads all entries of a state.
func (l *Salvaged) read(t *Tx) {
	l.rest = map[string]map[string][]byte{}
	for _, name := range [][]byte{bucketMeta, bucketNetworks, bucketCursors, bucketPoolUsage, bucketAttachments, bucketReservations} {
		kept := map[string][]byte{}
		l.rest[string(name)] = kept
		_ = t.bucket(name).forEach(func(k, v []byte) error { // the function returns no error
			switch string(name) {
			case string(bucketAttachments), string(bucketReservations):
				l.Complete = collect(&l.Read, k, v) && l.Complete
			default:
				kept[string(k)] = slices.Clone(v)
			}
			return nil
		})
	}
	l.sequence = t.bucket(bucketMeta).sequence()
}

// collectChanges adds the records that changes wrote.
func collectChanges(to *reservation.Records, changes []change) {
	for _, c := range changes {
		collect(to, []byte(c.key), c.value)
	}
}

// collect adds the record of an entry, if the entry is a record that agrees with its key and can be written again.
func collect(to *reservation.Records, k, v []byte) bool {
	if a, err := attachmentAt(k, v); err == nil && checkNames(a.ID.ContainerID, a.Owner) == nil {
		to.Attachments = append(to.Attachments, a)
		return true
	}
	if r, err := reservationAt(k, v); err == nil && checkNames("", r.Owner) == nil {
		to.Reservations = append(to.Reservations, r)
		return true
	}
	return false
}

// restore fills a new database with records, and with the other entries that could be read.
func (l *Salvaged) restore(tx *Tx, records reservation.Records) error {
	seq, err := putRecords(tx, records)
	if err != nil {
		return err
	}
	for network, config := range l.rest[string(bucketNetworks)] {
		if err := tx.SetConfig(network, config); err != nil {
			return err
		}
	}
	if err := errors.Join(l.restoreUsage(tx), l.restoreCursors(tx)); err != nil {
		return err
	}
	meta := tx.bucket(bucketMeta)
	if err := meta.setSequence(max(l.sequence, seq)); err != nil {
		return err
	}
	return meta.put(keyRecoveries, binary.BigEndian.AppendUint64(nil, l.recoveries(records)))
}

// putRecords writes records and returns the highest number among them.
func putRecords(tx *Tx, records reservation.Records) (seq uint64, err error) {
	for _, a := range records.Attachments {
		seq = max(seq, a.Seq)
		if err := tx.PutAttachment(a); err != nil {
			return 0, err
		}
	}
	for _, r := range records.Reservations {
		seq = max(seq, r.Seq)
		if err := tx.PutReservation(r); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// restoreUsage keeps the limits and counters of each network. The number of reservations is the new one.
func (l *Salvaged) restoreUsage(tx *Tx) error {
	for network, v := range l.rest[string(bucketPoolUsage)] {
		was, err := decodePoolUsage(v)
		if err != nil {
			continue // the next ADD writes the limits again
		}
		err = tx.updateUsage(network, func(u *PoolUsage) {
			was.Reserved = u.Reserved
			*u = was
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreCursors keeps the addresses last handed out. Without a cursor the search begins at the range's start.
func (l *Salvaged) restoreCursors(tx *Tx) error {
	for k, v := range l.rest[string(bucketCursors)] {
		if _, err := netip.ParseAddr(string(v)); err != nil {
			continue
		}
		if err := tx.bucket(bucketCursors).put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}

// recoveries counts how many times the state was rebuilt, including this one. A new state with addresses that only
// network namespaces know counts: an earlier state was lost together with its marker.
func (l *Salvaged) recoveries(records reservation.Records) uint64 {
	n := number(l.rest[string(bucketMeta)][string(keyRecoveries)])
	if l.Cause != nil || slices.ContainsFunc(records.Attachments, func(a reservation.Attachment) bool { return a.ID.IsNetNSPlaceholder() }) {
		n++
	}
	return n
}
