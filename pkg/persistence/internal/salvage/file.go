package salvage

import (
	"encoding/binary"
	"io"
)

// File reads the entries of a bbolt file, damaged or not.
type File struct {
	pages *pages
	root  uint64
}

// Bucket is a bucket of the root.
type Bucket struct {
	Name []byte
	// Sequence is the bucket's counter; 0 when it cannot be read.
	Sequence uint64
	element  element
}

// Open returns a reader of the entries of a file. A file whose meta pages are both invalid has no buckets, and its
// leaf pages can still be scanned.
func Open(file io.ReaderAt, size int64) *File {
	p, root := openPages(file, size)
	return &File{pages: p, root: root}
}

// Buckets returns the buckets of the root. It reports whether every page of the root could be read.
func (f *File) Buckets() (buckets []Bucket, complete bool) {
	if f.root == 0 {
		return nil, false
	}
	complete = f.pages.walk(f.root, func(e element) {
		b := Bucket{Name: e.key, element: e}
		if len(e.value) >= bucketHeader {
			b.Sequence = binary.NativeEndian.Uint64(e.value[8:])
		}
		buckets = append(buckets, b)
	})
	return buckets, complete
}

// Walk calls fn for each entry of a bucket, in the order of the keys. It reports whether every page of the bucket
// could be read; a page is read once in the life of a File.
func (f *File) Walk(b Bucket, fn func(key, value []byte)) (complete bool) {
	return f.pages.walkBucket(b.element, func(e element) { fn(e.key, e.value) })
}

// Scan calls fn for each entry of each leaf page in the file. Pages that the tree does not refer to any more are
// read as well: they hold entries of earlier transactions.
func (f *File) Scan(fn func(key, value []byte)) {
	f.pages.scan(func(e element) { fn(e.key, e.value) })
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
