package persistence

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	branchPage    = 0x01
	leafPage      = 0x02
	elementSize   = 16 // of a branch and of a leaf page alike
	bucketHeader  = 16
	bucketElement = 0x01

	// maxOverflow is far more pages than a leaf of records ever spans.
	maxOverflow = 256
)

// pages reads a bbolt file that bbolt cannot be trusted with: by plain reads, each page
// by itself, believing nothing that is not checked. What is broken is left out.
type pages struct {
	file  io.ReaderAt
	size  int64  // of a page
	count uint64 // of pages
	// visited are the pages that walk has been to: a broken tree may have loops.
	visited map[uint64]bool
}

// element is an entry of a leaf page, or of a branch page when child is not 0.
type element struct {
	key, value []byte
	bucket     bool
	child      uint64
}

// read returns the elements of a page; false when it is not a page of a tree.
func (p *pages) read(id uint64) (elements []element, leaf, ok bool) {
	if id < 2 || id >= p.count {
		return nil, false, false
	}
	var header [pageHeader]byte
	if _, err := p.file.ReadAt(header[:], int64(id)*p.size); err != nil {
		return nil, false, false
	}
	overflow := uint64(binary.NativeEndian.Uint32(header[12:]))
	if binary.NativeEndian.Uint64(header[:]) != id || overflow >= p.count-id || overflow > maxOverflow {
		return nil, false, false
	}
	if flags := binary.NativeEndian.Uint16(header[8:]); flags != branchPage && flags != leafPage {
		return nil, false, false
	}
	data := make([]byte, int64(overflow+1)*p.size)
	if _, err := p.file.ReadAt(data, int64(id)*p.size); err != nil {
		return nil, false, false
	}
	return parsePage(data)
}

// parsePage returns the elements of a page, with its overflow or inside of a bucket.
func parsePage(data []byte) (elements []element, leaf, ok bool) {
	if len(data) < pageHeader {
		return nil, false, false
	}
	leaf = binary.NativeEndian.Uint16(data[8:]) == leafPage
	count := int(binary.NativeEndian.Uint16(data[10:]))
	if len(data) < pageHeader+count*elementSize {
		return nil, false, false
	}
	for i := range count {
		at := pageHeader + i*elementSize
		e, ok := parseElement(data[at:], data[at:at+elementSize], leaf)
		if !ok {
			return nil, false, false
		}
		elements = append(elements, e)
	}
	return elements, leaf, true
}

// parseElement reads the element with a head; its key lies behind, in data.
func parseElement(data, head []byte, leaf bool) (element, bool) {
	word := binary.NativeEndian
	if !leaf {
		from, size := uint64(word.Uint32(head)), uint64(word.Uint32(head[4:]))
		if from+size > uint64(len(data)) {
			return element{}, false
		}
		return element{key: data[from : from+size], child: word.Uint64(head[8:])}, true
	}
	from, keySize, valueSize := uint64(word.Uint32(head[4:])), uint64(word.Uint32(head[8:])), uint64(word.Uint32(head[12:]))
	if from+keySize+valueSize > uint64(len(data)) {
		return element{}, false
	}
	value := data[from+keySize : from+keySize+valueSize]
	return element{key: data[from : from+keySize], value: value, bucket: word.Uint32(head)&bucketElement != 0}, true
}

// walk calls fn for each entry below a page, in the order of their keys, and reports
// whether it saw all there are.
func (p *pages) walk(id uint64, fn func(element)) (whole bool) {
	if p.visited[id] {
		return false
	}
	p.visited[id] = true
	elements, leaf, whole := p.read(id)
	for _, e := range elements {
		if leaf {
			fn(e)
		} else {
			whole = p.walk(e.child, fn) && whole
		}
	}
	return whole
}

// walkBucket calls fn for each entry of a bucket, which small ones hold in place of the
// number of a page.
func (p *pages) walkBucket(bucket element, fn func(element)) (whole bool) {
	if len(bucket.value) < bucketHeader {
		return false
	}
	if root := binary.NativeEndian.Uint64(bucket.value); root != 0 {
		return p.walk(root, fn)
	}
	elements, leaf, ok := parsePage(bucket.value[bucketHeader:])
	for _, e := range elements {
		fn(e)
	}
	return ok && leaf
}

// scan calls fn for each entry of each leaf page in the file, in use or not.
func (p *pages) scan(fn func(element)) {
	for id := uint64(2); id < p.count; id++ {
		elements, leaf, _ := p.read(id)
		if !leaf {
			continue
		}
		for _, e := range elements {
			if e.bucket {
				p.walkInline(e, fn)
			} else {
				fn(e)
			}
		}
	}
}

func (p *pages) walkInline(bucket element, fn func(element)) {
	if len(bucket.value) > bucketHeader && binary.NativeEndian.Uint64(bucket.value) == 0 {
		p.walkBucket(bucket, fn)
	}
}

// checkRoot looks at the root, and at the small buckets inside of it, before bbolt does, which
// believes every length. One that leads out of the file faults, and openDB catches that;
// but bbolt copies such a bucket to the heap at times, and what leads astray there ends the
// process as soon as the garbage collector sees it.
func checkRoot(file io.ReaderAt, size int64) error {
	p, root := openPages(file, size)
	sound := true
	whole := p.walk(root, func(e element) { sound = sound && p.inlineIsSound(e) })
	if !whole || !sound {
		return fmt.Errorf("root page %d: %w", root, ErrDamaged)
	}
	return nil
}

// inlineIsSound reports whether all entries of a bucket lie inside of it. Those of a bucket
// with pages of its own are not looked at.
func (p *pages) inlineIsSound(bucket element) bool {
	if !bucket.bucket || len(bucket.value) < bucketHeader {
		return false // there are only buckets in the root
	}
	return binary.NativeEndian.Uint64(bucket.value) != 0 || p.walkBucket(bucket, func(element) {})
}

// openPages finds the size of the pages, and the root of the newest meta page that is
// valid; 0 when none is.
func openPages(file io.ReaderAt, size int64) (p *pages, root uint64) {
	var newest meta
	for at := int64(0); at < size && at <= 1<<16; at = max(1024, at*2) { // pages are of 1 KiB to 64 KiB
		if m, err := readMeta(file, at); err == nil && m.txid >= newest.txid && (at == 0 || at == m.pageSize) {
			newest = m
		}
	}
	p = &pages{file: file, size: newest.pageSize, visited: map[uint64]bool{}}
	if p.size == 0 {
		p.size = 4096
	}
	p.count = uint64(size / p.size)
	return p, newest.root
}
