package salvage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const (
	freeListPage = 0x10
	noFreeList   = math.MaxUint64
	maxKey       = 32768

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

// check checks the root; with list also the list of free pages, and with whole all other pages.
func check(file io.ReaderAt, m meta, list, whole bool, report func(problem string)) {
	c := &checker{file: file, meta: m, report: report, used: newBitset(m.pages), free: newBitset(m.pages)}
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
	c.compareUse(whole)
}

// checker is one check of a file.
type checker struct {
	file   io.ReaderAt
	meta   meta
	report func(string)

	used, free bitset
	buffers    [][]byte // one for each level of the tree
	last       []byte   // key of the last entry that was read
	roots      []uint64 // buckets whose pages are not checked yet
	inRoot     bool     // the root bucket is read, which holds only buckets
	listed     bool     // the list of free pages was read
}

func (c *checker) fault(format string, args ...any) { c.report(fmt.Sprintf(format, args...)) }

// open reads the beginning of a page and notes that the page is in use; nil when there is no such page.
func (c *checker) open(id uint64, level int) *view {
	if id >= c.meta.pages {
		c.fault("page %d is not in the file, which has %d", id, c.meta.pages)
		return nil
	}
	if level >= maxDepth {
		c.fault("page %d is below %d others", id, level)
		return nil
	}
	for len(c.buffers) <= level {
		c.buffers = append(c.buffers, make([]byte, c.meta.pageSize))
	}
	v, err := newView(c.file, id, c.buffers[level])
	if err != nil {
		c.fault("%v", err)
		return nil
	}
	if !c.use(id, v.overflow) {
		return nil
	}
	return v
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
	if c.meta.freeList == noFreeList {
		return
	}
	v := c.open(c.meta.freeList, 0)
	if v == nil {
		return
	}
	if v.flags != freeListPage {
		c.fault("page %d has the type %#x, and is the list of free pages", v.id, v.flags)
		return
	}
	at, n := int64(pageHeader), uint64(v.count)
	if n == manyElements {
		first, ok := v.bytes(at, 8)
		if !ok {
			return // a page has more bytes
		}
		at, n = at+8, binary.NativeEndian.Uint64(first)
	}
	last := uint64(1)
	for range n {
		raw, ok := v.bytes(at, 8)
		if !ok {
			c.fault("page %d lists %d free pages, and is too short", v.id, n)
			return
		}
		id := binary.NativeEndian.Uint64(raw)
		if c.freed(id); id < last {
			c.fault("page %d is listed as free behind page %d", id, last)
		}
		last, at = id, at+8
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
func (c *checker) tree(id uint64, level int, least, below []byte) []byte {
	v := c.open(id, level)
	switch {
	case v == nil:
		return nil
	case v.flags == branchPage:
		return c.branch(v, level, least, below)
	case v.flags == leafPage:
		return c.leaf(v, least, below)
	}
	c.fault("page %d has the unknown type %#x", id, v.flags)
	return nil
}

// branch checks a page that refers to other pages.
func (c *checker) branch(v *view, level int, least, below []byte) (last []byte) {
	if v.count == 0 {
		c.fault("page %d refers to no page", v.id)
	}
	end := v.begin()
	for i := range v.count {
		key, child, ok := v.branchElement(i, &end)
		next := below
		if ok && i+1 < v.count {
			follows := end
			next, _, ok = v.branchElement(i+1, &follows)
		}
		if !ok {
			c.fault("page %d: element %d is not inside of the page, behind the one before", v.id, i)
			return last
		}
		c.order(v.id, i, key, least, below)
		if found := c.tree(child, level+1, key, next); found != nil {
			last = found
		}
		if least = last; least == nil {
			least = key
		}
	}
	c.fills(v, end)
	return last
}

// branchElement returns a copy of a key, and the page to which the element refers.
func (v *view) branchElement(i int, end *int64) (key []byte, child uint64, ok bool) {
	h, ok := v.head(i, end)
	if !ok {
		return nil, 0, false
	}
	key, ok = v.bytes(h.key, h.keySize)
	return append([]byte{}, key...), h.child, ok // not nil, also when the key is empty
}

// leaf checks a page with entries.
func (c *checker) leaf(v *view, least, below []byte) []byte {
	end := v.begin()
	for i := range v.count {
		h, ok := v.head(i, &end)
		var key []byte
		if ok {
			key, ok = v.bytes(h.key, h.keySize)
		}
		if !ok {
			c.fault("page %d: element %d is not inside of the page, behind the one before", v.id, i)
			return nil
		}
		c.order(v.id, i, key, least, below)
		c.last = append(c.last[:0], key...)
		least = c.last
		c.value(v, i, h)
	}
	c.fills(v, end)
	if v.count == 0 {
		return nil
	}
	return c.last
}

// fills checks that a page has as many bytes as its elements need, and no further element.
func (c *checker) fills(v *view, end int64) {
	if further, _ := v.bytes(pageHeader, elementSize); v.count == 0 && !bytes.Equal(further, make([]byte, elementSize)) || !fills(end, int64(v.overflow), v.least) {
		c.fault("page %d has %d elements and %d pages more, and its content says otherwise", v.id, v.count, v.overflow)
	}
}

// value checks the value of an entry: it is inside of the page, and a bucket where there must be one.
func (c *checker) value(v *view, i int, h head) {
	from, isBucket := h.key+h.keySize, h.flags&bucketElement != 0
	for at := from; at < from+h.valueSize; at += v.least {
		if _, ok := v.bytes(at, min(v.least, from+h.valueSize-at)); !ok {
			c.fault("page %d: the value of element %d is not inside of the page", v.id, i)
			return
		}
	}
	if isBucket != c.inRoot || h.flags&^bucketElement != 0 {
		c.fault("page %d: element %d has the flags %#x: the root holds buckets, and each bucket entries", v.id, i, h.flags)
	}
	if isBucket {
		c.bucket(v, i, from, h.valueSize)
	}
}

// bucket checks a small bucket, which is inside of a page, and notes the root of any other one.
func (c *checker) bucket(v *view, i int, from, size int64) {
	raw, ok := v.bytes(from, min(size, v.least))
	if !ok || size < bucketHeader || size > v.least {
		c.fault("page %d: element %d is no bucket", v.id, i)
		return
	}
	if root := binary.NativeEndian.Uint64(raw); root != 0 {
		c.roots = append(c.roots, root)
		return
	}
	elements, leaf, end := parsePage(raw[bucketHeader:])
	if !leaf || end != size-bucketHeader {
		c.fault("page %d: the small bucket in element %d cannot be read", v.id, i)
	}
	var last []byte
	for n, e := range elements {
		c.order(v.id, n, e.key, last, nil)
		if last = e.key; e.bucket {
			c.fault("page %d: the small bucket in element %d holds a bucket", v.id, i)
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
	for id := range c.meta.pages {
		used, free := c.used.has(id), c.free.has(id)
		if used && free {
			both.add(id)
		}
		if !used && !free && c.listed && whole {
			neither.add(id)
		}
	}
	if both.n > 0 {
		c.fault("%s in use and free", both)
	}
	if neither.n > 0 {
		c.fault("%s neither in use nor free", neither)
	}
}

// pageList is a number of pages, with the first one.
type pageList struct {
	first uint64
	n     int
}

func (l *pageList) add(id uint64) {
	if l.n++; l.n == 1 {
		l.first = id
	}
}

// String begins a sentence about the pages.
func (l pageList) String() string {
	if l.n == 1 {
		return fmt.Sprintf("page %d is", l.first)
	}
	return fmt.Sprintf("%d pages, the first of them %d, are", l.n, l.first)
}
