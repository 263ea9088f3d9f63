package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The head of a bbolt file, as go.etcd.io/bbolt/internal/common lays it out: two
// meta pages, written by turns, each with the number of the transaction that wrote it.
const (
	pageHeader  = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
)

// meta is what a meta page says.
type meta struct {
	pageSize int64
	root     uint64 // the page of the root bucket
	pages    uint64 // one more than the highest page in use
	txid     uint64
}

// checkMetas looks at both meta pages before bbolt does, which takes the older one for
// the newest when that is damaged. After any commit they are valid and of consecutive
// transactions; docs/design/0004-recovery.md says why one that is not is damage.
func checkMetas(f io.ReaderAt, size int64) error {
	even, evenErr := readMeta(f, 0)
	step := even.pageSize
	if evenErr != nil {
		step = int64(os.Getpagesize())
	}
	odd, oddErr := readMeta(f, step)
	newest := max(even.pages, odd.pages)
	switch {
	case evenErr != nil || oddErr != nil:
		return errors.Join(evenErr, oddErr)
	case even.txid%2 != 0 || (even.txid+1 != odd.txid && odd.txid+1 != even.txid):
		return fmt.Errorf("meta pages of transactions %d and %d: %w", even.txid, odd.txid, ErrDamaged)
	case newest > uint64(size/step):
		return fmt.Errorf("file of %d bytes for %d pages: %w", size, newest, ErrDamaged)
	}
	return nil
}

// readMeta reads and checks the meta page at an offset.
func readMeta(f io.ReaderAt, at int64) (meta, error) {
	var page [pageHeader + metaSize]byte
	if _, err := f.ReadAt(page[:], at); err != nil {
		return meta{}, unreadable(fmt.Errorf("read meta page at %d: %w", at, err))
	}
	raw, word := page[pageHeader:], binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(raw[:metaSize-8]) // a hash never fails
	m := meta{
		pageSize: int64(word.Uint32(raw[8:])), root: word.Uint64(raw[16:]),
		pages: word.Uint64(raw[40:]), txid: word.Uint64(raw[48:]),
	}
	if word.Uint32(raw) != metaMagic || word.Uint32(raw[4:]) != metaVersion || word.Uint64(raw[56:]) != sum.Sum64() || m.pageSize < 1024 {
		return meta{}, fmt.Errorf("meta page at %d is invalid: %w", at, ErrDamaged)
	}
	return m, nil
}

// unreadable says of a read that failed whether the file is to blame: it is too short,
// or its medium is broken.
func unreadable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) {
		return fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	return err
}
