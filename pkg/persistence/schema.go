package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// schema is the version of the layout: 2 since a journal stands beside the file, which a version of before would ignore.
// New buckets and keys keep the version, so that the previous version of the plugin can read the file.
const schema = 2

// putSchema writes the version of the layout and its checksum.
func putSchema(meta *bolt.Bucket) error {
	v := binary.BigEndian.AppendUint32(nil, schema)
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
	if n > schema {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", n, schema, ErrNewer)
	}
	return nil
}
