package salvage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// layout is a file of several pages for each kind of bucket, with free pages and with values longer than a page.
func layout(t testing.TB) (data []byte, m meta) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	write(t, path, map[string]int{"inline": 1, "one page": 20, "many pages": 3000, "gone": 500, "empty": 0})
	db := open(t, path)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("long"))
		must(t, err)
		for i := range 5 {
			must(t, b.Put(fmt.Appendf(nil, "long %d", i), make([]byte, 20_000)))
		}
		return tx.DeleteBucket([]byte("gone"))
	}))
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	return data, newestMeta(bytes.NewReader(data), int64(len(data)))
}

// faultsIn returns the faults of a file.
func faultsIn(data []byte) (all []string) {
	Faults(bytes.NewReader(data), int64(len(data)), func(problem string) { all = append(all, problem) })
	return all
}

// bboltFaults returns what bbolt's own check finds. bbolt ends the process on some files that Faults refuses.
// The file at the path is replaced.
func bboltFaults(t testing.TB, path string, data []byte) (all []string) {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	must(t, err)
	must(t, db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			all = append(all, err.Error())
		}
		return nil
	}))
	must(t, db.Close())
	return all
}

// pagesOf returns the numbers of the pages of a type that are in use, in the order of the tree.
func pagesOf(data []byte, m meta, flags uint16) (ids []uint64) {
	c := newChecker(bytes.NewReader(data), m, func(string) {})
	c.readFreeList()
	for id := uint64(2); id < m.pages; id++ {
		page := data[int64(id)*m.pageSize:]
		if !c.free.has(id) && binary.NativeEndian.Uint64(page) == id && binary.NativeEndian.Uint16(page[8:]) == flags {
			ids = append(ids, id)
		}
	}
	return ids
}

// page is a page of a file that a test damages.
type page []byte

func pageAt(data []byte, m meta, id uint64) page { return data[int64(id)*m.pageSize:][:m.pageSize] }

func (p page) element(i int) []byte         { return p[pageHeader+i*elementSize:][:elementSize] }
func (p page) setChild(i int, child uint64) { binary.NativeEndian.PutUint64(p.element(i)[8:], child) }

// key returns the key of an element of a leaf.
func (p page) key(i int) []byte {
	word, at := binary.NativeEndian, pageHeader+i*elementSize
	from := at + int(word.Uint32(p[at+4:]))
	return p[from:][:word.Uint32(p[at+8:])]
}

// swap exchanges two keys of the same length in a leaf.
func (p page) swap(i, j int) {
	was := bytes.Clone(p.key(i))
	copy(p.key(i), p.key(j))
	copy(p.key(j), was)
}

// TestASoundFileHasNoFaults checks files as bbolt writes them, also with a page in use for each size of a value.
func TestASoundFileHasNoFaults(t *testing.T) {
	data, _ := layout(t)
	if faults := faultsIn(data); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	if faults := bboltFaults(t, filepath.Join(t.TempDir(), "file.db"), data); len(faults) > 0 {
		t.Fatalf("bbolt: %q", faults)
	}
}

