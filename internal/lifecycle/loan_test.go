package lifecycle_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// earlier is a moment of the boot before.
var earlier = reservation.Moment{Wall: now.Wall.Add(-time.Hour), BootID: "boot before", Up: 77}

// following returns an attachment of a pod that follows.
func following(guest int64) reservation.Attachment {
	a := attachment(1)
	a.Mode, a.Retain, a.Guest = reservation.Follow, reservation.Forever, guest
	a.NetNS = reservation.NetNS{Path: "/run/netns/a", Dev: 1, Inode: 2}
	return a
}

// loaned returns the reservation of a life that followed, and ended in a boot.
func loaned(boot string, lent, guest int64) reservation.Reservation {
	a := following(guest)
	return reservation.Reservation{
		Owner: a.Owner, Addresses: a.Addresses, Deadline: reservation.Deadline{From: earlier, For: reservation.Forever}, Retain: reservation.Forever,
		Mode: reservation.Follow, Lent: lent, Guest: guest, Seq: a.Seq, NetNS: a.NetNS, BootID: boot,
	}
}

// another is a reservation of the same owner, with another address.
func another(lent int64) reservation.Reservation {
	r := loaned("boot", lent, 0)
	r.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	return r
}

func before(a reservation.Attachment) reservation.Attachment {
	a.Since = earlier
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, s *persistence.Store, fn func(*persistence.Tx) error) {
	t.Helper()
	must(t, s.View(t.Context(), fn))
}

