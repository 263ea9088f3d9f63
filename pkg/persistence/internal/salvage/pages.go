package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	branchPage    = 0x01
	leafPage      = 0x02
	elementSize   = 16 // in a branch page and in a leaf page alike
	bucketHeader  = 16
	bucketElement = 0x01

	// maxOverflow is far more pages than a leaf of records ever spans.
	maxOverflow = 256
)

// pages reads the pages of a bbolt file by plain reads.
type pages struct {
	file  io.ReaderAt
	size  int64  // of a page
	count uint64 // of pages
	// visited are the pages that walk has read: a broken tree may have loops.
	visited map[uint64]bool
}

// element is an entry of a leaf page, or of a branch page when child is not 0.
type element struct {
	key, value []byte
	flags      uint32
	child      uint64
	from       uint64 // of the key, behind the head
}

func (e element) bucket() bool { return e.flags&bucketElement != 0 }

// newestMeta returns the newest valid meta page; its page size is 0 when none is valid.
func newestMeta(file io.ReaderAt, size int64) (newest meta) {
	for at := int64(0); at < size && at <= 1<<16; at = max(1024, at*2) { // pages are of 1 KiB to 64 KiB
		if m, err := readMeta(file, at); err == nil && m.txid >= newest.txid && (at == 0 || at == m.pageSize) {
			newest = m
		}
	}
	return newest
}

// load reads a page with its overflow into a buffer. It reports whether the page has its number, and a length that can be
// its own: a damaged one may claim the whole file.
func (p *pages) load(id uint64, buffer []byte) (data []byte, sound bool) {
	if id < 2 || id >= p.count {
		return nil, false
	}
	data = slices.Grow(buffer[:0], int(p.size))[:p.size]
	if _, err := p.file.ReadAt(data, int64(id)*p.size); err != nil {
		return nil, false
	}
	if binary.NativeEndian.Uint64(data) != id {
		return data, false // it may be no page, and only behind one
	}
	says := uint64(binary.NativeEndian.Uint32(data[12:]))
	if more := int64(min(says, p.count-id-1, maxOverflow)); more > 0 {
		data = slices.Grow(data, int(more*p.size))[:(more+1)*p.size]
		if _, err := p.file.ReadAt(data[p.size:], (int64(id)+1)*p.size); err != nil {
			return nil, false
		}
	}
	return data, int64(says+1)*p.size == int64(len(data))
}

// fills reports whether the content of a page that ends at a byte needs so many pages more. Earlier versions of bbolt
// wrote one more where the content just fits.
func fills(end, more, size int64) bool { return end >= more*size && end > 0 && end <= (more+1)*size }

// parsePage returns the elements of a page with its overflow, or of an inline bucket, and where the last one ends; 0 if
// the page is not as bbolt writes pages: heads first, then each key and value behind the ones before. So each length is
// told twice, and elements that a wrong number leaves out are found. A page of an unknown type counts as a leaf. The
// elements are appended to others.
func parsePage(data []byte, to []element) (elements []element, leaf bool, end int64) {
	if len(data) < pageHeader {
		return to, false, 0
	}
	word, first := binary.NativeEndian, uint32(0)
	flags, says := word.Uint16(data[8:]), int(word.Uint16(data[10:]))
	if leaf = flags != branchPage; len(data) >= pageHeader+elementSize {
		first = word.Uint32(data[pageHeader:])
		if leaf {
			first = word.Uint32(data[pageHeader+4:])
		}
	}
	count := min(max(says, int(first)/elementSize), (len(data)-pageHeader)/elementSize)
	sound, next := count == says && (flags == leafPage || flags == branchPage), pageHeader+count*elementSize
	for i := range count {
		at := pageHeader + i*elementSize
		e, ok := parseElement(data[at:], data[at:at+elementSize], leaf)
		if !ok {
			sound = false
			continue
		}
		from := at + int(e.from)
		sound, next = sound && from == next && e.flags&^bucketElement == 0, from+len(e.key)+len(e.value)
		to = append(to, e)
	}
	if !sound {
		next = 0
	}
	return to, leaf, int64(next)
}

// parseElement reads the element with a given head. Key and value lie behind the head, in data.
func parseElement(data, head []byte, leaf bool) (element, bool) {
	word := binary.NativeEndian
	if !leaf {
		from, size := uint64(word.Uint32(head)), uint64(word.Uint32(head[4:]))
		if from+size > uint64(len(data)) {
			return element{}, false
		}
		return element{key: data[from : from+size], child: word.Uint64(head[8:]), from: from}, true
	}
	from, keySize, valueSize := uint64(word.Uint32(head[4:])), uint64(word.Uint32(head[8:])), uint64(word.Uint32(head[12:]))
	if from+keySize+valueSize > uint64(len(data)) {
		return element{}, false
	}
	value := data[from+keySize : from+keySize+valueSize]
	return element{key: data[from : from+keySize], value: value, flags: word.Uint32(head), from: from}, true
}

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
const fewPages = 128

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
