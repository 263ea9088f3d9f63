package persistence

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// session is an open state: a fold, and the journal that stands on it.
type session struct {
	store   *Store
	journal *journal
	mark    mark
	db      *bolt.DB
	tx      *bolt.Tx
	layers  layers
}

// use opens the state under the lock that the caller holds, and runs fn, unless the state is not what was written. A
// panic because of the file becomes ErrDamaged.
func (s *Store) use(flag int, fn func(*session) error) error {
	ss := &session{store: s}
	var err error
	if ss.mark, err = s.readMark(); err != nil {
		return err
	}
	ss.journal, err = openJournal(s.path(journalName), flag, ss.layers.put)
	if errors.Is(err, os.ErrNotExist) {
		return s.lost()
	}
	if err != nil {
		return err
	}
	defer func() { ss.journal.close() }()
	if err := ss.mark.check(ss.journal.last, s.uptime()); err != nil {
		return fmt.Errorf("read %s: %w", s.path(journalName), err)
	}
	o := &bolt.Options{ReadOnly: true, Timeout: s.wait, OpenFile: ss.openFold}
	return guarded(s.path(foldNames[ss.journal.fold]), &ss.journal.header, o, func(db *bolt.DB) error {
		ss.db = db
		return db.View(func(tx *bolt.Tx) error {
			ss.tx = tx
			if err := checkSchema(tx); err != nil {
				return err
			}
			return fn(ss)
		})
	})
}

// openFold opens the fold, and compares a segment with its checksum. Whether, and which one, is a matter of chance, so that
// verbs reach all of them: a verb that a damaged page ends is repeated, and may find the damage then.
func (ss *session) openFold(path string, flag int, mode os.FileMode) (*os.File, error) {
	h := &ss.journal.header
	f, err := flock.Open(path, flag, mode)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", path, ErrLost)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || uint64(info.Size()) < h.size:
		err = fmt.Errorf("%s of %d bytes, and the journal says %d: %w", info.Mode(), info.Size(), h.size, ErrDamaged)
	default:
		err = h.verifySome(f, uint64(ss.store.uptime()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// within runs fn in one transaction on the open state. It commits nothing.
func (ss *session) within(writable bool, fn func(*Tx) error) (*Tx, error) {
	t := &Tx{base: ss.tx, layers: &ss.layers, writable: writable}
	return t, fn(t)
}

// commit appends what a transaction has changed to the journal, and notes in the marker that it did.
func (ss *session) commit(t *Tx) error {
	if len(t.changes) == 0 {
		return nil
	}
	if err := ss.journal.appendFrame(t.changes); err != nil {
		return err
	}
	ss.store.writeMark(ss.mark.next(ss.journal.last, false, ss.store.uptime()))
	return nil
}

// syncLater returns the sync of the last commit as a function for after the end of the session, which leaves the journal open
// for it. The marker says that the commit is synced once it is: the kernel may write the marker first.
func (ss *session) syncLater() func() error {
	s, kept := ss.store, *ss.journal
	ss.journal.file = nil
	return func() error {
		err := kept.sync()
		if err == nil {
			s.writeSynced(kept.last)
		}
		return errors.Join(err, kept.file.Close())
	}
}
