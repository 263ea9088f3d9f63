package persistence

import (
	"encoding/binary"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// tree checks the pages of a bbolt file that has no checksum: bbolt follows pages in a circle without end, until the stack of
// the process is full. A number that leads out of the file, or out of a page's entry, ends in a panic, which guarded takes for
// damage.
type tree struct {
	data []byte
	size uint64 // of a page
	seen map[uint64]bool
}

const (
	pageHead    = 16 // id (8), flags (2), count (2), number of further pages (4)
	pageEntry   = 16
	bucketHead  = 16 // root (8), sequence (8)
	branchFlag  = 1
	leafFlag    = 2
	bucketEntry = 1
)

// checkTree fails unless each page in use is one, and is used once.
func checkTree(tx *bolt.Tx) error {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	data, err := unix.Mmap(int(f.Fd()), 0, int(tx.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(data) }() // fails for another address only
	t := &tree{data, uint64(tx.DB().Info().PageSize), map[uint64]bool{}}
	return t.check(uint64(tx.Cursor().Bucket().RootPage()))
}

// check checks a page and all below it.
func (t *tree) check(id uint64) error {
	page := t.data[min(id, uint64(len(t.data)))*t.size:]
	if id < 2 || t.seen[id] || binary.LittleEndian.Uint64(page) != id {
		return fmt.Errorf("page %d is none, or has two uses: %w", id, ErrDamaged)
	}
	t.seen[id] = true
	return t.checkEntries(page)
}

// checkEntries checks what is below a page, or below a bucket that is kept inside of an entry.
func (t *tree) checkEntries(page []byte) (err error) {
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != leafFlag && (flags != branchFlag || count == 0) {
		return fmt.Errorf("page of type %d with %d entries: %w", flags, count, ErrDamaged)
	}
	for i := 0; i < count && err == nil; i++ {
		entry := page[pageHead+i*pageEntry:]
		word := func(n int) uint64 { return uint64(binary.LittleEndian.Uint32(entry[4*n:])) }
		if flags == branchFlag {
			err = t.check(binary.LittleEndian.Uint64(entry[8:]))
		} else if word(0)&bucketEntry != 0 {
			value := entry[word(1)+word(2):]
			if root := binary.LittleEndian.Uint64(value); root != 0 {
				err = t.check(root)
			} else {
				err = t.checkEntries(value[bucketHead:])
			}
		}
	}
	return err
}
