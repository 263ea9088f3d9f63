package cni_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
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

var flips = flag.Int("flips", 12, "flipped bits at each place of a state")

// bitNode is a node with running pods and reserved addresses, of which each round gets a copy.
type bitNode struct {
	*testNode
	running, reserved []sandbox
	was               map[string][]netip.Addr // by name of the pod
}

// newBitNode fills a state of several pages for each kind of record, in which the order of reservations is kept. Both folds,
// the last journal and the journal are in use, and the journal is long enough for the agent to fold it.
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
		if i%45 == 44 {
			n.compact()
		}
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
	if frames := framesOf(n.content(n.path(theJournal))); len(frames) < 20 || len(framesOf(n.content(n.path(lastJournal)))) < 20 || frames[len(frames)-1].end-framesAt < enoughToFold {
		t.Fatalf("%d frames: the test tests little", len(frames))
	}
	return n
}

// enoughToFold is the length of frames from which the agent folds.
const enoughToFold = 32 << 10

// frame is the place of a commit in a journal.
type frame struct{ begin, end int }

// framesOf returns the frames of a journal.
func framesOf(journal []byte) (all []frame) {
	generation := binary.LittleEndian.Uint64(journal[foldAt+1:])
	const head = 20 // of a frame
	for at := framesAt; at+head < len(journal); at = all[len(all)-1].end {
		if generation++; binary.LittleEndian.Uint64(journal[at+12:]) != generation {
			break // of an earlier use
		}
		all = append(all, frame{at, at + head + int(binary.LittleEndian.Uint32(journal[at:]))})
	}
	return all
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
func (n *bitNode) interfaces() (all []machine.Interface, err error) {
	for path, ns := range n.netns {
		if addrs := n.inside[path]; len(addrs) > 0 {
			all = append(all, machine.Interface{NetNS: ns, Name: "eth0", Addresses: addrs})
		}
	}
	return all, nil
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

// place is where bits are flipped.
type place struct {
	file   part
	ranges [][2]int // of bytes, one of which is chosen at random
	most   int      // reservations that a flip may cost
}

// places returns all places of a state: in each fold by type of page, in the header of pages, in the heads of entries and
// behind them, and in each part of the journals and of the marker.
func (n *bitNode) places() map[string]place {
	all := map[string]place{}
	size := os.Getpagesize()
	for name, fold := range map[string]part{"the fold": activeFold, "the other fold": otherFold} {
		data := n.content(n.path(fold))
		for kind, ids := range pagesByType(n.t, n.path(fold)) {
			for _, id := range ids {
				last := id*size + max(lastByte(data[id*size:][:size]), 16+8*16+1)
				for where, r := range map[string][2]int{"header": {id * size, id*size + 16}, "heads": {id*size + 16, id*size + 16 + 8*16}, "rest": {id*size + 16 + 8*16, last + 1}} {
					p := all[name+", "+kind+" "+where]
					p.file, p.ranges = fold, append(p.ranges, r)
					all[name+", "+kind+" "+where] = p
				}
			}
		}
	}
	for name, file := range map[string]part{"the journal": theJournal, "the last journal": lastJournal} {
		data := n.content(n.path(file))
		frames := framesOf(data)
		last := len(frames) - 1
		var heads, payloads [][2]int
		for _, f := range frames[:last] {
			heads, payloads = append(heads, [2]int{f.begin, f.begin + 16}), append(payloads, [2]int{f.begin + 16, f.end})
		}
		most := 1
		if file == lastJournal {
			most = 0
		}
		all[name+", header"] = place{file, [][2]int{{0, headerSize}}, 0}
		all[name+", behind the header"] = place{file, [][2]int{{headerSize, framesAt - 1}, {framesAt - 1, framesAt}}, 0}
		all[name+", heads of frames"] = place{file, heads, most}
		all[name+", frames"] = place{file, payloads, most}
		all[name+", first frame"] = place{file, [][2]int{{frames[0].begin, frames[0].end}}, most}
		all[name+", last frame"] = place{file, [][2]int{{frames[last].begin, frames[last].end}}, most}
		all[name+", behind the frames"] = place{file, [][2]int{{frames[last].end, len(data)}, {frames[last].end, frames[last].end + 16}}, 0}
	}
	all["the marker"] = place{theMarker, [][2]int{{0, len(n.content(n.path(theMarker)))}}, 0}
	return all
}

// TestAFlippedBitNeverStopsTheNode flips one bit at each place of a state. Then pods end, start and come back, before and after
// the agent folds the journal. No verb fails or waits, no file grows, no address has two holders, and no reservation is lost
// silently. What stands in a fold, or in the header of a journal, costs none.
func TestAFlippedBitNeverStopsTheNode(t *testing.T) {
	seed := uint64(1)
	if *explore {
		seed = uint64(time.Now().UnixNano())
	}
	made := newBitNode(t)
	each := *flips
	if testing.Short() {
		each = min(each, 3)
	}
	places := made.places()
	t.Logf("seed %d, %d places, %d reserved, %d run", seed, len(places), len(made.reserved), len(made.running))
	for _, needed := range []string{"the fold, meta", "the fold, branch", "the fold, leaf", "the fold, freelist", "the other fold, branch", "the other fold, leaf"} {
		if _, found := places[needed+" header"]; !found {
			t.Errorf("no %s: the test tests little", needed)
		}
	}
	for name, p := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(crc32.ChecksumIEEE([]byte(name)))))
			for range each {
				among := p.ranges[r.IntN(len(p.ranges))]
				at, bit := among[0]+r.IntN(among[1]-among[0]), r.IntN(8)
				c := made.copyOf(t)
				c.harm(damage{of: []part{p.file}, do: overwriteBit(int64(at), bit)})
				if c.traffic(p.most); t.Failed() {
					t.Fatalf("byte %d, bit %d; %s", at, bit, c.log.String())
				}
			}
		})
	}
}

