package persistence_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// FuzzDamagedFile runs a verb on a state file of any content. The verb succeeds. The file is sound if it was rebuilt,
// and otherwise hands out no address twice.
func FuzzDamagedFile(f *testing.F) {
	made := persistence.New(persistence.Options{Dir: f.TempDir()})
	for range 12 {
		must(f, made.Update(f.Context(), func(tx *persistence.Tx) error {
			n, err := tx.NextSeq()
			if err == nil && n%3 == 2 {
				return tx.PutReservation(reserve(attachment(int(n))))
			}
			return errors.Join(err, tx.PutAttachment(attachment(int(n))))
		}))
	}
	good, err := os.ReadFile(filepath.Join(made.Dir(), "limpet.db"))
	must(f, err)
	good = bytes.TrimRight(good, "\x00") // the space that is allocated ahead
	f.Add(good)
	f.Add(good[:8192])
	f.Add(good[:len(good)-1000])
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(persistence.ActiveFold(dir), data, 0o600))
		must(t, os.Truncate(persistence.ActiveFold(dir), max(int64(len(data)), 1<<16)))
		must(t, os.WriteFile(filepath.Join(dir, "limpet.marker"), nil, 0o600))
		given, err := os.ReadFile(persistence.ActiveFold(dir))
		must(t, err)
		s := persistence.New(persistence.Options{Dir: dir, Rebuild: asRead})
		if err := s.Update(t.Context(), func(*persistence.Tx) error { return nil }); errors.Is(err, persistence.ErrNewer) {
			left, err := os.ReadFile(persistence.ActiveFold(dir))
			must(t, err)
			if !bytes.Equal(left, given) {
				t.Error("a file with a newer schema was changed")
			}
			return
		}
		everything(t, s, 0, 0)
		report, err := s.Audit(t.Context(), nil)
		rebuilt, _ := filepath.Glob(filepath.Join(dir, "limpet.db.damaged-*"))
		for _, fault := range report.Faults {
			if len(rebuilt) > 0 || strings.Contains(fault.Problem, "can be handed out twice") {
				t.Errorf("rebuilt %t, %+v", len(rebuilt) > 0, fault)
			}
		}
		if err != nil && (len(rebuilt) > 0 || !errors.Is(err, persistence.ErrDamaged)) { // in pages that no verb has read
			t.Error(err)
		}
	})
}
