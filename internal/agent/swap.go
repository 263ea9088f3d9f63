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
		err = exchange(temp, path, expected)
		if !errors.Is(err, errStuck) {
			err = errors.Join(err, removeTemp(temp))
		}
	}
	if errors.Is(err, errStuck) {
		return fmt.Errorf("replace %s: a file %s has a change of its owner: %w", path, plan.TempPattern(filepath.Base(path)), err)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// exchange swaps two files, and swaps them back if the second one did not have the expected content.
func exchange(temp, path string, expected []byte) error {
	swap := func() error {
		return unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	}
	if err := swap(); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	was, err := os.ReadFile(temp)
	err = unnamed(err)
	if err == nil && !bytes.Equal(was, expected) {
		err = errChanged
	}
	if err == nil {
		return nil
	}
	if again := swap(); again != nil {
		err = fmt.Errorf("%w: %w: %w", errStuck, again, err)
	}
	return err
}
