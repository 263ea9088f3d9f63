package lifecycle_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var now = reservation.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), BootID: "boot", Up: 12345}

// attachment returns the i-th of many attachments. Every pod asks for a reservation of ten minutes.
func attachment(i int) reservation.Attachment {
	name := fmt.Sprintf("c%d", i)
	return reservation.Attachment{
		ID:        reservation.AttachmentID{Network: "net", ContainerID: name, IfName: "eth0"},
		Owner:     reservation.Owner{Network: "net", Namespace: "ns", Pod: name, IfName: "eth0"},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
		Retain:    10 * time.Minute, AnnotationsSeen: true, Since: now, Seq: uint64(i + 1),
	}
}

func reserved(a reservation.Attachment) *reservation.Reservation {
	return &reservation.Reservation{
		Owner: a.Owner, Addresses: a.Addresses, Deadline: reservation.Deadline{From: now, For: a.Retain}, Retain: a.Retain, Seq: a.Seq,
	}
}

func update(t testing.TB, s *persistence.Store, fn func(*persistence.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// ended attaches and ends the i-th pod, which leaves a reservation.
func ended(tx *persistence.Tx, i int) error {
	a := attachment(i)
	if err := tx.PutAttachment(a); err != nil {
		return err
	}
	_, err := lifecycle.End(tx, a, now, false)
	return err
}

func TestEndsKeepToTheShare(t *testing.T) {
	for name, tc := range map[string]struct {
		share    *reservation.Share
		after    time.Duration // from the ends of the others
		rollback bool
		want     persistence.PoolUsage
	}{
		"without a share there is no limit": {want: persistence.PoolUsage{Reserved: 4}},
		"an older reservation gives way": {
			share: &reservation.Share{Pods: 3}, want: persistence.PoolUsage{Reserved: 3, Displaced: 1},
		},
		"with refuse the new reservation is not made": {
			share: &reservation.Share{Pods: 3, Refuse: true}, want: persistence.PoolUsage{Reserved: 3, Refused: 1},
		},
		"a namespace with its quota used up gives one": {
			share: &reservation.Share{Pods: 9, PerNamespace: 3}, want: persistence.PoolUsage{Reserved: 3, Displaced: 1},
		},
		"with refuse a namespace with its quota used up gets none": {
			share: &reservation.Share{Pods: 9, PerNamespace: 3, Refuse: true}, want: persistence.PoolUsage{Reserved: 3, Refused: 1},
		},
		"lapsed reservations do not count for the quota": {
			share: &reservation.Share{Pods: 9, PerNamespace: 3}, after: time.Hour, want: persistence.PoolUsage{Reserved: 1},
		},
		"a rolled-back ADD knows no quota": {
			share: &reservation.Share{Pods: 9, PerNamespace: 3, Refuse: true}, rollback: true, want: persistence.PoolUsage{Reserved: 4},
		},
		"lapsed reservations are freed first": {
			share: &reservation.Share{Pods: 3}, after: time.Hour, want: persistence.PoolUsage{Reserved: 1},
		},
		"a reservation that a rolled-back ADD had claimed is put back in any case": {
			share: &reservation.Share{Pods: 3, Refuse: true}, rollback: true, want: persistence.PoolUsage{Reserved: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			var d reservation.EndDecision
			update(t, s, func(tx *persistence.Tx) error {
				err := errors.Join(ended(tx, 0), ended(tx, 1), ended(tx, 2))
				if tc.share != nil {
					err = errors.Join(err, tx.SetLimits("net", reservation.Limits{Share: *tc.share, MaxRetain: time.Hour}))
				}
				a, later := attachment(9), now
				a.Claimed = reserved(a)
				later.Up += tc.after
				if err := errors.Join(err, tx.PutAttachment(a)); err != nil {
					return err
				}
				d, err = lifecycle.End(tx, a, later, tc.rollback)
				return err
			})
			if tc.share != nil {
				tc.want.Limits = &reservation.Limits{Share: *tc.share, MaxRetain: time.Hour}
			}
			if diff := cmp.Diff(tc.want, usage(t, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.Refused != (tc.want.Refused > 0) || (d.Displaced != nil) != (tc.want.Displaced > 0) || (d.Reserve == nil) != d.Refused {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

// TestRollbackAndTheDroppedReservation undoes an ADD that dropped a reservation and took one of its addresses.
func TestRollbackAndTheDroppedReservation(t *testing.T) {
	for name, other := range map[string]bool{"it is put back": false, "but not when another pod has an address of it": true} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			was, a, pod := attachment(1), attachment(1), attachment(2)
			pod.Addresses = []netip.Addr{netip.MustParseAddr("10.9.9.9")}
			was.Addresses = append(was.Addresses, pod.Addresses...)
			a.Dropped = reserved(was)
			update(t, s, func(tx *persistence.Tx) error {
				err := tx.PutAttachment(a)
				if other {
					err = errors.Join(err, tx.PutAttachment(pod))
				}
				if err != nil {
					return err
				}
				_, err = lifecycle.End(tx, a, now, true)
				return err
			})
			if got := usage(t, s).Reserved; (got == 0) != other {
				t.Errorf("%d reservations", got)
			}
		})
	}
}

// TestNewerLifeKeepsItsReservation ends the older of two attachments of a pod.
func TestNewerLifeKeepsItsReservation(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	older, newer := attachment(1), attachment(2)
	newer.Owner = older.Owner
	update(t, s, func(tx *persistence.Tx) error {
		if err := errors.Join(tx.PutAttachment(older), tx.PutAttachment(newer)); err != nil {
			return err
		}
		if _, err := lifecycle.End(tx, newer, now, false); err != nil {
			return err
		}
		d, err := lifecycle.End(tx, older, now, false)
		if d.Reserve != nil {
			t.Errorf("reserved %v", d.Reserve.Addresses)
		}
		if r, found, _ := tx.Reservation(older.Owner); !found || r.Seq != newer.Seq {
			t.Errorf("kept %t, of life %d", found, r.Seq)
		}
		return err
	})
}

func TestFreeLapsed(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		later := now
		later.Up += 5 * time.Minute
		a := attachment(1)
		err := errors.Join(ended(tx, 0), tx.PutAttachment(a))
		_, endErr := lifecycle.End(tx, a, later, false)
		later.Up += 5 * time.Minute
		freed, freeErr := lifecycle.FreeLapsed(tx, "net", later)
		if freed != 1 {
			t.Errorf("freed %d, want 1", freed)
		}
		return errors.Join(err, endErr, freeErr)
	})
	if got := usage(t, s).Reserved; got != 1 {
		t.Errorf("%d reservations are left, want 1", got)
	}
}

func usage(t *testing.T, s *persistence.Store) (u persistence.PoolUsage) {
	t.Helper()
	err := s.View(t.Context(), func(tx *persistence.Tx) (err error) {
		u, err = tx.PoolUsage("net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestTheQuotaOfOneNamespaceIsNotThatOfAnother fills the quota of a namespace whose name begins another one.
func TestTheQuotaOfOneNamespaceIsNotThatOfAnother(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	share := reservation.Share{Pods: 99, PerNamespace: 2, Refuse: true}
	update(t, s, func(tx *persistence.Tx) error {
		err := tx.SetLimits("net", reservation.Limits{Share: share})
		for i, ns := range []string{"shop", "shop", "shop-2", "sho", "shop", "shop-2", "shop-2"} {
			a := attachment(i)
			a.Owner.Namespace = ns
			err = errors.Join(err, tx.PutAttachment(a))
			d, endErr := lifecycle.End(tx, a, now, false)
			if d.Refused != (i == 4 || i == 6) || d.OverQuota != d.Refused {
				t.Errorf("%d of %s: %+v", i, ns, d)
			}
			err = errors.Join(err, endErr)
		}
		if n := tx.CountReservationsOf("net", "shop"); n != 2 {
			t.Errorf("counted %d", n)
		}
		return err
	})
}

// BenchmarkEnd ends a pod below the share of reservations, where they hold it, and where its namespace, which has a
// tenth of them, holds its quota.
func BenchmarkEnd(b *testing.B) {
	for _, n := range []int{127, 2_000, 25_000} {
		for name, share := range map[string]reservation.Share{
			"below a share": {Pods: 1 << 20}, "at a share": {Pods: int64(n)},
			"below a quota": {Pods: 1 << 20, PerNamespace: int64(n/10 + 2)}, "at a quota": {Pods: 1 << 20, PerNamespace: int64(n / 10)},
		} {
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				s := persistence.New(persistence.Options{Dir: b.TempDir()})
				update(b, s, func(tx *persistence.Tx) error {
					for i := range n {
						r := *reserved(attachment(i))
						if i%10 > 0 {
							r.Owner.Namespace = fmt.Sprint("other-", i%10)
						}
						if err := tx.PutReservation(r); err != nil {
							return err
						}
					}
					return tx.SetLimits("net", reservation.Limits{Share: share})
				})
				i := n
				for b.Loop() {
					i++
					update(b, s, func(tx *persistence.Tx) error {
						err := ended(tx, i)
						if name == "below a quota" { // and stay there
							err = errors.Join(err, tx.DeleteReservation(attachment(i).Owner))
						}
						return err
					})
				}
			})
		}
	}
}
