// Package image makes container images from static binaries without Docker: one
// layer each, and as many images as one likes in one archive that containerd
// imports.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is a name and the binaries in it; the first is the entry point.
type Image struct {
	Name  string
	Files []string
	// Args follow the entry point.
	Args []string
	// Architecture is that of this machine if it is empty.
	Architecture string
}

// Write stores the images as one archive at path.
func Write(path string, images []Image) error {
	var all []named
	for _, i := range images {
		if len(i.Files) == 0 {
			return fmt.Errorf("build image %q: want a binary", i.Name)
		}
		tag, err := name.NewTag(i.Name)
		if err != nil {
			return fmt.Errorf("name image %q: %w", i.Name, err)
		}
		img, err := build(i)
		if err != nil {
			return fmt.Errorf("build image %s: %w", i.Name, err)
		}
		all = append(all, named{tag, img})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of images: %w", err)
	}
	if err := store(path, all); err != nil {
		return fmt.Errorf("write images to %s: %w", path, err)
	}
	return nil
}

func build(i Image) (v1.Image, error) {
	data, err := archive(i.Files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", cmp.Or(i.Architecture, runtime.GOARCH)
	config.Config.Entrypoint = append([]string{"/" + filepath.Base(i.Files[0])}, i.Args...)
	return mutate.ConfigFile(img, config)
}

// archive puts the files into the root of a layer. Times are left out, so that the
// same binaries make the same image.
func archive(files []string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read binary: %w", err)
		}
		header := &tar.Header{Name: filepath.Base(f), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f, err)
		}
	}
	return buf.Bytes(), w.Close()
}
