package salvage

import (
	"encoding/binary"
	"io"
	"slices"
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

// openPages finds the page size, and the root of the newest valid meta page; the root is 0 when none is valid.
func openPages(file io.ReaderAt, size int64) (p *pages, root uint64) {
	newest := newestMeta(file, size)
	p = &pages{file: file, size: newest.pageSize, visited: map[uint64]bool{}}
	if p.size == 0 {
		p.size = 4096
	}
	p.count = uint64(size / p.size)
	if newest.pages > 0 {
		p.count = min(p.count, mostPages(newest.pages))
	}
	return p, newest.root
}

// read returns the elements of a page, as far as they can be read. It reports whether the page is as bbolt writes pages.
func (p *pages) read(id uint64) (elements []element, leaf, sound bool) {
	data, sound := p.load(id, nil)
	elements, leaf, end := parsePage(data, nil)
	return elements, leaf, sound && fills(end, int64(len(data))/p.size-1, p.size)
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
	elements, leaf, end := parsePage(bucket.value[bucketHeader:], nil)
	for _, e := range elements {
		fn(e)
	}
	return leaf && end == int64(len(bucket.value)-bucketHeader)
}

// scan calls fn for each entry of each leaf page in the file, whether the tree refers to the page or not.
func (p *pages) scan(fn func(element)) {
	for id := uint64(2); id < p.count; id++ {
		elements, leaf, _ := p.read(id)
		if !leaf {
			continue
		}
		for _, e := range elements {
			if e.bucket() {
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
