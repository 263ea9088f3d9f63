package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// A fold is a bbolt file with all that journals said up to a generation. There are two: the journal stands on one, and the
// other is a copy of the fold before. Folding brings the other one up to date, with the changes of the journal before and
// of the journal, and begins a new journal on it. So the file on which the journal stands is never written, and what is
// damaged in one can be read from the other.

// foldNames are the names of the two folds.
var foldNames = [2]string{databaseName, databaseName + ".2"}

const (
	journalName     = "limpet.journal"
	lastJournalName = journalName + ".last"
	newSuffix       = ".new"

	// segmentSize is the part of a fold that has a checksum of its own, in a fold of up to mostSegments of them.
	segmentSize  = 1 << 20
	mostSegments = 512
	// shrinkFrom is the size from which a fold that is mostly free is copied without its free pages.
	shrinkFrom = 4 * reservedSize
	// writtenAtOnce is the number of changes in a transaction: each may map other pages.
	writtenAtOnce = 256
	// copiedAtOnce bounds a transaction of a copy, and with it the memory.
	copiedAtOnce = 1 << 20
	// readAtOnce is how much of a fold is read at once for a checksum.
	readAtOnce = 32 << 10
)

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Fold writes what the journal says into a fold, if the journal is half as long as it may get: so that no verb has to.
func (s *Store) Fold(ctx context.Context) error {
	return s.existing(ctx, func() error {
		return s.use(os.O_RDWR, func(ss *session) error {
			if ss.journal.end-framesAt < foldAt/2 {
				return nil
			}
			if _, err := ss.fold(false); !errors.Is(err, ErrLocked) {
				return err
			}
			return nil // in use by a reader: later
		})
	})
}

// fold begins a new journal. With compact the new fold has no free pages.
func (ss *session) fold(compact bool) (header, error) {
	h := header{fold: 1 - ss.journal.fold, generation: ss.journal.last}
	path := ss.store.path(foldNames[h.fold])
	used, err := ss.writeFold(path, compact)
	if err == nil {
		err = h.sum(path, used)
	}
	if err == nil {
		err = ss.store.beginJournal(h)
	}
	if err != nil {
		return h, fmt.Errorf("fold journal: %w", err)
	}
	// the whole mark: the last commit that it knows may have been lost with the power
	ss.store.writeMark(ss.mark.next(h.generation, true, ss.store.uptime()))
	return h, nil
}

// writeFold brings the other fold up to date, and returns the bytes in use. It is a new copy of this one where it cannot be
// used.
func (ss *session) writeFold(path string, compact bool) (used int64, err error) {
	if missing, usable := ss.missing(); usable && !compact {
		used, free, err := ss.apply(path, missing)
		if err == nil && (used < shrinkFrom || free < used/4*3) { // else damaged, in use by a reader, or mostly free
			return used, nil
		}
		if errors.Is(err, ErrLocked) && ss.journal.end < journalSize {
			return 0, err // the reader ends before the journal is full, or else a copy is made then
		}
	}
	temp := path + newSuffix
	if err = removeLeftover(temp); err == nil {
		err = ss.copyFold(temp)
	}
	if err == nil {
		used, _, err = ss.apply(temp, &ss.layers)
	}
	if err == nil {
		err = reserve(temp)
	}
	if err != nil {
		return 0, errors.Join(err, removeLeftover(temp))
	}
	return used, os.Rename(temp, path)
}

// missing returns what the other fold lacks of the state, if that fold is the one on which the last journal stood, and is unchanged.
func (ss *session) missing() (all *layers, ok bool) {
	all = new(layers)
	last, err := openJournal(ss.store.path(lastJournalName), os.O_RDONLY, all.put)
	if err != nil {
		return nil, false
	}
	defer func() { last.close() }()
	if last.fold == ss.journal.fold || last.last != ss.journal.generation {
		return nil, false
	}
	if last.verify(ss.store.path(foldNames[last.fold])) != nil {
		return nil, false
	}
	for n := range ss.layers {
		for k, v := range ss.layers[n].at {
			all[n].put(k, v)
		}
	}
	return all, true
}

// apply writes changes into a fold, and returns how many of its bytes are in use, and how many of these are in free pages.
func (ss *session) apply(path string, changed *layers) (used, free int64, err error) {
	unmap(ss.tx)
	return changed.write(path)
}

// write writes changes into a fold, and its schema. It returns how many bytes up to the last page that was ever
// used, and how many of these are in free pages.
func (l *layers) write(path string) (used, free int64, err error) {
	err = guarded(path, nil, &bolt.Options{Timeout: 1}, func(db *bolt.DB) error {
		if err := l.writeAll(db); err != nil {
			return err
		}
		stats := db.Stats()
		free = int64(stats.FreePageN+stats.PendingPageN) * int64(db.Info().PageSize)
		return db.View(func(tx *bolt.Tx) error { used = tx.Size(); return nil })
	})
	return used, free, err
}

// writeAll writes only so many changes in one transaction as take little memory: the last one syncs them all, and no journal stands
// on the fold yet.
func (l *layers) writeAll(db *bolt.DB) error {
	for all := l.changes(); ; all = all[writtenAtOnce:] {
		part := all[:min(len(all), writtenAtOnce)]
		db.NoSync, db.NoFreelistSync = len(part) < len(all), len(part) < len(all)
		err := db.Update(func(tx *bolt.Tx) error {
			unmap(tx)
			return write(tx, part)
		})
		if err != nil || !db.NoSync {
			return err
		}
	}
}

