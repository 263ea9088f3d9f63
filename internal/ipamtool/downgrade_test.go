package ipamtool_test

import (
	be "encoding/binary"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestDowngrade writes both folds with the layout of the former release, which does not know addresses that follow. It refuses
// while one follows. Nothing is lost.
func TestDowngrade(t *testing.T) {
	n := newNode(t)
	n.fill()
	layouts := func() (all []uint32) {
		for _, name := range []string{"limpet.db", "limpet.db.2"} {
			db, err := bolt.Open(filepath.Join(n.dir, name), 0o600, &bolt.Options{ReadOnly: true})
			n.file(err)
			n.file(errors.Join(db.View(func(tx *bolt.Tx) error {
				all = append(all, be.BigEndian.Uint32(tx.Bucket([]byte("meta")).Get([]byte("schema"))))
				return nil
			}), db.Close()))
		}
		return all
	}
	before, _ := n.on("list")
	follows := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: "ns", Pod: "web-0", IfName: "eth0"}, Addresses: []netip.Addr{netip.MustParseAddr("10.7.7.7")}, Mode: reservation.Follow,
	}
	n.must(func(tx *persistence.Tx) error { return tx.PutAttachment(follows) })
	if out, exit := n.on("downgrade"); exit != ipamtool.ExitFailed || !strings.Contains(out, "follows its pod") {
		t.Errorf("beside an address that follows: exit %d: %s", exit, out)
	}
	n.must(func(tx *persistence.Tx) error { return tx.DeleteAttachment(follows.ID) })
	if got := layouts(); !slices.Equal(got, []uint32{3, 3}) {
		t.Errorf("layouts %d", got)
	}
	n.golden("downgrade.txt", "downgrade", "downgrade -o json", "downgrade now")
	if got := layouts(); !slices.Equal(got, []uint32{2, 2}) {
		t.Errorf("layouts %d", got)
	}
	after, _ := n.on("list")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the list changed:\n%s", diff)
	}
}

// TestDowngradeRefusesDamage damages each file that a downgrade reads. It refuses, and changes nothing.
func TestDowngradeRefusesDamage(t *testing.T) {
	for _, which := range []func(node) string{node.fold, node.journal} {
		n := newNode(t)
		n.fill()
		path := which(n)
		n.flip(path, 33)
		before := n.content()
		out, exit := n.on("downgrade")
		if exit != ipamtool.ExitFailed || !strings.Contains(out, path) || !strings.Contains(out, "limpet-ipam check --repair") {
			t.Errorf("%s: exit %d: %s", path, exit, out)
		}
		if diff := cmp.Diff(before, n.content()); diff != "" {
			t.Error("the state was changed")
		}
		n.file(repair(n))
		if out, exit := n.on("downgrade"); exit != ipamtool.ExitDone {
			t.Errorf("after a repair: exit %d: %s", exit, out)
		}
	}
}

func repair(n node) error {
	if out, exit := n.alone("check", "--repair"); exit != ipamtool.ExitDone {
		return errors.New(out)
	}
	return nil
}