// TestWriteLoan begins with what a state has about one owner, and writes a record.
func TestWriteLoan(t *testing.T) {
	const boot = "boot"
	write := func(r loan.Record) loan.Step {
		r.Confirmed = true
		return loan.Step{Verb: loan.Write, Record: r}
	}
	unattached := func(s loan.Step) loan.Step { s.Unattached = true; return s }
	reserve := func(s loan.Step) loan.Step { s.Reserve = true; return s }
	confirmed := loan.Record{Confirmed: true}
	other := attachment(1)
	other.ID.ContainerID, other.Owner.Pod = "other", "other"
	type state struct {
		attached []reservation.Attachment
		reserved []reservation.Reservation
	}
	for name, tc := range map[string]struct {
		has    state
		was    lifecycle.LoanFacts // without the addresses
		step   loan.Step
		want   error
		record loan.Record // afterwards
		own    bool
		free   bool
	}{
		"home lends what it has reserved": {
			has: state{reserved: []reservation.Reservation{loaned(boot, 0, 0)}}, was: lifecycle.LoanFacts{Record: confirmed, Own: true},
			step: unattached(write(loan.Record{Lent: 7})), record: loan.Record{Lent: 7, Confirmed: true},
		},
		"home lends what it has forgotten": {
			was: lifecycle.LoanFacts{Record: confirmed}, step: unattached(write(loan.Record{Lent: 7})), record: loan.Record{Lent: 7, Confirmed: true},
		},
		"home does not lend what its pod has": {
			has: state{attached: []reservation.Attachment{following(0)}}, was: lifecycle.LoanFacts{Record: confirmed, Own: true, Attached: true},
			step: unattached(write(loan.Record{Lent: 7})), want: reservation.ErrHeld, record: confirmed, own: true,
		},
		"home lends what a pod had before the node started": {
			has: state{attached: []reservation.Attachment{before(following(0))}}, was: lifecycle.LoanFacts{Own: true},
			step: unattached(write(loan.Record{Lent: 7})), record: loan.Record{Lent: 7, Confirmed: true},
		},
		"home does not lend what another pod has": {
			has: state{attached: []reservation.Attachment{other}}, was: lifecycle.LoanFacts{Record: confirmed, Taken: true},
			step: unattached(write(loan.Record{Lent: 7})), want: reservation.ErrHeld, record: confirmed,
		},
		"a node that was taken for dead has lent what its pod has": {
			has: state{attached: []reservation.Attachment{following(0)}}, was: lifecycle.LoanFacts{Record: confirmed, Own: true, Attached: true},
			step: write(loan.Record{Lent: 7}), record: loan.Record{Lent: 7, Confirmed: true},
		},
		"home lends again": {
			has: state{reserved: []reservation.Reservation{loaned("boot before", 5, 0)}}, was: lifecycle.LoanFacts{Record: loan.Record{Lent: 5}},
			step: write(loan.Record{Lent: 7}), record: loan.Record{Lent: 7, Confirmed: true},
		},
		"home takes back": {
			has: state{reserved: []reservation.Reservation{loaned(boot, 7, 0)}}, was: lifecycle.LoanFacts{Record: loan.Record{Lent: 7, Confirmed: true}},
			step: reserve(write(loan.Record{})), record: confirmed, own: true,
		},
		"home reserves what it has forgotten": {
			was: lifecycle.LoanFacts{Record: confirmed}, step: reserve(write(loan.Record{})), record: confirmed, own: true,
		},
		"home takes back for no owner": {
			has: state{reserved: []reservation.Reservation{loaned(boot, 7, 0)}}, was: lifecycle.LoanFacts{Record: loan.Record{Lent: 7, Confirmed: true}},
			step: write(loan.Record{}), record: confirmed, free: true,
		},
		"home does not take back what another pod has": {
			has: state{attached: []reservation.Attachment{other}}, was: lifecycle.LoanFacts{Record: confirmed, Taken: true},
			step: reserve(write(loan.Record{})), want: reservation.ErrHeld, record: confirmed,
		},
		"a node borrows": {
			was: lifecycle.LoanFacts{Record: confirmed}, step: write(loan.Record{Guest: 8}), record: loan.Record{Guest: 8, Confirmed: true}, own: true,
		},
		"a node does not borrow what another pod has": {
			has: state{attached: []reservation.Attachment{other}}, was: lifecycle.LoanFacts{Record: confirmed, Taken: true},
			step: write(loan.Record{Guest: 8}), want: reservation.ErrHeld, record: confirmed,
		},
		"a node borrows again while its pod runs": {
			has: state{attached: []reservation.Attachment{following(8)}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8, Confirmed: true}, Own: true, Attached: true},
			step: write(loan.Record{Guest: 9}), record: loan.Record{Guest: 9, Confirmed: true}, own: true,
		},
		"a guest is confirmed after a restart": {
			has: state{attached: []reservation.Attachment{before(following(8))}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8}, Own: true},
			step: write(loan.Record{Guest: 8}), record: loan.Record{Guest: 8, Confirmed: true}, own: true,
		},
		"a reserved guest is confirmed after a restart": {
			has: state{reserved: []reservation.Reservation{loaned("boot before", 0, 8)}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8}, Own: true},
			step: write(loan.Record{Guest: 8}), record: loan.Record{Guest: 8, Confirmed: true}, own: true,
		},
		"a node gives back": {
			has: state{reserved: []reservation.Reservation{loaned(boot, 0, 8)}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8, Confirmed: true}, Own: true},
			step: unattached(write(loan.Record{})), record: confirmed, free: true,
		},
		"a node gives back what a pod had before it started": {
			has: state{attached: []reservation.Attachment{before(following(8))}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8}, Own: true},
			step: unattached(write(loan.Record{})), record: confirmed, free: true,
		},
		"a node does not give back what its pod has": {
			has: state{attached: []reservation.Attachment{following(8)}}, was: lifecycle.LoanFacts{Record: loan.Record{Guest: 8, Confirmed: true}, Own: true, Attached: true},
			step: unattached(write(loan.Record{})), want: reservation.ErrHeld, record: loan.Record{Guest: 8, Confirmed: true}, own: true,
		},
		"home confirms what a pod had before it started": {
			has: state{attached: []reservation.Attachment{before(following(0))}}, was: lifecycle.LoanFacts{Own: true},
			step: write(loan.Record{}), record: confirmed, own: true,
		},
		"a node borrows, and had another address": {
			has: state{reserved: []reservation.Reservation{another(0)}}, was: lifecycle.LoanFacts{Record: confirmed},
			step: write(loan.Record{Guest: 8}), record: loan.Record{Guest: 8, Confirmed: true}, own: true,
		},
		"a node does not borrow what would end another loan": {
			has: state{reserved: []reservation.Reservation{another(5)}}, was: lifecycle.LoanFacts{Record: confirmed},
			step: write(loan.Record{Guest: 8}), want: reservation.ErrLoan, record: confirmed, free: true,
		},
		"nothing is confirmed": {was: lifecycle.LoanFacts{Record: confirmed}, step: write(loan.Record{}), record: confirmed, free: true},
		"no step that writes":  {was: lifecycle.LoanFacts{Record: confirmed}, step: loan.Step{}, want: cmpopts.AnyError, record: confirmed, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			owner, addrs := attachment(1).Owner, attachment(1).Addresses
			update(t, s, func(tx *persistence.Tx) (err error) {
				for _, a := range tc.has.attached {
					err = errors.Join(err, tx.PutAttachment(a))
				}
				for _, r := range tc.has.reserved {
					err = errors.Join(err, tx.PutReservation(r))
				}
				for range 9 {
					_, seqErr := tx.NextSeq()
					err = errors.Join(err, seqErr)
				}
				return err
			})
			gather := func() (f lifecycle.LoanFacts) {
				must(t, s.View(t.Context(), func(tx *persistence.Tx) (err error) {
					f, err = lifecycle.GatherLoan(tx, owner, addrs, now)
					return err
				}))
				return f
			}
			ignore := cmp.Options{cmpopts.IgnoreUnexported(lifecycle.LoanFacts{}), cmpopts.IgnoreFields(lifecycle.LoanFacts{}, "Addresses", "Ended")}
			if diff := cmp.Diff(tc.was, gather(), ignore); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			err := s.Update(t.Context(), func(tx *persistence.Tx) error { return lifecycle.WriteLoan(tx, owner, addrs, tc.step, now) })
			if !cmp.Equal(err, tc.want, cmpopts.EquateErrors()) {
				t.Errorf("wrote %v, want %v", err, tc.want)
			}
			if f := gather(); f.Record != tc.record || f.Own != tc.own {
				t.Errorf("now %+v, want the record %+v, own %t", f, tc.record, tc.own)
			}
			report, err := s.Audit(t.Context(), nil)
			must(t, err)
			for _, fault := range report.Faults {
				t.Errorf("fault %+v", fault)
			}
			view(t, s, func(tx *persistence.Tx) error {
				held, err := tx.Held("net", addrs[0])
				if held == tc.free {
					t.Errorf("held %t", held)
				}
				return err
			})
		})
	}
}

