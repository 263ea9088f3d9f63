package persistence_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// orderNow is the moment at which the tests of the order ask.
var orderNow = reservation.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), BootID: "boot", Up: 48 * time.Hour}

// drawn returns a reservation of one of a few owners, made in this boot or in an earlier one.
func drawn(r *rand.Rand, seq uint64) reservation.Reservation {
	i := r.IntN(40)
	ago := time.Duration(r.IntN(7200)) * time.Second
	from := reservation.Moment{Wall: orderNow.Wall.Add(-ago), BootID: "boot", Up: orderNow.Up - ago}
	if r.IntN(3) == 0 {
		from.BootID, from.Up = fmt.Sprint("earlier ", r.IntN(2)), time.Duration(r.IntN(1000))*time.Hour
	}
	return reservation.Reservation{
		Owner:     reservation.Owner{Network: []string{"net", "ne"}[i%2], Namespace: []string{"a", "ab", "b"}[i%3], Pod: fmt.Sprint("web-", i), IfName: "eth0"},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i % 2), byte(i)})}, Mode: reservation.Mode(r.IntN(2)), Seq: seq,
		Deadline: reservation.Deadline{From: from, For: time.Duration(1+r.IntN(7200)) * time.Second},
	}
}

// owners returns the owners of reservations as text.
func owners(all []reservation.Reservation) string {
	text := ""
	for _, r := range all {
		text += " " + r.Owner.Network + "/" + r.Owner.String()
	}
	return text
}

// plainOrder returns the reservations of a namespace in an order, from all records.
func plainOrder(all []reservation.Reservation, namespace string, rank func(reservation.Reservation) time.Duration) []reservation.Reservation {
	of := slices.DeleteFunc(slices.Clone(all), func(r reservation.Reservation) bool { return r.Owner.Namespace != namespace })
	slices.SortFunc(of, func(a, b reservation.Reservation) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Seq, b.Seq))
	})
	return of
}

// compareOrder asks for all orders, and compares them with the records.
func compareOrder(tx *persistence.Tx) error {
	for _, network := range []string{"net", "ne"} {
		all, err := tx.Reservations(network)
		if err != nil {
			return err
		}
		if of := tx.ReservationsByNamespace(network); fmt.Sprint(of) != fmt.Sprint(reservation.Count(all)) {
			return fmt.Errorf("counted %v of %v", of, reservation.Count(all))
		}
		lapsed, err := tx.LapsedReservations(network, orderNow)
		slices.SortFunc(lapsed, func(a, b reservation.Reservation) int {
			return cmp.Compare(a.Owner.Namespace+a.Owner.Pod, b.Owner.Namespace+b.Owner.Pod)
		})
		want := reservation.Lapsed(all, orderNow)
		slices.SortFunc(want, func(a, b reservation.Reservation) int {
			return cmp.Compare(a.Owner.Namespace+a.Owner.Pod, b.Owner.Namespace+b.Owner.Pod)
		})
		if err != nil || owners(lapsed) != owners(want) {
			return fmt.Errorf("lapsed%s, want%s: %w", owners(lapsed), owners(want), err)
		}
		for _, namespace := range []string{"a", "ab", "b", "none"} {
			ending, err := tx.EndingSoonest(network, namespace, orderNow, 3)
			wantEnding := plainOrder(all, namespace, func(r reservation.Reservation) time.Duration { return r.Deadline.For - orderNow.Since(r.Deadline.From) })
			if want := wantEnding[:min(3, len(wantEnding))]; err != nil || owners(ending) != owners(want) {
				return fmt.Errorf("of %s end%s, want%s: %w", namespace, owners(ending), owners(want), err)
			}
			waiting, err := tx.WaitingLongest(network, namespace, orderNow, 3)
			wantWaiting := plainOrder(all, namespace, func(r reservation.Reservation) time.Duration { return -orderNow.Since(r.Deadline.From) })
			if want := wantWaiting[:min(3, len(wantWaiting))]; err != nil || owners(waiting) != owners(want) {
				return fmt.Errorf("of %s wait%s, want%s: %w", namespace, owners(waiting), owners(want), err)
			}
		}
	}
	return nil
}

