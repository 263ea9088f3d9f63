// Package image lists what an archive of container images holds, file by file.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Image is one image of an archive.
type Image struct {
	// Name has the tag.
	Name string
	// ID is the SHA-256 digest of the configuration in hexadecimal digits. It names the content of
	// all layers, however they are compressed.
	ID    string
	Files []File
}

// File is a regular file of an image.
type File struct {
	Path, SHA256 string
}

// Base returns the name without registry, directories and tag.
func (i Image) Base() string {
	base, _, _ := strings.Cut(path.Base(i.Name), ":")
	return base
}

// Read reads an archive as `docker save` writes it. It checks that the digests in the archive are
// those of its content. An entry that is no regular file is an error: nothing of it would be listed.
func Read(archive string) ([]Image, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("open archive of images: %w", err)
	}
	content := map[string][]byte{}
	err = walk(f, func(name string, data []byte) error {
		content[name] = data
		return nil
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read archive of images %s: %w", archive, err)
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(content["manifest.json"], &manifest); err != nil {
		return nil, fmt.Errorf("read the list of images in %s: %w", archive, err)
	}
	var images []Image
	for _, m := range manifest {
		i := Image{Name: strings.Join(m.RepoTags, " "), ID: digest(content[m.Config])}
		if strings.TrimPrefix(m.Config, "sha256:") != i.ID {
			return nil, fmt.Errorf("image %s: the configuration has the digest %s, not %s", i.Name, i.ID, m.Config)
		}
		if i.Files, err = files(content, m.Config, m.Layers); err != nil {
			return nil, fmt.Errorf("image %s: %w", i.Name, err)
		}
		images = append(images, i)
	}
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return images, nil
}

// files lists the files of all layers, which must be those that the configuration names.
func files(content map[string][]byte, config string, layers []string) ([]File, error) {
	var named struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(content[config], &named); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var all []File
	var diffs []string
	for _, l := range layers {
		data, err := unpacked(content[l])
		if err != nil {
			return nil, fmt.Errorf("read layer %s: %w", l, err)
		}
		diffs = append(diffs, "sha256:"+digest(data))
		err = walk(bytes.NewReader(data), func(name string, data []byte) error {
			all = append(all, File{Path: path.Clean("/" + name), SHA256: digest(data)})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read layer %s: %w", l, err)
		}
	}
	if !slices.Equal(diffs, named.RootFS.DiffIDs) {
		return nil, fmt.Errorf("the layers have the digests %v, the configuration names %v", diffs, named.RootFS.DiffIDs)
	}
	return all, nil
}

// walk calls a function with each file of an archive.
func walk(r io.Reader, file func(name string, data []byte) error) error {
	t := tar.NewReader(r)
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("next entry: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s is no regular file", header.Name)
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return fmt.Errorf("read %s: %w", header.Name, err)
		}
		if err := file(header.Name, data); err != nil {
			return err
		}
	}
}

// unpacked returns a layer without its compression, if it has one.
func unpacked(layer []byte) ([]byte, error) {
	if !bytes.HasPrefix(layer, []byte{0x1f, 0x8b}) {
		return layer, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return data, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
