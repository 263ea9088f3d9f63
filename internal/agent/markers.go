package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// removeMarkers deletes the marker files of ADDs that were killed while they waited.
func removeMarkers(stateDir string, now time.Time) error {
	dir := filepath.Join(stateDir, persistence.PendingDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list markers of waiting ADDs: %w", err)
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			files = append(files, info)
		}
	}
	var errs []error
	for _, name := range plan.MarkersToRemove(files, now) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove marker of a killed ADD: %w", err))
		}
	}
	return errors.Join(errs...)
}
