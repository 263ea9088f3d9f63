package persistence_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func usage(t *testing.T, s *persistence.Store) persistence.PoolUsage {
	t.Helper()
	var p persistence.PoolUsage
	view(t, s, func(tx *persistence.Tx) (err error) {
		p, err = tx.PoolUsage("net")
		return err
	})
	return p
}

// TestTheCountAgreesWithTheReservations stores, replaces and deletes reservations at random, and abandons some
// transactions.
func TestTheCountAgreesWithTheReservations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	abandon := errors.New("abandon")
	for range 60 {
		err := s.Update(t.Context(), func(tx *persistence.Tx) error {
			for range r.IntN(20) {
				some := reserve(attachment(r.IntN(30)))
				err := tx.PutReservation(some)
				if r.IntN(2) == 0 {
					err = tx.DeleteReservation(some.Owner)
				}
				if err != nil {
					return err
				}
			}
			if r.IntN(5) == 0 {
				return abandon
			}
			return nil
		})
		if err != nil && !errors.Is(err, abandon) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		counted := usage(t, s).Reserved
		view(t, s, func(tx *persistence.Tx) error {
			all, err := tx.Reservations("net")
			if counted != int64(len(all)) {
				t.Fatalf("seed %d: counted %d of %d reservations", seed, counted, len(all))
			}
			return err
		})
	}
}

// TestRecoveryKeepsTheLimits damages the index of addresses. The rebuilt file keeps the limits and counters, and counts
// the reservations, one of which is lost.
func TestRecoveryKeepsTheLimits(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead})
	limits := reservation.Limits{Share: reservation.Share{Pods: 1, Refuse: true}, MaxRetain: time.Hour}
	update(t, s, func(tx *persistence.Tx) error {
		return errors.Join(tx.PutReservation(reserve(attachment(0))), tx.PutReservation(reserve(attachment(1))), tx.SetLimits("net", limits), tx.CountRefused("net"))
	})
	want := usage(t, s)
	want.Reserved--
	inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("held")).Put([]byte("net\x00\x0a\x00\x00\x00"), []byte{1}), tx.Bucket([]byte("reservations")).Delete([]byte("net\x00ns\x00c0\x00eth0")))
	})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(3)) })
	if kept, _ := filepath.Glob(filepath.Join(s.Dir(), "limpet.db.damaged-*")); len(kept) != 1 {
		t.Fatalf("%d damaged files, want 1", len(kept))
	}
	if diff := cmp.Diff(want, usage(t, s)); diff != "" || want.Refused != 1 {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestEarlyEndsAreCounted covers the two ways in which a reservation ends before its deadline.
func TestEarlyEndsAreCounted(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		one, two := reserve(attachment(1)), reserve(attachment(2))
		return errors.Join(tx.PutReservation(one), tx.Reclaim(one.Owner), tx.PutReservation(two), tx.Displace(two.Owner))
	})
	if diff := cmp.Diff(persistence.PoolUsage{Reclaimed: 1, Displaced: 1}, usage(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
