package salvage

import (
	"encoding/binary"
	"fmt"
	"io"
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
	bucket     bool
	child      uint64
}

// newestMeta returns the newest valid meta page; its page size is 0 when none is valid.
func newestMeta(file io.ReaderAt, size int64) (newest meta) {
	for at := int64(0); at < size && at <= 1<<16; at = max(1024, at*2) { // pages are of 1 KiB to 64 KiB
		if m, err := readMeta(file, at); err == nil && m.txid >= newest.txid && (at == 0 || at == m.pageSize) {
			newest = m
		}
	}
	return newest
}

// openPages finds the page size, and the root of the newest valid meta page; the root is 0 when none is valid.
func openPages(file io.ReaderAt, size int64) (p *pages, root uint64) {
	newest := newestMeta(file, size)
	p = &pages{file: file, size: newest.pageSize, visited: map[uint64]bool{}}
	if p.size == 0 {
		p.size = 4096
	}
	p.count = uint64(size / p.size)
	return p, newest.root
}

// read returns the elements of a page; ok is false when the page is not part of a tree.
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

// parsePage returns the elements of a page with its overflow, or of an inline bucket.
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

// parseElement reads the element with a given head. Key and value lie behind the head, in data.
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

// walk calls fn for each entry below a page, in the order of the keys. It reports whether every page below could
// be read.
func (p *pages) walk(id uint64, fn func(element)) (complete bool) {
	if p.visited[id] {
		return false
	}
	p.visited[id] = true
	elements, leaf, complete := p.read(id)
	for _, e := range elements {
		if leaf {
			fn(e)
		} else {
			complete = p.walk(e.child, fn) && complete
		}
	}
	return complete
}

// walkBucket calls fn for each entry of a bucket. Small buckets are inline: the value of their element holds the
// entries in place of a page number.
func (p *pages) walkBucket(bucket element, fn func(element)) (complete bool) {
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

// scan calls fn for each entry of each leaf page in the file, whether the tree refers to the page or not.
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

// walkInline calls fn for each entry of an inline bucket, and not at all for other buckets.
func (p *pages) walkInline(bucket element, fn func(element)) {
	if len(bucket.value) > bucketHeader && binary.NativeEndian.Uint64(bucket.value) == 0 {
		p.walkBucket(bucket, fn)
	}
}

// checkRoot checks the root page and the inline buckets in it. bbolt believes every length in them: a length that
// leads out of the file faults, which the caller can catch; but bbolt copies inline buckets to the heap at times,
// and a wrong pointer there ends the process as soon as the garbage collector sees it.
func checkRoot(file io.ReaderAt, size int64) error {
	p, root := openPages(file, size)
	sound := true
	complete := p.walk(root, func(e element) { sound = sound && p.inlineIsSound(e) })
	if !complete || !sound {
		return fmt.Errorf("root page %d: %w", root, ErrDamaged)
	}
	return nil
}

// inlineIsSound reports whether all entries of an inline bucket lie inside of it. Buckets with pages of their own
// pass unread.
func (p *pages) inlineIsSound(bucket element) bool {
	if !bucket.bucket || len(bucket.value) < bucketHeader {
		return false // the root holds only buckets
	}
	return binary.NativeEndian.Uint64(bucket.value) != 0 || p.walkBucket(bucket, func(element) {})
}
