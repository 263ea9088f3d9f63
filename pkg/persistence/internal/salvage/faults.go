package salvage

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
)

const (
	freeListPage = 0x10
	noFreeList   = math.MaxUint64

	// maxDepth is more than the depth of a tree with two pages below each page.
	maxDepth = 64
	// manyElements is the number in the header of a list of free pages that is too long for the header.
	manyElements = 0xFFFF
)

// Faults checks the pages of a file and calls report for each fault. It finds what bbolt's own check finds, and lengths
// that lead out of a page or of the file. It reads a page at a time and keeps two bits for each page, where bbolt keeps
// two maps and its memory map of the file.
func Faults(file io.ReaderAt, size int64, report func(problem string)) {
	m := newestMeta(file, size)
	if m.pageSize == 0 || m.pages > uint64(size/max(m.pageSize, 1)) {
		report(fmt.Sprintf("no valid meta page of %d bytes", size))
		return
	}
	check(file, m, true, true, report)
}

// bitset is a set of page numbers: one bit for each page of the file.
type bitset []uint64

func newBitset(pages uint64) bitset { return make(bitset, (pages+63)/64) }

func (b bitset) has(id uint64) bool { return b[id/64]&(1<<(id%64)) != 0 }

func (b bitset) add(id uint64) { b[id/64] |= 1 << (id % 64) }

// check checks the root; with list also the list of free pages, and with whole all other pages.
func check(file io.ReaderAt, m meta, list, whole bool, report func(problem string)) {
	c := newChecker(file, m, report)
	c.use(0, 1) // the meta pages
	if list {
		c.readFreeList()
	}
	c.inRoot = true
	c.tree(m.root, 0, nil, nil)
	c.inRoot = false
	for list && whole && len(c.roots) > 0 {
		root := c.roots[len(c.roots)-1]
		c.roots = c.roots[:len(c.roots)-1]
		c.tree(root, 0, nil, nil)
	}
	if list && !whole && m.pages <= mostHeads {
		c.heads()
	}
	c.compareUse(whole)
}

// mostHeads is the number of pages up to which each check reads the head of each page. bbolt frees as many pages as a head
// says that the page has: a wrong number costs other pages, or takes minutes. The heads of 1 000 pages take 0.5 ms.
const mostHeads = 1 << 10

// heads checks that each page in use has its head, or is part of the page before it.
func (c *checker) heads() {
	var head [pageHeader]byte
	more := uint64(0) // pages that are part of the last one with a head
	for id := uint64(2); id < c.meta.pages; id++ {
		free := c.free.has(id)
		if !free {
			if _, err := c.pages.file.ReadAt(head[:], int64(id)*c.meta.pageSize); err != nil {
				c.fault("page %d cannot be read: %v", id, err)
				return
			}
		}
		own := !free && binary.NativeEndian.Uint64(head[:]) == id
		if (free || own) == (more > 0) {
			c.fault("page %d is not as bbolt writes pages", id)
			return
		}
		if own {
			more = uint64(binary.NativeEndian.Uint32(head[12:]))
		} else if more > 0 {
			more--
		}
	}
	if more > 0 {
		c.fault("the last page says that it has %d more", more)
	}
}

// checker is one check of a file.
type checker struct {
	pages  pages
	meta   meta
	report func(string)

	used, free bitset
	levels     []loaded // of the tree
	last       []byte   // key of the last entry that was read
	roots      []uint64 // buckets whose pages are not checked yet
	inRoot     bool     // the root bucket is read, which holds only buckets
	listed     bool     // the list of free pages was read
}

// loaded is the page of a level that is read now. The next page has its memory.
type loaded struct {
	data     []byte
	elements []element
}

func newChecker(file io.ReaderAt, m meta, report func(string)) *checker {
	return &checker{
		pages: pages{file: file, size: m.pageSize, count: m.pages}, meta: m, report: report, used: newBitset(m.pages), free: newBitset(m.pages),
	}
}

func (c *checker) fault(format string, args ...any) { c.report(fmt.Sprintf(format, args...)) }

// open returns the elements of a page, and notes that the page is in use; false when there is no such page.
func (c *checker) open(id uint64, level int) (elements []element, leaf, ok bool) {
	switch {
	case id >= c.meta.pages:
		c.fault("page %d is not in the file, which has %d", id, c.meta.pages)
		return nil, false, false
	case level >= maxDepth:
		c.fault("page %d is below %d others", id, level)
		return nil, false, false
	case level == len(c.levels):
		c.levels = append(c.levels, loaded{})
	}
	l := &c.levels[level]
	data, sound := c.pages.load(id, l.data)
	var end int64
	if sound {
		l.data = data
		l.elements, leaf, end = parsePage(data, l.elements[:0])
	}
	more := int64(len(data))/c.meta.pageSize - 1
	if !sound || !fills(end, more, c.meta.pageSize) {
		c.fault("page %d is not as bbolt writes pages", id)
		return nil, false, false
	}
	return l.elements, leaf, c.use(id, uint64(more))
}

// use notes that a page and its overflow are in use. It reports false when they are not in the file, or in use already.
func (c *checker) use(id, overflow uint64) bool {
	if overflow >= c.meta.pages-id {
		c.fault("page %d and %d more are not in the file, which has %d", id, overflow, c.meta.pages)
		return false
	}
	for i := id; i <= id+overflow; i++ {
		if c.used.has(i) {
			c.fault("page %d has two uses", i)
			return false
		}
		c.used.add(i)
	}
	return true
}

