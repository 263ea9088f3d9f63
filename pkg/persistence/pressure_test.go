package persistence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func pressure(t *testing.T, s *persistence.Store) persistence.PoolUsage {
	t.Helper()
	var p persistence.PoolUsage
	view(t, s, func(tx *persistence.Tx) (err error) {
		p, err = tx.PoolUsage("net")
		return err
	})
	return p
}

// ended attaches the i-th pod and ends it, so that it asks for a reservation.
func ended(tx *persistence.Tx, i int) error {
	a := attachment(i)
	if err := tx.PutAttachment(a); err != nil {
		return err
	}
	_, err := tx.End(a, moment, false)
	return err
}

// TestTheCountAgreesWithTheReservations makes and ends reservations at random, puts some
// in place of others, and fails now and then.
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
		counted := pressure(t, s).Reserved
		view(t, s, func(tx *persistence.Tx) error {
			all, err := tx.Reservations("net")
			if counted != int64(len(all)) {
				t.Fatalf("seed %d: counted %d of %d reservations", seed, counted, len(all))
			}
			return err
		})
	}
}

func TestEndsKeepToTheShare(t *testing.T) {
	for name, tc := range map[string]struct {
		share *reservation.Share
		after time.Duration // from the ends of the others
		back  bool          // the ADD is undone
		want  persistence.PoolUsage
	}{
		"without a share there is no limit": {want: persistence.PoolUsage{Reserved: 4}},
		"one gives way": {
			share: &reservation.Share{Pods: 3}, want: persistence.PoolUsage{Reserved: 3, Displaced: 1},
		},
		"where none may give way, the new one is turned away": {
			share: &reservation.Share{Pods: 3, Refuse: true}, want: persistence.PoolUsage{Reserved: 3, Refused: 1},
		},
		"lapsed ones are freed first": {
			share: &reservation.Share{Pods: 3}, after: time.Hour, want: persistence.PoolUsage{Reserved: 1},
		},
		"what an undone ADD had claimed is put back in any case": {
			share: &reservation.Share{Pods: 3, Refuse: true}, back: true, want: persistence.PoolUsage{Reserved: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			var plan reservation.EndDecision
			update(t, s, func(tx *persistence.Tx) error {
				for i := range 3 {
					if err := ended(tx, i); err != nil {
						return err
					}
				}
				if tc.share != nil {
					must(t, tx.SetLimits("net", reservation.Limits{Share: *tc.share, MaxRetain: time.Hour}))
				}
				a, later := attachment(9), moment
				later.Up += tc.after
				err := tx.PutAttachment(a)
				if err == nil {
					plan, err = tx.End(a, later, tc.back)
				}
				return err
			})
			if tc.share != nil {
				tc.want.Limits = &reservation.Limits{Share: *tc.share, MaxRetain: time.Hour}
			}
			if diff := cmp.Diff(tc.want, pressure(t, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if plan.Refused != (tc.want.Refused > 0) || (plan.Displaced != nil) != (tc.want.Displaced > 0) || (plan.Reserve == nil) != plan.Refused {
				t.Errorf("decided %+v", plan)
			}
		})
	}
}

// TestAStateOfBeforeIsCounted writes to a file that a version made which did not count.
func TestAStateOfBeforeIsCounted(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutReservation(reserve(attachment(1))) })
	inside(t, filepath.Join(s.Dir(), "limpet.db"), func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("pressure")) })
	if got := pressure(t, s); got.Reserved != 0 {
		t.Errorf("counted %d in a file without counts", got.Reserved)
	}
	update(t, s, func(tx *persistence.Tx) error { return tx.PutReservation(reserve(attachment(2))) })
	if got := pressure(t, s); got.Reserved != 2 {
		t.Errorf("counted %d, want 2", got.Reserved)
	}
}

// TestRecoveryKeepsTheLimits damages the index of addresses, so that the file is made again
// and its reservations, of which one is lost, are counted anew.
func TestRecoveryKeepsTheLimits(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead})
	limits := reservation.Limits{Share: reservation.Share{Pods: 1, Refuse: true}, MaxRetain: time.Hour}
	update(t, s, func(tx *persistence.Tx) error {
		return errors.Join(ended(tx, 0), ended(tx, 1), tx.SetLimits("net", limits), ended(tx, 2))
	})
	want := pressure(t, s)
	want.Reserved--
	inside(t, filepath.Join(s.Dir(), "limpet.db"), func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("held")).Put([]byte("net\x00\x0a\x00\x00\x00"), []byte{1}), tx.Bucket([]byte("reservations")).Delete([]byte("net\x00ns\x00c0\x00eth0")))
	})
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(3)) })
	if kept, _ := filepath.Glob(filepath.Join(s.Dir(), "limpet.db.damaged-*")); len(kept) != 1 {
		t.Fatalf("%d damaged files, want 1", len(kept))
	}
	if diff := cmp.Diff(want, pressure(t, s)); diff != "" || want.Refused != 1 {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestReclaimIsCounted is the other way in which reservations end early.
func TestReclaimIsCounted(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		r := reserve(attachment(1))
		return errors.Join(tx.PutReservation(r), tx.Reclaim(r.Owner))
	})
	if diff := cmp.Diff(persistence.PoolUsage{Reclaimed: 1}, pressure(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkEnd ends a pod below the share of reservations, and where they hold it.
func BenchmarkEnd(b *testing.B) {
	for _, n := range []int{127, 2_000, 25_000} {
		for name, share := range map[string]int64{"below": 1 << 20, "at": int64(n)} {
			b.Run(fmt.Sprintf("%s a share of %d", name, n), func(b *testing.B) {
				s := persistence.New(persistence.Options{Dir: b.TempDir()})
				update(b, s, func(tx *persistence.Tx) error {
					for i := range n {
						if err := tx.PutReservation(reserve(attachment(i))); err != nil {
							return err
						}
					}
					return tx.SetLimits("net", reservation.Limits{Share: reservation.Share{Pods: share}})
				})
				i := n
				for b.Loop() {
					i++
					update(b, s, func(tx *persistence.Tx) error { return ended(tx, i) })
				}
			})
		}
	}
}
