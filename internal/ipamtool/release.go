package ipamtool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/pkg/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var releaseCommand = command{
	name:    "release",
	operand: "ADDRESS|NAMESPACE/POD|CONTAINER",
	summary: "Free what is reserved, or left behind by a container whose network namespace is gone",
	example: "limpet-ipam release 10.244.0.5 --dry-run\nlimpet-ipam release default/web-0",
	flags: func(f *flag.FlagSet, o *options) {
		networkFlag(f, o)
		f.BoolVar(&o.dryRun, "dry-run", false, "only show what would be released")
	},
	run: (*Tool).release,
}

func (t *Tool) release(ctx context.Context, o options) error {
	all, err := t.read(ctx, o) // before a transaction that would make a state
	if err != nil {
		return err
	}
	freed, err := planRelease(all, o.operand)
	if err != nil {
		return err
	}
	if !o.dryRun {
		err = o.store(nil).Update(ctx, func(tx *persistence.Tx) error {
			freed, err = t.free(tx, o)
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
		if _, err := fmt.Fprintf(t.Stdout, "%s %s of network %s, %s\n", done, h.addresses(), h.Network, h.was()); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tool) log(freed []*Holder) {
	for _, h := range freed {
		if t.Log != nil {
			t.Log("RELEASE", h.owned(), h.ContainerID, h.IPs, h.was())
		}
	}
}

// was says what the addresses were held for.
func (h *Holder) was() string {
	if h.State == Reserved {
		return fmt.Sprintf("reserved for %s until %s", h.owner(), stamp(*h.Deadline))
	}
	return "attached to " + h.who() + ", whose network namespace is gone"
}

// planRelease returns what may be released of all that a person means: all of it or,
// with the reason, nothing.
func planRelease(all []*Holder, query string) ([]*Holder, error) {
	found := match(all, query)
	if len(found) == 0 {
		return nil, noError("nothing is held for " + query)
	}
	for _, h := range found {
		if err := ambiguous(found[0], h, query); err != nil {
			return nil, err
		}
		if h.State == Attached && h.NetNSState != Gone {
			return nil, h.refusal()
		}
	}
	return found, nil
}

// ambiguous fails where the beginning of an ID fits several containers, and an address
// several networks.
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
	if h.NetNSState == There {
		return noError(fmt.Sprintf("%s is in use by %s, whose network namespace %s exists: delete the pod; "+
			"where its runtime has forgotten it, umount and rm that file, and try again", h.addresses(), h.who(), h.NetNS))
	}
	return noError(fmt.Sprintf("%s may be in use by %s, of whose network namespace too little is known: "+
		"end the container in its runtime, which frees them", h.addresses(), h.who()))
}

// free decides again, as the state is now, and carries it out.
func (t *Tool) free(tx *persistence.Tx, o options) ([]*Holder, error) {
	records, err := tx.Records()
	if err != nil {
		return nil, err
	}
	freed, err := planRelease(t.holders(records, o.network), o.operand)
	if err != nil {
		return nil, err
	}
	for _, h := range freed {
		if h.State == Reserved {
			err = tx.DeleteReservation(h.owned())
		} else {
			err = tx.DeleteAttachment(reservation.AttachmentID{Network: h.Network, ContainerID: h.ContainerID, IfName: h.Interface})
		}
		if err != nil {
			return nil, err
		}
	}
	return freed, nil
}

// unmirror removes the files that ipam.mirrorHostLocal has kept beside the state.
func unmirror(freed []*Holder, dataDir string) error {
	neighbours := []string{dataDir}
	if filepath.Clean(dataDir) == persistence.DefaultDir {
		neighbours = append(neighbours, hostlocal.DefaultDataDir)
	}
	var errs []error
	for _, h := range freed {
		for _, dir := range neighbours {
			for _, addr := range h.IPs {
				mirrored := hostlocal.Holder{ContainerID: h.ContainerID, IfName: h.Interface, Mirrored: true}
				errs = append(errs, hostlocal.New(filepath.Join(dir, h.Network)).Remove(addr, mirrored))
			}
		}
	}
	return errors.Join(errs...)
}