// readFreeList reads the numbers of the free pages.
func (c *checker) readFreeList() {
	id, size := c.meta.freeList, c.meta.pageSize
	if id == noFreeList {
		return
	}
	header := make([]byte, pageHeader)
	if _, err := c.pages.file.ReadAt(header, int64(id)*size); id >= c.meta.pages || err != nil {
		c.fault("page %d, the list of free pages, is not in the file, which has %d", id, c.meta.pages)
		return
	}
	word := binary.NativeEndian
	n, more := uint64(word.Uint16(header[10:])), uint64(word.Uint32(header[12:]))
	if word.Uint64(header) != id || word.Uint16(header[8:]) != freeListPage {
		c.fault("page %d has the number %d and the type %#x, and is the list of free pages", id, word.Uint64(header), word.Uint16(header[8:]))
		return
	}
	if !c.use(id, more) {
		return
	}
	list := bufio.NewReader(io.NewSectionReader(c.pages.file, int64(id)*size+pageHeader, int64(more+1)*size-pageHeader))
	next := func() uint64 {
		if _, err := io.ReadFull(list, header[:8]); err != nil {
			return math.MaxUint64
		}
		return word.Uint64(header)
	}
	if n == manyElements {
		n = next()
	}
	last := uint64(1)
	for range n {
		free := next()
		if free == math.MaxUint64 {
			c.fault("page %d lists %d free pages, and is too short", id, n)
			return
		}
		if c.freed(free); free < last {
			c.fault("page %d is listed as free behind page %d", free, last)
		}
		last = free
	}
	c.listed = true
}

// freed notes a page that the list of free pages names.
func (c *checker) freed(id uint64) {
	switch {
	case id >= c.meta.pages:
		c.fault("page %d is free, but not in the file, which has %d", id, c.meta.pages)
	case c.free.has(id):
		c.fault("page %d is twice in the list of free pages", id)
	default:
		c.free.add(id)
	}
}

// tree checks the pages below a page, whose keys must be at least the one key and below the other; nil is no bound. It
// returns the last key, which is valid until the next call; nil when there is none.
func (c *checker) tree(id uint64, level int, least, below []byte) (last []byte) {
	elements, leaf, ok := c.open(id, level)
	if !ok {
		return nil
	}
	for i, e := range elements {
		c.order(id, i, e.key, least, below)
		if leaf {
			c.last = append(c.last[:0], e.key...)
			last, least = c.last, c.last
			c.value(id, i, e)
			continue
		}
		next := below
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		least = e.key
		if found := c.tree(e.child, level+1, e.key, next); found != nil {
			last, least = found, found
		}
	}
	return last
}

// value checks the value of an entry: it is a bucket where there must be one. A small bucket is inside of the page; the
// root of any other one is noted.
func (c *checker) value(id uint64, i int, e element) {
	switch v := e.value; {
	case e.bucket() != c.inRoot:
		c.fault("page %d: element %d is no bucket, or must be none: the root holds buckets, and each bucket entries", id, i)
	case !e.bucket():
	case len(v) < bucketHeader || int64(len(v)) > c.meta.pageSize:
		c.fault("page %d: element %d is no bucket", id, i)
	case binary.NativeEndian.Uint64(v) != 0:
		c.roots = append(c.roots, binary.NativeEndian.Uint64(v))
	default:
		c.small(id, i, v[bucketHeader:])
	}
}

// small checks a small bucket.
func (c *checker) small(id uint64, i int, data []byte) {
	elements, leaf, end := parsePage(data, nil)
	if !leaf || end != int64(len(data)) {
		c.fault("page %d: the small bucket in element %d cannot be read", id, i)
	}
	var last []byte
	for n, e := range elements {
		c.order(id, n, e.key, last, nil)
		if last = e.key; e.bucket() {
			c.fault("page %d: the small bucket in element %d holds a bucket", id, i)
		}
	}
}

// order checks the place of a key. The first key of a page may be the key of the page above.
func (c *checker) order(id uint64, i int, key, least, below []byte) {
	sign := 1
	if least != nil {
		sign = bytes.Compare(key, least)
	}
	if sign < 0 || i > 0 && sign == 0 {
		c.fault("page %d: key %d, %q, is not behind the key before it", id, i, shortened(key))
	}
	if below != nil && bytes.Compare(key, below) >= 0 {
		c.fault("page %d: key %d, %q, is not before the next key of the page above", id, i, shortened(key))
	}
}

// shortened returns the beginning of a key: a report may name many.
func shortened(key []byte) []byte { return key[:min(len(key), 64)] }

// compareUse compares the pages in use with the free pages. Many pages can be at fault at once, so each kind of fault is
// reported once.
func (c *checker) compareUse(whole bool) {
	var both, neither pageList
	for i, used := range c.used {
		both.add(i, used&c.free[i])
		if c.listed && whole {
			neither.add(i, ^used&^c.free[i]&c.in(i))
		}
	}
	if both.n > 0 {
		c.fault("%s in use and free", both)
	}
	if neither.n > 0 {
		c.fault("%s neither in use nor free", neither)
	}
}

// in returns the pages of a word of a bitset that are in the file.
func (c *checker) in(i int) uint64 {
	if left := c.meta.pages - uint64(i)*64; left < 64 {
		return 1<<left - 1
	}
	return math.MaxUint64
}

// pageList is a number of pages, with the first one.
type pageList struct {
	first uint64
	n     int
}

// add adds the pages of a word of a bitset.
func (l *pageList) add(i int, word uint64) {
	if l.n == 0 && word != 0 {
		l.first = uint64(i*64 + bits.TrailingZeros64(word))
	}
	l.n += bits.OnesCount64(word)
}

// String begins a sentence about the pages.
func (l pageList) String() string {
	if l.n == 1 {
		return fmt.Sprintf("page %d is", l.first)
	}
	return fmt.Sprintf("%d pages, the first of them %d, are", l.n, l.first)
}
