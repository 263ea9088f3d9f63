package persistence

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// guarded opens a bbolt file, runs fn, and closes the file. bbolt panics or faults on its memory map when the file is
// damaged; both become ErrDamaged. A panic beside a file that is what its checksums say stays one: it is an error of the
// program, which no rebuild of the state mends. sums is nil for a file without checksums.
func guarded(path string, sums *header, o *bolt.Options, fn func(*bolt.DB) error) (err error) {
	var file *os.File // opened for bbolt, which leaves the file locked when it panics
	open := o.OpenFile
	if open == nil {
		open = flock.Open
	}
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := open(name, flag, mode)
		file = f
		return f, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			abandon(file)
			if sums != nil && sums.verify(path) == nil {
				panic(p) // with the stack of the first panic
			}
			err = fmt.Errorf("read %s: %v: %w", path, p, ErrDamaged)
		}
	}()
	db, err := bolt.Open(path, 0o600, o)
	if err != nil {
		return whyNotOpen(path, o, err)
	}
	err = fn(db)
	// a damaged page has an entry in place of a bucket, or the other way round
	if errors.Is(err, bolterrors.ErrIncompatibleValue) || !o.ReadOnly && tooLarge(err) {
		err = fmt.Errorf("read %s: %w: %w", path, err, ErrDamaged)
	}
	return errors.Join(err, db.Close())
}

// whyNotOpen tells damage from other errors of bolt.Open.
func whyNotOpen(path string, o *bolt.Options, err error) error {
	switch {
	case LostOrDamaged(err):
		return fmt.Errorf("open %s: %w", path, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w", path, ErrLocked)
	case !o.ReadOnly && tooLarge(err):
		return fmt.Errorf("open %s: %w: %w", path, err, ErrDamaged)
	case errors.As(err, new(unix.Errno)): // the disk or the permissions are at fault, not the file
		return fmt.Errorf("open state: %w", err)
	}
	return fmt.Errorf("open %s: %w: %w", path, err, ErrDamaged)
}

// tooLarge reports whether a page of a file that is written says that the file is far larger than it is.
func tooLarge(err error) bool { return errors.Is(err, unix.EFBIG) || errors.Is(err, unix.ENOMEM) }

// abandon closes a file that bbolt left open. The lock is released explicitly, because the memory map would keep it
// beyond the close. Errors are ignored: the caller reports the damage.
func abandon(f *os.File) {
	if f != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}
}