// traffic ends, starts and rebuilds pods, and says what is wrong afterwards.
func (n *bitNode) traffic(most int) {
	n.t.Helper()
	store := persistence.New(persistence.Options{Dir: n.dir, Rebuild: n.recovery.RebuildIn(n.dir)})
	for i := range 4 {
		fresh := lostSandbox(fmt.Sprintf("new-%d", i), false)
		n.start(fresh)
		n.was[fresh.pod] = n.mustAdd(fresh)
		n.inBound()
		n.end(n.running[i])
		n.inBound()
		back := next(n.reserved[i])
		n.start(back)
		got := n.mustAdd(back)
		n.inBound()
		if want := n.was[back.pod]; !slices.Equal(got, want) {
			n.told(fmt.Sprintf("%s had %v and got %v", back.pod, want, got))
		}
		n.was[back.pod] = got
		n.running = append(slices.Clone(n.running), fresh, back)
		if i == 1 {
			n.fold(store)
		}
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
	if err := store.Update(n.t.Context(), sweep); err != nil {
		n.t.Errorf("sweep: %v", err)
	}
	n.judge(most)
	n.foldTwice()
	n.judge(most)
	if report, err := store.Audit(n.t.Context(), nil); err != nil || len(report.Faults) > 0 {
		n.t.Errorf("audit: %+v, %v", report.Faults, err)
	}
}

// fold folds as the agent does. A verb has rebuilt the state before, if it had to be.
func (n *bitNode) fold(store *persistence.Store) {
	n.t.Helper()
	if err := store.Fold(n.t.Context()); err != nil {
		n.t.Errorf("fold: %v", err)
	}
}

func (n *bitNode) inBound() {
	n.t.Helper()
	if n.took > bound {
		n.t.Errorf("a verb took %s", n.took)
	}
}

// told fails the test unless the log says that reservations may be lost.
func (n *bitNode) told(lost string) {
	n.t.Helper()
	if !strings.Contains(n.log.String(), "reservations that could not be read") {
		n.t.Errorf("without a word: %s", lost)
	}
}

// judge compares the state with what the pods were told.
func (n *bitNode) judge(most int) {
	n.t.Helper()
	after, lost := n.read(), 0
	ended := map[reservation.Owner][]netip.Addr{} // in a commit that was lost: held until the end is told again
	for _, a := range after.Attached {
		ended[a.Owner] = a.Addresses
	}
	for _, s := range n.reserved[4:] {
		if r, found := after.Reserved[s.owner()]; (!found || !slices.Equal(r.Addresses, n.was[s.pod])) && !slices.Equal(ended[s.owner()], n.was[s.pod]) {
			lost++
			n.told(fmt.Sprintf("%s lost its reservation of %v", s.pod, n.was[s.pod]))
		}
	}
	if lost > most {
		n.t.Errorf("one bit cost %d reservations, at most %d may be lost", lost, most)
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
	for _, p := range allParts {
		if info, err := os.Stat(n.path(p)); err != nil || info.Size() > 4<<20 {
			n.t.Errorf("%s: %v, %v", n.path(p), info, err)
		}
	}
}

// pagesByType returns the numbers of pages by type.
func pagesByType(t testing.TB, path string) map[string][]int {
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
			pages[p.Type] = append(pages[p.Type], id)
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
