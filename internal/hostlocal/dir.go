package hostlocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

const (
	separator = "\r\n"
	// mirrorMark ends a file that mirrors Limpet's state.
	mirrorMark = "\n"

	cursorPrefix = "last_reserved_ip."

	// maxFile is more than any of these files has.
	maxFile = 64 << 10
)

// ErrTaken is returned when an address has a file of another container.
var ErrTaken = errors.New("host-local holds the address")

// Dir is the directory of one network, which need not be there.
type Dir struct {
	path string
}

// New returns the directory at a path. It touches no file.
func New(path string) Dir { return Dir{path} }

// Holder is the container that an address file names.
type Holder struct {
	// ContainerID is "" in a file that was only written in part.
	ContainerID string
	// IfName is "" in files from before 2018.
	IfName string
	// Mirrored tells that the file only repeats Limpet's state.
	Mirrored bool
}

// Is reports whether the holder is an interface of a container.
func (h Holder) Is(containerID, ifName string) bool {
	return h.ContainerID != "" && h.ContainerID == containerID && (h.IfName == "" || h.IfName == ifName)
}

// Entry is an address file.
type Entry struct {
	Addr    netip.Addr
	Holder  Holder
	Changed time.Time
}

// Holder returns the container that an address file names.
func (d Dir) Holder(a netip.Addr) (h Holder, found bool, err error) {
	data, found, err := readFile(d.file(a))
	return parse(data), found, err
}

func parse(data []byte) Holder {
	text := string(data)
	id, ifName, two := strings.Cut(strings.TrimSpace(text), separator) // a file that a person wrote has no separator
	return Holder{ContainerID: strings.TrimSpace(id), IfName: strings.TrimSpace(ifName), Mirrored: two && id != "" && strings.HasSuffix(text, mirrorMark)}
}

// addresses returns the names of the address files without reading them.
func (d Dir) addresses() ([]netip.Addr, error) {
	f, err := os.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // a network can have the name of a file of the state
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list host-local's addresses: %w", err)
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("list host-local's addresses: %w", err)
	}
	var sorted []*netip.Addr // each sort of another type than pointers takes 10 kB of the plugin
	for _, n := range names {
		if a, err := netip.ParseAddr(n); err == nil && a.Zone() == "" { // other names are the lock, cursors, and directories of the fork
			sorted = append(sorted, &a)
		}
	}
	slices.SortFunc(sorted, func(a, b *netip.Addr) int { return a.Compare(*b) })
	var all []netip.Addr
	for _, a := range sorted {
		all = append(all, *a)
	}
	return all, nil
}

// Entries reads all address files. With an error it returns the files that can be read.
func (d Dir) Entries() ([]Entry, error) {
	return d.entries(nil)
}

// entries reads the address files, except those of addresses to skip.
func (d Dir) entries(skip func(netip.Addr) bool) ([]Entry, error) {
	addrs, err := d.addresses()
	if err != nil {
		return nil, err
	}
	var all []Entry
	var errs []error
	for _, a := range addrs {
		if skip != nil && skip(a) {
			continue
		}
		info, err := os.Lstat(d.file(a))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed meanwhile
		}
		h, found, err := d.Holder(a)
		errs = append(errs, err)
		if found {
			all = append(all, Entry{Addr: a, Holder: h, Changed: info.ModTime()})
		}
	}
	return all, errors.Join(errs...)
}

// Cursor returns the address that host-local last handed out from a range set; not valid
// when there is none.
func (d Dir) Cursor(set int) netip.Addr {
	data, _, _ := readFile(d.cursorFile(set)) // without a cursor, the search begins at the range's start
	a, _ := netip.ParseAddr(strings.TrimSpace(string(data)))
	return a.WithZone("")
}

// Lock takes host-local's own lock, which each verb of host-local holds.
func (d Dir) Lock(ctx context.Context, wait time.Duration) (io.Closer, error) {
	return flock.Lock(ctx, filepath.Join(d.path, "lock"), unix.LOCK_EX, wait)
}

// Remove removes an address file if it still names the holder. The caller has the lock, unless
// the file is mirrored.
func (d Dir) Remove(a netip.Addr, h Holder) error {
	now, found, err := d.Holder(a)
	if err != nil || !found || now != h {
		return err
	}
	if err := os.Remove(d.file(a)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove host-local's address: %w", err)
	}
	return nil
}

// Mirror writes a mirrored address file. A file of host-local's own is never replaced: the
// error is ErrTaken. The file appears complete in one step, so that host-local cannot come
// in between.
func (d Dir) Mirror(a netip.Addr, containerID, ifName string) error {
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return fmt.Errorf("mirror address: %w", err)
	}
	temp := filepath.Join(d.path, ".limpet-"+a.String())
	if err := os.WriteFile(temp, []byte(containerID+separator+ifName+mirrorMark), 0o600); err != nil {
		return errors.Join(fmt.Errorf("mirror address: %w", err), os.Remove(temp))
	}
	err := os.Link(temp, d.file(a))
	if errors.Is(err, os.ErrExist) {
		var h Holder
		if h, _, err = d.Holder(a); err == nil && !h.Mirrored {
			err = fmt.Errorf("%s: container %s: %w", a, h.ContainerID, ErrTaken)
		} else if err == nil {
			return os.Rename(temp, d.file(a))
		}
	}
	return errors.Join(err, os.Remove(temp))
}

// MirrorCursor writes the address behind which host-local would begin.
func (d Dir) MirrorCursor(set int, a netip.Addr) error {
	if err := os.WriteFile(d.cursorFile(set), []byte(a.String()), 0o600); err != nil {
		return fmt.Errorf("mirror cursor: %w", err)
	}
	return nil
}

func (d Dir) file(a netip.Addr) string  { return filepath.Join(d.path, a.String()) }
func (d Dir) cursorFile(set int) string { return filepath.Join(d.path, fmt.Sprint(cursorPrefix, set)) }

// readFile reads a small file; a missing file is not found.
func readFile(path string) (data []byte, found bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read host-local's files: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(f, maxFile))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, false, fmt.Errorf("read host-local's files: %w", err)
	}
	return data, true, nil
}

// Of returns the address files that name an interface of a container. Files of addresses to
// skip are not read; nil skips none.
func (d Dir) Of(containerID, ifName string, skip func(netip.Addr) bool) ([]Entry, error) {
	all, err := d.entries(skip)
	return slices.DeleteFunc(all, func(e Entry) bool { return !e.Holder.Is(containerID, ifName) }), err
}
