package persistence

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

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
	if tx.Bucket(bucketLastHolders) == nil {
		if _, err := tx.CreateBucket(bucketLastHolders); err != nil {
			return fmt.Errorf("create bucket %s: %w", bucketLastHolders, err)
		}
	}
	if meta := tx.Bucket(bucketMeta); meta.Get(keySchema) == nil {
		return meta.Put(keySchema, binary.BigEndian.AppendUint32(nil, schema))
	}
	return nil
}

// checkSchema fails for a file without a schema or with a newer one.
func checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("no schema: %w", ErrDamaged) // every file has a schema before it gets its name
	}
	v := meta.Get(keySchema)
	if len(v) != 4 {
		return fmt.Errorf("schema of %d bytes: %w", len(v), ErrDamaged)
	}
	return refuseNewer(v)
}

// checkBuckets fails for a file of an older version, to which no version with all the buckets has written yet.
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
