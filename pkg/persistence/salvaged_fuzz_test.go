package persistence

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence/internal/salvage"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// FuzzSalvage reads files of any content. Reading ends, and every record found can be stored again.
func FuzzSalvage(f *testing.F) {
	dir := f.TempDir()
	store := New(Options{Dir: dir})
	fill := func(tx *Tx) error {
		a, err := decodeAttachment([]byte(`{"owner":{"net":"n","ns":"s","pod":"p","if":"eth0"},"id":"c","ips":["10.1.0.2"],"since":{"wall":"2026-01-01T00:00:00Z","up":1},"seq":1}`))
		if err != nil {
			return err
		}
		return tx.PutAttachment(a)
	}
	if err := store.Update(f.Context(), fill); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, databaseName))
	if err != nil {
		f.Fatal(err)
	}
	data = bytes.TrimRight(data, "\x00") // the space that is allocated ahead
	f.Add(data)
	f.Add(data[:8192])
	f.Fuzz(func(t *testing.T, data []byte) {
		file := salvage.Open(bytes.NewReader(data), int64(len(data)))
		var left Salvaged
		left.readTree(file)
		file.Scan(func(k, v []byte) { collect(&left.Unreferenced, k, v) })
		for _, records := range []reservation.Records{left.Read, left.Unreferenced} {
			for _, a := range records.Attachments {
				if _, err := encodeAttachment(a); err != nil && a.Since.Wall.Year() < 10000 {
					t.Errorf("found %+v: %v", a, err)
				}
			}
		}
	})
}
