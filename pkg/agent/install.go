package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// installFile puts data at path as a whole or not at all, and reports whether that
// changed anything. The temporary file is in the same directory, because a runtime
// that watches the directory sees only renames within it, and gets its mode before
// its name, because the runtime may execute it at once. The name begins with a dot
// and ends in no suffix that a runtime reads.
func installFile(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() == mode {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("make directory of %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.limpet")
	if err != nil {
		return false, fmt.Errorf("install %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return false, fmt.Errorf("install %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return true, nil
}

// installPlugin copies the plugin's binary to where runtimes look for plugins.
func installPlugin(from, to string) (changed bool, err error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return false, fmt.Errorf("read plugin: %w", err)
	}
	return installFile(to, data, 0o755)
}
