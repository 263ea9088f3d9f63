package persistence_test

import (
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestOlderFileIsReadAndWritten removes what newer versions added: buckets, and the checksums of records and bitmaps.
func TestOlderFileIsReadAndWritten(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	inside(t, filepath.Join(s.Dir(), "limpet.db"), func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("attachments"))
		k, v := b.Cursor().First()
		if err := b.Put(k, withoutSum(v)); err != nil {
			return err
		}
		held := tx.Bucket([]byte("held"))
		if k, v := held.Cursor().First(); held.Put(k, v[:32:32]) != nil {
			t.Errorf("cannot shorten the bitmap %x", k)
		}
		return tx.DeleteBucket([]byte("networks"))
	})
	read := func(tx *persistence.Tx) error {
		_, found, err := tx.Attachment(attachment(1).ID)
		if configs, _ := tx.Networks(); !found || configs["net"] != nil {
			t.Errorf("found %t, configs %v", found, configs)
		}
		return err
	}
	view(t, s, read)
	update(t, s, read)
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	update(t, s, func(tx *persistence.Tx) error { return tx.SetConfig("net", []byte("[]")) })
	view(t, s, func(tx *persistence.Tx) error {
		if configs, err := tx.Networks(); err != nil || len(configs) != 1 {
			t.Errorf("configs %v, %v", configs, err)
		}
		return nil
	})
}

// withoutSum returns a record without checksum, as the first version wrote it.
func withoutSum(record []byte) []byte {
	end := len(record) - len(`,"sum":"00000000"}`)
	return append(record[:end:end], '}')
}
