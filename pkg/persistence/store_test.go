package persistence_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var byValue = cmpopts.EquateComparable(netip.Addr{})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func update(t testing.TB, s *persistence.Store, fn func(*persistence.Tx) error) {
	t.Helper()
	must(t, s.Update(t.Context(), fn))
}

func view(t testing.TB, s *persistence.Store, fn func(*persistence.Tx) error) {
	t.Helper()
	must(t, s.View(t.Context(), fn))
}

var moment = reservation.Moment{Wall: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), BootID: "boot", Up: 12345}

// attachment returns the i-th of many attachments, with every field set.
func attachment(i int) reservation.Attachment {
	name := fmt.Sprintf("c%d", i)
	a := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: name, IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: "ns", Pod: name, IfName: "eth0"}, UID: "uid-" + name,
		Addresses: []netip.Addr{v4(i), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1))},
		Retain:    10 * time.Minute, Mode: reservation.Required, AnnotationsSeen: true,
		NetNS: reservation.NetNS{Path: "/run/netns/" + name, Dev: 4, Inode: uint64(i)}, Since: moment, Seq: uint64(i),
		RefusedSince: &moment,
	}
	a.Claimed = &reservation.Reservation{
		Owner: a.Owner, UID: "before", ContainerID: "before", Addresses: a.Addresses, Deadline: reservation.Deadline{From: moment, For: time.Minute}, Retain: time.Minute,
	}
	return a
}

func v4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }

func reserve(a reservation.Attachment) reservation.Reservation {
	return reservation.Reservation{
		Owner: a.Owner, UID: a.UID, ContainerID: a.ID.ContainerID, Addresses: a.Addresses,
		Deadline: reservation.Deadline{From: moment, For: time.Hour}, Retain: time.Hour, Mode: a.Mode, Seq: a.Seq,
	}
}

func TestRecordsAreReadAsWritten(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	a, plain, r := attachment(1), attachment(2), reserve(attachment(3))
	plain.Owner.Namespace, plain.Owner.Pod, plain.Claimed, plain.RefusedSince = "", "", nil, nil
	update(t, s, func(tx *persistence.Tx) error {
		return errors.Join(tx.PutAttachment(a), tx.PutAttachment(plain), tx.PutReservation(r), tx.SetConfig("net", []byte("[]")))
	})
	view(t, s, func(tx *persistence.Tx) error {
		all, err := tx.Attachments("net")
		must(t, err)
		if diff := cmp.Diff([]reservation.Attachment{a, plain}, all, byValue); diff != "" {
			t.Errorf("attachments (-want +got):\n%s", diff)
		}
		of, err := tx.AttachmentsOf(a.Owner)
		must(t, err)
		if diff := cmp.Diff([]reservation.Attachment{a}, of, byValue); diff != "" {
			t.Errorf("attachments of %s (-want +got):\n%s", a.Owner, diff)
		}
		reserved, err := tx.Reservations("net")
		must(t, err)
		if diff := cmp.Diff([]reservation.Reservation{r}, reserved, byValue); diff != "" {
			t.Errorf("reservations (-want +got):\n%s", diff)
		}
		configs, err := tx.Networks()
		if string(configs["net"]) != "[]" {
			t.Errorf("configs %q", configs)
		}
		other, _ := tx.Attachments("ne") // a network whose name is the beginning of another name
		if len(other) != 0 {
			t.Errorf("network ne has %v", other)
		}
		return err
	})
}

// TestNetworksOfRecords lists the networks that occur only in records, each once.
func TestNetworksOfRecordsAlone(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		errs := []error{tx.SetConfig("told", []byte("[]"))}
		for i, network := range []string{"net", "net", "net-2", "nes"} {
			a := attachment(10 + i)
			a.Owner.Network, a.ID.Network = network, network
			errs = append(errs, tx.PutAttachment(a))
		}
		r := reserve(attachment(20))
		r.Owner.Network = "kept"
		return errors.Join(append(errs, tx.PutReservation(r))...)
	})
	view(t, s, func(tx *persistence.Tx) error {
		networks, err := tx.Networks()
		want := map[string][]byte{"told": []byte("[]"), "net": nil, "net-2": nil, "nes": nil, "kept": nil}
		if diff := cmp.Diff(want, networks); diff != "" {
			t.Errorf("networks (-want +got):\n%s", diff)
		}
		return err
	})
}

func TestAnAddressHasOneHolder(t *testing.T) {
	other := attachment(2)
	other.Addresses = attachment(1).Addresses[1:]
	for name, second := range map[string]func(*persistence.Tx) error{
		"attached and attached": func(tx *persistence.Tx) error { return tx.PutAttachment(other) },
		"attached and reserved": func(tx *persistence.Tx) error { return tx.PutReservation(reserve(other)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
			if err := s.Update(t.Context(), second); !errors.Is(err, reservation.ErrHeld) || persistence.LostOrDamaged(err) {
				t.Errorf("got %v, want %v and no damage: a repair would change nothing", err, reservation.ErrHeld)
			}
		})
	}
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(*persistence.Tx) error { return nil })
	broken := errors.New("broken")
	err := s.Update(t.Context(), func(tx *persistence.Tx) error { return errors.Join(tx.PutAttachment(attachment(1)), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := s.Update(t.Context(), func(tx *persistence.Tx) error {
		return errors.Join(tx.PutAttachment(attachment(1)), persistence.ErrUnchanged)
	}); err != nil {
		t.Errorf("ErrUnchanged came out as %v", err)
	}
	view(t, s, func(tx *persistence.Tx) error {
		if _, found, err := tx.Attachment(attachment(1).ID); found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
		return nil
	})
}

// TestTheWaitForTheLockIsBounded is rule 7 for the lock of the state.
func TestTheWaitForTheLockIsBounded(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "limpet.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	s := persistence.New(persistence.Options{Dir: dir, LockWait: 50 * time.Millisecond})
	begin := time.Now()
	if err := s.Update(t.Context(), func(*persistence.Tx) error { return nil }); !errors.Is(err, persistence.ErrLocked) {
		t.Errorf("got %v, want %v", err, persistence.ErrLocked)
	}
	if d := time.Since(begin); d > time.Minute { // the machine may be busy
		t.Errorf("waited %s", d)
	}
	must(t, f.Close())
	next := persistence.New(persistence.Options{Dir: dir}) // the store that gave up must not keep the lock
	update(t, next, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
}

// TestNamesThatCannotBeReadBackAreRefused stores names that JSON would change, or that would become the key of another.
func TestNamesThatCannotBeReadBackAreRefused(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	for _, name := range []string{"\xff", "a\x00b", strings.Repeat("a", 40_000)} {
		a, b := attachment(1), attachment(2)
		a.ID.ContainerID, b.Owner.Pod = name, name
		for _, put := range []func(*persistence.Tx) error{
			func(tx *persistence.Tx) error { return tx.PutAttachment(a) },
			func(tx *persistence.Tx) error { return tx.PutAttachment(b) },
			func(tx *persistence.Tx) error { return tx.PutReservation(reserve(b)) },
		} {
			if err := s.Update(t.Context(), put); !errors.Is(err, persistence.ErrName) {
				t.Errorf("%.10q: %v, want %v", name, err, persistence.ErrName)
			}
		}
	}
}
