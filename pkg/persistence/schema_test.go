package persistence_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestEveryBitOfTheSchemaCounts flips each bit of the schema and of its checksum, and that of a file from before the
// checksum. A flipped bit is damage and no newer version, and the state is rebuilt with all its records.
func TestEveryBitOfTheSchemaCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		key    string
		unsums bool
	}{
		"the schema":   {key: "schema"},
		"its checksum": {key: "schemasum"},
		"the schema of a file without the checksum": {key: "schema", unsums: true},
	} {
		t.Run(name, func(t *testing.T) {
			for bit := range 32 {
				dir := t.TempDir()
				s := persistence.New(persistence.Options{Dir: dir})
				update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
				inside(t, persistence.ActiveFold(dir), func(tx *bolt.Tx) error {
					meta := tx.Bucket([]byte("meta"))
					v := bytes.Clone(meta.Get([]byte(tc.key)))
					v[bit/8] ^= 1 << (bit % 8)
					err := meta.Put([]byte(tc.key), v)
					if tc.unsums {
						err = errors.Join(err, meta.Delete([]byte("schemasum")))
					}
					return err
				})
				for what, err := range map[string]error{
					"View":   s.View(t.Context(), func(*persistence.Tx) error { return nil }),
					"Update": s.Update(t.Context(), func(*persistence.Tx) error { return nil }),
				} {
					if !errors.Is(err, persistence.ErrDamaged) || errors.Is(err, persistence.ErrNewer) {
						t.Errorf("bit %d: %s: %v, want %v", bit, what, err, persistence.ErrDamaged)
					}
				}
				s = persistence.New(persistence.Options{Dir: dir, Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
					if !left.Complete {
						t.Errorf("bit %d: records count as missing", bit)
					}
					return left.Read, nil
				}})
				update(t, s, func(tx *persistence.Tx) error {
					if _, found, err := tx.Attachment(attachment(1).ID); !found || err != nil {
						t.Errorf("bit %d: rebuilt without the record: %v", bit, err)
					}
					return nil
				})
			}
		})
	}
}

// TestOlderFileIsReadAndWritten removes what newer versions added: buckets, and the checksums of records, bitmaps
// and the schema.
func TestOlderFileIsReadAndWritten(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	first(t, s, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("attachments"))
		k, v := b.Cursor().First()
		if err := b.Put(k, withoutSum(v)); err != nil {
			return err
		}
		held := tx.Bucket([]byte("held"))
		if k, v := held.Cursor().First(); held.Put(k, v[:32:32]) != nil {
			t.Errorf("cannot shorten the bitmap %x", k)
		}
		return errors.Join(tx.Bucket([]byte("meta")).Delete([]byte("schemasum")), tx.DeleteBucket([]byte("networks")))
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

// first writes the state as the first version did, and edits the file.
func first(t *testing.T, s *persistence.Store, fn func(*bolt.Tx) error) {
	t.Helper()
	must(t, s.Downgrade(t.Context()))
	db, err := bolt.Open(filepath.Join(s.Dir(), "limpet.db"), 0o600, nil)
	must(t, err)
	must(t, errors.Join(db.Update(fn), db.Close()))
}
