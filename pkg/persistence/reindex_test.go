package persistence_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// TestReindex mends each fault of an index without a change of a record, and refuses when a record has a fault as well.
func TestReindex(t *testing.T) {
	for name, tc := range faultyStates() {
		t.Run(name, func(t *testing.T) {
			s := audited(t)
			inside(t, persistence.ActiveFold(s.Dir()), tc.edit)
			var was, is []persistence.Record
			before, err := s.Audit(t.Context(), func(r persistence.Record) { was = append(was, r) })
			must(t, err)
			inIndex := !slices.ContainsFunc(tc.want, func(f persistence.Fault) bool { return f.Kind != persistence.FaultIndex })
			mended, err := s.Reindex(t.Context())
			if errors.Is(err, persistence.ErrDamaged) == inIndex || inIndex && len(mended) != len(tc.want) {
				t.Fatalf("mended %v of %v: %v", mended, tc.want, err)
			}
			after, err := s.Audit(t.Context(), func(r persistence.Record) { is = append(is, r) })
			must(t, err)
			if diff := cmp.Diff(was, is, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("records (-before +after):\n%s", diff)
			}
			if inIndex && len(after.Faults) > 0 || !inIndex && len(after.Faults) != len(before.Faults) {
				t.Errorf("faults before %v, after %v", before.Faults, after.Faults)
			}
		})
	}
}

// TestReindexMendsAnUnreadableCount has a record of usage that cannot be read, beside a wrong index.
func TestReindexMendsAnUnreadableCount(t *testing.T) {
	s := audited(t)
	inside(t, persistence.ActiveFold(s.Dir()), func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("pressure")).Put([]byte("net"), []byte("{")), tx.Bucket([]byte("owners")).Put([]byte("net\x00x"), nil))
	})
	mended, err := s.Reindex(t.Context())
	must(t, err)
	report, err := s.Audit(t.Context(), nil)
	must(t, err)
	if len(mended) != 2 || len(report.Faults) > 0 {
		t.Errorf("mended %v, left %v", mended, report.Faults)
	}
}

// TestReindexMakesNoState looks at a node without a state.
func TestReindexMakesNoState(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: filepath.Join(t.TempDir(), "none")})
	if _, err := s.Reindex(t.Context()); !errors.Is(err, persistence.ErrNoState) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

// TestAuditWithoutTheLockFile audits while a process that does not share the lock file writes: a copy would be torn.
func TestAuditWithoutTheLockFile(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: audited(t).Dir(), LockWait: 1}) // bbolt polls: the wait need not be long
	path := persistence.ActiveFold(s.Dir())
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	if _, err := s.Audit(t.Context(), nil); !errors.Is(err, persistence.ErrLocked) {
		t.Errorf("audit beside a writer: %v", err)
	}
	must(t, db.Close())
	if report, err := s.Audit(t.Context(), nil); err != nil || len(report.Faults) > 0 {
		t.Errorf("audit afterwards: %v, %v", report.Faults, err)
	}
	lock, err := flock.Lock(t.Context(), filepath.Join(s.Dir(), "limpet.lock"), unix.LOCK_EX, 1)
	must(t, err)
	must(t, lock.Close()) // the audit kept no lock
}
