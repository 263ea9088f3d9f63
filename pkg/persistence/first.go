package persistence

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Versions without a journal wrote limpet.db in place, with version 1 of the layout. Update takes such a file over, and
// View and Audit read it as it is: the version that wrote it may be the one that goes on.

// readFirst opens a state without a journal, and runs fn. The lock is held meanwhile.
func (s *Store) readFirst(fn func(*session) error) error {
	found, err := s.exists(databaseName)
	if err != nil {
		return err
	}
	if !found {
		return s.lost()
	}
	ss := &session{store: s, journal: &journal{}}
	if ss.mark, err = s.readMark(); err != nil {
		return err
	}
	o := &bolt.Options{ReadOnly: true, Timeout: s.wait, OpenFile: openExisting}
	return guarded(s.path(databaseName), o, func(db *bolt.DB) error {
		return db.View(func(tx *bolt.Tx) error {
			t, _, err := s.upgraded(tx, ss.mark)
			if err != nil {
				return err
			}
			ss.tx, ss.layers, ss.journal.size = tx, *t.layers, uint64(tx.Size())
			return fn(ss)
		})
	})
}

// upgrade brings a file of version 1 to the present layout, and returns its generation.
func (s *Store) upgrade(tx *bolt.Tx, m mark) (uint64, error) {
	t, generation, err := s.upgraded(tx, m)
	if err != nil || len(t.changes) == 0 {
		return generation, err
	}
	if tx.Bucket(bucketOrder) != nil {
		if err := tx.DeleteBucket(bucketOrder); err != nil {
			return 0, err
		}
	}
	return generation + 1, write(tx, t.changes, generation+1, schema)
}

// upgraded returns a transaction on a file without a journal that reads as the present layout, and the generation of the
// file. Its changes are what the file lacks; none for a file that is not of version 1.
func (s *Store) upgraded(tx *bolt.Tx, m mark) (t *Tx, generation uint64, err error) {
	if err := checkTree(tx); err != nil {
		return nil, 0, err
	}
	version, err := schemaOf(tx)
	if err != nil {
		return nil, 0, err
	}
	generation = number(tx.Bucket(bucketMeta).Get(keyGeneration))
	if err := m.check(generation, s.uptime()); err != nil {
		if version >= schema {
			err = fmt.Errorf("%s is missing: %w", s.path(journalName), err)
		}
		return nil, 0, err
	}
	t = newTx(tx)
	if version >= schema {
		return t, generation, nil
	}
	for problem := range tx.Check() {
		return nil, 0, fmt.Errorf("%w: %w", problem, ErrDamaged)
	}
	for _, name := range firstBuckets {
		if tx.Bucket(name) == nil {
			return nil, 0, fmt.Errorf("no bucket %s: %w", name, ErrDamaged)
		}
	}
	return t, generation, t.upgrade()
}

// firstBuckets are those that each version has made.
var firstBuckets = [][]byte{bucketAttachments, bucketOwners, bucketReservations, bucketHeld}

// upgrade adds to the state of a file of version 1 what it lacks.
func (t *Tx) upgrade() error {
	t.hide(bucketOrder) // not of version 2
	for _, name := range [][]byte{bucketMeta, bucketReleased} {
		b := t.bucket(name)
		if b.base == nil {
			continue // of an early version
		}
		if err := b.SetSequence(b.base.Sequence()); err != nil {
			return err
		}
	}
	all, err := t.Records()
	if err != nil {
		return err
	}
	for _, r := range all.Reservations {
		if err := t.changeOrder(r, 1); err != nil {
			return err
		}
	}
	return t.count()
}

// hide makes a bucket of the file empty in the layers, also of buckets that it has.
func (t *Tx) hide(name []byte) {
	b := t.bucket(name)
	if b.base == nil {
		return
	}
	_ = b.base.ForEach(func(k, _ []byte) error { // the function returns no error
		b.layer.put(string(k), nil)
		return nil
	})
}
