package machine_test

import (
	"os"
	"testing"

	"github.com/limpet-io/limpet/internal/machine"
)

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for name, f := range map[string]*os.File{"a pipe with a reader": w, "a file": file, "a device": null} {
		if machine.ReaderGone(f) {
			t.Errorf("%s has no reader", name)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !machine.ReaderGone(w) {
		t.Error("a pipe whose other end is closed has a reader")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if machine.ReaderGone(file) {
		t.Error("a closed file has lost its reader")
	}
}
