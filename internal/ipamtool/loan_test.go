package ipamtool_test

import (
	"errors"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAddressesOnLoan has an address that is lent, a guest that runs and one that is gone, and one that is home. What is on
// loan is freed only if the caller says that no pod has it.
func TestAddressesOnLoan(t *testing.T) {
	n := newNode(t)
	guest := n.attachment("web-0", "aa11", "10.9.0.5")
	guest.Guest, guest.Mode, guest.Retain = 3, reservation.Follow, reservation.Forever
	lent, gone, home := n.reservation("db-0", "dd55", "10.244.0.5", "fd00::5"), n.reservation("db-1", "ee66", "10.9.0.6"), n.reservation("db-2", "ff77", "10.244.0.6")
	lent.Lent, gone.Guest = 7, 8
	n.must(func(tx *persistence.Tx) error {
		err := tx.PutAttachment(guest)
		for _, r := range []reservation.Reservation{lent, gone, home} {
			r.Mode, r.Retain, r.Deadline.For = reservation.Follow, reservation.Forever, reservation.Forever
			err = errors.Join(err, tx.PutReservation(r))
		}
		return err
	})
	n.golden("loan.txt", "list", "list -o json", "show default/db-0", "show default/db-2", "release default/db-0 --dry-run",
		"release default/db-0", "release --on-loan default/db-0", "release default/db-1", "release default/db-1 --on-loan", "list")
}
