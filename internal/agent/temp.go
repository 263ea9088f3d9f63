package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// writeTemp writes a file that can take the place of path. It is in the same directory, because a runtime that watches
// the directory sees only renames within it. It gets its mode at once, because the runtime may execute it as soon as it
// has its name. Its name has no suffix that a runtime reads.
func writeTemp(path string, data []byte, mode fs.FileMode) (temp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), plan.TempPattern(filepath.Base(path)))
	if err != nil {
		return "", unnamed(err)
	}
	_, err = f.Write(data)
	if err = firstOf(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(unnamed(err), removeTemp(f.Name()))
	}
	return f.Name(), nil
}

func removeTemp(temp string) error { return unnamed(os.Remove(temp)) }

// syncDir makes the names in a directory survive a power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return firstOf(d.Sync(), d.Close())
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// unnamed returns an error without the names of files. The name of a temporary file differs each time, and an error is
// logged, and told the API server, once for each text.
func unnamed(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("%s: %w", path.Op, path.Err)
	case errors.As(err, &link):
		return fmt.Errorf("%s: %w", link.Op, link.Err)
	}
	return err
}
