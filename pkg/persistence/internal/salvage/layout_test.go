package salvage

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// checkedVersion is the version of bbolt whose layout of pages was compared with this package. Before changing
// the version, compare internal/common/{page,meta,bucket,inode}.go of both versions: the sizes of the headers,
// the flags, the order of the fields, the checksum of a meta page, and the order in which commits write the
// meta pages.
const checkedVersion = "v1.5.0"

// TestLayoutIsOfTheCheckedVersion fails when go.mod requires a version of bbolt whose layout was not checked.
func TestLayoutIsOfTheCheckedVersion(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}{{with .Replace}} replaced by {{.}}{{end}}", "go.etcd.io/bbolt").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != checkedVersion {
		t.Errorf("go.mod requires bbolt %s, and the layout of pages was checked for %s: see checkedVersion", got, checkedVersion)
	}
}

// TestReadsWhatBboltWrites compares the entries that this package reads with the entries that bbolt wrote.
func TestReadsWhatBboltWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	want := write(t, path, map[string]int{"empty": 0, "inline": 1, "one page": 20, "many pages": 5000})
	data := read(t, path)
	if _, err := Check(data, data.Size(), false); err != nil {
		t.Fatal(err)
	}
	file := Open(data, data.Size())
	buckets, complete := file.Buckets()
	if !complete || len(buckets) != len(want) {
		t.Fatalf("complete %t, %d buckets, want %d", complete, len(buckets), len(want))
	}
	for _, b := range buckets {
		got := map[string]string{}
		complete := file.Walk(b, func(k, v []byte) { got[string(k)] = string(v) })
		entries := want[string(b.Name)]
		if !complete || len(got) != len(entries) || b.Sequence != uint64(len(entries)) {
			t.Errorf("%s: complete %t, %d entries, sequence %d; want %d", b.Name, complete, len(got), b.Sequence, len(entries))
		}
		for k, v := range entries {
			if got[k] != v {
				t.Errorf("%s: %q is %q, want %q", b.Name, k, got[k], v)
			}
		}
	}
}

// TestScanFindsDeletedEntries deletes a bucket: the entries stay in pages that are free.
func TestScanFindsDeletedEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	want := write(t, path, map[string]int{"gone": 500})["gone"]
	db := open(t, path)
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("gone")) }))
	must(t, db.Close())
	data, found := read(t, path), map[string]string{}
	Open(data, data.Size()).Scan(func(k, v []byte) { found[string(k)] = string(v) })
	for k, v := range want {
		if found[k] != v {
			t.Fatalf("%q is %q, want %q", k, found[k], v)
		}
	}
}
