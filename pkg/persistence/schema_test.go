package persistence_test

import (
	"bytes"
	"errors"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestEveryBitOfTheSchemaCounts flips each bit of the schema and of its checksum. A flipped bit is damage and no newer version, and the state is rebuilt with all its records.
func TestEveryBitOfTheSchemaCounts(t *testing.T) {
	for name, key := range map[string]string{"the schema": "schema", "its checksum": "schemasum"} {
		t.Run(name, func(t *testing.T) {
			for bit := range 32 {
				dir := t.TempDir()
				s := persistence.New(persistence.Options{Dir: dir})
				update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
				inside(t, persistence.ActiveFold(dir), func(tx *bolt.Tx) error {
					meta := tx.Bucket([]byte("meta"))
					v := bytes.Clone(meta.Get([]byte(key)))
					v[bit/8] ^= 1 << (bit % 8)
					return meta.Put([]byte(key), v)
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

// TestABucketOfANewerVersionIsNoDamage appends a commit of a version that has one bucket more: what it says must not be lost.
func TestABucketOfANewerVersionIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	update(t, persistence.New(persistence.Options{Dir: dir}), func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
	s := persistence.New(persistence.Options{Dir: dir, Rebuild: func(persistence.Salvaged) (reservation.Records, error) {
		t.Error("the state is rebuilt")
		return reservation.Records{}, nil
	}})
	must(t, persistence.AppendNewer(dir))
	for what, err := range map[string]error{
		"View":   s.View(t.Context(), func(*persistence.Tx) error { return nil }),
		"Update": s.Update(t.Context(), func(*persistence.Tx) error { return nil }),
		"Fold":   s.Fold(t.Context()),
	} {
		if !errors.Is(err, persistence.ErrNewer) || persistence.LostOrDamaged(err) {
			t.Errorf("%s: %v, want %v", what, err, persistence.ErrNewer)
		}
	}
}