// TestTheOrderAgreesWithTheReservations stores, replaces and deletes reservations at random, abandons transactions, and
// compacts the state.
func TestTheOrderAgreesWithTheReservations(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(*persistence.Tx) error { return nil })
	abandon := errors.New("abandon")
	for range 150 {
		change := func(tx *persistence.Tx) error {
			for range r.IntN(12) {
				n, err := tx.NextSeq()
				if err != nil {
					return err
				}
				some := drawn(r, n)
				if r.IntN(2) == 0 {
					err = tx.DeleteReservation(some.Owner)
				} else {
					err = tx.PutReservation(some)
				}
				if err != nil {
					return err
				}
			}
			if r.IntN(3) == 0 { // in the middle of a transaction, too
				if err := compareOrder(tx); err != nil {
					return err
				}
			}
			if r.IntN(6) == 0 {
				return abandon
			}
			return nil
		}
		switch r.IntN(10) {
		case 0:
			_, _, err := s.Compact(t.Context())
			must(t, err)
		default:
			if err := ignore(s.Update(t.Context(), change), abandon); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		report, err := s.Audit(t.Context(), nil)
		if err != nil || len(report.Faults) > 0 {
			t.Fatalf("seed %d: audit: %v, %v", seed, report.Faults, err)
		}
		if r.IntN(4) == 0 {
			if err := s.Update(t.Context(), compareOrder); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// wrongOrders are changes of an order.
func wrongOrders() map[string]func(b *bolt.Bucket) error {
	first := func(b *bolt.Bucket, kind byte) []byte {
		k, _ := b.Cursor().Seek([]byte("net\x00" + string(kind)))
		return bytes.Clone(k)
	}
	return map[string]func(b *bolt.Bucket) error{
		"an entry of no reservation": func(b *bolt.Bucket) error {
			k := first(b, 'e')
			v := bytes.Clone(b.Get(k))
			k[len("net\x00e")+5] = 0 // ends sooner than all others
			return errors.Join(b.Put(k, v), b.Put(bytes.Replace(k, []byte("\x00c"), []byte("\x00x"), 1), v))
		},
		"an entry at the place of another": func(b *bolt.Bucket) error {
			k := first(b, 'e')
			v := bytes.Clone(b.Get(k))
			moved := bytes.Clone(k)
			moved[len("net\x00e")+5+7]-- // ends sooner than its record says
			return errors.Join(b.Delete(k), b.Put(moved, v))
		},
		"a key that is too short":   func(b *bolt.Bucket) error { return b.Put([]byte("net\x00e\x00"), []byte{1}) },
		"a number that is too high": func(b *bolt.Bucket) error { return b.Put([]byte("net\x00nns"), binary.BigEndian.AppendUint64(nil, 9)) },
		"a number of no namespace":  func(b *bolt.Bucket) error { return b.Put([]byte("net\x00nzz"), binary.BigEndian.AppendUint64(nil, 9)) },
		"no entries":                func(b *bolt.Bucket) error { return errors.Join(b.Delete(first(b, 'n')), b.Delete(first(b, 'e'))) },
	}
}

// TestAWrongOrderIsFound changes the order, and an audit finds that.
func TestAWrongOrderIsFound(t *testing.T) {
	for name, edit := range wrongOrders() {
		t.Run(name, func(t *testing.T) {
			s := audited(t)
			inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error { return edit(tx.Bucket([]byte("order"))) })
			report, err := s.Audit(t.Context(), nil)
			must(t, err)
			if len(report.Faults) == 0 || slices.ContainsFunc(report.Faults, func(f persistence.Fault) bool { return f.Kind != persistence.FaultIndex }) {
				t.Errorf("the audit found %v", report.Faults)
			}
		})
	}
}

// TestWaitingLongestReadsItsOwnNamespaceOnly asks for the oldest reservation of the namespace that came last. Entries of other
// namespaces, of which one is damaged here, are not read: there may be thousands.
func TestWaitingLongestReadsItsOwnNamespaceOnly(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		for i, namespace := range []string{"early", "early", "late"} {
			r := reserve(attachment(i))
			r.Owner.Namespace, r.Deadline.From = namespace, orderNow
			r.Deadline.From.Up += time.Duration(i) * time.Second
			if err := tx.PutReservation(r); err != nil {
				return err
			}
		}
		return nil
	})
	var damaged []byte
	inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("order"))
		k, _ := b.Cursor().Seek([]byte("net\x00a"))
		damaged = bytes.Clone(k)
		return b.Put(damaged, []byte{1})
	})
	update(t, s, func(tx *persistence.Tx) error {
		found, err := tx.WaitingLongest("net", "late", orderNow, 2)
		if len(found) != 1 || found[0].Owner.Namespace != "late" {
			t.Errorf("found%s", owners(found))
		}
		return err
	})
}
