package persistence

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// schema is the version of the layout. Additions are new buckets and keys, and keep it,
// so that a plugin of one version back still reads the file.
const schema = 1

// migrate makes the buckets that an earlier version did not have, and refuses a
// later schema.
func migrate(tx *bolt.Tx) error {
	if err := checkSchema(tx); err != nil {
		return err
	}
	return makeBuckets(tx)
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range buckets {
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
	if meta := tx.Bucket(bucketMeta); meta.Get(keySchema) == nil {
		return meta.Put(keySchema, binary.BigEndian.AppendUint32(nil, schema))
	}
	return nil
}

func checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("no schema: %w", ErrDamaged) // it is there before the file has its name
	}
	v := meta.Get(keySchema)
	if len(v) != 4 {
		return fmt.Errorf("schema of %d bytes: %w", len(v), ErrDamaged)
	}
	return refuseNewer(v)
}

// checkBuckets fails where an earlier version made the file and none has written to it
// since that had these buckets.
func checkBuckets(tx *bolt.Tx) error {
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("no bucket %s: %w", name, errOlder)
		}
	}
	return nil
}

// refuseNewer fails for a schema that this version cannot read.
func refuseNewer(v []byte) error {
	if binary.BigEndian.Uint32(v) > schema {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", binary.BigEndian.Uint32(v), schema, ErrNewer)
	}
	return nil
}
