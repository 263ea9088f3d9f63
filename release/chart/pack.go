package chart

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Name is the name of the chart, and the directory in its archive.
const Name = "limpet"

// Write writes the files of a chart into a directory, which it empties first.
func Write(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty directory of chart: %w", err)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make directory of chart: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write chart: %w", err)
		}
	}
	return nil
}

// Pack writes a chart as an archive. The same files make the same bytes.
func Pack(archive string, files map[string]string) error {
	f, err := os.Create(archive)
	if err != nil {
		return fmt.Errorf("create archive of chart: %w", err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Name: path.Join(Name, name), Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0),
		}
		if err = w.WriteHeader(header); err != nil {
			break
		}
		if _, err = w.Write([]byte(files[name])); err != nil {
			break
		}
	}
	for _, end := range []func() error{w.Close, z.Close, f.Close} {
		if ended := end(); err == nil {
			err = ended
		}
	}
	if err != nil {
		return fmt.Errorf("write archive of chart %s: %w", archive, err)
	}
	return nil
}
