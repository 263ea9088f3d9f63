package persistence

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// schema is the version of the layout. New keys keep it, so that the previous version of the plugin can read the file. A new bucket
// raises it: the previous version refuses changes of a bucket that it does not know.
const schema = 3

// schemaSum returns the checksum of a version of the layout.
func schemaSum(v []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE(keySchema), crc32.IEEETable, v))
}

// checkSchema fails for a file without a version of the layout, or with a newer one.
func checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("no schema: %w", ErrDamaged) // every file has a schema before it gets its name
	}
	return checkVersion(meta.Get(keySchema), meta.Get(keySchemaSum))
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
	if n > schema {
		return fmt.Errorf("schema %d, this version reads up to %d: install the newer limpet-ipam again: %w", n, schema, ErrNewer)
	}
	return nil
}
