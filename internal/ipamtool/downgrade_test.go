package ipamtool_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestDowngrade writes a state for the plugin of the former release, which reads limpet.db alone, with version 1 of the
// layout. Nothing is lost on the way there and back.
func TestDowngrade(t *testing.T) {
	n := newNode(t)
	n.fill()
	before, _ := n.on("list")
	n.golden("downgrade.txt", "downgrade", "downgrade -o json", "downgrade now")
	if files := slices.Sorted(maps.Keys(n.content())); !slices.Equal(files, []string{"limpet.db", "limpet.marker"}) {
		t.Errorf("files are left: %q", files)
	}
	db, err := bolt.Open(n.db(), 0o600, nil)
	n.file(err)
	n.file(errors.Join(db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		if v := meta.Get([]byte("schema")); string(v) != "\x00\x00\x00\x01" || meta.Sequence() != 6 {
			t.Errorf("schema %x, and %d pods so far", v, meta.Sequence())
		}
		return nil
	}), db.Close()))
	n.must(func(*persistence.Tx) error { return nil }) // as a plugin of this release
	after, _ := n.on("list")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the list changed:\n%s", diff)
	}
	if _, found := n.content()["limpet.journal"]; !found {
		t.Error("the state was not taken over")
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
