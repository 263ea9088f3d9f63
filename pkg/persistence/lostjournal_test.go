package persistence_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestALostJournalIsNoticed removes the journal after a fold. The last journal and its fold are read.
func TestALostJournalIsNoticed(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead})
	plain := attachment(1)
	plain.Claimed, plain.Mode = nil, reservation.Preferred // no promise
	update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(plain) })
	_, _, err := s.Compact(t.Context())
	must(t, err)
	must(t, os.Remove(filepath.Join(s.Dir(), "limpet.journal")))
	without := persistence.New(persistence.Options{Dir: s.Dir()})
	if err := without.Update(t.Context(), put(2)); !errors.Is(err, persistence.ErrLost) {
		t.Errorf("Update: %v, want %v", err, persistence.ErrLost)
	}
	view(t, s, func(tx *persistence.Tx) error {
		if _, found, err := tx.Attachment(plain.ID); !found || err != nil || tx.Recoveries() != 1 {
			t.Errorf("found %t, %v; %d recoveries", found, err, tx.Recoveries())
		}
		return nil
	})
}
