package persistence_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAReaderLeavesTheFirstVersion reads states of version 1, with all buckets that it had and without those that came later.
// Nothing is written, so that the version that wrote the state can go on. Then a write takes each state over.
func TestAReaderLeavesTheFirstVersion(t *testing.T) {
	for name, without := range map[string][]string{
		"the last release": nil,
		"the order":        {"order"},
		"what came later":  {"networks", "cursors", "released", "lastholders", "pressure", "order"},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update(t, s, func(tx *persistence.Tx) error {
				for range 7 {
					if _, err := tx.NextSeq(); err != nil {
						return err
					}
				}
				return errors.Join(tx.PutAttachment(attachment(1)), tx.PutReservation(reserve(attachment(2))), tx.PutReservation(reserve(attachment(3))))
			})
			first(t, s, func(tx *bolt.Tx) error {
				if order := tx.Bucket([]byte("order")); order != nil { // as other versions may have kept it
					if err := order.Put([]byte("x"), []byte("y")); err != nil {
						return err
					}
				}
				for _, b := range without {
					if err := tx.DeleteBucket([]byte(b)); err != nil && tx.Bucket([]byte(b)) != nil {
						return err
					}
				}
				return nil
			})
			before := filesOf(t, s.Dir())
			read := func(tx *persistence.Tx) error {
				attached, err := tx.Attachments("net")
				reserved, err2 := tx.Reservations("net")
				soonest, err3 := tx.EndingSoonest("net", "ns", moment, 9)
				usage, err4 := tx.PoolUsage("net")
				if len(attached) != 1 || len(reserved) != 2 || len(soonest) != 2 || usage.Reserved != 2 {
					t.Errorf("%d attached, %d reserved, %d in order, %d counted", len(attached), len(reserved), len(soonest), usage.Reserved)
				}
				return errors.Join(err, err2, err3, err4)
			}
			view(t, s, read)
			if r, err := s.Audit(t.Context(), nil); err != nil || len(r.Faults) > 0 || r.Attachments != 1 || r.Reservations != 2 {
				t.Errorf("audit: %+v, %v", r, err)
			}
			if !maps.EqualFunc(before, filesOf(t, s.Dir()), bytes.Equal) {
				t.Error("a reader has changed the state")
			}
			s = persistence.New(persistence.Options{Dir: s.Dir(), Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
				t.Errorf("rebuilt: %v", left.Cause)
				return left.Read, nil
			}})
			update(t, s, func(tx *persistence.Tx) error {
				if n, err := tx.NextSeq(); n != 8 || err != nil {
					t.Errorf("the next number is %d, %v", n, err)
				}
				return read(tx)
			})
			view(t, s, read)
		})
	}
}
