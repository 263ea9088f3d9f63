package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// previousReads reports for each fold whether the version before loans reads it: its check of the layout, as it was.
func previousReads(t *testing.T, dir string) (reads []bool) {
	t.Helper()
	for _, name := range []string{"limpet.db", "limpet.db.2"} {
		db, err := bolt.Open(filepath.Join(dir, name), 0o600, &bolt.Options{ReadOnly: true})
		must(t, err)
		must(t, db.View(func(tx *bolt.Tx) error {
			meta := tx.Bucket([]byte("meta"))
			v, sum := meta.Get([]byte("schema")), meta.Get([]byte("schemasum"))
			want := binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE([]byte("schema")), crc32.IEEETable, v))
			if len(v) != 4 || !bytes.Equal(sum, want) {
				t.Errorf("%s: schema %x with the checksum %x, which counts as damage", name, v, sum)
			}
			reads = append(reads, binary.BigEndian.Uint32(v) <= 2)
			return nil
		}))
		must(t, db.Close())
	}
	return reads
}

// TestAnOlderVersionRefusesWhatFollows writes records, the last of which follows, and then goes on.
func TestAnOlderVersionRefusesWhatFollows(t *testing.T) {
	followed := attachment(2)
	followed.Mode = reservation.Follow
	guest, lent := attachment(2), reserve(attachment(2))
	guest.Guest = 8
	lent.Lent = 7
	other := func(s *persistence.Store) {
		for i := range 3 {
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(10 + i)) })
			_, _, err := s.Compact(t.Context())
			must(t, err)
		}
	}
	for name, put := range map[string]func(*persistence.Tx) error{
		"an attachment":            func(tx *persistence.Tx) error { return tx.PutAttachment(followed) },
		"an attachment of a guest": func(tx *persistence.Tx) error { return tx.PutAttachment(guest) },
		"a reservation":            func(tx *persistence.Tx) error { return tx.PutReservation(reserve(followed)) },
		"a reservation on loan":    func(tx *persistence.Tx) error { return tx.PutReservation(lent) },
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update(t, s, func(tx *persistence.Tx) (err error) {
				for range 20 {
					_, seqErr := tx.NextSeq()
					err = errors.Join(err, seqErr)
				}
				return err
			})
			other(s)
			if reads := previousReads(t, s.Dir()); !reads[0] || !reads[1] {
				t.Errorf("without a record that follows, the version before reads %v", reads)
			}
			refused := errors.New("refused")
			if err := s.Update(t.Context(), func(tx *persistence.Tx) error { return errors.Join(put(tx), refused) }); !errors.Is(err, refused) || !previousReads(t, s.Dir())[0] {
				t.Errorf("%v, and the layout has changed", err)
			}
			update(t, s, put)
			for _, after := range []func(*persistence.Store){func(*persistence.Store) {}, other} {
				after(s)
				if reads := previousReads(t, s.Dir()); reads[0] || reads[1] {
					t.Errorf("the version before reads %v", reads)
				}
			}
			if err := s.Downgrade(t.Context()); !errors.Is(err, reservation.ErrLoan) {
				t.Errorf("downgrade: %v", err)
			}
			report, err := s.Audit(t.Context(), nil)
			if must(t, err); len(report.Faults) > 0 || report.Attachments+report.Reservations != 4 {
				t.Errorf("audit: %+v", report)
			}
			rebuilt := persistence.New(persistence.Options{Dir: s.Dir(), Rebuild: func(left persistence.Salvaged) (reservation.Records, error) { return left.Read, nil }})
			must(t, os.Truncate(persistence.ActiveFold(s.Dir()), 100))
			update(t, rebuilt, func(tx *persistence.Tx) error { return tx.SetMirrored("net", true) })
			if reads := previousReads(t, s.Dir()); reads[0] || reads[1] {
				t.Errorf("after a rebuild the version before reads %v", reads)
			}
			update(t, s, func(tx *persistence.Tx) error {
				return errors.Join(tx.DeleteAttachment(followed.ID), tx.TakeReservation(followed.Owner))
			})
			must(t, s.Downgrade(t.Context()))
		})
	}
}
