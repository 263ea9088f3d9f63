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
