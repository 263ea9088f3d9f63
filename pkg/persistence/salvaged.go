package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
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

	rest     map[string]map[string][]byte // other entries, by bucket and key
	sequence uint64
}

// salvage reads what can be read of the database, which may be nothing.
func (s *Store) salvage() (Salvaged, error) {
	var left Salvaged
	f, err := os.OpenFile(filepath.Join(s.dir, databaseName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if errors.Is(err, os.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, fmt.Errorf("read damaged state: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return left, fmt.Errorf("read damaged state: %w", err)
	}
	file := salvage.Open(f, info.Size())
	left.readTree(file)
	file.Scan(func(k, v []byte) { collect(&left.Unreferenced, k, v) })
	meta := left.rest[string(bucketMeta)]
	err = checkVersion(meta[string(keySchema)], meta[string(keySchemaSum)])
	if errors.Is(err, ErrNewer) {
		return left, err
	}
	if len(meta[string(keySchema)]) != 4 {
		left.Complete = false // every state has a schema, and this file has none
	}
	return left, nil
}

// readTree reads all entries that the tree of the file refers to.
func (l *Salvaged) readTree(file *salvage.File) {
	buckets, complete := file.Buckets()
	l.Complete = complete
	l.rest = map[string]map[string][]byte{}
	for _, b := range buckets {
		name := string(b.Name)
		l.rest[name] = map[string][]byte{}
		complete := file.Walk(b, func(k, v []byte) {
			switch name {
			case string(bucketAttachments), string(bucketReservations):
				l.Complete = collect(&l.Read, k, v) && l.Complete
			case string(bucketMeta), string(bucketNetworks), string(bucketCursors), string(bucketPoolUsage):
				if len(k) > 0 && len(k) <= bolt.MaxKeySize { // other keys cannot be written again
					l.rest[name][string(k)] = v
				}
			}
		})
		l.Complete = complete && l.Complete
		if name == string(bucketMeta) {
			l.sequence = b.Sequence
		}
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
	meta := tx.tx.Bucket(bucketMeta)
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
		if err := tx.tx.Bucket(bucketCursors).Put([]byte(k), v); err != nil {
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

// generation returns the generation of the file that was read; 0 when it could not be read.
func (l *Salvaged) generation() uint64 {
	return number(l.rest[string(bucketMeta)][string(keyGeneration)])
}