// TestLoansAreNotFreed tries each way to free the address of a loan. No way counts a guest.
func TestLoansAreNotFreed(t *testing.T) {
	for _, r := range []reservation.Reservation{loaned("boot", 7, 0), loaned("boot", 0, 8)} {
		s := persistence.New(persistence.Options{Dir: t.TempDir()})
		update(t, s, func(tx *persistence.Tx) error {
			return errors.Join(tx.SetLimits("net", reservation.Limits{Share: reservation.Share{Pods: 1}}), tx.PutReservation(r))
		})
		later := now
		later.Wall, later.BootID = now.Wall.Add(2*reservation.Forever), "boot after"
		moved := r
		moved.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.9")}
		for name, free := range map[string]func(*persistence.Tx) error{
			"lapse": func(tx *persistence.Tx) error { _, err := lifecycle.FreeLapsed(tx, "net", later); return err },
			"early": func(tx *persistence.Tx) error { _, err := lifecycle.FreeEarly(tx, r, later); return err },
			"give way": func(tx *persistence.Tx) error {
				a := attachment(5)
				err := tx.PutAttachment(a)
				_, endErr := lifecycle.End(tx, a, now, false)
				return errors.Join(err, endErr)
			},
			"end of another life": func(tx *persistence.Tx) error {
				a := attachment(1)
				a.Addresses, a.Seq = moved.Addresses, 99
				err := tx.PutAttachment(a)
				_, endErr := lifecycle.End(tx, a, now, false)
				return errors.Join(err, endErr)
			},
			"refused: delete":   func(tx *persistence.Tx) error { return tx.DeleteReservation(r.Owner) },
			"refused: reclaim":  func(tx *persistence.Tx) error { return tx.Reclaim(r.Owner) },
			"refused: displace": func(tx *persistence.Tx) error { return tx.Displace(r.Owner) },
			"refused: replace":  func(tx *persistence.Tx) error { return tx.PutReservation(moved) },
		} {
			err := s.Update(t.Context(), free)
			if refused := name[:4] == "refu"; refused != errors.Is(err, reservation.ErrLoan) || !refused && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			view(t, s, func(tx *persistence.Tx) error {
				stored, found, err := tx.Reservation(r.Owner)
				if usage, _ := tx.PoolUsage("net"); !found || stored.Lent != r.Lent || stored.Guest != r.Guest || usage.Reserved < r.Lent/7 {
					t.Errorf("%s: %+v, %t, %+v", name, stored, found, usage)
				}
				return err
			})
		}
	}
}

// TestTheContainerThatHadTheAddresses is forgotten when they may have been elsewhere since: on a shared segment an ADD asks then.
func TestTheContainerThatHadTheAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		has  reservation.Reservation
		step loan.Step
		want string
	}{
		"lent, and home again":        {loaned("boot", 7, 0), loan.Step{Reserve: true}, ""},
		"a guest, and borrowed again": {loaned("boot", 0, 7), loan.Step{Record: loan.Record{Guest: 9}}, ""},
		"a guest, confirmed":          {loaned("boot before", 0, 7), loan.Step{Record: loan.Record{Guest: 7}}, "c"},
		"at home, confirmed":          {loaned("boot before", 0, 0), loan.Step{}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			tc.has.ContainerID, tc.step.Verb, tc.step.Record.Confirmed = "c", loan.Write, true
			must(t, s.Update(t.Context(), func(tx *persistence.Tx) error {
				must(t, tx.PutReservation(tc.has))
				return lifecycle.WriteLoan(tx, tc.has.Owner, tc.has.Addresses, tc.step, now)
			}))
			view(t, s, func(tx *persistence.Tx) error {
				r, _, err := tx.Reservation(tc.has.Owner)
				if r.ContainerID != tc.want {
					t.Errorf("container %q, want %q", r.ContainerID, tc.want)
				}
				return err
			})
		})
	}
}
