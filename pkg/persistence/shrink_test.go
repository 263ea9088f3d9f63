package persistence_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestAnEmptiedFileShrinks ends most of many attachments, some in each update: the file becomes small by itself, and keeps
// the records, the order of numbers and the generation.
func TestAnEmptiedFileShrinks(t *testing.T) {
	const many, few = 12_000, 50
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	size := func() int64 {
		info, err := os.Stat(persistence.ActiveFold(s.Dir()))
		must(t, err)
		return info.Size()
	}
	update(t, s, func(tx *persistence.Tx) error {
		for i := range many {
			if _, err := tx.NextSeq(); err != nil {
				return err
			}
			if err := tx.PutAttachment(attachment(i)); err != nil {
				return err
			}
		}
		return tx.PutReservation(reserve(attachment(many)))
	})
	full := size()
	for first := few; first < many; first += 1000 {
		update(t, s, func(tx *persistence.Tx) error {
			for i := first; i < min(first+1000, many); i++ {
				if err := tx.DeleteAttachment(attachment(i).ID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if small := size(); small > full/3 {
		t.Errorf("from %d to %d bytes", full, small)
	}
	all := records(t, s)
	if len(all.Attachments) != few || len(all.Reservations) != 1 {
		t.Errorf("%d attachments and %d reservations are left", len(all.Attachments), len(all.Reservations))
	}
	_, _, err := s.Compact(t.Context())
	must(t, err)
	if diff := cmp.Diff(all, records(t, s), byValue); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	report, err := s.Audit(t.Context(), nil)
	must(t, err)
	if len(report.Faults) != 0 {
		t.Errorf("faults: %v", report.Faults)
	}
	update(t, s, func(tx *persistence.Tx) error {
		seq, err := tx.NextSeq()
		if seq != many+1 {
			t.Errorf("the next number is %d", seq)
		}
		return err
	})
}

// TestAFailedShrinkFailsNoUpdate keeps the temporary file from being written.
func TestAFailedShrinkFailsNoUpdate(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		for i := range 6000 {
			if err := tx.PutAttachment(attachment(i)); err != nil {
				return err
			}
		}
		return nil
	})
	temp := filepath.Join(s.Dir(), "limpet.db.new")
	must(t, os.MkdirAll(filepath.Join(temp, "in the way"), 0o700))
	update(t, s, func(tx *persistence.Tx) error {
		for i := 1; i < 6000; i++ {
			if err := tx.DeleteAttachment(attachment(i).ID); err != nil {
				return err
			}
		}
		return nil
	})
	if n := len(records(t, s).Attachments); n != 1 {
		t.Errorf("%d attachments are left", n)
	}
}