// TestFaultsAreFound damages one thing at a time.
func TestFaultsAreFound(t *testing.T) {
	good, m := layout(t)
	word := binary.NativeEndian
	leaves, branches := pagesOf(good, m, leafPage), pagesOf(good, m, branchPage)
	leaf := leaves[len(leaves)/2]
	for name, tc := range map[string]struct {
		damage func(data []byte)
		want   string
		alone  bool // bbolt finds nothing, or ends the process
	}{
		"a page that is free and in use": {
			damage: func(data []byte) { word.PutUint64(pageAt(data, m, m.freeList)[pageHeader:], leaf) }, want: "in use and free",
		},
		"a page that is neither": {
			damage: func(data []byte) { p := pageAt(data, m, m.freeList); word.PutUint16(p[10:], word.Uint16(p[10:])-1) }, want: "neither in use nor free",
		},
		"a page that is free twice": {
			damage: func(data []byte) { p := pageAt(data, m, m.freeList)[pageHeader:]; copy(p[8:], p[:8]) }, want: "twice in the list",
		},
		"a page that is free outside of the file": {
			damage: func(data []byte) { word.PutUint64(pageAt(data, m, m.freeList)[pageHeader:], m.pages+1) }, want: "is free, but not in the file",
		},
		"a list of free pages that is too long": {
			damage: func(data []byte) { word.PutUint16(pageAt(data, m, m.freeList)[10:], 0xFFFE) }, want: "is too short", alone: true,
		},
		"a page with two uses": {
			damage: func(data []byte) {
				pageAt(data, m, branches[0]).setChild(1, word.Uint64(pageAt(data, m, branches[0]).element(0)[8:]))
			},
			want: "has two uses",
		},
		"a loop": {
			damage: func(data []byte) { pageAt(data, m, branches[0]).setChild(0, branches[0]) }, want: "has two uses", alone: true,
		},
		"a page outside of the file": {
			damage: func(data []byte) { pageAt(data, m, branches[0]).setChild(0, 1<<40) }, want: "is not in the file", alone: true,
		},
		"a page that is too long": {
			damage: func(data []byte) { word.PutUint32(pageAt(data, m, leaf)[12:], 1<<31) }, want: "not as bbolt writes pages", alone: true,
		},
		"a page with the number of another": {
			damage: func(data []byte) { word.PutUint64(pageAt(data, m, leaf), leaf+1) }, want: "not as bbolt writes pages",
		},
		"a page of an unknown type": {
			damage: func(data []byte) { word.PutUint16(pageAt(data, m, leaf)[8:], 0x20) }, want: "not as bbolt writes pages",
		},
		"a branch without pages": {
			damage: func(data []byte) { word.PutUint16(pageAt(data, m, branches[0])[10:], 0) }, want: "not as bbolt writes pages",
		},
		"two keys that changed places": {damage: func(data []byte) { pageAt(data, m, leaf).swap(2, 3) }, want: "not behind the key before"},
		"a key twice":                  {damage: func(data []byte) { p := pageAt(data, m, leaf); copy(p.key(2), p.key(3)) }, want: "not behind the key before"},
		"a first key that is too low":  {damage: func(data []byte) { pageAt(data, m, leaf).key(0)[0] = 0 }, want: "not behind the key before"},
		"a last key that is too high": {
			damage: func(data []byte) {
				p := pageAt(data, m, leaf)
				p.key(int(word.Uint16(p[10:])) - 1)[0] = 0xFF
			},
			want: "not before the next key",
		},
		"a key outside of its page":   {damage: func(data []byte) { word.PutUint32(pageAt(data, m, leaf).element(3)[8:], 30_000) }, want: "not as bbolt writes pages", alone: true},
		"a value outside of its page": {damage: func(data []byte) { word.PutUint32(pageAt(data, m, leaf).element(3)[12:], 30_000) }, want: "not as bbolt writes pages", alone: true},
		"more elements than fit":      {damage: func(data []byte) { word.PutUint16(pageAt(data, m, leaf)[10:], 0xFFF0) }, want: "not as bbolt writes pages", alone: true},
		"an entry that is a bucket":   {damage: func(data []byte) { pageAt(data, m, leaf).element(3)[0] = 1 }, want: "the root holds buckets", alone: true},
		"a bucket that is an entry":   {damage: func(data []byte) { pageAt(data, m, m.root).element(2)[0] = 0 }, want: "the root holds buckets"},
		"a small bucket that is cut": {
			damage: func(data []byte) { word.PutUint16(data[bytes.Index(data, []byte("inline"))+6+bucketHeader+10:], 500) },
			want:   "small bucket", alone: true,
		},
		"no meta page": {damage: func(data []byte) { clear(data[:2*m.pageSize]) }, want: "no valid meta page", alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			data := bytes.Clone(good)
			tc.damage(data)
			if found := strings.Join(faultsIn(data), "\n"); !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
			if !tc.alone && len(bboltFaults(t, filepath.Join(t.TempDir(), "file.db"), data)) == 0 {
				t.Error("bbolt finds nothing: the case compares nothing")
			}
		})
	}
}

