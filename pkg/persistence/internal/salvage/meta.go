package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrDamaged is returned for a file that is not a sound bbolt file.
var ErrDamaged = errors.New("state file is damaged")

// A bbolt file begins with two meta pages (go.etcd.io/bbolt/internal/common). Commits write them in turn, each
// with the number of its transaction.
const (
	pageHeader  = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
)

// meta is the content of a meta page.
type meta struct {
	pageSize int64
	root     uint64 // page of the root bucket
	freeList uint64 // page of the list of free pages; noFreeList when the file has none
	pages    uint64 // highest page in use, plus one
	txid     uint64
}

// fewPages are the pages that a check of the whole file reads in a small part of the time of a verb.
const fewPages = 512

// mostPages bounds the number of pages of a file by the number that its meta page says: what is behind is not the work of
// verbs, each of which adds few pages.
func mostPages(says uint64) uint64 { return 4*says + 1<<14 }

// Check fails for a file that bbolt must not open, because bbolt believes each number in a page: it would write over pages
// in use, fill the disk or not come back. Check reads the meta pages and the root; unless the file is a copy, which is only
// read, also the list of free pages and all others, in a larger file for each so many-th transaction. Check returns how
// large the file may get.
func Check(file io.ReaderAt, size int64, isCopy bool) (most int64, err error) {
	m, err := checkMetas(file, size)
	if err != nil {
		return 0, err
	}
	check(file, m, !isCopy, m.txid%(1+m.pages/fewPages) == 0, func(problem string) {
		if err == nil {
			err = fmt.Errorf("%s: %w", problem, ErrDamaged)
		}
	})
	return int64(mostPages(m.pages)) * m.pageSize, err
}

// checkMetas checks both meta pages. bbolt would fall back to the older page when the newest is damaged, and so to
// an older state. After any commit both pages are valid and of consecutive transactions;
// docs/design/0004-recovery.md says why anything else is damage.
func checkMetas(file io.ReaderAt, size int64) (newest meta, err error) {
	even, evenErr := readMeta(file, 0)
	step := even.pageSize
	if evenErr != nil {
		step = int64(os.Getpagesize())
	}
	odd, oddErr := readMeta(file, step)
	pages := max(even.pages, odd.pages)
	switch {
	case evenErr != nil || oddErr != nil:
		return newest, errors.Join(evenErr, oddErr)
	case even.txid%2 != 0 || (even.txid+1 != odd.txid && odd.txid+1 != even.txid):
		return newest, fmt.Errorf("meta pages of transactions %d and %d: %w", even.txid, odd.txid, ErrDamaged)
	case pages > uint64(size/step):
		return newest, fmt.Errorf("file of %d bytes for %d pages: %w", size, pages, ErrDamaged)
	case even.txid > odd.txid:
		return even, nil
	}
	return odd, nil
}

// readMeta reads and checks the meta page at an offset.
func readMeta(file io.ReaderAt, at int64) (meta, error) {
	var page [pageHeader + metaSize]byte
	if _, err := file.ReadAt(page[:], at); err != nil {
		return meta{}, markDamaged(fmt.Errorf("read meta page at %d: %w", at, err))
	}
	raw, word := page[pageHeader:], binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(raw[:metaSize-8]) // a hash never fails
	m := meta{
		pageSize: int64(word.Uint32(raw[8:])), root: word.Uint64(raw[16:]),
		freeList: word.Uint64(raw[32:]), pages: word.Uint64(raw[40:]), txid: word.Uint64(raw[48:]),
	}
	if word.Uint32(raw) != metaMagic || word.Uint32(raw[4:]) != metaVersion || word.Uint64(raw[56:]) != sum.Sum64() || m.pageSize < 1024 {
		return meta{}, fmt.Errorf("meta page at %d is invalid: %w", at, ErrDamaged)
	}
	return m, nil
}

// markDamaged adds ErrDamaged to a read error when the file is at fault: it is too short, or its medium is broken.
func markDamaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) {
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	return err
}
