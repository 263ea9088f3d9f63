package salvage

import (
	"encoding/binary"
	"fmt"
	"io"
)

// view reads one page with its overflow, a piece at a time: a damaged length may claim the whole file.
type view struct {
	file     io.ReaderAt
	id       uint64
	flags    uint16
	count    int    // of elements
	overflow uint64 // pages behind the first one
	at, size int64  // in the file
	from     int64  // of piece, in the page
	piece    []byte
	least    int64 // size of a piece
}

// newView reads the first piece of a page into a buffer of the size of a page.
func newView(file io.ReaderAt, id uint64, buffer []byte) (*view, error) {
	v := &view{file: file, id: id, at: int64(id) * int64(len(buffer)), size: int64(len(buffer)), piece: buffer, least: int64(len(buffer))}
	if _, err := file.ReadAt(buffer, v.at); err != nil {
		return nil, fmt.Errorf("page %d cannot be read: %w", id, err)
	}
	word := binary.NativeEndian
	if says := word.Uint64(buffer); says != id {
		return nil, fmt.Errorf("page %d has the number %d", id, says)
	}
	v.flags, v.count, v.overflow = word.Uint16(buffer[8:]), int(word.Uint16(buffer[10:])), uint64(word.Uint32(buffer[12:]))
	v.size *= int64(v.overflow) + 1
	return v, nil
}

// bytes returns a part of the page, which is valid until the next call; false when the part is not inside of the page.
func (v *view) bytes(from, n int64) ([]byte, bool) {
	if from < 0 || n < 0 || n > v.size-from {
		return nil, false
	}
	if from < v.from || from+n > v.from+int64(len(v.piece)) {
		piece := make([]byte, min(max(n, v.least), v.size-from))
		if _, err := v.file.ReadAt(piece, v.at+from); err != nil {
			return nil, false
		}
		v.from, v.piece = from, piece
	}
	return v.piece[from-v.from:][:n], true
}

// begin returns where the first key of a page begins: behind the heads.
func (v *view) begin() int64 { return pageHeader + int64(v.count)*elementSize }

// head returns the fields of an element: where its key begins in the page, and the lengths. The key must begin where the
// element before it ends; head moves the end behind this element.
func (v *view) head(i int, end *int64) (h head, ok bool) {
	at := int64(pageHeader + i*elementSize)
	raw, ok := v.bytes(at, elementSize)
	if !ok {
		return h, false
	}
	word := binary.NativeEndian
	if v.flags == branchPage {
		h = head{key: at + int64(word.Uint32(raw)), keySize: int64(word.Uint32(raw[4:])), child: word.Uint64(raw[8:])}
	} else {
		h = head{
			flags: word.Uint32(raw), key: at + int64(word.Uint32(raw[4:])),
			keySize: int64(word.Uint32(raw[8:])), valueSize: int64(word.Uint32(raw[12:])),
		}
	}
	ok = h.key == *end && h.keySize <= maxKey && h.valueSize <= v.size
	*end = h.key + h.keySize + h.valueSize
	return h, ok
}

// head is the head of an element. Key and value lie one behind the other, elsewhere in the page.
type head struct {
	flags                   uint32
	key, keySize, valueSize int64
	child                   uint64
}
