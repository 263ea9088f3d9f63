package cni_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var flips = flag.Int("flips", 12, "flipped bits for each part of each type of page")

// bitNode is a node with running pods and reserved addresses, of which each round gets a copy.
type bitNode struct {
	*testNode
	running, reserved []sandbox
	was               map[string][]netip.Addr // by name of the pod
}

// newBitNode fills a state of several pages for each kind of record, in which the order of reservations is kept.
func newBitNode(t *testing.T) *bitNode {
	n := &bitNode{testNode: newTestNode(t), was: map[string][]netip.Addr{}}
	n.ipam = map[string]any{"ranges": [][]map[string]string{{{"subnet": "10.1.0.0/24"}}}, "maxReservedPercent": 24, "releaseDelay": "0s"}
	n.recovery.Interfaces = n.interfaces
	for i := range 102 {
		s := lostSandbox(fmt.Sprintf("web-%d", i), i%3 > 0)
		s.ns = []string{"a", "b", "c"}[i%7%3]
		n.start(s)
		n.was[s.pod] = n.mustAdd(s)
		n.running = append(n.running, s)
	}
	for _, s := range slices.Clone(n.running[:95]) {
		if s.asks() {
			n.end(s)
		}
	}
	for o := range n.read().Reserved { // those that no other one displaced
		i := slices.IndexFunc(n.running, func(s sandbox) bool { return s.owner() == o })
		n.reserved = append(n.reserved, n.running[i])
	}
	slices.SortFunc(n.reserved, func(a, b sandbox) int { return strings.Compare(a.pod, b.pod) })
	n.running = slices.DeleteFunc(n.running, func(s sandbox) bool { _, lives := n.netns[s.netns()]; return !lives })
	n.ipam["maxReservedPercent"] = 100
	return n
}

// end ends a pod and its namespace.
func (n *bitNode) end(s sandbox) {
	n.t.Helper()
	if err := n.del(s); err != nil {
		n.t.Errorf("DEL of %s: %v", s.pod, err)
	}
	delete(n.netns, s.netns())
}

// interfaces is what a look into the namespaces finds.
func (n *bitNode) interfaces() (all []machine.Interface) {
	for path, ns := range n.netns {
		if addrs := n.inside[path]; len(addrs) > 0 {
			all = append(all, machine.Interface{NetNS: ns, Name: "eth0", Addresses: addrs})
		}
	}
	return all
}

// copyOf returns the same node with a copy of its files.
func (n *bitNode) copyOf(t *testing.T) *bitNode {
	c := &bitNode{testNode: newTestNode(t), running: n.running, reserved: n.reserved, was: maps.Clone(n.was)}
	c.now, c.ipam, c.netns, c.inside, c.inode = n.now, n.ipam, maps.Clone(n.netns), maps.Clone(n.inside), n.inode
	c.recovery.Interfaces = c.interfaces
	if err := os.CopyFS(c.dir, os.DirFS(n.dir)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAFlippedBitNeverStopsTheNode flips one bit of a page in use: of each type of page, in its header, in the heads of its
// entries and behind them. Then pods end, start and come back. No verb fails or waits, the file does not grow, no address
// has two holders, and no reservation is lost without a word.
func TestAFlippedBitNeverStopsTheNode(t *testing.T) {
	seed := uint64(1)
	if *explore {
		seed = uint64(time.Now().UnixNano())
	}
	made := newBitNode(t)
	good, err := os.ReadFile(filepath.Join(made.dir, "limpet.db"))
	if err != nil {
		t.Fatal(err)
	}
	each := *flips
	if testing.Short() {
		each = min(each, 3)
	}
	pages := pagesInUse(t, filepath.Join(made.dir, "limpet.db"))
	t.Logf("seed %d, pages by type: %v, %d reserved, %d run", seed, pages, len(made.reserved), len(made.running))
	size := os.Getpagesize()
	for kind, ids := range pages {
		for part, bits := range map[string][2]int{"header": {0, 16}, "heads": {16, 16 + 8*16}, "rest": {16 + 8*16, size}} {
			t.Run(kind+" "+part, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, uint64(len(kind)*1000+bits[0])))
				for range each {
					page, at, bit := ids[r.IntN(len(ids))], bits[0]+r.IntN(bits[1]-bits[0]), r.IntN(8)
					if part == "rest" {
						at = r.IntN(lastByte(good[page*size:][:size]) + 1)
					}
					c := made.copyOf(t)
					c.damage(overwriteBit(int64(page*size+at), bit))
					if c.traffic(); t.Failed() {
						t.Fatalf("page %d, byte %d, bit %d; %s", page, at, bit, c.log.String())
					}
				}
			})
		}
	}
}

