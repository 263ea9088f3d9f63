package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/release/image"
)

// entry is an entry of an archive.
type entry struct {
	name, text string
	kind       byte
}

func packed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Size: int64(len(e.text)), Typeflag: e.kind, Mode: 0o755}
		if e.kind == 0 {
			header.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// archive makes an archive of one image with one layer. Digests are of other layers if they say so.
func archive(t *testing.T, layer []byte, diff string) string {
	t.Helper()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(layer); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	config := `{"rootfs":{"type":"layers","diff_ids":["sha256:` + diff + `"]}}`
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "sha256:" + sum([]byte(config)), "RepoTags": []string{"example.org/x/agent:dev"}, "Layers": []string{"l.tar.gz"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "images.tar")
	all := packed(t, entry{name: "sha256:" + sum([]byte(config)), text: config}, entry{name: "l.tar.gz", text: zipped.String()}, entry{name: "manifest.json", text: string(manifest)})
	if err := os.WriteFile(name, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRead lists each file of an image with its digest.
func TestRead(t *testing.T) {
	layer := packed(t, entry{name: "agent", text: "a"}, entry{name: "./opt/plugin", text: "b"})
	got, err := image.Read(archive(t, layer, sum(layer)))
	if err != nil {
		t.Fatal(err)
	}
	want := []image.File{{Path: "/agent", SHA256: sum([]byte("a"))}, {Path: "/opt/plugin", SHA256: sum([]byte("b"))}}
	if len(got) != 1 || got[0].Base() != "agent" || len(got[0].ID) != 64 || !reflect.DeepEqual(got[0].Files, want) {
		t.Errorf("images %+v, want one with the files %+v", got, want)
	}
}

// TestReadRefuses names what would be in an image and in no list.
func TestReadRefuses(t *testing.T) {
	link := packed(t, entry{name: "agent", text: "a"}, entry{name: "sh", kind: tar.TypeSymlink})
	layer := packed(t, entry{name: "agent", text: "a"})
	for want, name := range map[string]string{
		"sh is no regular file":  archive(t, link, sum(link)),
		"the configuration name": archive(t, layer, sum([]byte("another"))),
		"open archive of images": filepath.Join(t.TempDir(), "none.tar"),
	} {
		if _, err := image.Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
