package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestALengthInASmallBucketIsNotBelieved has an entry that reaches beyond its bucket, into
// what lies behind that in the file.
func TestALengthInASmallBucketIsNotBelieved(t *testing.T) {
	store := New(Options{Dir: t.TempDir()})
	put := func(tx *Tx) error { return tx.SetCursor("n", 0, netip.MustParseAddr("10.1.0.2")) }
	if err := store.Update(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(store.Dir(), databaseName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, root := openPages(bytes.NewReader(data), int64(len(data)))
	p.walk(root, func(e element) {
		if string(e.key) == string(bucketCursors) {
			first := data[int64(root)*p.size:]
			first = first[bytes.Index(first, e.value)+bucketHeader+pageHeader:]
			binary.NativeEndian.PutUint32(first[12:], uint32(len(e.value)))
		}
	})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.View(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Errorf("View: %v, want %v", err, ErrDamaged)
	}
	if _, err := store.Audit(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("Audit: %v, want %v", err, ErrDamaged)
	}
}

// FuzzSalvage reads files of any content. It ends, and what it finds could be stored.
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
	data = bytes.TrimRight(data, "\x00") // the space that is taken ahead
	f.Add(data)
	f.Add(data[:8192])
	f.Fuzz(func(t *testing.T, data []byte) {
		p, root := openPages(bytes.NewReader(data), int64(len(data)))
		var left Salvaged
		left.readTree(p, root)
		left.Unreferenced = readUnreferenced(p)
		for _, records := range []reservation.Records{left.Read, left.Unreferenced} {
			for _, a := range records.Attachments {
				if _, err := encodeAttachment(a); err != nil && a.Since.Wall.Year() < 10000 {
					t.Errorf("found %+v: %v", a, err)
				}
			}
		}
	})
}
