package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	bolt "go.etcd.io/bbolt"
)

// schema is the version of the layout: 2 since a journal stands beside the file, which a version of before would ignore.
// New buckets and keys keep the version, so that the previous version of the plugin can read the file. A state that has had an
// address that follows its pod has schemaLoans: an older version would end a loan, or hand out what is lent.
const (
	schema      = 2
	schemaLoans = 3
)

// errFollows is returned for the first record that follows, in a state that older versions read.
var errFollows = errors.New("the layout of loans comes first")

// raise writes the layout of loans into both folds. The record comes after both: an older version that finds one of them damaged
// would go on with the other.
func (s *Store) raise() error {
	for range foldNames {
		err := s.use(os.O_RDWR, func(ss *session) error {
			ss.schema = schemaLoans
			_, err := ss.fold(false)
			return err
		})
		if err != nil {
			return fmt.Errorf("write layout of loans: %w", err)
		}
	}
	return nil
}

// putSchema writes a version of the layout and its checksum.
func putSchema(meta *bolt.Bucket, version uint32) error {
	v := binary.BigEndian.AppendUint32(nil, version)
	return errors.Join(meta.Put(keySchema, v), meta.Put(keySchemaSum, schemaSum(v)))
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
	if n > schemaLoans {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", n, schemaLoans, ErrNewer)
	}
	return nil
}
