package salvage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// BenchmarkCheck checks files of so many addresses as each opening does: in part, and each so many-th time whole. The files
// are in the page cache.
func BenchmarkCheck(b *testing.B) {
	for _, addresses := range []int{100, 1_000, 10_000} {
		path := filepath.Join(b.TempDir(), "file.db")
		fill(b, path, addresses)
		file, err := os.Open(path)
		must(b, err)
		info, err := file.Stat()
		must(b, err)
		m, err := checkMetas(file, info.Size())
		must(b, err)
		fault := func(problem string) { b.Error(problem) }
		for part, whole := range map[string]bool{"in part": false, "whole": true} {
			b.Run(fmt.Sprintf("%d addresses, %s", addresses, part), func(b *testing.B) {
				for b.Loop() {
					check(file, m, true, whole, fault)
				}
				b.ReportMetric(float64(m.pages), "pages")
				b.ReportMetric(float64(1+m.pages/fewPages), "verbs/whole")
			})
		}
		must(b, file.Close())
	}
}

// fill makes a file of so many addresses, with records of the usual length and two indexes, of which half were freed.
func fill(b *testing.B, path string, addresses int) {
	b.Helper()
	db := open(b, path)
	for from := 0; from < 2*addresses; from += 1000 {
		must(b, db.Update(func(tx *bolt.Tx) error {
			var errs []error
			for _, bucket := range []struct {
				name string
				size int
			}{{"records", 600}, {"byaddress", 60}, {"order", 30}} {
				in, err := tx.CreateBucketIfNotExists([]byte(bucket.name))
				must(b, err)
				for i := from; i < min(from+1000, 2*addresses); i++ {
					errs = append(errs, in.Put(fmt.Appendf(nil, "%08x", i), make([]byte, bucket.size)))
				}
				for i := from - 1000; i < from; i += 2 {
					if i >= 0 {
						errs = append(errs, in.Delete(fmt.Appendf(nil, "%08x", i)))
					}
				}
			}
			return errors.Join(errs...)
		}))
	}
	must(b, db.Close())
}
