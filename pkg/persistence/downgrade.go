package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Downgrade writes the state as versions without a journal read it, alone on the node. The next Update of this version takes
// the state over again.
func (s *Store) Downgrade(ctx context.Context) error {
	if initialized, err := s.Initialized(); err == nil && !initialized {
		return ErrNoState
	}
	return s.locked(ctx, func() error {
		if err := s.ensure(); err != nil {
			return err
		}
		temp := s.path(databaseName + newSuffix)
		err := s.use(os.O_RDWR, func(ss *session) error { return ss.writeFirst(temp) })
		if err != nil {
			return errors.Join(fmt.Errorf("write version 1: %w", err), removeLeftover(temp))
		}
		if err := os.Rename(temp, s.path(databaseName)); err != nil {
			return err
		}
		for _, name := range []string{journalName, lastJournalName, foldNames[1]} {
			if err := removeLeftover(s.path(name)); err != nil {
				return err
			}
		}
		return syncDir(s.dir)
	})
}

// writeFirst writes the state into a new file of version 1.
func (ss *session) writeFirst(path string) error {
	if err := errors.Join(ss.noneFollows(), removeLeftover(path)); err != nil {
		return err
	}
	if err := ss.copyFold(path); err != nil {
		return err
	}
	changes, err := ss.journal.changes()
	if err != nil {
		return err
	}
	if _, _, err := ss.apply(path, changes); err != nil {
		return err
	}
	return guarded(path, &bolt.Options{Timeout: 1}, func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			meta := tx.Bucket(bucketMeta)
			for n, name := range buckets {
				if err := tx.Bucket(name).SetSequence(number(meta.Get(sequenceKey(byte(n))))); err != nil {
					return err
				}
			}
			v := binary.BigEndian.AppendUint32(nil, 1)
			return errors.Join(meta.Put(keySchema, v), meta.Put(keySchemaSum, schemaSum(v)))
		})
	})
}

// noneFollows fails for a state that has a record that follows.
func (ss *session) noneFollows() error {
	if ss.schema < schemaLoans {
		return nil
	}
	_, err := ss.transact(false, func(t *Tx) error {
		return t.EachRecord("", func(r Record) error {
			if a, s := r.Attachment, r.Reservation; a != nil && a.Mode != reservation.Follow && a.Guest == 0 || s != nil && s.Mode != reservation.Follow && !s.OnLoan() {
				return nil
			}
			return fmt.Errorf("%s follows its pod, which the other version does not know: give the pod another limpet.dev/retention, or delete it: %w",
				r.holder(), reservation.ErrLoan)
		})
	})
	return err
}