// write writes changes into the buckets of a fold, and its schema.
func write(tx *bolt.Tx, changes []change) error {
	var open [maxBuckets]*bolt.Bucket
	for n, name := range buckets {
		b, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
		open[n] = b
	}
	var err error
	for _, c := range changes {
		if c.value == nil {
			err = errors.Join(err, open[c.bucket].Delete([]byte(c.key)))
		} else {
			err = errors.Join(err, open[c.bucket].Put([]byte(c.key), c.value))
		}
	}
	meta, v := tx.Bucket(bucketMeta), binary.BigEndian.AppendUint32(nil, schema)
	err = errors.Join(err, meta.Put(keySchema, v), meta.Put(keySchemaSum, schemaSum(v)))
	if err != nil {
		return fmt.Errorf("write fold: %w", err)
	}
	return nil
}

// copyFold copies the fold on which the journal stands, without its free pages. The copy gets checksums of its own, so
// all of the fold is compared with its checksums before.
func (ss *session) copyFold(temp string) error {
	if err := ss.journal.verify(ss.db.Path()); err != nil {
		return err
	}
	to, err := bolt.Open(temp, 0o600, &bolt.Options{NoSync: true}) // apply syncs what it adds, and with it all
	if err != nil {
		return err
	}
	for _, name := range buckets {
		if from := ss.tx.Bucket(name); from != nil && err == nil {
			err = ss.copyBucket(to, name, from.Cursor())
		}
	}
	return errors.Join(err, to.Close())
}

// copyBucket copies a bucket as bolt.Compact does, which would map the whole file.
func (ss *session) copyBucket(to *bolt.DB, name []byte, c *bolt.Cursor) (err error) {
	for k, v := c.First(); k != nil && err == nil; unmap(ss.tx) {
		err = to.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			for size := 0; k != nil && err == nil && size < copiedAtOnce; k, v = c.Next() {
				b.FillPercent, size = 0.9, size+len(k)+len(v)
				err = b.Put(k, v)
			}
			return err
		})
	}
	return err
}

// Compact makes a fold without free pages, alone on the node, and returns the sizes of the state before and after. A crash
// leaves the state as it was, or the new one.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	err = s.existing(ctx, func() error {
		if err := s.ensure(); err != nil {
			return err
		}
		return s.use(os.O_RDWR, func(ss *session) error {
			before = int64(ss.journal.size) + ss.journal.end
			h, err := ss.fold(true)
			after = int64(h.size) + framesAt
			return err
		})
	})
	return before, after, err
}

// beginJournal replaces the journal by an empty one on another fold. The present one stays as the last one, and its
// predecessor's space is used again.
func (s *Store) beginJournal(h header) error {
	path, last := s.path(journalName), s.path(lastJournalName)
	temp := path + newSuffix
	if err := os.Rename(last, temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if info, err := os.Lstat(temp); err == nil && (linked(info) || !info.Mode().IsRegular()) { // kept as a damaged one, too; or a pipe
		if err := removeLeftover(temp); err != nil {
			return err
		}
	}
	if err := writeHeader(temp, h); err != nil {
		return err
	}
	if err := os.Link(path, last); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(s.dir)
}

// linked reports whether a file has more than one name.
func linked(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}

// writeHeader makes a file an empty journal. Frames that it has have lower generations, and do not count.
func writeHeader(path string, h header) error {
	f, err := flock.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	page := make([]byte, framesAt)
	copy(page, h.encode())
	allocate(f, journalSize)
	_, err = f.WriteAt(page, 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// sum reads the bytes in use of a fold, and fills in the checksums. It allocates the space of the file, which a later fold writes.
func (h *header) sum(path string, used int64) error {
	h.size, h.segment, h.sums = uint64(used), segmentSize, nil
	for h.size/h.segment >= mostSegments {
		h.segment *= 2
	}
	f, err := flock.Open(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err == nil {
		allocate(f, info.Size())
	}
	buffer := make([]byte, readAtOnce)
	for n := range (h.size + h.segment - 1) / h.segment {
		sum, err := h.sumOf(f, n, buffer)
		if err != nil {
			return err
		}
		h.sums = append(h.sums, sum)
	}
	return nil
}

// sumOf returns the checksum of a segment of a file.
func (h *header) sumOf(f *os.File, n uint64, buffer []byte) (uint32, error) {
	sum := crc32.NewIEEE()
	length := int64(min(h.segment, h.size-n*h.segment))
	copied, err := io.CopyBuffer(sum, io.NewSectionReader(f, int64(n*h.segment), length), buffer)
	if err == nil && copied < length {
		err = io.ErrUnexpectedEOF
	}
	return sum.Sum32(), err
}

// verify fails for a fold with another checksum than the journal knows.
func (h *header) verify(path string) error {
	f, err := flock.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	buffer := make([]byte, readAtOnce)
	for n := range h.sums {
		if err := h.verifySegment(f, uint64(n), buffer); err != nil {
			return err
		}
	}
	return nil
}

// verifySome compares one segment, or none: on average a verb compares segmentSize/4, however large the fold is. A fold of
// one segment is always compared.
func (h *header) verifySome(f *os.File, chance uint64) error {
	n := uint64(len(h.sums))
	if turns := 4 * h.segment / segmentSize; n > 1 && chance/n%turns != 0 {
		return nil
	}
	return h.verifySegment(f, chance%n, make([]byte, readAtOnce))
}

func (h *header) verifySegment(f *os.File, n uint64, buffer []byte) error {
	sum, err := h.sumOf(f, n, buffer)
	if err == nil && sum != h.sums[n] {
		err = errors.New("checksum differs")
	}
	if err != nil {
		return fmt.Errorf("segment %d of %s: %w: %w", n, f.Name(), err, ErrDamaged)
	}
	return nil
}
