package persistence_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	largeRunning, largeReserved = 1500, 1500
	segmentPages                = 256 // that have a checksum of their own
)

// FuzzBitOfALargeFile flips one bit of a fold of which one verb in four checks a part: of each type of page, in its header, in the
// heads of its entries and behind them. Then as many verbs run as check each part on average. None fails or takes long, no
// file grows without bound, no address has two holders, and no reservation is lost.
func FuzzBitOfALargeFile(f *testing.F) {
	good := largeState(f)
	dir := f.TempDir()
	good.write(f, dir)
	name := filepath.Base(persistence.ActiveFold(dir))
	pages, count := typesOfPages(f, filepath.Join(dir, name))
	if count < 2*segmentPages {
		f.Fatalf("the file has %d pages", count)
	}
	flips := 3
	if testing.Short() {
		flips = 1
	}
	r := rand.New(rand.NewPCG(22, 9))
	for kind := range pages {
		for _, part := range [][2]int{{0, 16}, {16, 16 + 8*16}, {16 + 8*16, 4096}} {
			for range flips {
				f.Add(kind, r.Uint32(), uint16(part[0]+r.IntN(part[1]-part[0])), uint8(r.IntN(8)), r.Uint64())
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind string, page uint32, at uint16, bit uint8, seed uint64) {
		ids := pages[kind]
		if len(ids) == 0 {
			return
		}
		bad := maps.Clone(good)
		place := ids[int(page)%len(ids)]*os.Getpagesize() + int(at)%os.Getpagesize()
		bad[name] = slices.Clone(good[name])
		bad[name][place] ^= 1 << (bit % 8)
		n := &largeNode{r: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), reserved: map[int]bool{}}
		bad.write(t, n.dir)
		n.run(t, 2+4*count/segmentPages)
		if n.judge(t, int64(4*count+1<<14)*4096); t.Failed() {
			t.Errorf("%s page, byte %d, bit %d", kind, place, bit%8)
		}
	})
}

// largeNode is a node whose pods come and go.
type largeNode struct {
	r        *rand.Rand
	dir      string
	reserved map[int]bool // those that pods took, and did not take
	rebuilds int
}

func (n *largeNode) store() *persistence.Store {
	return persistence.New(persistence.Options{Dir: n.dir, Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
		n.rebuilds++
		return asRead(left)
	}})
}

// run ends a pod with each verb, starts another one, and rebuilds one with its reservation.
func (n *largeNode) run(t *testing.T, verbs int) {
	t.Helper()
	for i := range largeReserved {
		n.reserved[largeRunning+i] = true
	}
	for v := range verbs {
		begun, back := time.Now(), largeRunning+n.r.IntN(largeReserved)
		for !n.reserved[back] {
			back = largeRunning + n.r.IntN(largeReserved)
		}
		found := false
		err := n.store().Update(t.Context(), func(tx *persistence.Tx) error {
			seq, err := tx.NextSeq()
			fresh := attachment(10_000 + v)
			fresh.Seq = seq
			if err := errors.Join(err, tx.DeleteAttachment(attachment(v).ID), tx.PutAttachment(fresh)); err != nil {
				return err
			}
			kept := attachment(back)
			if _, found, err = tx.Reservation(kept.Owner); err != nil || !found {
				return err
			}
			return errors.Join(tx.DeleteReservation(kept.Owner), tx.PutAttachment(kept))
		})
		if took := time.Since(begun); err != nil || took > time.Minute {
			t.Fatalf("verb %d: %v after %s", v, err, took)
		}
		if found {
			delete(n.reserved, back)
		}
	}
}

// judge reads all that is left.
func (n *largeNode) judge(t *testing.T, most int64) {
	t.Helper()
	all := everything(t, n.store(), 0, 0)
	left, holder := map[string]bool{}, map[netip.Addr]string{}
	hold := func(o reservation.Owner, addrs []netip.Addr) {
		for _, a := range addrs {
			if other, taken := holder[a]; taken && other != o.Pod {
				t.Errorf("%s has two holders: %s and %s", a, other, o.Pod)
			}
			holder[a] = o.Pod
		}
	}
	for _, a := range all.Attachments {
		hold(a.Owner, a.Addresses)
	}
	for _, r := range all.Reservations {
		hold(r.Owner, r.Addresses)
		left[r.Owner.Pod] = true
	}
	for i := range n.reserved {
		if pod := attachment(i).Owner.Pod; !left[pod] {
			t.Errorf("%s lost its reservation", pod)
		}
	}
	if info, err := os.Stat(persistence.ActiveFold(n.dir)); err != nil || info.Size() > most {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

// largeState returns a state with folds of several megabytes.
func largeState(f *testing.F) files {
	f.Helper()
	s := persistence.New(persistence.Options{Dir: f.TempDir()})
	for from := 0; from < largeRunning+largeReserved; from += 100 {
		update(f, s, func(tx *persistence.Tx) (err error) {
			for i := from; i < from+100; i++ {
				a := attachment(i)
				if a.Seq, err = tx.NextSeq(); err == nil && i < largeRunning {
					err = tx.PutAttachment(a)
				} else if err == nil {
					err = tx.PutReservation(reserve(a))
				}
				if err != nil {
					return err
				}
			}
			return tx.SetConfig("net", []byte("[]"))
		})
	}
	return filesOf(f, s.Dir())
}

// typesOfPages returns the pages in use by their type, and how many pages there are.
func typesOfPages(f *testing.F, path string) (pages map[string][]int, count int) {
	f.Helper()
	pages = map[string][]int{}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	must(f, err)
	must(f, errors.Join(db.View(func(tx *bolt.Tx) error {
		for ; ; count++ {
			p, err := tx.Page(count)
			if p == nil || err != nil {
				return err
			}
			if p.Type != "free" {
				pages[p.Type] = append(pages[p.Type], count)
			}
		}
	}), db.Close()))
	return pages, count
}
