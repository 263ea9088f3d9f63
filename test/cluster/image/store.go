package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// named is an image with its name.
type named struct {
	tag   name.Tag
	image v1.Image
}

// store writes the images as `docker save` does, in their order. The library writes them in a
// random one, so that two archives of the same images would differ.
func store(path string, images []named) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	w := &writer{tar.NewWriter(f), map[string]bool{}}
	var manifest tarball.Manifest
	for _, i := range images {
		described, err := w.image(i)
		if err != nil {
			_ = f.Close()
			return fmt.Errorf("image %s: %w", i.tag, err)
		}
		manifest = append(manifest, described)
	}
	list, err := json.Marshal(manifest)
	if err == nil {
		err = w.file("manifest.json", list)
	}
	if err == nil {
		err = w.tar.Close()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// writer writes each file once.
type writer struct {
	tar  *tar.Writer
	done map[string]bool
}

// image writes the configuration and the layers of an image.
func (w *writer) image(i named) (tarball.Descriptor, error) {
	id, err := i.image.ConfigName()
	if err != nil {
		return tarball.Descriptor{}, fmt.Errorf("digest of configuration: %w", err)
	}
	config, err := i.image.RawConfigFile()
	if err != nil {
		return tarball.Descriptor{}, fmt.Errorf("configuration: %w", err)
	}
	described := tarball.Descriptor{Config: id.String(), RepoTags: []string{i.tag.String()}}
	if err := w.file(described.Config, config); err != nil {
		return described, err
	}
	layers, err := i.image.Layers()
	if err != nil {
		return described, fmt.Errorf("layers: %w", err)
	}
	for _, l := range layers {
		digest, data, err := packed(l)
		if err != nil {
			return described, fmt.Errorf("layer: %w", err)
		}
		file := digest.Hex + ".tar.gz"
		if err := w.file(file, data); err != nil {
			return described, err
		}
		described.Layers = append(described.Layers, file)
	}
	return described, nil
}

// packed returns a compressed layer.
func packed(l v1.Layer) (v1.Hash, []byte, error) {
	digest, err := l.Digest()
	if err != nil {
		return digest, nil, fmt.Errorf("digest: %w", err)
	}
	r, err := l.Compressed()
	if err != nil {
		return digest, nil, fmt.Errorf("compress: %w", err)
	}
	data, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return digest, nil, fmt.Errorf("compress: %w", err)
	}
	return digest, data, nil
}

func (w *writer) file(name string, data []byte) error {
	if w.done[name] {
		return nil
	}
	w.done[name] = true
	header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	if _, err := w.tar.Write(data); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}
