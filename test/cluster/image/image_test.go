package image_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/limpet-io/limpet/test/cluster/image"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"agent", "plugin"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("#!"+f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	images := []image.Image{
		{Name: "example.test/agent:1", Files: []string{filepath.Join(dir, "agent"), filepath.Join(dir, "plugin")}, Args: []string{"--x"}},
		{Name: "example.test/plugin:1", Files: []string{filepath.Join(dir, "plugin")}},
	}
	digests, archives := map[string]string{}, map[string]bool{}
	for _, out := range []string{"a.tar", "b.tar", "c.tar", "d.tar", "e.tar"} {
		path := filepath.Join(dir, out)
		if err := image.Write(path, images); err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag("example.test/agent:1")
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(path, &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"/agent", "--x"}, config.Config.Entrypoint); diff != "" {
			t.Errorf("entry point (-want +got):\n%s", diff)
		}
		digest, err := img.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest.String()] = out
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives[string(data)] = true
	}
	if len(digests) != 1 || len(archives) != 1 {
		t.Errorf("the same binaries made %d different images and %d different archives", len(digests), len(archives))
	}
}

func TestWriteNamesWhatIsWrong(t *testing.T) {
	if err := image.Write(filepath.Join(t.TempDir(), "x.tar"), []image.Image{{Name: "UPPER CASE", Files: []string{"x"}}}); err == nil {
		t.Error("a senseless image name was accepted")
	}
	if err := image.Write(filepath.Join(t.TempDir(), "x.tar"), []image.Image{{Name: "a:1", Files: []string{"/does/not/exist"}}}); err == nil {
		t.Error("a missing binary was accepted")
	}
}
