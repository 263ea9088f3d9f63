package persistence_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// row is a row of the table in docs/design/0004-recovery.md.
type row struct {
	promised bool
	change   func(tx *persistence.Tx, n int) error
	found    func(tx *persistence.Tx, n int) bool // the n-th change, or a later one
}

// attachedAs returns a row about the address of a pod.
func attachedAs(promised bool, with func(a *reservation.Attachment)) row {
	return row{promised, func(tx *persistence.Tx, n int) error {
		a := attachment(n)
		if a.Mode, a.Claimed = reservation.Preferred, nil; with != nil {
			with(&a)
		}
		return tx.PutAttachment(a)
	}, func(tx *persistence.Tx, n int) bool {
		_, found, err := tx.Attachment(attachment(n).ID)
		return found && err == nil
	}}
}

func rows() map[string]row {
	return map[string]row{
		"address of a running pod":   attachedAs(false, nil),
		"address with required":      attachedAs(true, func(a *reservation.Attachment) { a.Mode = reservation.Required }),
		"claim of a reservation":     attachedAs(true, func(a *reservation.Attachment) { a.Claimed = attachment(1).Claimed }),
		"address that follows a pod": attachedAs(true, func(a *reservation.Attachment) { a.Mode, a.Guest = reservation.Follow, 7 }),
		"reservation": {true, func(tx *persistence.Tx, n int) error { return tx.PutReservation(reserve(attachment(n))) }, func(tx *persistence.Tx, n int) bool {
			_, found, err := tx.Reservation(attachment(n).Owner)
			return found && err == nil
		}},
		"quota and limits": {false, func(tx *persistence.Tx, n int) error {
			return tx.SetLimits("net", reservation.Limits{Share: reservation.Share{Pods: int64(n)}})
		}, func(tx *persistence.Tx, n int) bool {
			p, err := tx.PoolUsage("net")
			return err == nil && p.Limits != nil && p.Limits.Share.Pods >= int64(n)
		}},
		"counter": {false, func(tx *persistence.Tx, _ int) error { return tx.CountRefused("net") }, func(tx *persistence.Tx, n int) bool {
			p, err := tx.PoolUsage("net")
			return err == nil && p.Refused >= uint64(n)
		}},
		"cursor": {false, func(tx *persistence.Tx, n int) error { return tx.SetCursor("net", 0, v4(n)) }, func(tx *persistence.Tx, n int) bool {
			return tx.Cursor("net", 0).Compare(v4(n)) >= 0
		}},
	}
}

// column is a column of the table: what happens to a state, and which change is left.
type column struct {
	happens func(t *testing.T, s *persistence.Store, r row, folded, synced files)
	restart bool
	// plain and promised say which change is left, the first, which both folds have, or the second, which the journal has, and
	// how often the state was rebuilt, which tells that something may be lost.
	plain, promised [2]int
}

var errOfTheVerb = errors.New("the verb fails")

func columns() map[string]column {
	journal := func(t *testing.T, s *persistence.Store, of files) {
		files{"limpet.journal": of["limpet.journal"]}.write(t, s.Dir())
	}
	flip := func(t *testing.T, path string, at int) {
		data, err := os.ReadFile(path)
		must(t, err)
		data[at] ^= 1
		must(t, os.WriteFile(path, data, 0o600))
	}
	return map[string]column{
		"end of a process":        {func(*testing.T, *persistence.Store, row, files, files) {}, false, [2]int{2, 0}, [2]int{2, 0}},
		"loss of power":           {func(t *testing.T, s *persistence.Store, _ row, _, synced files) { journal(t, s, synced) }, true, [2]int{1, 0}, [2]int{2, 0}},
		"loss of what was synced": {func(t *testing.T, s *persistence.Store, _ row, folded, _ files) { journal(t, s, folded) }, true, [2]int{1, 0}, [2]int{1, 1}},
		"torn write": {func(t *testing.T, s *persistence.Store, _ row, _, synced files) {
			path, data := journalOf(t, s.Dir())
			for i, b := range synced["limpet.journal"] {
				if data[i] != b {
					data[i] = b // of many
					break
				}
			}
			must(t, os.WriteFile(path, data, 0o600))
		}, true, [2]int{1, 0}, [2]int{2, 0}},
		"flipped bit": {func(t *testing.T, s *persistence.Store, _ row, _, _ files) {
			flip(t, persistence.ActiveFold(s.Dir()), 4100)
		}, false, [2]int{2, 1}, [2]int{2, 1}},
		"flipped bit in the last commits": {func(t *testing.T, s *persistence.Store, _ row, folded, _ files) {
			path, data := journalOf(t, s.Dir())
			for i, b := range folded["limpet.journal"] {
				if data[i] != b {
					flip(t, path, i)
					break
				}
			}
		}, false, [2]int{1, 1}, [2]int{1, 1}},
		"earlier files put back": {func(t *testing.T, s *persistence.Store, _ row, folded, _ files) { journal(t, s, folded) }, false, [2]int{1, 1}, [2]int{1, 1}},
		"full disk, errors": {func(t *testing.T, s *persistence.Store, r row, _, _ files) {
			err := s.Update(t.Context(), func(tx *persistence.Tx) error { return errors.Join(r.change(tx, 3), errOfTheVerb) })
			if !errors.Is(err, errOfTheVerb) {
				t.Error(err)
			}
		}, false, [2]int{2, 0}, [2]int{2, 0}},
	}
}

// TestWhatSurvives has a test for each cell of the table in docs/design/0004-recovery.md, below any program. One change is in
// both folds. The next one is in the journal, and on the disk if it is promised; a last one promises nothing.
func TestWhatSurvives(t *testing.T) {
	for what, r := range rows() {
		for event, c := range columns() {
			t.Run(what+"/"+event, func(t *testing.T) {
				up := time.Hour
				s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: asRead, Uptime: func() time.Duration { return up }})
				change := func(n int) { update(t, s, func(tx *persistence.Tx) error { return r.change(tx, n) }) }
				change(1)
				for range 2 {
					_, _, err := s.Compact(t.Context())
					must(t, err)
				}
				folded := filesOf(t, s.Dir())
				synced, want := folded, c.plain
				if change(2); r.promised {
					synced, want = filesOf(t, s.Dir()), c.promised
				}
				update(t, s, func(tx *persistence.Tx) error { return tx.SetConfig("other", []byte("[]")) })
				if c.happens(t, s, r, folded, synced); c.restart {
					up = time.Second
				}
				update(t, s, func(tx *persistence.Tx) error { return tx.SetConfig("another", []byte("[]")) })
				view(t, s, func(tx *persistence.Tx) error {
					for n := 1; n <= 3; n++ {
						if found := r.found(tx, n); found != (n <= want[0]) {
							t.Errorf("change %d is found: %t, and %d are to be left", n, found, want[0])
						}
					}
					if n := int(tx.Recoveries()); n != want[1] {
						t.Errorf("rebuilt %d times, want %d", n, want[1])
					}
					return nil
				})
			})
		}
	}
}
