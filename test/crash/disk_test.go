package crash_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// kind is the kind of an operation.
type kind int

const (
	write kind = iota
	resize
	grow // to a size, if the file is shorter
	fsync
	create
	mkdir
	rename
	link
	unlink
)

// op is one operation on a file or directory.
type op struct {
	kind     kind
	path, to string
	off      int64
	size     int64
	data     []byte
}

func (o op) String() string {
	names := []string{"write", "resize", "grow", "sync", "create", "mkdir", "rename", "link", "unlink"}
	return fmt.Sprintf("%s %s %s at %d, %d bytes", names[o.kind], filepath.Base(o.path), filepath.Base(o.to), o.off, max(o.size, int64(len(o.data))))
}

// sector is the number of bytes that a disk writes in one piece.
const sector = 512

// disk is a model of a file system. A power loss takes any sectors of file data that were not synced, and the last
// entries of a directory that were not synced.
type disk struct {
	root  string
	names map[string]*file // as a program would find them now
	// durable are the names on disk, and entries the changes that are not synced yet.
	durable map[string]*file
	entries []entry
}

// entry is a change to a directory.
type entry struct {
	dir    string
	change func(map[string]*file)
}

type file struct {
	dir     bool
	durable image
	pending []op
}

// image is the content of a file: data, and zeros from there to its size.
type image struct {
	data []byte
	size int64
}

// load returns a disk with the files below root, all of them synced.
func load(root string) (*disk, error) {
	d := &disk{root: root, names: map[string]*file{}}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f := &file{dir: e.IsDir()}
		if !f.dir {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.durable = image{bytes.TrimRight(data, "\x00"), int64(len(data))}
		}
		d.names[path] = f
		return nil
	})
	if os.IsNotExist(err) {
		err = nil
	}
	d.durable = maps.Clone(d.names)
	return d, err
}

// do applies an operation.
func (d *disk) do(o op) error {
	f := d.names[o.path]
	if f == nil && o.kind != create && o.kind != mkdir {
		return fmt.Errorf("%s: no such file", o)
	}
	switch o.kind {
	case write, resize, grow:
		f.pending = append(f.pending, o)
	case fsync:
		if f.dir {
			d.syncEntries(o.path)
		} else {
			f.durable, f.pending = f.content(f.pending), nil
		}
	case create, mkdir:
		if f == nil {
			made := &file{dir: o.kind == mkdir}
			d.entry(o, func(names map[string]*file) { names[o.path] = made })
		}
	case rename:
		d.entry(o, func(names map[string]*file) { names[o.to] = f; delete(names, o.path) })
	case link:
		d.entry(o, func(names map[string]*file) { names[o.to] = f })
	case unlink:
		d.entry(o, func(names map[string]*file) { delete(names, o.path) })
	}
	return nil
}

func (d *disk) entry(o op, change func(map[string]*file)) {
	change(d.names)
	d.entries = append(d.entries, entry{filepath.Dir(o.path), change})
}

// syncEntries syncs one directory.
func (d *disk) syncEntries(dir string) {
	d.entries = slices.DeleteFunc(d.entries, func(e entry) bool {
		if e.dir == dir {
			e.change(d.durable)
		}
		return e.dir == dir
	})
}

// content returns the content of a file when only some of its pending operations reached the disk.
func (f *file) content(some []op) image {
	i := image{slices.Clone(f.durable.data), f.durable.size}
	for _, o := range some {
		switch o.kind {
		case resize:
			i.size = o.size
			i.data = i.data[:min(int64(len(i.data)), i.size)]
		case grow:
			i.size = max(i.size, o.size)
		default:
			end := o.off + int64(len(o.data))
			i.size = max(i.size, end)
			i.data = append(i.data, make([]byte, max(end-int64(len(i.data)), 0))...)
			copy(i.data[o.off:], o.data)
		}
	}
	return i
}

// loss says what survives a power loss: how many of the pending directory entries, and which of the pending operations
// of a file. Writes may be cut to sectors.
type loss struct {
	name    string
	entries func(pending int) int
	data    func(pending []op) []op
}

// waysToFail are the power losses to try. The random ones differ each time.
func waysToFail(r *rand.Rand) []loss {
	all := func(pending []op) []op { return pending }
	none := func([]op) []op { return nil }
	every, no := func(n int) int { return n }, func(int) int { return 0 }
	ways := []loss{
		{"nothing is lost", every, all}, // SIGKILL
		{"all that was not synced is lost", no, none},
		{"only names come through", every, none},
		{"only data comes through", no, all},
		{"the last write is lost", every, func(p []op) []op { return p[:max(len(p)-1, 0)] }},
		{"only the last write comes through", every, func(p []op) []op { return p[max(len(p)-1, 0):] }},
		{"the last write is torn", every, func(p []op) []op {
			return append(p[:max(len(p)-1, 0):max(len(p)-1, 0)], torn(r, p[max(len(p)-1, 0):])...)
		}},
		{"writes come through in the wrong order", every, reversed},
	}
	for range times(12, 4) {
		ways = append(ways, loss{"some sectors come through", func(n int) int { return r.IntN(n + 1) }, func(p []op) []op { return torn(r, p) }})
	}
	return ways
}

// torn cuts writes into sectors and drops some.
func torn(r *rand.Rand, pending []op) []op {
	var some []op
	for _, o := range pending {
		if o.kind != write {
			if r.IntN(2) == 0 {
				some = append(some, o)
			}
			continue
		}
		for at := 0; at < len(o.data); at += sector {
			if r.IntN(2) == 0 {
				some = append(some, op{kind: write, path: o.path, off: o.off + int64(at), data: o.data[at:min(at+sector, len(o.data))]})
			}
		}
	}
	return some
}

func reversed(pending []op) []op {
	turned := slices.Clone(pending)
	slices.Reverse(turned)
	return turned
}

// fail returns the files that are left after a power loss.
func (d *disk) fail(l loss) survivors {
	names := maps.Clone(d.durable)
	for _, e := range d.entries[:l.entries(len(d.entries))] {
		e.change(names)
	}
	left := survivors{}
	for path, f := range names {
		if path != d.root && !reachable(names, d.root, path) {
			continue
		}
		relative, _ := filepath.Rel(d.root, path) // the path is below the root
		if f.dir {
			left[relative] = image{size: -1}
		} else {
			left[relative] = f.content(l.data(f.pending))
		}
	}
	return left
}

// reachable reports whether the directories above a path survived.
func reachable(names map[string]*file, root, path string) bool {
	for dir := filepath.Dir(path); dir != root; dir = filepath.Dir(dir) {
		if names[dir] == nil {
			return false
		}
	}
	return true
}

// survivors are the files that are left after a power loss, by their names. Directories have the size -1.
type survivors map[string]image

// sum returns a checksum of all files.
func (r survivors) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(r)) {
		_, _ = fmt.Fprintf(h, "%q %d %d\n", name, r[name].size, len(r[name].data)) // a hash never fails
		h.Write(r[name].data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// write writes the files below dir.
func (r survivors) write(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		to, i := filepath.Join(dir, name), r[name]
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if i.size < 0 {
			err = errors.Join(err, os.MkdirAll(to, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(to, i.data, 0o600), os.Truncate(to, i.size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
