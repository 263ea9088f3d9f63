package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// removeMarkers deletes the marker files of ADDs that were killed while they waited, and
// returns their number.
func removeMarkers(stateDir string, now time.Time) (removed int, err error) {
	dir := filepath.Join(stateDir, persistence.PendingDir)
	files, err := filesIn(dir)
	if err != nil {
		return 0, fmt.Errorf("list markers of waiting ADDs: %w", err)
	}
	files = slices.DeleteFunc(files, func(f fs.FileInfo) bool { return locked(filepath.Join(dir, f.Name())) })
	return removeFiles(dir, plan.MarkersToRemove(files, now))
}

// locked reports whether a process holds a lock on a file: an ADD that waits does. Its age alone does not tell, because the
// clock may step.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false // it is no marker, or is removed meanwhile
	}
	defer func() { _ = f.Close() }() // which ends the lock
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// filesIn returns the files of a directory; none when the directory does not exist.
func filesIn(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			files = append(files, info)
		}
	}
	return files, err
}

// removeFiles deletes files of a directory and returns the number of those that it deleted.
func removeFiles(dir string, names []string) (removed int, err error) {
	var errs []error
	for _, name := range names {
		switch err := os.Remove(filepath.Join(dir, name)); {
		case err == nil:
			removed++
		case !errors.Is(err, os.ErrNotExist):
			errs = append(errs, fmt.Errorf("remove what was left behind: %w", err))
		}
	}
	return removed, errors.Join(errs...)
}
