package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/limpet-io/limpet/test/cluster/image"
)

// unpack writes the files of an archive into a new directory.
func unpack(t *testing.T, archive []byte) string {
	t.Helper()
	dir := t.TempDir()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriteLayout writes an image of two architectures twice, and reads it as other tools do.
func TestWriteLayout(t *testing.T) {
	dir := t.TempDir()
	var images []image.Image
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(dir, arch, "agent")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!"+arch), 0o755); err != nil {
			t.Fatal(err)
		}
		images = append(images, image.Image{Name: "example.test/agent:1", Files: []string{file}, Architecture: arch})
	}
	var archives [][]byte
	for _, name := range []string{"a.tar", "b.tar"} {
		if err := image.WriteLayout(filepath.Join(dir, name), images); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same binaries made two different archives")
	}
	top, err := layout.ImageIndexFromPath(unpack(t, archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	outer, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(outer.Manifests) != 1 || outer.Manifests[0].Annotations["io.containerd.image.name"] != "example.test/agent:1" {
		t.Fatalf("the layout has %+v", outer.Manifests)
	}
	inner, err := top.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range list.Manifests {
		img, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m.Platform.String()+" "+config.Architecture)
	}
	if diff := cmp.Diff([]string{"linux/amd64 amd64", "linux/arm64 arm64"}, found); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

// TestWriteLayoutNamesWhatIsWrong checks that no image is written without an architecture.
func TestWriteLayoutNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for name, images := range map[string][]image.Image{
		"nothing":         nil,
		"no architecture": {{Name: "a:1", Files: []string{"x"}}},
		"no binary":       {{Name: "a:1", Architecture: "amd64"}},
		"two names":       {{Name: "a:1", Files: []string{"/dev/null"}, Architecture: "amd64"}, {Name: "b:1", Files: []string{"/dev/null"}, Architecture: "arm64"}},
	} {
		if err := image.WriteLayout(filepath.Join(dir, "x.tar"), images); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
