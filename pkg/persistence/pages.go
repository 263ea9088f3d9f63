package persistence

import (
	"fmt"
	"os"

	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
)

// pageFaults reports each fault in the pages of a file. bbolt's own check does the same on its memory map, where a
// damaged page can end the process and each page that was read counts as memory of the process.
func pageFaults(file *os.File, report func(problem string)) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("check pages: %w", err)
	}
	salvage.Faults(file, info.Size(), report)
	return nil
}

// pageFaultsAt is pageFaults of the file at a path. The caller keeps the file from being replaced.
func pageFaultsAt(path string, report func(problem string)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("check pages: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	return pageFaults(file, report)
}

// checkPages fails with the first fault in the pages of a file.
func checkPages(path string) error {
	var first error
	err := pageFaultsAt(path, func(problem string) {
		if first == nil {
			first = fmt.Errorf("check %s: %s: %w", path, problem, ErrDamaged)
		}
	})
	if err != nil {
		return err
	}
	return first
}