// traffic ends, starts and rebuilds pods, and says what is wrong afterwards.
func (n *bitNode) traffic() {
	n.t.Helper()
	for i := range 4 {
		fresh := lostSandbox(fmt.Sprintf("new-%d", i), false)
		n.start(fresh)
		n.was[fresh.pod] = n.mustAdd(fresh)
		n.end(n.running[i])
		back := next(n.reserved[i])
		n.start(back)
		got := n.mustAdd(back)
		if want := n.was[back.pod]; !slices.Equal(got, want) {
			n.told(fmt.Sprintf("%s had %v and got %v", back.pod, want, got))
		}
		n.was[back.pod] = got
		n.running = append(slices.Clone(n.running), fresh, back)
	}
	sweep := func(tx *persistence.Tx) error {
		_, readErr := tx.Reservations(network) // as when the agent shows them
		_, err := tx.Attachments(network)
		if err := errors.Join(readErr, err); err != nil {
			return err
		}
		_, err = lifecycle.FreeLapsed(tx, network, n.now)
		return err
	}
	err := persistence.New(persistence.Options{Dir: n.dir, Rebuild: n.recovery.RebuildIn(n.dir)}).Update(n.t.Context(), sweep)
	if err != nil {
		n.t.Errorf("sweep: %v", err)
	}
	n.judge()
}

// told fails the test unless the log says that reservations may be lost.
func (n *bitNode) told(lost string) {
	n.t.Helper()
	if !strings.Contains(n.log.String(), "reservations that could not be read") {
		n.t.Errorf("without a word: %s", lost)
	}
}

// judge compares the state with what the pods were told.
func (n *bitNode) judge() {
	n.t.Helper()
	after, lost := n.read(), 0
	ended := map[reservation.Owner][]netip.Addr{} // in a commit that was lost with its meta page: held until the end is told again
	for _, a := range after.Attached {
		ended[a.Owner] = a.Addresses
	}
	for _, s := range n.reserved[4:] {
		if r, found := after.Reserved[s.owner()]; (!found || !slices.Equal(r.Addresses, n.was[s.pod])) && !slices.Equal(ended[s.owner()], n.was[s.pod]) {
			lost++
			n.told(fmt.Sprintf("%s lost its reservation of %v", s.pod, n.was[s.pod]))
		}
	}
	if lost > 1 {
		n.t.Errorf("one bit cost %d reservations", lost)
	}
	holder := map[netip.Addr]string{}
	for _, s := range n.running[4:] {
		for _, a := range n.was[s.pod] {
			if other, taken := holder[a]; taken {
				n.t.Errorf("%s is held by %s and %s", a, other, s.pod)
			}
			holder[a] = s.pod
		}
	}
	if info, err := os.Stat(filepath.Join(n.dir, "limpet.db")); err != nil || info.Size() > 4<<20 {
		n.t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

// pagesInUse returns the numbers of pages by type.
func pagesInUse(t *testing.T, path string) map[string][]int {
	t.Helper()
	pages := map[string][]int{}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			p, err := tx.Page(id)
			if p == nil || err != nil {
				return err
			}
			if p.Type != "free" {
				pages[p.Type] = append(pages[p.Type], id)
			}
		}
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return pages
}

// lastByte returns the place of the last byte of a page that is not 0.
func lastByte(page []byte) int {
	for i := len(page) - 1; i > 0; i-- {
		if page[i] != 0 {
			return i
		}
	}
	return 0
}

// overwriteBit flips one bit of a file.
func overwriteBit(at int64, bit int) func(path string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		b[0] ^= 1 << bit
		_, writeErr := f.WriteAt(b, at)
		return errors.Join(err, writeErr, f.Close())
	}
}
