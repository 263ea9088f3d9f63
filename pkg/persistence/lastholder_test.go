package persistence_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestLastHoldersAreRemembered frees addresses in each way, and holds them again.
func TestLastHoldersAreRemembered(t *testing.T) {
	ns := reservation.NetNS{Path: "/run/netns/a", Dev: 4, Inode: 17}
	addr := netip.MustParseAddr("10.1.0.2")
	owner := reservation.Owner{Network: "net", Namespace: "ns", Pod: "web-0", IfName: "eth0"}
	a := reservation.Attachment{
		ID: reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"}, Owner: owner, Addresses: []netip.Addr{addr},
		NetNS: ns, Since: reservation.Moment{BootID: "b"},
	}
	r := reservation.Reservation{Owner: owner, ContainerID: "c", Addresses: a.Addresses, NetNS: ns, BootID: "b"}
	want := reservation.LastHolder{Network: "net", Address: addr, ContainerID: "c", NetNS: ns, BootID: "b"}
	for name, free := range map[string]func(*persistence.Tx) error{
		"an attachment ends":        func(tx *persistence.Tx) error { return errors.Join(tx.PutAttachment(a), tx.DeleteAttachment(a.ID)) },
		"a reservation ends":        func(tx *persistence.Tx) error { return errors.Join(tx.PutReservation(r), tx.DeleteReservation(owner)) },
		"a reservation is replaced": func(tx *persistence.Tx) error { return errors.Join(tx.PutReservation(r), tx.PutReservation(other(r))) },
		"a reservation gives way":   func(tx *persistence.Tx) error { return errors.Join(tx.PutReservation(r), tx.Reclaim(owner)) },
		"a reservation is displaced": func(tx *persistence.Tx) error {
			return errors.Join(tx.PutReservation(r), tx.Displace(owner))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update := func(fn func(*persistence.Tx) error) {
				t.Helper()
				if err := s.Update(t.Context(), fn); err != nil {
					t.Fatal(err)
				}
			}
			update(free)
			update(func(tx *persistence.Tx) error {
				if got, found, err := tx.LastHolder("net", addr); err != nil || !found || got != want {
					t.Errorf("%+v, %t, %v; want %+v", got, found, err, want)
				}
				if some, err := tx.SomeLastHolders("net", 5, 7); err != nil || len(some) != 1 {
					t.Errorf("%v, %v; want one", some, err)
				}
				b := a
				b.ID.ContainerID = "next"
				return tx.PutAttachment(b)
			})
			update(func(tx *persistence.Tx) error {
				if _, found, err := tx.LastHolder("net", addr); found || err != nil {
					t.Errorf("a held address has a record: %t, %v", found, err)
				}
				return nil
			})
		})
	}
}

// other returns a later reservation of the same owner, with another address.
func other(r reservation.Reservation) reservation.Reservation {
	r.Addresses = []netip.Addr{netip.MustParseAddr("10.1.0.9")}
	r.NetNS = reservation.NetNS{}
	return r
}
