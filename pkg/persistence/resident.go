package persistence

import (
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Readers of a large file give back the pages that they have read, so that the file does not fill the memory of the
// process. The next access maps a page again, with 15 beside it, from the cache of the kernel.
const (
	largeFile = 16 << 20
	giveEvery = 200 * time.Microsecond
	// giveAfter is the number of pages that a reader touches before it gives all back by itself.
	giveAfter = 128
)

// mapped is the memory map of a large file that is open for reading only. The map of any other file moves when the file
// grows, and the zero value does nothing.
type mapped struct {
	at, size uintptr
	touched  int
}

func mapOf(tx *bolt.Tx) *mapped {
	if tx == nil {
		return &mapped{}
	}
	db := tx.DB()
	if !db.IsReadOnly() || tx.Size() < largeFile {
		return &mapped{}
	}
	return &mapped{at: db.Info().Data, size: uintptr(tx.Size())}
}

// touch counts a page that is read, and gives all back from time to time.
func (m *mapped) touch() {
	if m.touched++; m.touched >= giveAfter {
		m.touched = 0
		m.advise(unix.MADV_DONTNEED)
	}
}

// advise tells the kernel how the map is used. Without it the process takes more memory, so errors do not count.
func (m *mapped) advise(what uintptr) {
	if m.size > 0 {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.at, m.size, what)
	}
}

// boundResident runs fn, which reads the database, and gives back pages of a large file meanwhile. It needs a database
// that is open for reading only.
func boundResident(db *bolt.DB, fn func(*bolt.DB) error) error {
	var m *mapped
	if err := db.View(func(tx *bolt.Tx) error { m = mapOf(tx); return nil }); err != nil {
		return err
	}
	if m.size == 0 {
		return fn(db)
	}
	m.advise(unix.MADV_NOHUGEPAGE) // one access would map two megabytes
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(giveEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m.advise(unix.MADV_DONTNEED)
			}
		}
	}()
	defer func() { // also when fn panics: nothing else may be at this address yet
		close(stop)
		<-stopped
	}()
	return fn(db)
}
