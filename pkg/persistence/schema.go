package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// schema is the version of the layout. New buckets and keys keep the version, so that the previous version of the plugin can read
// the file. A state that has had an address that follows its pod has schemaLoans: an older version would end a loan, or hand out
// what is lent.
const (
	schema      = 2
	schemaLoans = 3
)

// errFollows is returned for the first record that follows, in a state that older versions read.
var errFollows = errors.New("the layout of loans comes first")

// raise writes the layout of loans. The record comes after both folds: an older version that finds one of them damaged would go
// on with the other.
func (s *Store) raise() error {
	return s.relayout(schemaLoans, func(*session) error { return nil })
}

// Downgrade writes the layout that the former version reads, alone on the node, unless a record follows.
func (s *Store) Downgrade(ctx context.Context) error {
	return s.existing(ctx, func() error { return s.relayout(schema, (*session).noneFollows) })
}

// relayout writes a version of the layout into both folds, unless check fails.
func (s *Store) relayout(version uint32, check func(*session) error) error {
	for range foldNames {
		err := s.use(os.O_RDWR, func(ss *session) error {
			if err := check(ss); err != nil {
				return err
			}
			ss.schema = version
			_, err := ss.fold(true)
			return err
		})
		if err != nil {
			return fmt.Errorf("write layout %d: %w", version, err)
		}
	}
	return nil
}

// noneFollows fails for a state that has a record that follows. A damaged fold could hide one.
func (ss *session) noneFollows() error {
	if err := ss.journal.verify(ss.db.Path()); err != nil {
		return err
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

// schemaSum returns the checksum of a version of the layout.
func schemaSum(v []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE(keySchema), crc32.IEEETable, v))
}

// schemaOf returns the version of the layout of a file. It fails for a file without one, or with a newer one.
func schemaOf(tx *bolt.Tx) (uint32, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return 0, fmt.Errorf("no schema: %w", ErrDamaged) // every file has a schema before it gets its name
	}
	v := meta.Get(keySchema)
	if err := checkVersion(v, meta.Get(keySchemaSum)); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(v), nil
}

// checkVersion fails for a version of the layout that is damaged or that this version cannot read. The checksum tells a newer
// version from a flipped bit, which would stop each ADD of the node.
func checkVersion(v, sum []byte) error {
	if len(v) != 4 {
		return fmt.Errorf("schema of %d bytes: %w", len(v), ErrDamaged)
	}
	n := binary.BigEndian.Uint32(v)
	if string(sum) != string(schemaSum(v)) {
		return fmt.Errorf("schema %d with the checksum %x, want %x: %w", n, sum, schemaSum(v), ErrDamaged)
	}
	if n > schemaLoans {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", n, schemaLoans, ErrNewer)
	}
	return nil
}
