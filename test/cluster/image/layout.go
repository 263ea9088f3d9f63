package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// WriteLayout stores one image of several architectures at path, as an archive with an OCI layout. All images
// have the same name. Tools copy such an archive to a registry, and containerd imports it.
func WriteLayout(path string, images []Image) error {
	if len(images) == 0 {
		return errors.New("write image: want an architecture")
	}
	tag, err := name.NewTag(images[0].Name)
	if err != nil {
		return fmt.Errorf("name image %q: %w", images[0].Name, err)
	}
	index, err := indexOf(images)
	if err != nil {
		return fmt.Errorf("build image %s: %w", tag, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".layout-")
	if err != nil {
		return fmt.Errorf("make directory of image: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the archive is whole without
	names := map[string]string{"org.opencontainers.image.ref.name": tag.TagStr(), "io.containerd.image.name": tag.Name()}
	l, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = l.AppendIndex(index, layout.WithAnnotations(names))
	}
	if err == nil {
		err = pack(path, dir)
	}
	if err != nil {
		return fmt.Errorf("write image %s to %s: %w", tag, path, err)
	}
	return nil
}

// indexOf returns an index of images by their architecture.
func indexOf(images []Image) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for _, i := range images {
		if i.Name != images[0].Name || i.Architecture == "" || len(i.Files) == 0 {
			return nil, fmt.Errorf("image %q for %q: want one name, an architecture and a binary", i.Name, i.Architecture)
		}
		img, err := build(i)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", i.Architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: i.Architecture}},
		})
	}
	return index, nil
}

// pack archives the files of a directory by their names, without their times.
func pack(path, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: rel, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	return errors.Join(err, w.Close(), f.Close())
}
