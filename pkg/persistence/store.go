package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// DefaultDir is the default of ipam.dataDir, the directory of the state.
	DefaultDir = "/var/lib/cni/limpet"
	// DefaultLockWait bounds how long a verb waits for the lock. It is shorter than the time-outs of the runtimes, so
	// that users see the error of the lock.
	DefaultLockWait = 20 * time.Second
	// PendingDir is the directory for the marker files of ADDs that wait for the lock. No network can have this name.
	PendingDir = ".pending"

	databaseName = "limpet.db"
	lockName     = "limpet.lock"
	markerName   = "limpet.marker"

	// reservedSize is the smallest size of a state file, enough for the records of about 700 pods.
	reservedSize = 1 << 20
)

// Options configure a Store.
type Options struct {
	// Dir is the directory of the state; DefaultDir when empty.
	Dir string
	// LockWait bounds the wait for the lock; DefaultLockWait when 0.
	LockWait time.Duration
	// OnWait, unless it is nil, is called before a wait for the lock.
	OnWait func()
	// Rebuild returns the records of a new state, and of a state that is rebuilt because it was lost or damaged. It is
	// called under the lock. When it is nil a new state is empty, and a lost or damaged state is an error.
	Rebuild func(Salvaged) (reservation.Records, error)
}

// Store is the state of one node. No file stays open between calls. Many goroutines and processes may use the state at
// once.
type Store struct {
	dir     string
	wait    time.Duration
	onWait  func()
	rebuild func(Salvaged) (reservation.Records, error)
}

// New returns the store in o.Dir. No file is opened yet.
func New(o Options) *Store {
	s := &Store{dir: o.Dir, wait: o.LockWait, onWait: o.OnWait, rebuild: o.Rebuild}
	if s.dir == "" {
		s.dir = DefaultDir
	}
	if s.wait == 0 {
		s.wait = DefaultLockWait
	}
	return s
}

// Dir returns the directory of the state.
func (s *Store) Dir() string { return s.dir }

// Update runs fn in one read-write transaction, alone on the node. The changes are on disk when Update returns nil, and
// are discarded when Update returns an error. The first Update on a node creates the state. An Update that finds the
// state lost or damaged rebuilds it and then runs fn again.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	err := s.locked(ctx, unix.LOCK_EX, func() error {
		err := s.updateAndShrink(fn)
		if err == nil || s.rebuild == nil || !LostOrDamaged(err) {
			return err
		}
		if failed := s.recover(err); failed != nil {
			return errors.Join(err, failed)
		}
		return s.updateAndShrink(fn)
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// updateAndShrink runs fn under the lock that the caller holds, and compacts a file that is mostly free afterwards. The
// changes are on disk by then, so a failure of that is no failure of the update.
func (s *Store) updateAndShrink(fn func(*Tx) error) error {
	mostlyFree, err := s.update(fn)
	if err == nil && mostlyFree {
		_, _, _ = s.compact() // the next update tries again
	}
	return err
}

// update creates the state on a new node, and runs fn under the lock that the caller holds. It reports whether the file
// is much too large for what it holds.
func (s *Store) update(fn func(*Tx) error) (mostlyFree bool, err error) {
	if err := s.ensure(); err != nil {
		return false, err
	}
	marked, err := s.markedGeneration()
	if err != nil {
		return false, err
	}
	err = s.withDB(&bolt.Options{Timeout: s.wait}, func(db *bolt.DB) error {
		var committed uint64
		err := db.Update(func(tx *bolt.Tx) error {
			if err := migrate(tx); err != nil {
				return err
			}
			if err := checkGeneration(tx, marked); err != nil {
				return err
			}
			t := &Tx{tx: tx}
			if err := fn(t); err != nil {
				return err
			}
			kept := t.orderKept()
			if committed, err = raiseGeneration(tx, 0); err == nil && kept {
				err = t.markOrder(committed)
			}
			return err
		})
		if err == nil {
			s.markGeneration(committed)
			mostlyFree = shrinkable(db)
		}
		return err
	})
	return mostlyFree, err
}

// An update compacts a file of at least shrinkFrom of which at most a quarter is in use, and at most mostCopied bytes:
// other verbs wait meanwhile. Each commit writes the list of free pages, so a file that is mostly free slows all verbs.
const (
	shrinkFrom = 4 * reservedSize
	mostCopied = 4 << 20
)

