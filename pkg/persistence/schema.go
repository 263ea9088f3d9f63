package persistence

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

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

// firstBuckets are those that each version has made.
var firstBuckets = [][]byte{bucketAttachments, bucketOwners, bucketReservations, bucketHeld}

// checkBuckets fails for a file that lacks one of some buckets.
func checkBuckets(tx *bolt.Tx, names [][]byte, why error) error {
	for _, name := range names {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("no bucket %s: %w", name, why)
		}
	}
	return nil
}
