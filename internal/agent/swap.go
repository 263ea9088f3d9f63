package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

var (
	// errChanged means that another program has changed a file since it was read.
	errChanged = errors.New("another program changed the file meanwhile")
	// errStuck means that the change of another program is in the temporary file, which stays.
	errStuck = errors.New("it could not be put back")
)

// swapFile replaces the content of a file if it is still the expected one. Readers see the old content or the new
// one. The two files change places in one step, so that a change of another program at that moment is not lost.
func swapFile(path string, expected, content []byte) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("replace file: %w", err)
	}
	temp, err := writeTemp(path, content, info.Mode().Perm())
	if err == nil {
		err = exchange(temp, path, content, expected)
		if !errors.Is(err, errStuck) {
			err = errors.Join(err, removeTemp(temp))
		}
	}
	if errors.Is(err, errStuck) {
		return fmt.Errorf("replace %s: a file %s has a change of its owner: %w", path, plan.TempPattern(filepath.Base(path)), err)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// mostSwaps bounds the writes of other programs that one exchange puts back.
const mostSwaps = 20

// exchange swaps two files. If the second one did not have the expected content, exchange swaps them back, and again if
// another program has written meanwhile: path ends with the last change, and temp with what was put in its place.
func exchange(temp, path string, placed, expected []byte) error {
	for i := range mostSwaps {
		if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE); err != nil && i == 0 {
			return fmt.Errorf("exchange: %w", err)
		} else if err != nil {
			return fmt.Errorf("%w: %w", errStuck, err)
		}
		taken, err := os.ReadFile(temp)
		switch {
		case err == nil && bytes.Equal(taken, expected) && i == 0:
			return nil
		case err == nil && bytes.Equal(taken, expected):
			return errChanged
		}
		placed, expected = taken, placed
	}
	return errStuck
}
