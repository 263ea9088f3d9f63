package persistence_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestADamagedHeaderCostsNoFrame damages the header of the journal. All commits are read all the same, also those that deleted
// records, and nothing of an earlier use of the file is.
func TestADamagedHeaderCostsNoFrame(t *testing.T) {
	for name, folds := range map[string]int{"before the first fold": 0, "after one": 1, "after two": 2, "after three": 3} {
		for what, later := range map[string]int{"no commit since": 0, "commits since": 3} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := persistence.New(persistence.Options{Dir: t.TempDir()})
				want := map[string]bool{}
				n := 0
				update(t, s, func(*persistence.Tx) error { return nil })
				commit := func() {
					n++
					update(t, s, put(n))
					want[attachment(n).ID.ContainerID] = true
					if n%3 == 0 {
						update(t, s, func(tx *persistence.Tx) error { return tx.DeleteAttachment(attachment(n - 1).ID) })
						delete(want, attachment(n-1).ID.ContainerID)
					}
				}
				for range folds {
					for range 4 {
						commit()
					}
					_, _, err := s.Compact(t.Context())
					must(t, err)
				}
				for range later {
					commit()
				}
				zero(20, 40)(t, filepath.Join(s.Dir(), "limpet.journal"))
				s = persistence.New(persistence.Options{Dir: s.Dir(), Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
					if left.Complete {
						t.Error("taken for complete")
					}
					return left.Read, nil
				}})
				got := map[string]bool{}
				update(t, s, func(tx *persistence.Tx) error {
					all, err := tx.Attachments("net")
					for _, a := range all {
						got[a.ID.ContainerID] = true
					}
					return err
				})
				if !maps.Equal(got, want) {
					t.Errorf("read %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				}
			})
		}
	}
}
