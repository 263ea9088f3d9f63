package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// pendingGrace is how old the word of an ADD that waits must be before it is taken for that
// of one that was killed. No ADD waits for its turn nearly as long.
const pendingGrace = time.Hour

// sweepPending removes the words of ADDs that were killed while they waited, and whose DEL
// has not come.
func sweepPending(stateDir string, now time.Time) error {
	dir := filepath.Join(stateDir, persistence.PendingDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read words of waiting ADDs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 0 || now.Sub(info.ModTime()) <= pendingGrace {
			continue // gone meanwhile, no such word, or one that somebody may wait with
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove word of a killed ADD: %w", err))
		}
	}
	return errors.Join(errs...)
}
