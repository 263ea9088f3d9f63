package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
)

// tree checks the pages of a bbolt file that has no checksum: bbolt follows a wrong number of a page without end, until the
// stack of the process is full.
type tree struct {
	file  io.ReaderAt
	size  int // of a page
	pages uint64
	seen  map[uint64]bool
}

const (
	pageHead    = 16 // id (8), flags (2), count (2), number of further pages (4)
	pageEntry   = 16
	branchFlag  = 1
	leafFlag    = 2
	bucketEntry = 1
)

// checkTree fails unless each page in use is used once, and has its entries inside of it.
func checkTree(tx *bolt.Tx) error {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	size := tx.DB().Info().PageSize
	t := &tree{file: f, size: size, pages: uint64(tx.Size()) / uint64(size), seen: map[uint64]bool{}}
	return errors.Join(t.check(uint64(tx.Cursor().Bucket().RootPage())), f.Close())
}

// check checks a page and all below it.
func (t *tree) check(id uint64) error {
	page, err := t.read(id)
	if err != nil {
		return err
	}
	return t.checkEntries(id, page)
}

// read returns a page with its further pages.
func (t *tree) read(id uint64) ([]byte, error) {
	head := make([]byte, pageHead)
	if id < 2 || id >= t.pages {
		return nil, fmt.Errorf("page %d of %d: %w", id, t.pages, ErrDamaged)
	}
	if _, err := t.file.ReadAt(head, int64(id)*int64(t.size)); err != nil {
		return nil, fmt.Errorf("page %d: %w: %w", id, err, ErrDamaged)
	}
	end := id + 1 + uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head) != id || end > t.pages {
		return nil, fmt.Errorf("page %d is none: %w", id, ErrDamaged)
	}
	for n := id; n < end; n++ {
		if t.seen[n] {
			return nil, fmt.Errorf("page %d has two uses: %w", n, ErrDamaged)
		}
		t.seen[n] = true
	}
	page := make([]byte, int(end-id)*t.size)
	if _, err := t.file.ReadAt(page, int64(id)*int64(t.size)); err != nil {
		return nil, fmt.Errorf("page %d: %w: %w", id, err, ErrDamaged)
	}
	return page, nil
}

// checkEntries checks the entries of a page, or of a bucket that is kept inside of an entry.
func (t *tree) checkEntries(id uint64, page []byte) error {
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != branchFlag && flags != leafFlag || pageHead+count*pageEntry > len(page) || flags == branchFlag && count == 0 {
		return fmt.Errorf("page %d is none: %w", id, ErrDamaged)
	}
	for i := range count {
		rest := page[pageHead+i*pageEntry:]
		word := func(n int) uint64 { return uint64(binary.LittleEndian.Uint32(rest[4*n:])) }
		begin, end := word(0), word(0)+word(1)
		if flags == leafFlag {
			begin, end = word(1)+word(2), word(1)+word(2)+word(3)
		}
		var err error
		switch {
		case end > uint64(len(rest)):
			err = fmt.Errorf("entry %d of page %d: %w", i, id, ErrDamaged)
		case flags == branchFlag:
			err = t.check(binary.LittleEndian.Uint64(rest[8:]))
		case word(0)&bucketEntry != 0:
			err = t.checkBucket(id, rest[begin:end])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBucket checks a bucket by its value: its root, its sequence, and its page where it has no root.
func (t *tree) checkBucket(id uint64, value []byte) error {
	const head = 16
	if len(value) < head {
		return fmt.Errorf("bucket in page %d: %w", id, ErrDamaged)
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return t.check(root)
	}
	if len(value) < head+pageHead || binary.LittleEndian.Uint16(value[head+8:]) != leafFlag {
		return fmt.Errorf("bucket in page %d: %w", id, ErrDamaged)
	}
	return t.checkEntries(id, value[head:])
}
