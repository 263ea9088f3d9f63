package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Salvaged is what is left of a state that was lost or is damaged; nothing, on a new
// node.
type Salvaged struct {
	// Cause says why the state is made again; nil on a new node.
	Cause error
	// BackupPath is where the damaged file is kept; "" when there was none.
	BackupPath string
	// Read is what the file held, and Complete whether that is all that it held.
	Read     reservation.Records
	Complete bool
	// Unreferenced are records from pages that may not have been in use any more.
	Unreferenced reservation.Records

	rest     map[string]map[string][]byte // what else was read, by bucket and key
	sequence uint64
}

// salvage reads what can be read of the database, which may be nothing.
func (s *Store) salvage() (Salvaged, error) {
	var left Salvaged
	f, err := os.Open(filepath.Join(s.dir, databaseName))
	if errors.Is(err, os.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, fmt.Errorf("read damaged state: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return left, fmt.Errorf("read damaged state: %w", err)
	}
	pages, root := openPages(f, info.Size())
	left.readTree(pages, root)
	left.Unreferenced = readUnreferenced(pages)
	if v := left.rest[string(bucketMeta)][string(keySchema)]; len(v) == 4 {
		return left, refuseNewer(v)
	}
	left.Complete = false // no page said so, but a state has a schema
	return left, nil
}

// readTree reads all that can be reached from the root.
func (l *Salvaged) readTree(p *pages, root uint64) {
	var named []element
	l.Complete = root != 0 && p.walk(root, func(e element) { named = append(named, e) })
	l.rest = map[string]map[string][]byte{}
	for _, b := range named {
		name := string(b.key)
		l.rest[name] = map[string][]byte{}
		whole := p.walkBucket(b, func(e element) {
			switch name {
			case string(bucketAttachments), string(bucketReservations):
				l.Complete = collect(&l.Read, e) && l.Complete
			case string(bucketMeta), string(bucketNetworks), string(bucketCursors), string(bucketPoolUsage):
				if len(e.key) > 0 && len(e.key) <= bolt.MaxKeySize { // or it could not be written again
					l.rest[name][string(e.key)] = e.value
				}
			}
		})
		l.Complete = whole && l.Complete
		if name == string(bucketMeta) && len(b.value) >= bucketHeader {
			l.sequence = binary.NativeEndian.Uint64(b.value[8:])
		}
	}
}

// readUnreferenced reads every record in the file. Of several of one attachment or owner it
// takes the newest.
func readUnreferenced(p *pages) reservation.Records {
	var all reservation.Records
	p.scan(func(e element) { collect(&all, e) })
	return reservation.Records{
		Attachments:  newest(all.Attachments, func(a reservation.Attachment) (reservation.AttachmentID, uint64) { return a.ID, a.Seq }),
		Reservations: newest(all.Reservations, func(r reservation.Reservation) (reservation.Owner, uint64) { return r.Owner, r.Seq }),
	}
}

// newest returns the record with the highest number of each key, in the order in which
// the keys appear first.
func newest[T any, K comparable](all []T, of func(T) (K, uint64)) []T {
	at := map[K]int{}
	var found []T
	for _, v := range all {
		key, seq := of(v)
		i, again := at[key]
		if !again {
			at[key] = len(found)
			found = append(found, v)
		} else if _, was := of(found[i]); seq >= was {
			found[i] = v
		}
	}
	return found
}

// collect adds the record in an entry, if it is one that can be written again and says the
// same as its key.
func collect(to *reservation.Records, e element) bool {
	if a, err := decodeAttachment(e.value); err == nil && atKey(e.key, keyOfAttachment(a)) == nil && checkNames(a.ID.ContainerID, a.Owner) == nil {
		to.Attachments = append(to.Attachments, a)
		return true
	}
	if r, err := decodeReservation(e.value); err == nil && atKey(e.key, keyOfReservation(r)) == nil && checkNames("", r.Owner) == nil {
		to.Reservations = append(to.Reservations, r)
		return true
	}
	return false
}

// restore fills a new database.
func (l *Salvaged) restore(tx *Tx, records reservation.Records) error {
	seq := l.sequence
	for _, a := range records.Attachments {
		seq = max(seq, a.Seq)
		if err := tx.PutAttachment(a); err != nil {
			return err
		}
	}
	for _, r := range records.Reservations {
		seq = max(seq, r.Seq)
		if err := tx.PutReservation(r); err != nil {
			return err
		}
	}
	for network, config := range l.rest[string(bucketNetworks)] {
		if err := tx.SetConfig(network, config); err != nil {
			return err
		}
	}
	for network, v := range l.rest[string(bucketPoolUsage)] {
		was, err := decodePoolUsage(v)
		if err != nil {
			continue // the next ADD says the limits again
		}
		if err := tx.updateUsage(network, func(p *PoolUsage) {
			was.Reserved = p.Reserved // of those that were found again
			*p = was
		}); err != nil {
			return err
		}
	}
	cursors := tx.tx.Bucket(bucketCursors)
	for k, v := range l.rest[string(bucketCursors)] {
		if _, err := netip.ParseAddr(string(v)); err != nil {
			continue // without one, the search begins at the range's start
		}
		if err := cursors.Put([]byte(k), v); err != nil {
			return err
		}
	}
	meta := tx.tx.Bucket(bucketMeta)
	if err := meta.SetSequence(seq); err != nil {
		return err
	}
	return meta.Put(keyRecoveries, binary.BigEndian.AppendUint64(nil, l.recoveries()))
}

// recoveries counts how often the state was made again, this time included.
func (l *Salvaged) recoveries() uint64 {
	var n uint64
	if v := l.rest[string(bucketMeta)][string(keyRecoveries)]; len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	if l.Cause != nil {
		n++
	}
	return n
}
