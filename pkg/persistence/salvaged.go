package persistence

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

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
	// Unreferenced are records from all pages of the file, which may not have been in use any more. A record may be there in
	// several versions.
	Unreferenced reservation.Records

	rest       map[string]map[string][]byte // other entries, by bucket and key
	sequence   uint64
	generation uint64
	into       byte // number of the fold that nothing was read of: the new state is written there
}

// salvage reads what can be read of the state, which may be nothing: the fold with its journal, else the fold before with
// both journals, else the better of the folds alone, else the journals alone.
func (s *Store) salvage() (Salvaged, error) {
	now, last := s.readLoose(journalName), s.readLoose(lastJournalName)
	for _, j := range []*loose{now, last} {
		if errors.Is(j.err, ErrNewer) {
			return Salvaged{}, j.err
		}
	}
	var attempts []attempt
	if !now.headless {
		attempts = []attempt{{now, now.fold, now.changes}, {now, 1 - now.fold, now.changes}} // the second for a copy
	}
	if last.err == nil && now.err == nil && !last.headless && last.last == now.generation {
		attempts = append(attempts, attempt{last, last.fold, slices.Concat(last.changes, now.changes)})
	}
	for _, a := range attempts {
		if left, err := s.attempt(a); err == nil || errors.Is(err, ErrNewer) {
			left.Complete = left.Complete && !now.headless && len(now.beyond) == 0
			collectChanges(&left.Unreferenced, now.beyond)
			left.into = 1 - a.fold
			return left, err
		}
	}
	var best Salvaged
	for n := range foldNames {
		left, err := s.readFold(foldNames[n], nil, checkTree)
		if now.headless && left.generation == now.generation {
			left, err = s.readFold(foldNames[n], now.changes, checkTree)
		}
		if errors.Is(err, ErrNewer) {
			return left, err
		}
		if left.generation > best.generation {
			best, best.into = left, 1-byte(n)
		}
	}
	best.Complete = false
	for _, all := range [][]change{last.changes, last.beyond, now.changes, now.beyond} {
		collectChanges(&best.Unreferenced, all)
	}
	return best, nil
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
	journal *loose
	fold    byte
	changes []change
}

func (s *Store) attempt(a attempt) (left Salvaged, err error) {
	if a.journal.err != nil {
		return left, a.journal.err
	}
	name := foldNames[a.fold]
	if err := a.journal.verify(s.path(name)); err != nil {
		return left, err
	}
	left, err = s.readFold(name, a.changes, func(*bolt.Tx) error { return nil })
	left.generation = max(left.generation, a.journal.generation)
	return left, err
}

// readFold reads a fold and changes since, unless check fails. It returns what it could read with an error, too.
func (s *Store) readFold(name string, changes []change, check func(*bolt.Tx) error) (left Salvaged, err error) {
	err = guarded(s.path(name), &bolt.Options{ReadOnly: true, Timeout: s.wait, OpenFile: openExisting}, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			if err := check(tx); err != nil {
				return err
			}
			if _, err := schemaOf(tx); err != nil {
				return err
			}
			t := newTx(tx)
			for _, c := range changes {
				t.change(c)
			}
			left.Complete = true
			left.read(t)
			return nil
		})
	})
	return left, err
}

// read reads all entries of a state.
func (l *Salvaged) read(t *Tx) {
	l.rest = map[string]map[string][]byte{}
	for _, name := range [][]byte{bucketMeta, bucketNetworks, bucketCursors, bucketPoolUsage, bucketAttachments, bucketReservations} {
		kept := map[string][]byte{}
		l.rest[string(name)] = kept
		_ = t.bucket(name).ForEach(func(k, v []byte) error { // the function returns no error
			switch string(name) {
			case string(bucketAttachments), string(bucketReservations):
				l.Complete = collect(&l.Read, k, v) && l.Complete
			default:
				kept[string(k)] = slices.Clone(v)
			}
			return nil
		})
	}
	l.sequence = t.bucket(bucketMeta).Sequence()
	l.generation = number(t.bucket(bucketMeta).Get(keyGeneration))
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
	if err := meta.SetSequence(max(l.sequence, seq)); err != nil {
		return err
	}
	return meta.Put(keyRecoveries, binary.BigEndian.AppendUint64(nil, l.recoveries(records)))
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
		if err := tx.bucket(bucketCursors).Put([]byte(k), v); err != nil {
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