// TestALongListOfFreePages checks a list that is longer than the header of a page can say.
func TestALongListOfFreePages(t *testing.T) {
	const size, pages = 1024, 0x11000
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: size, NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("gone"))
		must(t, err)
		return b.Put([]byte("long"), make([]byte, pages*size))
	}))
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("gone")) }))
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	m := newestMeta(bytes.NewReader(data), int64(len(data)))
	if n := binary.NativeEndian.Uint16(pageAt(data, m, m.freeList)[10:]); n != manyElements {
		t.Fatalf("the header says %d free pages: the list is short", n)
	}
	if faults := faultsIn(data); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	last := int64(m.freeList)*m.pageSize + pageHeader + 8*pages
	clear(data[last : last+8])
	if faults := faultsIn(data); len(faults) == 0 {
		t.Error("no fault in a list whose entry was cleared")
	}
}

// TestFaultsFindsWhatBboltFinds damages files at random. A file in which Faults finds nothing is sound for bbolt as well.
func TestFaultsFindsWhatBboltFinds(t *testing.T) {
	const rounds = 200
	good, m := layout(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	leaves, branches := pagesOf(good, m, leafPage), pagesOf(good, m, branchPage)
	found, quiet, path := 0, 0, filepath.Join(t.TempDir(), "file.db")
	for round := range rounds {
		data := bytes.Clone(good)
		wound(r, data, m, leaves, branches)
		if len(faultsIn(data)) > 0 {
			found++
			continue
		}
		quiet++
		if faults := bboltFaults(t, path, data); len(faults) > 0 {
			t.Errorf("seed %d, round %d: only bbolt finds %q", seed, round, faults)
		}
	}
	t.Logf("%d of %d files with faults", found, rounds)
	if found < rounds/4 || quiet < rounds/50 {
		t.Errorf("seed %d: faults in %d files, none in %d: the test tests little", seed, found, quiet)
	}
}

// wound changes one field or one byte of a page: a field of the header, of an element or of the list of free pages, or a
// byte anywhere.
func wound(r *rand.Rand, data []byte, m meta, leaves, branches []uint64) {
	word, ids := binary.NativeEndian, append(append([]uint64{m.root, m.freeList}, leaves...), branches...)
	p := pageAt(data, m, ids[r.IntN(len(ids))])
	small := func() uint64 { return []uint64{0, 1, 2, m.pages - 1, m.pages, r.Uint64N(m.pages), 1 << 40}[r.IntN(7)] }
	count := int(word.Uint16(p[10:]))
	switch r.IntN(7) {
	case 0:
		word.PutUint16(p[8:], []uint16{0, branchPage, leafPage, 4, freeListPage, 3}[r.IntN(6)])
	case 1:
		word.PutUint16(p[10:], uint16(max(0, count+r.IntN(5)-2)))
	case 2:
		word.PutUint32(p[12:], uint32(small()))
	case 3:
		word.PutUint64(p[pageHeader+8*r.IntN(max(1, 2*min(count, 200))):], small())
	case 4:
		word.PutUint32(p[pageHeader+4*r.IntN(max(1, 4*min(count, 200))):], uint32(small()))
	case 5:
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	case 6:
		copy(p, pageAt(data, m, ids[r.IntN(len(ids))])[:pageHeader+r.IntN(len(p)-pageHeader)])
	}
}

// FuzzFaults checks files of any content, whose meta page gets a right checksum: the check ends, and bbolt finds nothing in
// a file without faults.
func FuzzFaults(f *testing.F) {
	good, m := layout(f)
	f.Add(good[2*m.pageSize : 40*m.pageSize])
	f.Fuzz(func(t *testing.T, pages []byte) {
		data := append(bytes.Clone(good[:2*m.pageSize]), pages...)
		data = append(data, make([]byte, m.pageSize-int64(len(data))%m.pageSize)...)
		for _, at := range []int64{0, m.pageSize} {
			raw := data[at+pageHeader:][:metaSize]
			binary.NativeEndian.PutUint64(raw[40:], uint64(len(data))/uint64(m.pageSize))
			sum := fnv.New64a()
			_, _ = sum.Write(raw[:metaSize-8])
			binary.NativeEndian.PutUint64(raw[metaSize-8:], sum.Sum64())
		}
		if len(faultsIn(data)) == 0 {
			if faults := bboltFaults(t, filepath.Join(t.TempDir(), "file.db"), data); len(faults) > 0 {
				t.Errorf("only bbolt finds %q", faults)
			}
		}
	})
}
