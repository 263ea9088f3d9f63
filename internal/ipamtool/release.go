package ipamtool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var releaseCommand = command{
	name:    "release",
	operand: "ADDRESS|NAMESPACE/POD|CONTAINER",
	summary: "Free reserved addresses, or addresses of a container whose network namespace is gone",
	example: "limpet-ipam release 10.244.0.5 --dry-run\nlimpet-ipam release default/web-0",
	flags: func(f *flag.FlagSet, o *options) {
		networkFlag(f, o)
		f.BoolVar(&o.dryRun, "dry-run", false, "show what would be released, and release nothing")
		f.BoolVar(&o.onLoan, "on-loan", false, "release also what is lent or borrowed: no pod may have it, on any node")
	},
	run: (*Tool).release,
}

func (t *Tool) release(ctx context.Context, o options) error {
	near, err := t.near(ctx, o) // before Update, which would create a state
	if err != nil {
		return err
	}
	freed, err := planRelease(near, o)
	if err != nil {
		return err
	}
	if !o.dryRun {
		err = o.store(nil).Update(ctx, func(tx *persistence.Tx) error {
			freed, err = t.free(tx, freed, o)
			return err
		})
		if err != nil {
			return explain(err, o.dataDir)
		}
		t.log(freed)
		if err := unmirror(freed, o.dataDir); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return writeJSON(t.Stdout, freed)
	}
	done := "released"
	if o.dryRun {
		done = "would release"
	}
	for _, h := range freed {
		if _, err := fmt.Fprintf(t.Stdout, "%s %s of network %s, %s\n", done, h.addresses(), h.Network, printable(h.was())); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tool) log(freed []*Holder) {
	for _, h := range freed {
		if t.Log != nil {
			t.Log("RELEASE", h.reservationOwner(), h.ContainerID, h.IPs, h.was())
		}
	}
}

// was says how the addresses were held.
func (h *Holder) was() string {
	if h.State == Reserved && h.Deadline == nil {
		return h.held() + " for " + h.owner()
	}
	if h.State == Reserved {
		return fmt.Sprintf("reserved for %s until %s", h.owner(), stamp(*h.Deadline))
	}
	return "attached to " + h.who() + ", whose network namespace is gone"
}

// planRelease returns the holders to release. All holders that match the query must be releasable; otherwise the
// error says which is not, and why.
func planRelease(all []*Holder, o options) ([]*Holder, error) {
	query := o.operand
	found := match(all, query)
	if len(found) == 0 {
		return nil, notFound(all, query)
	}
	for _, h := range found {
		if err := ambiguous(found[0], h, query); err != nil {
			return nil, err
		}
		if h.State == Attached && h.NetNSState != audit.Gone {
			return nil, h.refusal()
		}
		if h.State == Reserved && h.Loan != "" && !o.onLoan {
			return nil, noError(fmt.Sprintf("%s is on loan for %s, so that its pod may have it on another node: delete the pod for good, and the loan ends; "+
				"if there is neither a pod nor a loan (kubectl get borrowedaddresses -n %s), use --on-loan", h.addresses(), h.owner(), h.Namespace))
		}
	}
	return found, nil
}

// ambiguous fails when the query is the beginning of several container IDs, or an address in several networks.
func ambiguous(a, b *Holder, query string) error {
	_, err := netip.ParseAddr(query)
	switch {
	case err == nil && a.Network != b.Network:
		return fmt.Errorf("%s is held in the networks %s and %s: choose one with --network", query, a.Network, b.Network)
	case err != nil && !strings.Contains(query, "/") && a.ContainerID != b.ContainerID:
		return fmt.Errorf("%s is the beginning of %s and of %s", query, a.ContainerID, b.ContainerID)
	}
	return nil
}

// refusal says why an attachment is not released, and what helps.
func (h *Holder) refusal() error {
	if h.NetNSState == audit.There {
		return noError(fmt.Sprintf("%s is in use by %s, whose network namespace %s exists: delete the pod; "+
			"if the runtime does not know it any more, umount and rm that file, and try again", h.addresses(), h.who(), h.NetNS))
	}
	return noError(fmt.Sprintf("%s may be in use by %s, whose network namespace was not recorded: "+
		"end the container in its runtime, which frees the addresses", h.addresses(), h.who()))
}

// free reads the chosen holders and plans again inside the transaction, because the state may have changed, and applies
// the plan. A search for others would read the whole state under the lock.
func (t *Tool) free(tx *persistence.Tx, chosen []*Holder, o options) ([]*Holder, error) {
	var records reservation.Records
	for _, h := range chosen {
		if err := h.readAgain(tx, &records); err != nil {
			return nil, err
		}
	}
	freed, err := planRelease(t.holders(records, o.network), o)
	if err != nil {
		return nil, err
	}
	for _, h := range freed {
		if h.State == Reserved {
			err = freeReservation(tx, h)
		} else {
			err = tx.DeleteAttachment(h.attachmentID())
		}
		if err == nil {
			err = tx.PutReleased(reservation.Release{Network: h.Network, Addresses: h.IPs, Until: t.Now()}, t.Now())
		}
		if err != nil {
			return nil, err
		}
	}
	return freed, nil
}

func freeReservation(tx *persistence.Tx, h *Holder) error {
	if h.Loan != "" {
		return tx.TakeReservation(h.reservationOwner())
	}
	return tx.DeleteReservation(h.reservationOwner())
}

// readAgain adds the record of a holder, if there is still one.
func (h *Holder) readAgain(tx *persistence.Tx, to *reservation.Records) error {
	if h.State == Reserved {
		r, found, err := tx.Reservation(h.reservationOwner())
		if found {
			to.Reservations = append(to.Reservations, r)
		}
		return err
	}
	a, found, err := tx.Attachment(h.attachmentID())
	if found {
		to.Attachments = append(to.Attachments, a)
	}
	return err
}

// attachmentID names the attachment that a holder describes.
func (h *Holder) attachmentID() reservation.AttachmentID {
	return reservation.AttachmentID{Network: h.Network, ContainerID: h.ContainerID, IfName: h.Interface}
}

// unmirror removes the files that ipam.mirrorHostLocal keeps for released addresses.
func unmirror(freed []*Holder, dataDir string) error {
	var errs []error
	for _, h := range freed {
		for _, dir := range hostlocal.Roots(dataDir, persistence.DefaultDir) {
			for _, addr := range h.IPs {
				mirrored := hostlocal.Holder{ContainerID: h.ContainerID, IfName: h.Interface, Mirrored: true}
				errs = append(errs, hostlocal.New(filepath.Join(dir, h.Network)).Remove(addr, mirrored))
			}
		}
	}
	return errors.Join(errs...)
}
