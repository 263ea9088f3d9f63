package persistence_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var errNoPanic = errors.New("no panic")

// TestAnErrorOfTheProgramIsNoDamage panics inside of each way to read or write the state. The panic reaches the caller, the
// state is not rebuilt, and its lock is free.
func TestAnErrorOfTheProgramIsNoDamage(t *testing.T) {
	var missing func()
	var none *reservation.Attachment
	var numbers map[string]int
	for name, bug := range map[string]func(){
		"a function that is nil":      func() { missing() },
		"a pointer that is nil":       func() { none.Seq++ },
		"a map that is nil":           func() { numbers["x"] = 1 },
		"a panic of its own":          func() { panic("not reached") },
		"a panic below the library's": func() { _ = strings.Map(func(rune) rune { missing(); return 'x' }, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir(), Rebuild: func(left persistence.Salvaged) (reservation.Records, error) {
				if left.Cause != nil {
					t.Errorf("rebuilt for %v", left.Cause)
				}
				return left.Read, nil
			}})
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(1)) })
			in := func(*persistence.Tx) error { bug(); return errNoPanic }
			for way, call := range map[string]func() error{
				"Update": func() error { return s.Update(t.Context(), in) },
				"View":   func() error { return s.View(t.Context(), in) },
				"Audit": func() error {
					_, err := s.Audit(t.Context(), func(persistence.Record) { bug() })
					return err
				},
			} {
				if p, err := caught(call); p == nil {
					t.Errorf("%s: no panic, and %v", way, err)
				}
			}
			view(t, s, func(*persistence.Tx) error { return nil })
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(attachment(2)) })
			if backups, _ := filepath.Glob(filepath.Join(s.Dir(), "limpet.db.damaged-*")); len(backups) > 0 {
				t.Errorf("set aside: %q", backups)
			}
		})
	}
}

// caught returns what a function panics with.
func caught(fn func() error) (p any, err error) {
	defer func() { p = recover() }()
	return nil, fn()
}

// TestAPanicBesideADamagedFoldIsDamage panics after a fold was damaged behind what the verb has compared.
func TestAPanicBesideADamagedFoldIsDamage(t *testing.T) {
	s := audited(t)
	path := persistence.ActiveFold(s.Dir())
	err := s.View(t.Context(), func(*persistence.Tx) error {
		zero(8192, 12288)(t, path)
		panic("a wrong page")
	})
	if !errors.Is(err, persistence.ErrDamaged) {
		t.Errorf("%v, want %v", err, persistence.ErrDamaged)
	}
}