// shrinkable reports whether an update should compact the file.
func shrinkable(db *bolt.DB) bool {
	stats := db.Stats()
	free := int64(stats.FreePageN+stats.PendingPageN) * int64(db.Info().PageSize)
	if free < shrinkFrom/2 {
		return false
	}
	var size int64
	err := db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	used := size - free
	return err == nil && size >= shrinkFrom && used <= size/4 && used <= mostCopied
}

// locked runs fn while holding the lock file.
func (s *Store) locked(ctx context.Context, how int, fn func() error) (err error) {
	l, err := s.lock(ctx, how)
	if how == unix.LOCK_SH && errors.Is(err, unix.EROFS) {
		return fn() // no lock file can be created; bbolt's own lock on the database is enough for a reader
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return fn()
}

// lock takes the lock file: writers in the order of their calls, readers as the kernel lets them.
func (s *Store) lock(ctx context.Context, how int) (*os.File, error) {
	path := filepath.Join(s.dir, lockName)
	if how == unix.LOCK_SH {
		return flock.LockAfter(ctx, path, how, s.wait, s.onWait)
	}
	return flock.LockInTurn(ctx, path, s.wait, s.onWait)
}

// schema is the version of the layout. New buckets and keys keep the version, so that the previous version of the plugin
// can read the file.
const schema = 1

// migrate creates the buckets that an older version did not have, and refuses a newer schema.
func migrate(tx *bolt.Tx) error {
	if err := checkSchema(tx); err != nil {
		return err
	}
	return makeBuckets(tx)
}

// makeBuckets creates the buckets that are missing.
func makeBuckets(tx *bolt.Tx) error {
	for _, name := range slices.Concat(buckets, [][]byte{bucketLastHolders}) {
		if tx.Bucket(name) != nil {
			continue
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	if err := makePoolUsage(tx); err != nil {
		return err
	}
	return putSchema(tx.Bucket(bucketMeta))
}

// putSchema writes the version of the layout and its checksum, where they are missing. The first versions wrote no
// checksum.
func putSchema(meta *bolt.Bucket) error {
	v := meta.Get(keySchema)
	if v == nil {
		v = binary.BigEndian.AppendUint32(nil, schema)
		if err := meta.Put(keySchema, v); err != nil {
			return err
		}
	}
	if meta.Get(keySchemaSum) != nil {
		return nil
	}
	return meta.Put(keySchemaSum, schemaSum(v))
}

// schemaSum returns the checksum of a version of the layout.
func schemaSum(v []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE(keySchema), crc32.IEEETable, v))
}

// checkSchema fails for a file without a schema or with a newer one.
func checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("no schema: %w", ErrDamaged) // every file has a schema before it gets its name
	}
	return checkVersion(meta.Get(keySchema), meta.Get(keySchemaSum))
}

// checkVersion fails for a version of the layout that is damaged or that this version cannot read. Only version 1 may
// have no checksum: the checksum tells a newer version from a flipped bit, which would stop each ADD of the node.
func checkVersion(v, sum []byte) error {
	if len(v) != 4 {
		return fmt.Errorf("schema of %d bytes: %w", len(v), ErrDamaged)
	}
	n := binary.BigEndian.Uint32(v)
	if sum == nil && n == 1 {
		return nil
	}
	if string(sum) != string(schemaSum(v)) {
		return fmt.Errorf("schema %d with the checksum %x, want %x: %w", n, sum, schemaSum(v), ErrDamaged)
	}
	if n > schema {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", n, schema, ErrNewer)
	}
	return nil
}

var keyGeneration = []byte("generation")

// generation returns the generation of a database; 0 when a version without generations wrote it.
func generation(tx *bolt.Tx) uint64 {
	return number(tx.Bucket(bucketMeta).Get(keyGeneration))
}

// checkGeneration fails for a database that is older than the marker says.
func checkGeneration(tx *bolt.Tx, marked uint64) error {
	if n := generation(tx); n < marked {
		return fmt.Errorf("generation %d, and the marker says %d: %w", n, marked, ErrOutdated)
	}
	return nil
}

// raiseGeneration raises the generation to at least the given number, and returns it.
func raiseGeneration(tx *bolt.Tx, least uint64) (uint64, error) {
	n := generation(tx) + 1
	if n == 1 {
		info, err := os.Stat(tx.DB().Path())
		if err != nil {
			return 0, fmt.Errorf("begin generations: %w", err)
		}
		n = uint64(max(info.ModTime().UnixNano(), 1))
	}
	n = max(n, least)
	if err := tx.Bucket(bucketMeta).Put(keyGeneration, binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return 0, fmt.Errorf("raise generation: %w", err)
	}
	return n, nil
}
