package salvage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	return db
}

func read(t testing.TB, path string) *bytes.Reader {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return bytes.NewReader(data)
}

// write makes a file with buckets of so many entries, and returns the entries.
func write(t testing.TB, path string, buckets map[string]int) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	db := open(t, path)
	must(t, db.Update(func(tx *bolt.Tx) error {
		for name, n := range buckets {
			b, err := tx.CreateBucket([]byte(name))
			must(t, err)
			all[name] = map[string]string{}
			for i := range n {
				k, v := fmt.Sprintf("%s %06d", name, i), fmt.Sprintf("value %d", i*i)
				all[name][k] = v
				must(t, b.Put([]byte(k), []byte(v)))
			}
			must(t, b.SetSequence(uint64(n)))
		}
		return nil
	}))
	must(t, db.Close())
	return all
}

// TestCheckRefuses damages the pages that bbolt believes unchecked.
func TestCheckRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	write(t, path, map[string]int{"inline": 1, "many pages": 500})
	good, err := os.ReadFile(path)
	must(t, err)
	p, root := openPages(bytes.NewReader(good), int64(len(good)))
	for name, damage := range map[string]func(data []byte) []byte{
		"an empty file":         func([]byte) []byte { return nil },
		"half a meta page":      func(data []byte) []byte { return data[:40] },
		"the first meta page":   func(data []byte) []byte { data[pageHeader+20]++; return data },
		"the second meta page":  func(data []byte) []byte { data[p.size+pageHeader+20]++; return data },
		"a file that was cut":   func(data []byte) []byte { return data[:3*p.size] },
		"the flags of the root": func(data []byte) []byte { data[int64(root)*p.size+8] = 0x10; return data },
		"a length in the root":  func(data []byte) []byte { data[int64(root)*p.size+pageHeader+14] = 0xff; return data },
		"a length in a small bucket": func(data []byte) []byte {
			p.visited = map[uint64]bool{}
			p.walk(root, func(e element) {
				if string(e.key) == "inline" {
					page := data[int64(root)*p.size:]
					page = page[bytes.Index(page, e.value)+bucketHeader+pageHeader:]
					binary.NativeEndian.PutUint32(page[12:], uint32(len(e.value)))
				}
			})
			return data
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := damage(bytes.Clone(good))
			if _, err := Check(bytes.NewReader(data), int64(len(data)), false); !errors.Is(err, ErrDamaged) {
				t.Errorf("Check: %v, want %v", err, ErrDamaged)
			}
		})
	}
}

// FuzzOpen reads files of any content. Reading ends, and no entry lies outside of the file.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "file.db")
	write(f, path, map[string]int{"inline": 1, "many pages": 50})
	good, err := os.ReadFile(path)
	must(f, err)
	f.Add(good)
	f.Add(good[:8192])
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Check(bytes.NewReader(data), int64(len(data)), false)
		file := Open(bytes.NewReader(data), int64(len(data)))
		fits := func(k, v []byte) {
			if len(k)+len(v) > len(data) {
				t.Errorf("entry of %d bytes in a file of %d", len(k)+len(v), len(data))
			}
		}
		buckets, _ := file.Buckets()
		for _, b := range buckets {
			file.Walk(b, fits)
		}
		file.Scan(fits)
	})
}
