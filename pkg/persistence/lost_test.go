package persistence_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// journalOf returns the path of a journal and what it holds.
func journalOf(t *testing.T, dir string) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(dir, "limpet.journal")
	data, err := os.ReadFile(path)
	must(t, err)
	return path, data
}

// TestALostCommitTakesThoseBehindItAlong loses one of two commits that were not synced, the first, with the power. The
// next commit is as long as the lost one, so that the second stands right behind it.
func TestALostCommitTakesThoseBehindItAlong(t *testing.T) {
	up := time.Hour
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Uptime: func() time.Duration { return up }})
	put := func(i int) {
		update(t, s, func(tx *persistence.Tx) error { return tx.SetCursor("net", i, v4(i)) })
	}
	put(1)
	path, before := journalOf(t, s.Dir())
	put(2)
	_, lost := journalOf(t, s.Dir())
	put(3)
	_, data := journalOf(t, s.Dir())
	for i := range data {
		if lost[i] != before[i] {
			data[i] = before[i]
		}
	}
	if bytes.Equal(data, before) {
		t.Fatal("the second commit is lost, too")
	}
	must(t, os.WriteFile(path, data, 0o600))
	up = time.Second
	put(4)
	view(t, s, func(tx *persistence.Tx) error {
		for i, want := range []bool{1: true, 4: true} {
			if got := tx.Cursor("net", i); got.IsValid() != want {
				t.Errorf("cursor %d is %s, want one: %t", i, got, want)
			}
		}
		return nil
	})
}
