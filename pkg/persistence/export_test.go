package persistence

import (
	"context"
	"errors"
	"os"

	bolt "go.etcd.io/bbolt"
)

// Edit folds the journal, and changes the fold on which the new one stands as if it had been written so.
func Edit(dir string, fn func(*bolt.Tx) error) error {
	s := New(Options{Dir: dir})
	return s.locked(context.Background(), func() error {
		var h header
		err := s.use(os.O_RDWR, func(ss *session) (err error) {
			h, err = ss.fold(false)
			return err
		})
		if err != nil {
			return err
		}
		path := s.path(foldNames[h.fold])
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		var used int64
		err = db.Update(fn)
		if err == nil {
			err = db.View(func(tx *bolt.Tx) error { used = tx.Size(); return nil })
		}
		return errors.Join(err, db.Close(), h.sum(path, used), writeHeader(s.path(journalName), h))
	})
}

// ActiveFold returns the path of the fold on which the journal stands; that of the first one where there is no journal.
func ActiveFold(dir string) string {
	s := New(Options{Dir: dir})
	j, err := openJournal(s.path(journalName), os.O_RDONLY, func(change) {})
	if err != nil {
		return s.path(databaseName)
	}
	defer j.close()
	return s.path(foldNames[j.fold])
}

// AppendNewer appends a frame as of a version that has one bucket more.
func AppendNewer(dir string) error {
	j, err := openJournal(New(Options{Dir: dir}).path(journalName), os.O_RDWR, func(change) {})
	if err != nil {
		return err
	}
	defer j.close()
	return j.appendFrame([]change{{bucket: maxBuckets, key: "k", value: []byte("v")}})
}
